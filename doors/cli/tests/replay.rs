//! `striate replay`: recordings of real programs, carried out again.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn striate() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_striate"));
    let library = program.with_file_name("libstriate_preload.so");
    assert!(
        library.exists(),
        "{} is missing: 'cargo build --workspace' makes it",
        library.display()
    );
    let mut command = Command::new(program);
    command.env("NO_COLOR", "1").env_remove("STRIATE_PRELOAD").env_remove("LD_PRELOAD");
    command
}

/// A place to work, and a recording of a script in it.
fn recorded(script: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let (work, traces) = (place.path().join("work"), place.path().join("traces"));
    fs::create_dir(&work).unwrap();
    fs::write(work.join("old"), "twelve bytes").unwrap();
    let mut command = striate();
    command.args(["run", "--quiet", "--trace"]).arg(&traces).args(["--", "sh", "-c", script]);
    let output = command.current_dir(&work).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (place, traces)
}

fn replay(traces: &Path, arguments: &[&str]) -> Output {
    striate().arg("replay").arg(traces).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SCRIPT: &str = "dd if=/dev/zero of=a bs=1000 count=20 2>/dev/null; cat old a > b; sort b > c; \
                      mkdir d; mv b d/e; rm a; cat d/e > /dev/null; ln d/e d/f; wc -c c d/f > g; cat g > h";

#[test]
fn a_script_comes_out_the_same() {
    let (place, traces) = recorded(SCRIPT);
    let again = place.path().join("again");
    let root = place.path().join("root");
    let arguments = [
        "--strict",
        "--json",
        "--timing",
        "as-fast",
        "--root",
        root.to_str().unwrap(),
        "--trace",
        again.to_str().unwrap(),
    ];
    let output = replay(&traces, &arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &document["rows"][0];
    assert_eq!(
        row["functions"]["write"]["bytes_recorded"],
        row["functions"]["write"]["bytes_replayed"]
    );
    let work = root.join(place.path().strip_prefix("/").unwrap()).join("work");
    assert_eq!(fs::metadata(work.join("old")).unwrap().len(), 12);
    assert_eq!(fs::metadata(work.join("d/f")).unwrap().len(), 20_012);
    assert!(!work.join("a").exists());
    let output = replay(&again, &["--strict", "--timing", "as-fast"]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("All results are as recorded."));
}

#[test]
fn stores_and_stacks_are_taken() {
    let (place, traces) = recorded("cat old old > x; cat x x > y; rm x; mv y z; cat z > /dev/null");
    let stack = place.path().join("stack.toml");
    fs::write(&stack, "[[stage]]\nkind = 'write-back'\n").unwrap();
    for arguments in [
        &["--store", "memory"][..],
        &["--store", place.path().join("store").to_str().unwrap(), "--method", "posix"],
        &["--stack", stack.to_str().unwrap(), "--timing", "think"],
    ] {
        let output = replay(&traces, &[&["--strict"], arguments].concat());
        assert!(
            output.status.success(),
            "{arguments:?}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
    }
}

#[test]
fn wrong_calls_are_refused() {
    let (_place, traces) = recorded("cat old > x");
    for (arguments, told) in [
        (&["--root", "/"][..], "--yes"),
        (&["--timing", "slowly"], "as-recorded"),
        (&["--store", "memory", "--method", "two-phase"], "no meaning"),
        (&["--store", "memory", "--stack", "x.toml"], "cannot be used with"),
    ] {
        let output = replay(&traces, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(told), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = replay(Path::new("/no/such/recording"), &[]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_interrupted_replay_leaves_nothing() {
    let (place, traces) = recorded("cat old > x; sleep 0.2; cat x > y");
    let temporary = place.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = striate();
    command.arg("replay").arg(&traces).args(["--timing", "scale=100000"]).env("TMPDIR", &temporary);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while fs::read_dir(&temporary).unwrap().next().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.contains("interrupted") && told.contains("no files are left"), "{told}");
    assert!(fs::read_dir(&temporary).unwrap().next().is_none());

    // What stays is named.
    let [root, again] = ["root", "again"].map(|name| place.path().join(name));
    let mut command = striate();
    command.arg("replay").arg(&traces).args(["--timing", "scale=100000", "--root"]).arg(&root);
    command.arg("--trace").arg(&again);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !root.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for place in [&root, &again] {
        assert!(told.contains(place.to_str().unwrap()), "{told}");
    }
}

#[test]
fn what_takes_more_room_than_it_may_is_refused() {
    let (place, traces) = recorded("dd if=/dev/zero of=a bs=1000 count=200 2>/dev/null");
    let root = place.path().join("root");
    let arguments = ["--timing", "as-fast", "--root", root.to_str().unwrap(), "--max-space"];
    let output = replay(&traces, &[&arguments[..], &["100KiB"]].concat());
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("100 KiB") && told.contains("--max-space"), "{told}");
    assert!(!root.exists());
    let output = replay(&traces, &[&arguments[..], &["1MiB", "--strict"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn servers_come_out_the_same() {
    let script = "cat old old > x; cat x x > y; rm x; mv y z; dd if=z of=w bs=7 2>/dev/null";
    let (_place, traces) = recorded(script);
    let mut serve = striate();
    serve.args(["serve", "--embedded", "2"]).stdout(Stdio::piped());
    let mut servers = serve.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(servers.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = format!("{}/try", line.split_whitespace().next().unwrap().trim_end_matches('/'));
    let output = replay(&traces, &["--strict", "--store", &url]);
    kill_process(Pid::from_child(&servers), Signal::TERM).unwrap();
    servers.wait().unwrap();
    assert!(output.status.success(), "{url}: {}{}", text(&output.stdout), text(&output.stderr));
}
