//! Calls of layers that a library in the program tells of: recorded, shown, counted, reported, and
//! left out of replays.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::path::Path;
use std::process::{Command, Output};

use preloaded::striate;
use serde_json::Value;

fn stdout(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn answer(directory: &Path, arguments: &[&str]) -> String {
    stdout(&striate().args(arguments).current_dir(directory).output().unwrap())
}

/// A recording of the program with a layer of its own.
fn recorded(directory: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/layers.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-o"]).arg(directory.join("layers")).arg(source).arg("-ldl");
    stdout(&compiler.output().unwrap());
    let run = ["run", "--quiet", "--trace", "traces", "--", "./layers"];
    // The rank that a launcher would have told.
    let mut command = striate();
    command.args(run).current_dir(directory).env("PMI_RANK", "3");
    stdout(&command.output().unwrap());
}

#[test]
fn a_library_tells_of_its_calls() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    recorded(place);

    let shown = answer(place, &["trace", "show", "traces"]);
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines.iter().position(|line| line.contains(" MPI_File_write_at_all(")).unwrap();
    assert!(lines[at].contains(" rank 3 MPI_File_write_at_all(\""), "{shown}");
    assert!(lines[at].contains("data.bin\", 8192, at 0, 1024 elements) = 8192 <"), "{shown}");
    // Those that it caused stand beneath it, indented; what comes later does not.
    assert!(
        lines[at + 1].contains("rank 3   pwrite(") && lines[at + 2].contains("rank 3   pwrite(")
    );
    assert!(lines.last().unwrap().contains(" rank 3 close("), "{shown}");
    assert!(shown.contains("16, 2 elements) = error class 32 <"), "{shown}");
    assert_eq!(shown.matches("MPI_File_").count(), 2, "{shown}");

    let only = answer(place, &["trace", "show", "traces", "--kind", "mpi-io"]);
    assert_eq!(only.lines().count(), 2, "{only}");
    let stats = answer(place, &["trace", "stats", "traces", "--json"]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    let layer = &stats["rows"][0]["layers"]["MPI_File_write_at_all"];
    assert_eq!((&layer["calls"], &layer["bytes"]), (&1.into(), &8192.into()), "{stats}");
    assert_eq!(layer["beneath"]["calls"], 2, "{stats}");
    assert_eq!(stats["rows"][0]["total"]["writes"]["bytes"], 8202, "{stats}");
    assert!(answer(place, &["trace", "stats", "traces"]).contains("MPI-IO calls"));
}

#[test]
fn reports_have_them_and_replays_leave_them_out() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    recorded(place);
    answer(place, &["trace", "merge", "traces", "-o", "one.trace"]);
    let text = answer(place, &["report", "one.trace", "--text"]);
    assert!(text.contains("MPI-IO calls, and the calls beneath them"), "{text}");
    let line = text.lines().find(|line| line.contains("MPI_File_write_at_all")).unwrap();
    assert!(line.contains("collective") && line.contains("8 KiB"), "{line}");
    let replayed = answer(place, &["replay", "one.trace"]);
    assert!(replayed.contains("2 MPI-IO calls not repeated"), "{replayed}");
    assert!(replayed.contains("All results are as recorded."), "{replayed}");
}
