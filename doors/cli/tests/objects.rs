//! Objects of an S3 server in the commands: copied in both directions, listed, described, removed,
//! and read as datasets.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "peers")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use striate_store::s3::S3Bucket;
use striate_testing::Moto;

fn striate(server: &Moto, directory: &Path, arguments: &[&str]) -> Output {
    command(server, directory, arguments).output().unwrap()
}

fn command(server: &Moto, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.args(arguments).current_dir(directory).envs(server.variables()).env("NO_COLOR", "1");
    command
}

/// Standard output of a call that succeeds.
fn shown(server: &Moto, directory: &Path, arguments: &[&str]) -> String {
    let output = striate(server, directory, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a call that fails.
fn refused(server: &Moto, directory: &Path, arguments: &[&str]) -> String {
    let output = striate(server, directory, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 65_536) as u8).collect()
}

#[test]
fn files_travel_both_ways() {
    let server = Moto::start(0);
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let files = [("a", 0), ("b", 1), ("sub/c", 8 << 20), ("sub/d", (20 << 20) + 17)];
    fs::create_dir_all(here.join("from/sub")).unwrap();
    for (name, len) in files {
        fs::write(here.join("from").join(name), content(len)).unwrap();
    }
    let said = shown(&server, here, &["fs", "cp", "-r", "from", "s3://tests/run"]);
    assert!(said.starts_with("copied 4 files"), "{said}");
    assert_eq!(
        shown(&server, here, &["fs", "ls", "-R", "s3://tests"]),
        "run/a\nrun/b\nrun/sub/c\nrun/sub/d\n"
    );
    let long = shown(&server, here, &["fs", "ls", "-l", "s3://tests/run/"]);
    assert!(long.contains("29,360,145") && long.contains("sub/"), "{long}");
    shown(&server, here, &["fs", "cp", "-r", "s3://tests/run", "back"]);
    for (name, len) in files {
        assert!(fs::read(here.join("back").join(name)).unwrap() == content(len), "{name}");
    }
    // Into a directory, and between objects.
    shown(&server, here, &["fs", "cp", "s3://tests/run/sub/d", "s3://tests/copies/"]);
    shown(&server, here, &["fs", "cp", "s3://tests/copies/d", "."]);
    assert!(fs::read(here.join("d")).unwrap() == content((20 << 20) + 17));
    let stat = shown(&server, here, &["fs", "stat", "s3://tests/run/sub/d"]);
    assert!(stat.contains("20,971,537 bytes") && stat.contains(&server.endpoint), "{stat}");
    assert!(refused(&server, here, &["fs", "rm", "s3://tests/run"]).contains("is a directory"));
    shown(&server, here, &["fs", "rm", "-r", "s3://tests/run"]);
    assert_eq!(shown(&server, here, &["fs", "ls", "s3://tests"]), "copies/\n");
    assert!(refused(&server, here, &["fs", "rm", "s3://tests/run/a"]).contains("no object"));
    shown(&server, here, &["fs", "rm", "-f", "s3://tests/run/a"]);
    assert!(refused(&server, here, &["fs", "rm", "-r", "s3://tests"]).contains("whole bucket"));
}

#[test]
fn datasets_are_read_from_objects() {
    let server = Moto::start(0);
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let text = "netcdf t {\ndimensions:\n  x = 1000 ;\nvariables:\n  double v(x) ;\n    v:units = \"K\" ;\ndata:\n  v = ";
    let values = (0..1000).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    fs::write(here.join("t.cdl"), format!("{text}{values} ;\n}}\n")).unwrap();
    for kind in ["cdf5", "netcdf4"] {
        let name = format!("{kind}.nc");
        shown(&server, here, &["nc", "generate", "--format", kind, "t.cdl", &name]);
        shown(&server, here, &["fs", "cp", &name, "s3://tests/data/"]);
        let url = format!("s3://tests/data/{name}");
        let local = shown(&server, here, &["nc", "dump", &name]);
        assert_eq!(shown(&server, here, &["nc", "dump", &url]), local, "{kind}");
        let header = shown(&server, here, &["nc", "dump", "--header", &url]);
        assert!(header.contains("double v(x)"), "{header}");
        shown(&server, here, &["nc", "info", &url]);
        let copy = format!("copy-{name}");
        shown(&server, here, &["nc", "copy", &url, &copy]);
        assert_eq!(
            shown(&server, here, &["nc", "dump", &copy]).lines().count(),
            local.lines().count()
        );
    }
    let error = refused(&server, here, &["nc", "copy", "cdf5.nc", "s3://tests/data/new.nc"]);
    assert!(error.contains("published as a whole") && error.contains("striate fs cp"), "{error}");
    assert_eq!(shown(&server, here, &["fs", "ls", "s3://tests/data/"]), "cdf5.nc\nnetcdf4.nc\n");
}

#[test]
fn what_killed_uploads_leave_is_removed() {
    let server = Moto::start(0);
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    fs::write(here.join("big"), content(300 << 20)).unwrap();
    let patience = Duration::from_secs(30);
    let bucket = S3Bucket::new("tests", &server.variables(), patience).unwrap();
    let interrupted = |signal: rustix::process::Signal| {
        let copy = ["fs", "cp", "--threads", "1", "big", "s3://tests/run/big"];
        let mut copy = command(&server, here, &copy).stderr(Stdio::null()).spawn().unwrap();
        let begin = Instant::now();
        while bucket.unfinished("run").unwrap().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no upload begins");
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = rustix::process::Pid::from_child(&copy);
        let _ = rustix::process::kill_process(pid, signal);
        while copy.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < Duration::from_secs(120), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!copy.wait().unwrap().success());
        assert_eq!(shown(&server, here, &["fs", "ls", "s3://tests"]), "", "no object appears");
    };
    interrupted(rustix::process::Signal::KILL);
    let json = shown(&server, here, &["fs", "rm", "--json", "--unfinished", "s3://tests/run"]);
    assert!(json.contains("s3://tests/run/big") && json.contains("begun"), "{json}");
    let said = shown(&server, here, &["fs", "rm", "--unfinished", "s3://tests/run"]);
    assert_eq!(said, "no interrupted uploads\n");
    // A signal that can be handled lets the command abort its upload.
    interrupted(rustix::process::Signal::TERM);
    let said = shown(&server, here, &["fs", "rm", "--unfinished", "s3://tests"]);
    assert_eq!(said, "no interrupted uploads\n");
}

#[test]
fn mistakes_have_hints() {
    let server = Moto::start(0);
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    let missing = refused(&server, here, &["nc", "dump", "s3://tests/none"]);
    assert!(missing.contains("no object with this key") && missing.contains("fs ls"), "{missing}");
    let bucket = refused(&server, here, &["fs", "ls", "s3://elsewhere"]);
    assert!(bucket.contains("no bucket 'elsewhere'"), "{bucket}");
    let mut wrong = command(&server, here, &["fs", "ls", "s3://tests"]);
    let denied = wrong.env("AWS_SECRET_ACCESS_KEY", "wrong").output().unwrap();
    let denied = String::from_utf8_lossy(&denied.stderr).into_owned();
    assert!(
        denied.contains("access is denied") && denied.contains("AWS_ACCESS_KEY_ID"),
        "{denied}"
    );
    let mut gone = command(&server, here, &["fs", "stat", "s3://tests/a"]);
    gone.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1").env("STRIATE_PATIENCE", "1s");
    let gone = String::from_utf8_lossy(&gone.output().unwrap().stderr).into_owned();
    assert!(gone.contains("cannot be reached") && gone.contains("AWS_ENDPOINT_URL"), "{gone}");
    let url = refused(&server, here, &["fs", "cp", "a", "s3://"]);
    assert!(url.contains("names no bucket"), "{url}");
}
