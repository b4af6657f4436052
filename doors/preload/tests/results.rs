//! The result of every call is recorded, also of calls that stages only hear of.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "modules of tests are shared")]

mod support;

use std::fs;

use striate_trace::{Call, Subject, Trace};
use support::{compile, run, stack_of};
use tempfile::TempDir;

#[test]
fn results_of_calls_that_the_c_library_carries_out() {
    let place = TempDir::new().unwrap();
    let program = compile("results.c", place.path(), &[]);
    let traces = place.path().join("traces");
    fs::create_dir(&traces).unwrap();
    let stack = format!("{}directory = {traces:?}\n", stack_of("trace"));
    let ended = run(&program, &[], Some(&stack), &[]);
    assert_eq!((ended.status, ended.complained.as_str()), (Some(0), ""));

    let mut recorded = Vec::new();
    for entry in fs::read_dir(&traces).unwrap() {
        for record in Trace::open(&entry.unwrap().path()).unwrap().in_order() {
            let record = record.unwrap();
            let result = record.result();
            assert!(result.is_some(), "a result is missing: {record:?}");
            if let Call::Notice { of: Subject::File(file), .. } = &record.call {
                let name = file.path.file_name().unwrap().to_string_lossy();
                recorded.push(match result.unwrap() {
                    Ok(value) => format!("{name} {value}"),
                    Err(error) => format!("{name} -1 {error}"),
                });
            }
        }
    }
    let mut expected: Vec<_> = ended.printed.lines().map(str::to_owned).collect();
    // Which of the files of one call comes first does not matter.
    recorded.sort();
    expected.sort();
    assert_eq!(recorded, expected);
    assert!(expected.len() >= 14, "{expected:?}");
}
