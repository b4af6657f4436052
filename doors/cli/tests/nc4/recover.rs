//! `striate nc recover`: what killed writers have left, of netCDF-4, HDF5 and classic files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;
use striate_server::Embedded;

use crate::tools::{answer, striate, told};
use crate::{generate, oracle_texts, python};

/// The row of a file, and the exit status.
fn recovered(options: &[&str], path: impl AsRef<OsStr>) -> (Value, i32) {
    let words = ["recover", "--json"].into_iter().chain(options.iter().copied());
    let words = words.map(OsStr::new).chain([path.as_ref()]);
    let output = striate(words);
    let status = output.status.code().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", told(&output)));
    (document["rows"][0].clone(), status)
}

fn whole(directory: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let path = generate(directory, "whole.nc", "nc4", oracle_texts::TEXTS[2]).unwrap();
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

#[test]
fn tails_that_were_never_synced_are_given_back() {
    let directory = tempfile::tempdir().unwrap();
    for (number, text) in oracle_texts::TEXTS.iter().enumerate() {
        let path = generate(directory.path(), &format!("{number}.nc"), "nc4", text).unwrap();
        let sound = fs::read(&path).unwrap();
        let (row, status) = recovered(&[], &path);
        assert_eq!((row["state"].as_str(), status), (Some("whole"), 0), "{row}");
        fs::write(&path, [sound.as_slice(), &[7; 5000]].concat()).unwrap();
        let (row, status) = recovered(&[], &path);
        assert_eq!((row["state"].as_str(), status), (Some("synced"), 1), "{row}");
        assert_eq!(row["end"], sound.len(), "{row}");
        assert!(row["findings"][0]["what"].as_str().unwrap().starts_with("5,000 bytes"), "{row}");
        assert_eq!(fs::metadata(&path).unwrap().len(), sound.len() as u64 + 5000);
        let (row, status) = recovered(&["--truncate"], &path);
        assert_eq!((&row["size"], status), (&Value::from(sound.len()), 0), "{row}");
        assert_eq!(fs::read(&path).unwrap(), sound);
    }
}

#[test]
fn a_tail_on_servers_is_given_back() {
    let (directory, servers) = (tempfile::tempdir().unwrap(), Embedded::start(2).unwrap());
    let (path, sound) = whole(directory.path());
    let length = sound.len();
    fs::write(&path, [sound, vec![7; 70_000]].concat()).unwrap();
    let url = format!("{}/whole.nc", servers.url());
    let copy = ["fs".as_ref(), "cp".as_ref(), path.as_os_str(), url.as_ref()];
    let copied = std::process::Command::new(env!("CARGO_BIN_EXE_striate")).args(copy).output();
    answer(copied.unwrap(), &url);
    let (row, status) = recovered(&["--truncate"], &url);
    assert_eq!((&row["size"], status), (&Value::from(length), 0), "{row}");
    let (row, status) = recovered(&[], &url);
    assert_eq!((row["state"].as_str(), status), (Some("whole"), 0), "{row}");
}

#[test]
fn marks_of_the_library_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("swmr.h5");
    python::run("killed.py", &["kill".as_ref(), path.as_os_str()]);
    python::run("killed.py", &["refused".as_ref(), path.as_os_str()]);
    let before = fs::read(&path).unwrap();
    let (row, status) = recovered(&["--truncate"], &path);
    assert_eq!((row["state"].as_str(), status), (Some("synced"), 1), "{row}");
    assert_eq!(fs::read(&path).unwrap(), before, "nothing is changed below the mark");
    // Nor is a file with the mark whose metadata cannot be read.
    let mut damaged = before.clone();
    let at = damaged.windows(4).rposition(|bytes| bytes == b"OHDR").unwrap();
    damaged[at + 12] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let (row, status) = recovered(&["--clear", "--truncate"], &path);
    assert_eq!((row["state"].as_str(), status), (Some("damaged"), 1), "{row}");
    assert_eq!(fs::read(&path).unwrap(), damaged);
    fs::write(&path, &before).unwrap();
    let (row, status) = recovered(&["--clear"], &path);
    assert_eq!(status, 0, "{row}");
    python::run("killed.py", &["open".as_ref(), path.as_os_str()]);
}

#[test]
fn files_without_a_synced_state_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new.nc");
    for (bytes, state) in [
        (Vec::new(), "unsynced"),
        ([vec![0; 48], b"OHDR and so on".to_vec()].concat(), "unsynced"),
        (vec![0; 30], "unsynced"),
        (b"some text".to_vec(), "damaged"),
    ] {
        fs::write(&path, bytes).unwrap();
        let (row, status) = recovered(&["--truncate", "--clear", "--records"], &path);
        assert_eq!((row["state"].as_str(), status), (Some(state), 1), "{row}");
    }
    let (path, sound) = whole(directory.path());
    fs::write(&path, &sound[..sound.len() - 10]).unwrap();
    let (row, status) = recovered(&["--truncate"], &path);
    assert_eq!((row["state"].as_str(), status), (Some("damaged"), 1), "{row}");
    let missing = striate(["recover", "/no/such/file.nc"]);
    assert_eq!(missing.status.code(), Some(1), "{}", told(&missing));
}

#[test]
fn files_that_a_program_writes_stay_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let (path, sound) = whole(directory.path());
    fs::write(&path, [sound.as_slice(), &[7; 5000]].concat()).unwrap();
    let arguments = ["recover".as_ref(), "--truncate".as_ref(), path.as_os_str()];
    {
        let _writer = File::options().append(true).open(&path).unwrap();
        let output = striate(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(told(&output).contains("has it open for writing"), "{}", told(&output));
    }
    {
        let reader = File::open(&path).unwrap();
        reader.lock_shared().unwrap();
        let output = striate(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(told(&output).contains("has locked it"), "{}", told(&output));
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), sound.len() as u64 + 5000);
    answer(striate(arguments), "nobody writes it any more");
    assert_eq!(fs::read(&path).unwrap(), sound);
}

const RECORDS: &str = "netcdf r { dimensions: t = UNLIMITED ; x = 100 ;
    variables: int v(t, x) ; short w(t) ; data: w = 1, 2, 3 ; }";

#[test]
fn records_of_classic_files_are_counted_as_far_as_they_go() {
    let directory = tempfile::tempdir().unwrap();
    for kind in ["nc3", "nc6", "nc5"] {
        let path = generate(directory.path(), "r.nc", kind, RECORDS).unwrap();
        let sound = fs::read(&path).unwrap();
        assert_eq!(recovered(&["--records"], &path).1, 0);
        assert_eq!(fs::read(&path).unwrap(), sound, "{kind}");
        // Two records more than the header counts, and a part of a third.
        fs::write(&path, [sound.as_slice(), &[0; 404 * 2 + 50]].concat()).unwrap();
        let (row, status) = recovered(&[], &path);
        assert_eq!((row["state"].as_str(), status), (Some("synced"), 1), "{row}");
        assert_eq!(row["records"], 3, "{row}");
        let (row, status) = recovered(&["--records"], &path);
        assert_eq!((&row["records"], status), (&Value::from(5), 0), "{row}");
        let dumped = answer(striate(["dump".as_ref(), "-vw".as_ref(), path.as_os_str()]), kind);
        let dumped = String::from_utf8(dumped).unwrap();
        assert!(dumped.contains("w = 1, 2, 3, 0, 0"), "{dumped}");
        // Cut off.
        fs::write(&path, &sound[..sound.len() - 200]).unwrap();
        let (row, status) = recovered(&[], &path);
        assert_eq!((row["state"].as_str(), status), (Some("damaged"), 1), "{row}");
        let (row, status) = recovered(&["--records"], &path);
        assert_eq!((&row["records"], status), (&Value::from(2), 0), "{row}");
        // The mark of an unfinished file.
        fs::write(&path, [b"cdf", &sound[3..]].concat()).unwrap();
        let (row, status) = recovered(&["--records"], &path);
        assert_eq!((row["state"].as_str(), status), (Some("unfinished"), 1), "{row}");
    }
}

#[test]
fn leftovers_and_partitions_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = generate(directory.path(), "r.nc", "nc3", RECORDS).unwrap();
    let name = |name: &str| directory.path().join(name);
    for left in ["r.nc.unpublished", "r.nc.removed", "r.nc.moved", ".r.nc.part-0123456789abcdef"] {
        fs::write(name(left), b"x").unwrap();
        let (row, status) = recovered(&[], &path);
        assert_eq!(status, 1, "{row}");
        assert!(row["findings"][0]["what"].as_str().unwrap().contains(left), "{row}");
        assert!(!row["findings"][0]["hint"].as_str().unwrap().contains("FILE"), "{row}");
        // Also when the file itself is gone.
        fs::rename(&path, name("aside")).unwrap();
        let (row, status) = recovered(&[], &path);
        assert_eq!((row["state"].as_str(), status), (Some("missing"), 1), "{row}");
        fs::rename(name("aside"), &path).unwrap();
        fs::remove_file(name(left)).unwrap();
    }
    let parts = name("parts.nc");
    let split = ["split", "--partitions", "2", "--min-ndims", "1"].map(OsStr::new);
    let split = split.into_iter().chain([path.as_os_str(), parts.as_os_str()]);
    answer(striate(split), "split");
    assert_eq!(recovered(&[], &parts).1, 0);
    let list = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_part = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.contains("parts") && name != "parts.nc"
    };
    let part = list.filter(is_part).max().unwrap();
    fs::rename(&part, name("elsewhere")).unwrap();
    let (row, status) = recovered(&[], &parts);
    assert_eq!(status, 1, "{row}");
    let what = row["findings"][0]["what"].as_str().unwrap();
    assert!(what.contains(part.file_name().unwrap().to_str().unwrap()), "{row}");
}
