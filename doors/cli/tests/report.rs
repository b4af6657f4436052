//! `striate report` and `striate compare` on the command line.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::Value;
use striate_stack::trace::{Call, Header, Record, TracedFile, Writer};
use striate_stack::{Function, Origin};

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
        let (start, outcome) = (2000 + n * takes, Ok(100));
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
