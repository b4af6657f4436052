//! Files that are not what they say: cut off, with headers that state too much, of another kind;
//! and files that are right, but have very much of something.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use striate_array::format::{Alignment, Attribute, Dimension, Header, Variable};
use striate_array::{Format, Type, Values};

use crate::corpus::Made;
use crate::tools::{answer, command, complaint, striate, told};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn variable(name: &str, external: Type, dimensions: &[u32]) -> Variable {
    let dimensions = dimensions.to_vec();
    let attributes = Vec::new();
    Variable { attributes, ..Variable::new(name, external, dimensions) }
}

/// Two fixed variables, text, and two that have four records.
fn made() -> Made {
    let mut header = Header::new(Format::Cdf1);
    header.records = 4;
    for (name, len) in [("t", 0), ("x", 3), ("s", 5)] {
        header.dimensions.push(Dimension::classic(name, len));
    }
    let kinds: [(&str, Type, &[u32]); 5] = [
        ("a", Type::Int, &[1]),
        ("word", Type::Char, &[2]),
        ("b", Type::Double, &[1]),
        ("p", Type::Short, &[0, 1]),
        ("q", Type::Float, &[0]),
    ];
    header.variables = kinds.map(|(name, external, dims)| variable(name, external, dims)).into();
    header.arrange(&Alignment::default(), None).unwrap();
    let data = vec![
        Values::Int(vec![1, 2, 3]),
        Values::Char(b"hello".to_vec()),
        Values::Double(vec![1.5, 2.5, 3.5]),
        Values::Short((1..13).collect()),
        Values::Float(vec![10.0, 20.0, 30.0, 40.0]),
    ];
    Made { header, data }
}

fn status(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn values_that_are_not_in_a_file_are_not_made_up() {
    let directory = tempfile::tempdir().unwrap();
    let made = made();
    let whole = made.write(directory.path(), "whole.nc");
    let bytes = made.bytes();
    let begin = |n: usize| made.header.variables[n].begin as usize;
    let file = directory.path().join("cut.nc");
    let cut = |len: usize| {
        fs::write(&file, &bytes[..len]).unwrap();
        striate(["dump", text(&file)])
    };
    // In the middle of the third record.
    let stride = made.header.record_size().unwrap() as usize;
    let output = cut(begin(3) + 2 * stride + 4);
    assert_eq!(status(&output), Some(1));
    let dump = String::from_utf8(output.stdout).unwrap();
    for words in [
        " a = 1, 2, 3 ;\n",
        " p =\n  1, 2, 3,\n  4, 5, 6,\n  7, 8, <4 of 12 values are not in the file> ;\n",
        " q = 10, 20, <2 of 4 values are not in the file> ;\n",
    ] {
        assert!(dump.contains(words), "{words}: {dump}");
    }
    let said = String::from_utf8(output.stderr).unwrap();
    for words in ["4 of 12 values of variable 'p'", "2 of 4 values of variable 'q'", "--lenient"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // In text, at the end of a row, and before anything of a variable.
    let dump = told(&cut(begin(1) + 2));
    assert!(dump.contains(" word = \"he\", <3 of 5 values are not in the file> ;\n"), "{dump}");
    assert!(dump.contains(" b = <3 of 3 values are not in the file> ;\n"), "{dump}");
    // What stands there is no CDL.
    let dump = told(&cut(begin(3) + stride));
    assert!(
        dump.contains(" p =\n  1, 2, 3,\n  <9 of 12 values are not in the file> ;\n"),
        "{dump}"
    );
    // The other commands do not invent values, either.
    let out = directory.path().join("out.nc");
    let (file, whole, out) = (text(&file).to_owned(), text(&whole).to_owned(), text(&out));
    let info = striate(["info", "--json", &file]);
    assert_eq!(status(&info), Some(1));
    assert_eq!(crate::rows(&info)[0]["variables"][3]["missing_values"], 9);
    assert_eq!(status(&striate(["info", "--lenient", &file])), Some(0));
    let refused: [&[&str]; 4] = [
        &["compare", &file, &file],
        &["compare", &whole, &file],
        &["copy", &file, out],
        &["split", "-p", "2", &file, out],
    ];
    for arguments in refused {
        let said = complaint(arguments, 1);
        assert!(said.contains("not whole") || said.contains("cut off"), "{arguments:?}: {said}");
        assert!(!Path::new(out).exists());
    }
    answer(striate(["compare", "--lenient", &file, &file]), "lenient");
    answer(striate(["compare", "--header-only", &file, &whole]), "definitions");
    answer(striate(["header", &file]), "header");
    let zeros = answer(striate(["dump", "--lenient", &file]), "lenient");
    assert!(String::from_utf8(zeros).unwrap().contains("  1, 2, 3,\n  0, 0, 0,\n"));
    // Padding after the last value may be missing.
    let end = begin(4) + 3 * stride + 4;
    assert!(end <= bytes.len() && cut(end).status.success());
}

#[test]
fn damaged_headers_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("damaged.nc");
    let out = directory.path().join("out.nc");
    let (path, out) = (text(&file), text(&out));
    let bytes = made().bytes();
    let records = |count: u32| {
        let mut bytes = bytes.clone();
        bytes[4..8].copy_from_slice(&count.to_be_bytes());
        bytes
    };
    let mut length = bytes.clone();
    let at = length.windows(8).position(|it| it == *b"\0\0\0\x01x\0\0\0").unwrap() + 8;
    length[at..at + 4].copy_from_slice(&0x1000_0000_u32.to_be_bytes());
    for (bytes, reason) in [(records(0x7fff_fff0), "states"), (length, "stated size")] {
        fs::write(&file, bytes).unwrap();
        for arguments in [
            &["dump", path][..],
            &["dump", "--lenient", path],
            &["info", path],
            &["compare", path, path],
            &["copy", path, out],
        ] {
            let said = complaint(arguments, 1);
            assert!(said.contains("damaged") && said.contains(reason), "{arguments:?}: {said}");
        }
    }
    // A few records that are not there are only missing.
    fs::write(&file, records(9)).unwrap();
    let output = striate(["dump", path]);
    assert!(told(&output).contains("<5 of 9 values are not in the file>"), "{}", told(&output));
    assert_eq!(status(&output), Some(1));
}

#[test]
fn damaged_files_of_netcdf_4_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("four.nc");
    let plain = made().write(directory.path(), "plain.nc");
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(b"\x89HDF\r\n\x1a\n");
    for user_block in [0, 512] {
        let all = [vec![0; user_block], bytes.clone()].concat();
        fs::write(&file, all).unwrap();
        let (path, plain) = (text(&file), text(&plain));
        let out = directory.path().join("out.nc");
        // What reads such files finds no superblock behind the signature.
        for arguments in [
            &["dump", path][..],
            &["dump", "-k", path],
            &["header", path],
            &["info", path],
            &["index", path],
            &["validate", path],
            &["copy", path, text(&out)],
            &["split", "-p", "2", path, text(&out)],
            &["join", path, text(&out)],
            &["compare", path, plain],
            &["compare", plain, path],
            &["mv", path, text(&out)],
            &["rm", path],
        ] {
            let output = striate(arguments);
            let said = told(&output);
            assert!(said.contains(path) && said.contains("superblock"), "{arguments:?}: {said}");
            assert_eq!(status(&output), Some(1));
        }
        assert!(file.exists());
    }
}

/// A file of very many attributes, or dimensions and variables.
fn many(attributes: usize, variables: usize) -> Made {
    let mut header = Header::new(Format::Cdf2);
    header.attributes = (0..attributes)
        .map(|n| Attribute { name: format!("attribute_{n}"), values: Values::Int(vec![n as i32]) })
        .collect();
    for n in 0..variables {
        header.dimensions.push(Dimension::classic(format!("d{n}"), 1));
        header.variables.push(variable(&format!("v{n}"), Type::Int, &[n as u32]));
    }
    header.arrange(&Alignment::default(), None).unwrap();
    Made { data: (0..variables).map(|n| Values::Int(vec![n as i32])).collect(), header }
}

#[test]
fn very_many_definitions_are_copied() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("to.nc");
    for (attributes, variables) in [(200_000, 0), (0, 100_000)] {
        let from = many(attributes, variables).write(directory.path(), "from.nc");
        answer(striate(["copy", "-f", text(&from), text(&to)]), "copy");
        let compared = striate(["compare", text(&from), text(&to)]);
        assert_eq!(told(&compared), "no differences\n");
    }
}

#[test]
fn names_of_any_length_are_shown_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let long = "n".repeat(1 << 20);
    let mut header = Header::new(Format::Cdf1);
    header.dimensions.push(Dimension::classic(long.clone(), 2));
    header.variables.push(variable(&long, Type::Int, &[0]));
    header.arrange(&Alignment::default(), None).unwrap();
    let made = Made { header, data: vec![Values::Int(vec![1, 2])] };
    let from = made.write(directory.path(), "from.nc");
    let to = directory.path().join("to.nc");
    let info = answer(striate(["info", text(&from)]), "info");
    assert!(info.len() > 2 << 20);
    answer(striate(["dump", text(&from)]), "dump");
    let said = complaint(["copy", text(&from), text(&to)], 1);
    assert!(said.contains("longer than 256 bytes") && said.len() < 1000, "{}", said.len());
    let said = told(&striate(["validate", text(&from)]));
    assert!(said.contains("longer than 256 bytes") && said.len() < 4000, "{}", said.len());
}

/// Sends a signal to commands that have begun, and waits for their end.
#[test]
fn signals_end_commands_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let from = crate::big(false).write(directory.path(), "from.nc");
    let same = directory.path().join("same.nc");
    fs::copy(&from, &same).unwrap();
    let to = directory.path().join("to.nc");
    let slow = "striate_method=posix";
    let all: [(&[&str], &[i32]); 4] = [
        (&["dump", text(&from)], &[130, 143]),
        (&["compare", text(&from), text(&same)], &[130, 143]),
        (&["copy", "-f", text(&from), text(&to)], &[1, 130, 143]),
        (&["split", "-f", "-p", "3", text(&from), text(&to)], &[1, 130, 143]),
    ];
    for (round, (arguments, statuses)) in all.iter().flat_map(|it| [it; 2]).enumerate() {
        let signal = [rustix::process::Signal::INT, rustix::process::Signal::TERM][round % 2];
        let mut command = command(*arguments);
        command.env("STRIATE_HINTS", slow).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The signal may come before the command listens, or after its end: then it says nothing.
        std::thread::sleep(Duration::from_millis(60));
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, signal).unwrap();
        // Its output is not read meanwhile: it must end all the same.
        let limit = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < limit, "{arguments:?} does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match status(&output) {
            None => assert!(said.is_empty(), "{arguments:?}: {said}"),
            Some(0) => {}
            Some(status) => {
                assert!(statuses.contains(&status), "{arguments:?}: {status} {said}");
                assert!(said.contains("interrupted"), "{arguments:?}: {said}");
            }
        }
        let left: Vec<_> = crate::partitioned::names(directory.path());
        let is_part = |name: &String| name.starts_with(".to.nc.part-");
        assert!(arguments[0] != "copy" || !left.iter().any(is_part), "{left:?}: {said}");
        if left.iter().any(|name| name == "to.nc.unpublished") {
            let rest = format!("{}.unpublished", text(&to));
            assert!(status(&output).is_none() || said.contains(&format!("nc rm {rest}")), "{said}");
            answer(striate(["rm", &rest]), "rm");
        }
        answer(striate(["rm", "-f", text(&to)]), "rm");
        assert_eq!(crate::partitioned::names(directory.path()), ["from.nc", "same.nc"]);
    }
}

#[test]
fn numbers_may_differ_relatively() {
    let directory = tempfile::tempdir().unwrap();
    let one = made();
    let mut other = made();
    other.data[2] = Values::Double(vec![1.5, 2.5 * (1.0 + 1e-7), 3.5]);
    let one = one.write(directory.path(), "one.nc");
    let other = other.write(directory.path(), "other.nc");
    let (one, other) = (text(&one), text(&other));
    answer(striate(["compare", "--relative", "1e-6", one, other]), "close");
    answer(striate(["compare", "--relative", "1e-9", "--tolerance", "1e-6", one, other]), "close");
    let output = striate(["compare", "--json", "--relative", "1e-8", one, other]);
    assert_eq!(status(&output), Some(1));
    let largest = crate::rows(&output)[0]["largest_relative_difference"].as_f64().unwrap();
    assert!((largest - 1e-7).abs() < 1e-9, "{largest}");
    complaint(["compare", "--relative", "-1", one, other], 2);
}
