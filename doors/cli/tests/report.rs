//! `striate report` and `striate compare` on the command line.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "peers")]
#[path = "report/datasets.rs"]
mod datasets;
#[cfg(feature = "peers")]
mod preloaded;
#[cfg(feature = "peers")]
#[allow(dead_code, reason = "scripts of other tests")]
#[path = "nc4/python.rs"]
mod python;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use striate_process::Origin;
use striate_stack::Function;
use striate_testing::darshan_log::{self, Order, Packed, example};
use striate_trace::{Call, Header, Record, TracedFile, Writer};

fn striate(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8").current_dir(directory);
    command.args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A process that writes little at a time.
fn record(directory: &Path, name: &str, writes: u64, takes: u64) {
    record_every(directory, name, writes, takes, takes);
}

/// One whose writes begin at a distance.
fn record_every(directory: &Path, name: &str, writes: u64, takes: u64, every: u64) {
    let origin = Origin {
        process: 7,
        parent: 1,
        rank: None,
        host: "here".into(),
        command: vec!["simulation".into(), "<input>".into()],
    };
    let header = Header { origin, clock: 1000, ..Header::default() };
    fs::create_dir_all(directory.join(name)).unwrap();
    let mut writer = Writer::create(directory.join(name).join("7.trace"), &header).unwrap();
    let path = Path::new("/data/out.dat");
    let file = Arc::new(TracedFile { opener: 7, number: 1, path: path.into(), flags: 0o1101 });
    for n in 0..writes {
        let call = Call::Write {
            file: file.clone(),
            placed: false,
            offset: Some(n * 100),
            length: 100,
            flags: 0,
            parts: 1,
        };
        let (start, outcome) = (2000 + n * every, Ok(100));
        let record = Record {
            function: Function::Write,
            thread: 7,
            start,
            duration: takes,
            outcome,
            known: true,
            call,
        };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn a_report_is_a_page_a_text_or_a_document() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    record(here, "traces", 2000, 20_000);
    let text = stdout(&striate(here, &["report", "traces"]));
    assert!(text.starts_with("simulation <input>\n"), "{text}");
    assert!(text.contains("Many small writes (high): 2,000 writes of 100 B"), "{text}");

    let told = stdout(&striate(here, &["report", "traces", "-o", "report.html"]));
    assert!(told.starts_with("report.html (") && told.contains("Many small writes"), "{told}");
    let page = fs::read_to_string(here.join("report.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("simulation &lt;input&gt;"));

    let document = stdout(&striate(here, &["report", "--json", "traces/7.trace"]));
    let document: Value = serde_json::from_str(&document).unwrap();
    let model = &document["rows"][0];
    assert_eq!(model["format"], "striate report");
    assert_eq!(model["totals"]["sums"]["calls"]["write"], 2000);
    assert_eq!(model["findings"][0]["rule"], "small-writes");
}

#[test]
fn what_if_has_an_answer_for_each_stack() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    record(here, "traces", 2000, 20_000);
    fs::write(here.join("mine.toml"), "[[stage]]\nkind = 'count'\n").unwrap();
    let arguments = ["report", "--json", "traces", "--what-if", "auto", "--what-if", "mine.toml"];
    let document: Value = serde_json::from_str(&stdout(&striate(here, &arguments))).unwrap();
    let answers = document["rows"][0]["what_if"].as_array().unwrap();
    let names: Vec<_> = answers.iter().map(|answer| answer["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["write-back", "mine"]);
    for answer in answers {
        assert!(answer.get("measured").is_some() != answer.get("failed").is_some(), "{answer}");
    }
    fs::write(here.join("wrong.toml"), "[[stage]]\nkind = 'no-such'\n").unwrap();
    let output = striate(here, &["report", "traces", "--what-if", "wrong.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("wrong.toml is not a stack"), "{}", stderr(&output));
}

#[test]
fn the_stack_that_is_advised_can_be_written_and_used() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    record(here, "traces", 2000, 20_000);
    let text = stdout(&striate(here, &["report", "traces", "--write-stack", "mine.toml"]));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("striate run --stack stack.toml -- your command"), "{text}");
    let stack = fs::read_to_string(here.join("mine.toml")).unwrap();
    assert!(stack.contains("kind = \"write-back\""), "{stack}");
    stdout(&striate(here, &["stack", "check", "mine.toml"]));
    // Where nothing is advised, nothing is written.
    record(here, "little", 10, 20_000);
    let output = striate(here, &["report", "little", "--write-stack", "none.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the advice offers none"), "{}", stderr(&output));
    assert!(!here.join("none.toml").exists());
}

#[test]
fn a_report_that_is_interrupted_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    // It would be repeated for minutes: calls are 100 ms apart.
    record_every(here, "traces", 2000, 20_000, 100_000_000);
    fs::write(here.join("mine.toml"), "[[stage]]\nkind = 'count'\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.env("NO_COLOR", "1").current_dir(here).env("TMPDIR", here);
    command.args(["report", "traces", "--what-if", "mine.toml", "--what-if-time", "120m"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // It is at work when it has a place for files.
    let begun = Instant::now();
    let is_place = |name: &str| !["traces", "mine.toml"].contains(&name);
    while !fs::read_dir(here)
        .unwrap()
        .any(|entry| is_place(&entry.unwrap().file_name().to_string_lossy()))
    {
        assert!(begun.elapsed() < Duration::from_secs(120), "nothing is repeated");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(1 | 130)), "{:?}", output.status);
    assert!(stderr(&output).contains("the report ended early"), "{}", stderr(&output));
    assert!(stderr(&output).contains("it was interrupted"), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_darshan_log_is_reported_compared_and_imported() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let log = example(41, Order::Little, Packed::Bzip2);
    fs::write(here.join("job.darshan"), log.bytes()).unwrap();
    let text = stdout(&striate(here, &["report", "job.darshan"]));
    assert!(text.contains("Job 4711 ran 2 ranks for 12.5 s"), "{text}");
    let text = stdout(&striate(here, &["compare", "job.darshan", "job.darshan", "--all"]));
    assert!(text.contains("POSIX_BYTES_READ"), "{text}");
    let arguments = ["trace", "import", "job.darshan", "-o", "job.trace"];
    let text = stdout(&striate(here, &arguments));
    assert!(text.starts_with("10 calls of 2 processes from a Darshan log"), "{text}");
    let text = stdout(&striate(here, &["report", "job.trace"]));
    assert!(text.contains("./model -n 2"), "{text}");

    let mut counters = log.clone();
    counters.modules.retain(|module| module.number < darshan_log::DXT_POSIX);
    fs::write(here.join("counters.darshan"), counters.bytes()).unwrap();
    for arguments in [
        &["trace", "import", "counters.darshan", "-o", "x.trace"][..],
        &["report", "counters.darshan", "--what-if", "auto"],
    ] {
        let output = striate(here, arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("has counters only"), "{}", stderr(&output));
    }
    // Damage is told, and what is whole is shown.
    let bytes = log.bytes();
    fs::write(here.join("cut.darshan"), &bytes[..bytes.len() - 40]).unwrap();
    let text = stdout(&striate(here, &["report", "cut.darshan"]));
    assert!(text.contains("! DXT_MPIIO: the file ends 40 bytes before it does"), "{text}");
    fs::write(here.join("short.darshan"), &bytes[..100]).unwrap();
    let output = striate(here, &["report", "short.darshan"]);
    assert!(stderr(&output).contains("ends within its header"), "{}", stderr(&output));
}

#[test]
fn what_is_no_recording_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let output = striate(here, &["report", "."]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("there are no traces"), "{}", stderr(&output));
    assert!(stderr(&output).contains("hint: 'striate run --trace"), "{}", stderr(&output));
    fs::write(here.join("text"), "no trace").unwrap();
    assert_eq!(striate(here, &["report", "text"]).status.code(), Some(1));
    record(here, "traces", 10, 10);
    let output = striate(here, &["report", "traces", "-o", "no/such/directory.html"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no/such/directory.html"), "{}", stderr(&output));
}

#[test]
fn two_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    record(here, "a", 1000, 20_000);
    record(here, "b", 500, 60_000);
    let text = stdout(&striate(here, &["compare", "a", "b"]));
    assert!(text.starts_with("A  a\nB  b\n"), "{text}");
    for words in ["-500", "0.5 ×", "differs", "significant", "p < 0.001"] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    let report = stdout(&striate(here, &["report", "--json", "a"]));
    fs::write(here.join("a.json"), report).unwrap();
    let document = stdout(&striate(here, &["compare", "--json", "a.json", "b"]));
    let document: Value = serde_json::from_str(&document).unwrap();
    let comparison = &document["rows"][0];
    assert_eq!(comparison["kind"], "recordings");
    let writes =
        comparison["changes"].as_array().unwrap().iter().find(|change| change["what"] == "writes");
    assert_eq!(
        (&writes.unwrap()["a"], &writes.unwrap()["verdict"]),
        (&1000.0.into(), &"differs".into())
    );

    fs::write(here.join("other.json"), "{}").unwrap();
    let output = striate(here, &["compare", "a", "other.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("neither a recording nor"), "{}", stderr(&output));
}
