//! `striate run`: programs with their calls passing through stages, by the real library.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use preloaded::striate;
use serde_json::Value;
use striate_trace::{Call, Trace};

fn run(directory: &Path, arguments: &[&str]) -> Output {
    striate().arg("run").args(arguments).current_dir(directory).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const COPY: &str =
    "dd if=/dev/zero of=a.dat bs=1000 count=20 2>/dev/null; cat a.dat > b.dat; wc -c < b.dat";

#[test]
fn a_run_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["--", "sh", "-c", COPY]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "20000");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = stderr(&output);
    assert!(summary.starts_with("striate: "), "{summary}");
    assert!(summary.contains("19.53 KiB written"), "{summary}");
    assert!(summary.contains("\n  *.dat "), "{summary}");

    let output =
        run(directory.path(), &["--json", "--summary", "sums.json", "--", "sh", "-c", COPY]);
    assert_eq!(stderr(&output), "");
    let document = fs::read_to_string(directory.path().join("sums.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let row = &document["rows"][0];
    assert_eq!(row["functions"]["write"]["calls"].as_u64(), Some(20));
    assert_eq!(row["functions"]["write"]["bytes"].as_u64(), Some(20_000));
    assert_eq!(row["writes"][10].as_u64(), Some(20), "{}", row["writes"]);
    assert_eq!(row["status"].as_u64(), Some(0));
    let commands: Vec<_> =
        row["processes"].as_array().unwrap().iter().map(|process| &process["command"][0]).collect();
    assert!(commands.iter().any(|name| name.as_str() == Some("dd")), "{commands:?}");
    // Nothing but what the program made and what was asked for is left.
    let left = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 3);
}

#[test]
fn the_status_is_the_programs() {
    let directory = tempfile::tempdir().unwrap();
    for (script, status) in
        [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let output = run(directory.path(), &["--quiet", "--", "sh", "-c", script]);
        assert_eq!(
            (output.status.code(), stderr(&output)),
            (Some(status), String::new()),
            "{script}"
        );
    }
    let output = run(directory.path(), &["--quiet", "no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("cannot run no-such-program"), "{}", stderr(&output));
    fs::write(directory.path().join("plain"), "").unwrap();
    assert_eq!(run(directory.path(), &["./plain"]).status.code(), Some(126));
}

#[test]
fn what_is_wrong_is_told_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("wrong.toml"), "[[stage]]\nkind = 'coumt'").unwrap();
    let output = run(directory.path(), &["--stack", "wrong.toml", "--", "touch", "ran"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("wrong.toml is not a stack: stage 1 (coumt)"));
    let output = striate()
        .args(["run", "--", "touch", "ran"])
        .current_dir(directory.path())
        .env("STRIATE_PRELOAD", "/nowhere/lib.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nowhere/lib.so"), "{}", stderr(&output));
    assert_eq!(striate().arg("run").output().unwrap().status.code(), Some(2));
    assert!(!directory.path().join("ran").exists());
}

#[test]
fn a_run_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["--trace", "traces", "--", "sh", "-c", COPY]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains(" traces in "), "{}", stderr(&output));
    let mut written = 0;
    let mut commands = Vec::new();
    for entry in fs::read_dir(directory.path().join("traces")).unwrap() {
        let trace = Trace::open(&entry.unwrap().path()).unwrap();
        commands.extend(trace.header().origin.command.first().cloned());
        for record in trace.records().map(Result::unwrap) {
            if let Call::Write { file, offset, length, .. } = &record.call
                && file.path.ends_with("a.dat")
            {
                assert_eq!((*offset, *length), (Some(written), 1000));
                written += record.outcome.unwrap();
            }
        }
    }
    assert_eq!(written, 20_000);
    assert!(commands.iter().any(|name| name == "dd"), "{commands:?}");
}

#[test]
fn stages_of_a_file_do_their_work() {
    let directory = tempfile::tempdir().unwrap();
    let stack = "[[stage]]\nkind = 'fault'\nkinds = ['write']\nerror = 'ENOSPC'\nnth = 3\n";
    fs::write(directory.path().join("full.toml"), stack).unwrap();
    let script = "dd if=/dev/zero of=a.dat bs=1000 count=20";
    let output = run(directory.path(), &["--stack", "full.toml", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
    assert_eq!(fs::metadata(directory.path().join("a.dat")).unwrap().len(), 2000);
    // The calls were counted as the program made them.
    let line = stderr(&output).lines().find(|line| line.starts_with("  write ")).map(str::to_owned);
    let words: Vec<_> = line.iter().flat_map(|line| line.split_whitespace().take(3)).collect();
    assert_eq!(words, ["write", "3", "1"], "{}", stderr(&output));
}

/// Waits until a file is there.
fn wait_for(path: &Path, child: &mut Child) {
    let start = Instant::now();
    while !path.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        assert!(start.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn signals_go_to_the_program_and_its_counters_stay() {
    let directory = tempfile::tempdir().unwrap();
    let script = "trap 'echo caught > caught.txt; exit 5' TERM; echo on > on.txt; while :; do sleep 0.05; done";
    let mut child = striate()
        .args(["run", "--counters", "counters", "--", "sh", "-c", script])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&directory.path().join("on.txt"), &mut child);
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.status.signal()), (Some(5), None));
    assert!(directory.path().join("caught.txt").exists());
    assert!(stderr(&output).starts_with("striate: "), "{}", stderr(&output));
    assert!(fs::read_dir(directory.path().join("counters")).unwrap().count() >= 2);
}

#[test]
fn a_killed_program_has_counted() {
    let directory = tempfile::tempdir().unwrap();
    let script = "import os\n\
        f = os.open('data.bin', os.O_CREAT | os.O_WRONLY)\n\
        for n in range(500): os.write(f, b'x' * 10)\n\
        os.kill(os.getpid(), 9)";
    let output = run(directory.path(), &["--json", "--", "python3", "-c", script]);
    assert_eq!(output.status.code(), Some(137));
    let document: Value = serde_json::from_str(&stderr(&output)).unwrap();
    let endings = &document["rows"][0]["endings"]["bin"];
    assert_eq!(endings["written"].as_u64(), Some(5000), "{document}");
}

#[test]
fn a_killed_program_leaves_its_files_where_they_belong() {
    let (directory, fast) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = directory.path().canonicalize().unwrap();
    let rule = format!("from = \"{}\", to = \"{}\"", place.display(), fast.path().display());
    let stack = format!("[[stage]]\nkind = \"path-rewrite\"\nrules = [{{ {rule} }}]\n");
    fs::write(fast.path().join("stack.toml"), stack).unwrap();
    let file = fast.path().join("stack.toml");
    let script = "import os\n\
        f = os.open('data.bin', os.O_CREAT | os.O_WRONLY)\n\
        os.write(f, b'written')\n\
        os.kill(os.getpid(), 9)";
    let arguments = ["--stack", file.to_str().unwrap(), "--quiet", "--", "python3", "-c", script];
    let output = run(&place, &arguments);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(137), ""));
    assert_eq!(fs::read(place.join("data.bin")).unwrap(), b"written");
    assert!(!fast.path().join(".striate-moves").exists());
}
