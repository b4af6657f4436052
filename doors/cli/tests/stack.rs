//! `striate stack`: what is said about stages, by the program and by the documentation.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn striate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.args(arguments).env("NO_COLOR", "1").output().unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = striate(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// If this fails: `striate stack list --markdown`.
#[test]
fn the_table_in_the_documentation_is_that_of_the_program() {
    let guide = fs::read_to_string(root().join("docs/stack.md")).unwrap();
    let table = guide.split("<!-- the table of stages -->\n").nth(1).expect("the table is marked");
    assert_eq!(table, answer(&["stack", "list", "--markdown"]), "the table of docs/stack.md");
}

#[test]
fn every_stage_has_a_section_in_the_documentation() {
    let guide = fs::read_to_string(root().join("docs/stack.md")).unwrap();
    let document: Value = serde_json::from_str(&answer(&["stack", "list", "--json"])).unwrap();
    let stages = document["rows"].as_array().unwrap().iter();
    let stages: Vec<&Value> = stages.filter(|row| row["stage"].is_string()).collect();
    assert!(!stages.is_empty());
    for stage in stages {
        let name = stage["stage"].as_str().unwrap();
        assert!(guide.contains(&format!("\n### {name}\n")), "{name} has no section");
        assert!(answer(&["stack", "list"]).contains(name));
    }
}

#[test]
fn the_examples_are_stacks() {
    let mut count = 0;
    for entry in fs::read_dir(root().join("etc/stacks")).unwrap() {
        let path = entry.unwrap().path();
        let text = answer(&["stack", "check", path.to_str().unwrap()]);
        assert!(text.contains("An operation of the program passes\n  1. "), "{text}");
        assert!(text.ends_with("and then the kernel carries it out.\n"), "{text}");
        count += 1;
    }
    assert!(count >= 9, "{count}");
}

#[test]
fn a_chain_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stack.toml");
    let text = "[paths]\ninclude = ['/data']\nexclude = ['*.log']\n\
        [[stage]]\nkind = 'count'\npaths = ['*.nc']\nlabel = 'top'\n\
        [[stage]]\nkind = 'throttle'\nlatency = '1ms'\nkinds = ['read', 'sync']\n";
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let text = answer(&["stack", "check", path]);
    for line in [
        "Files: /data; without *.log",
        "  1. count: counts calls, errors, bytes, lengths and times",
        "       sees     all operations",
        "       files    *.nc",
        "       option   label = \"top\"",
        "       sees     read, sync",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let document: Value =
        serde_json::from_str(&answer(&["stack", "check", "--json", path])).unwrap();
    assert_eq!(document["rows"][1]["operations"], serde_json::json!(["read", "sync"]));
    assert_eq!(answer(&["stack", "recover", path]), "Nothing was left behind.\n");
}

#[test]
fn nonsense_is_rejected_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stack.toml");
    for (text, reason) in [
        ("[[stage]]\nkind = 'coumt'", "stage 1 (coumt): no such kind; there are count"),
        ("[[stage]]\nlabel = 'a'", "stage 1 (?): no such kind"),
        ("[[stage]]\nkind = 'count'\ncolour = 'red'", "stage 1 (count): unknown field `colour`"),
        (
            "[[stage]]\nkind = 'count'\n[[stage]]\nkind = 'throttle'",
            "stage 2 (throttle): set latency",
        ),
        ("[[stage]]\nkind = 'count'\n[[stage]]\nkind = 'count'", "two stages count in a row"),
        ("[[stage]]\nkind = 'count'\npaths = ['data']", "stage 1 (count): \"data\" is neither"),
        ("[paths]\ninclude = ['data']", "[paths]: \"data\" is neither"),
        ("stage = 3", "stage"),
        ("[[stage]", "TOML"),
    ] {
        fs::write(&path, text).unwrap();
        let output = striate(&["stack", "check", path.to_str().unwrap()]);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}: {complaint}");
        assert!(complaint.contains("stack.toml is not a stack"), "{complaint}");
        assert!(complaint.contains(reason), "{text}: {complaint}");
    }
    let output = striate(&["stack", "check", "/nowhere/stack.toml"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("No such file"));
}

#[test]
fn stacks_that_come_along_have_names() {
    let list = answer(&["stack", "list"]);
    for entry in fs::read_dir(root().join("etc/stacks")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(list.contains(&format!("\n  {name} ")), "{name}\n{list}");
        assert_eq!(answer(&["stack", "show", name]), fs::read_to_string(&path).unwrap());
    }
    assert!(answer(&["stack", "check", "combine"]).contains("limit = \"64KiB\""));
    let shown = answer(&["stack", "show", "combine", "--json"]);
    let document: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(document["rows"][0]["stack"], "combine");
}

/// Every command that takes a stack takes it by its name.
#[test]
fn names_are_taken_wherever_stacks_are() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
        command.args(arguments).env("NO_COLOR", "1").env_remove("STRIATE_PRELOAD");
        command.current_dir(&directory).output().unwrap()
    };
    let stderr = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let program = ["--", "sh", "-c", "for i in 1 2 3; do echo $i > file$i; done; cat file2"];
    for stack in ["combine", "write-back", "read-ahead", "before-and-after", "count"] {
        let output = run(&[&["run", "--stack", stack, "--trace", "traces"], &program[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{stack}: {}", stderr(&output));
        assert_eq!(output.stdout, b"2\n", "{stack}");
        assert_eq!(fs::read(directory.path().join("file3")).unwrap(), b"3\n", "{stack}");
    }
    let output = run(&["replay", "traces", "--stack", "write-back"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = run(&["report", "traces", "--what-if", "write-back", "--stack", "slow-storage"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("write-back"));
    let output = run(&["stack", "recover", "combine", "."]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // Before anything is mounted.
    fs::create_dir(directory.path().join("view")).unwrap();
    let output = run(&["mount", "traces", "view", "--stack", "combin"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is no stack 'combin'"), "{}", stderr(&output));
    assert!(stderr(&output).contains("combine, count"), "{}", stderr(&output));
    // Stacks with paths of an example machine are to be changed first.
    let output = run(&["run", "--stack", "fast-place", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("striate stack show fast-place"), "{}", stderr(&output));

    // A file of that name is not taken silently for the other; by its path it is.
    let own = "[[stage]]\nkind = 'count'\nlabel = 'my own'\n";
    fs::write(directory.path().join("count"), own).unwrap();
    let output = run(&["stack", "check", "count"]);
    assert!(stderr(&output).contains("./count would be the file"), "{}", stderr(&output));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("my own"));
    let output = run(&["stack", "check", "./count"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("my own"));
    fs::write(directory.path().join("mine"), own).unwrap();
    assert!(String::from_utf8_lossy(&run(&["stack", "check", "mine"]).stdout).contains("my own"));
}
