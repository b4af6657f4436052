//! `striate` with files in pools of Ceph.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use striate_testing::CephCluster;

fn striate(cluster: &CephCluster, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.args(arguments).env("CEPH_CONF", cluster.configuration()).env_remove("CEPH_ARGS");
    command
}

fn printed(arguments: &[&str]) -> String {
    let output = striate(CephCluster::shared(), arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(arguments: &[&str]) -> String {
    let output = striate(CephCluster::shared(), arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    complaint(&output)
}

fn complaint(output: &Output) -> String {
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 4096) as u8).collect()
}

#[test]
fn files_are_copied_listed_renamed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(place("tree/deep")).unwrap();
    fs::write(place("tree/large"), content((9 << 20) + 5)).unwrap();
    fs::write(place("tree/deep/small"), b"abc").unwrap();
    let url = |name: &str| format!("rados://data/commands/{name}");
    printed(&["fs", "cp", "-r", &place("tree"), &url("")]);
    assert_eq!(printed(&["fs", "ls", &url("")]), "tree/\n");
    assert_eq!(printed(&["fs", "ls", "-R", &url("tree")]), "deep/small\nlarge\n");
    let long = printed(&["fs", "ls", "-l", &url("tree/")]);
    assert!(long.contains("9,437,189") && long.contains("4 MiB"), "{long}");
    printed(&["fs", "cp", "-r", &url("tree"), &place("back")]);
    assert!(fs::read(place("back/large")).unwrap() == content((9 << 20) + 5));
    assert_eq!(fs::read(place("back/deep/small")).unwrap(), b"abc");

    let other = "rados://other/copies/small";
    printed(&["fs", "cp", &url("tree/deep/small"), other]);
    assert!(printed(&["fs", "stat", other]).contains("3 bytes"));
    let json = printed(&["--json", "fs", "stat", other]);
    assert!(json.contains("\"size\":3") || json.contains("\"size\": 3"), "{json}");
    assert!(refused(&["fs", "mv", other, &url("moved")]).contains("pool or namespace"));
    printed(&["fs", "mv", &url("tree/large"), &url("tree/deep/")]);
    let there = refused(&["fs", "mv", "-n", &url("tree/deep/large"), &url("tree/deep/small")]);
    assert!(there.contains("exists"), "{there}");
    assert!(refused(&["fs", "rm", &url("tree/deep")]).contains("is a directory"));
    printed(&["fs", "rm", "-r", &url("tree")]);
    assert_eq!(printed(&["fs", "ls", &url("")]), "");
    assert!(printed(&["fs", "rm", "--dead", &url("")]).contains("0 removals"));
    assert!(refused(&["fs", "stat", &url("tree/large")]).contains("no such file"));
    let left = CephCluster::shared().ceph("rados", &["-p", "data", "-N", "commands", "ls"]);
    assert_eq!(left, "striate.catalogue\n", "objects of removed files");
    assert!(printed(&["fs", "df", "rados://data"]).contains("cluster"));
    assert!(refused(&["fsck", &url("")]).contains("checks and repairs itself"));
}

#[test]
fn failures_say_what_to_do() {
    let cluster = CephCluster::shared();
    let command = |arguments: &[&str], variable: (&str, &str)| {
        let output = striate(cluster, arguments).env(variable.0, variable.1).output().unwrap();
        assert!(!output.status.success());
        complaint(&output)
    };
    let list = ["fs", "ls", "rados://data/n/"];
    let missing = command(&list, ("STRIATE_LIBRADOS", "/missing/librados.so.2"));
    assert!(
        missing.contains("librados2") && missing.contains("/missing/librados.so.2"),
        "{missing}"
    );
    let missing = command(&list, ("STRIATE_LIBRADOS", "libc.so.6"));
    assert!(missing.contains("rados_"), "{missing}");
    let missing = command(&list, ("CEPH_CONF", "/missing/ceph.conf"));
    assert!(missing.contains("CEPH_CONF"), "{missing}");
    let wrong = command(&list, ("STRIATE_PATIENCE", "soon"));
    assert!(wrong.contains("'soon'"), "{wrong}");
    assert!(refused(&["fs", "ls", "rados://nothing/"]).contains("no pool 'nothing'"));
    let user =
        command(&["fs", "cp", "/etc/hostname", "rados://data/n/f"], ("CEPH_ARGS", "--id reader"));
    assert!(user.contains("not permitted"), "{user}");
    assert!(printed(&["doctor"]).contains("librados"));
}

#[test]
fn a_cluster_that_is_down_ends_a_command() {
    let cluster = CephCluster::start();
    let file = cluster.directory().join("file");
    fs::write(&file, content(1 << 20)).unwrap();
    let run = |arguments: &[&str]| {
        striate(&cluster, arguments).env("STRIATE_PATIENCE", "2s").output().unwrap()
    };
    let copy = |from: &Path, to: &str| run(&["fs", "cp", from.to_str().unwrap(), to]);
    assert!(copy(&file, "rados://data/a").status.success());
    (0..3).for_each(|n| cluster.kill(&format!("osd.{n}")));
    let output = copy(&file, "rados://data/b");
    assert!(!output.status.success());
    assert!(complaint(&output).contains("within 2 s (STRIATE_PATIENCE)"), "{}", complaint(&output));
    cluster.kill("mon.a");
    let output = run(&["fs", "ls", "rados://data"]);
    assert!(!output.status.success());
    assert!(
        complaint(&output).contains("no connection to the Ceph cluster"),
        "{}",
        complaint(&output)
    );
}
