//! `striate nc` that fails: its messages, and which files are left.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::corpus::Made;
use crate::tools::{answer, command, complaint, striate, told};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn files_that_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let bytes = Made::new(4).bytes();
    fs::write(path("whole.nc"), &bytes).unwrap();
    fs::write(path("text.nc"), "this is no netCDF file, but long enough to be one").unwrap();
    fs::write(path("empty.nc"), "").unwrap();
    fs::write(path("cut.nc"), &bytes[..40]).unwrap();
    fs::write(path("unfinished.nc"), [b"cdf", &bytes[3..]].concat()).unwrap();
    fs::write(path("hdf5.nc"), [&b"\x89HDF\r\n\x1a\n"[..], &[0; 100]].concat()).unwrap();
    for (name, expected) in [
        ("missing.nc", "o such file"),
        ("text.nc", "is not a netCDF classic file"),
        ("empty.nc", "is not a netCDF classic file"),
        ("cut.nc", "more than there are"),
        ("unfinished.nc", "is unfinished"),
        ("hdf5.nc", "superblock"),
    ] {
        let file = path(name);
        let to = path("to.nc");
        for arguments in [
            &["dump", &file][..],
            &["header", &file],
            &["info", &file],
            &["copy", &file, &to],
            &["compare", &file, &path("whole.nc")],
            &["split", "-p", "2", &file, &to],
            &["join", &file, &to],
        ] {
            let said = complaint(arguments, 1);
            assert!(
                said.starts_with("error: ") && said.contains(expected),
                "{arguments:?}: {said}"
            );
            assert!(said.contains(name), "{arguments:?}: {said}");
        }
        assert!(!Path::new(&to).exists());
        let found = striate(["validate", &file]);
        assert_eq!(found.status.code(), Some(1), "{name}: {}", told(&found));
    }
    // One that cannot be read does not hide what is wrong with another.
    let found = striate(["validate", &path("missing.nc"), &path("cut.nc"), &path("whole.nc")]);
    assert_eq!(found.status.code(), Some(1));
    assert!(told(&found).contains("whole.nc: valid CDF-"), "{}", told(&found));
    assert!(told(&found).contains("cut.nc: not valid"), "{}", told(&found));
    assert!(told(&found).contains("o such file"), "{}", told(&found));
}

#[test]
fn called_wrongly_is_2() {
    for arguments in [
        &["dump"][..],
        &["dump", "-p", "99", "a.nc"],
        &["dump", "-l", "3", "a.nc"],
        &["dump", "--json", "-x", "a.nc"],
        &["copy", "a.nc"],
        &["copy", "--format", "hdf5", "a.nc", "b.nc"],
        &["copy", "-n", "0", "a.nc", "b.nc"],
        &["compare", "--tolerance", "-1", "a.nc", "b.nc"],
        &["compare", "--header-only", "--data-only", "a.nc", "b.nc"],
        &["validate"],
        &["split", "a.nc", "b.nc"],
        &["split", "-p", "0", "a.nc", "b.nc"],
        &["split", "-p", "2", "--dim", "u", "a.nc", "b.nc"],
        &["split", "-p", "2", "--probe", "a.nc", "b.nc"],
        &["split", "--targets", "#3", "a.nc", "b.nc"],
        &["join", "a.nc"],
        &["mv", "a.nc"],
        &["rm"],
    ] {
        complaint(arguments, 2);
    }
    let commands = ["header", "dump", "info", "copy", "compare", "validate"];
    for command in commands.into_iter().chain(["split", "join", "mv", "rm"]) {
        let help = String::from_utf8(answer(striate([command, "--help"]), command)).unwrap();
        assert!(help.contains("Examples:"), "{help}");
    }
}

#[test]
fn no_such_variable() {
    let directory = tempfile::tempdir().unwrap();
    let path = Made::new(4).write(directory.path(), "a.nc");
    let said = complaint(["dump", "-v", "no_such", text(&path)], 1);
    assert!(said.contains("there is no variable 'no_such'"), "{said}");
}

#[test]
fn what_exists_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let from = Made::new(4).write(directory.path(), "from.nc");
    let to = directory.path().join("to.nc");
    fs::write(&to, "precious").unwrap();
    let said = complaint(["copy", text(&from), text(&to)], 1);
    assert!(said.contains("it exists") && said.contains("--force"), "{said}");
    assert_eq!(fs::read(&to).unwrap(), b"precious");
    // A copy that fails replaces nothing, either.
    let bad = Made::new(5);
    assert!(bad.header.variables.iter().any(|variable| variable.external.code() > 6));
    let bad = bad.write(directory.path(), "bad.nc");
    let said = complaint(["copy", "--force", "--format", "cdf1", text(&bad), text(&to)], 1);
    assert!(said.contains("does not have") && said.contains("cdf5"), "{said}");
    assert_eq!(fs::read(&to).unwrap(), b"precious");
    answer(striate(["copy", "--force", text(&from), text(&to)]), "copy");
    answer(striate(["compare", text(&from), text(&to)]), "compare");
    // Onto itself: nothing is lost.
    answer(striate(["copy", "--force", text(&to), text(&to)]), "copy");
    answer(striate(["compare", text(&from), text(&to)]), "compare");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    let said = complaint(["copy", text(&from), text(directory.path())], 1);
    assert!(said.contains("it exists"), "{said}");
    complaint(["copy", text(&from), "/no/such/directory/a.nc"], 1);
}

#[test]
fn data_that_is_cut_off_is_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    let made = crate::big(false);
    let bytes = made.bytes();
    let from = directory.path().join("from.nc");
    fs::write(&from, &bytes[..bytes.len() - 100]).unwrap();
    let to = directory.path().join("to.nc");
    let said = complaint(["copy", text(&from), text(&to)], 1);
    assert!(said.contains("it is cut off"), "{said}");
    assert_eq!(striate(["validate", text(&from)]).status.code(), Some(1));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_copy_that_fails_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let from = crate::big(false).write(directory.path(), "from.nc");
    let to = directory.path().join("to.nc");
    // Files may not become larger than 8 MiB.
    let script = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" nc copy \"$1\" \"$2\"";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_striate"), text(&from), text(&to)])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).starts_with("error: "), "{}", told(&output));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "{}", told(&output));
}

#[test]
fn a_copy_that_is_interrupted_is_whole_or_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let from = crate::big(false).write(directory.path(), "from.nc");
    for after in [0, 10, 30, 60] {
        let to = directory.path().join("to.nc");
        let mut child = command([OsStr::new("copy"), from.as_os_str(), to.as_os_str()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Wherever it is by then.
        std::thread::sleep(Duration::from_millis(after));
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.success(), to.exists());
        if to.exists() {
            answer(striate(["compare", text(&from), text(&to)]), "compare");
            fs::remove_file(&to).unwrap();
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_reader_that_goes_away_has_seen_enough() {
    let directory = tempfile::tempdir().unwrap();
    let from = crate::big(false).write(directory.path(), "from.nc");
    let script = "set -o pipefail; \"$0\" nc dump \"$1\" | head -c 100 > /dev/null";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_striate"), text(&from)])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
}
