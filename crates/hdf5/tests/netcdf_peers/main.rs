//! Files of all features that are written, read by everybody else's libraries and tools.
//!
//! A seed makes a file: definitions and values. The same is given to `peer.py` as JSON, which reads
//! the file with netCDF4, h5py, h5netcdf and xarray and compares every value; and which makes the
//! same file with netCDF-C, whose `ncdump` must be that of ours.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod generated;
mod kind;
mod large;
mod read_back;
#[allow(dead_code, reason = "definitions are compared without peers")]
mod resumed;
mod tools;
#[path = "../netcdf_view/view.rs"]
mod view;
mod written;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use generated::Generated;
use resumed::{described, extend, with_filters_of};
use tools::{directory, dump, peer, run, script};

/// How many files there are.
const FILES: u64 = 320;

/// The files, written once for all tests of a process.
fn files() -> &'static Path {
    static WRITTEN: OnceLock<PathBuf> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let directory = directory("generated");
        for seed in 0..FILES {
            let path = directory.join(format!("{seed:04}.nc"));
            let file = Generated::new(seed);
            std::fs::write(path.with_extension("json"), file.json().to_string()).unwrap();
            std::fs::write(path, file.write(seed % 3 == 0).bytes).unwrap();
        }
        directory
    })
}

#[test]
fn netcdf4_reads_every_value() {
    peer("netcdf4", files());
}

#[test]
fn h5py_reads_every_value() {
    peer("h5py", files());
}

#[test]
fn h5netcdf_reads_every_value() {
    peer("h5netcdf", files());
}

#[test]
fn xarray_reads_every_value_with_both_engines() {
    peer("xarray", files());
}

#[test]
fn ncdump_prints_what_it_prints_of_the_same_file_of_netcdf_c() {
    let files = files();
    let references = directory("references");
    for seed in 0..FILES {
        let name = format!("{seed:04}.json");
        std::fs::copy(files.join(&name), references.join(&name)).unwrap();
    }
    peer("reference", &references);
    let mut compared = 0;
    for seed in 0..FILES {
        let reference = references.join(format!("{seed:04}.nc"));
        if reference.exists() {
            assert_eq!(dump(&files.join(format!("{seed:04}.nc"))), dump(&reference), "{seed}");
            compared += 1;
        }
    }
    assert!(compared > FILES / 2, "{compared}");
}

#[test]
fn tools_of_hdf5_walk_every_structure() {
    for seed in 0..FILES {
        let path = files().join(format!("{seed:04}.nc"));
        // Prints what it cannot read, and succeeds.
        let printed = run("h5dump", &["-p"], &path);
        assert!(!printed.contains("unable"), "{seed}: {printed}");
        run("h5ls", &["-r", "-v"], &path);
    }
}

#[test]
fn others_add_to_files_and_all_is_read() {
    let appended = directory("appended");
    for seed in 0..FILES {
        for extension in ["nc", "json"] {
            let name = format!("{seed:04}.{extension}");
            std::fs::copy(files().join(&name), appended.join(&name)).unwrap();
        }
    }
    peer("append", &appended);
    for seed in 0..FILES {
        let file = std::fs::read(appended.join(format!("{seed:04}.nc"))).unwrap();
        read_back::check(file, &Generated::new(seed), true);
    }
}

/// Writes a file further; puts it into a directory with what it should be.
fn extended(file: &Generated, bytes: &[u8], seed: u64, directory: &Path) {
    let (next, written) = extend(file, bytes, seed);
    let path = directory.join(format!("{seed:04}.nc"));
    std::fs::write(path.with_extension("json"), next.json().to_string()).unwrap();
    std::fs::write(&path, written.bytes).unwrap();
    if seed.is_multiple_of(4) {
        run("ncdump", &[], &path);
    }
}

#[test]
fn files_that_are_written_further_are_read_by_all() {
    let directory = directory("extended");
    for seed in 0..FILES {
        let bytes = std::fs::read(files().join(format!("{seed:04}.nc"))).unwrap();
        extended(&Generated::new(seed), &bytes, seed, &directory);
    }
    peer("netcdf4", &directory);
    peer("h5py", &directory);
}

#[test]
fn files_of_netcdf_c_are_described_and_written_further() {
    let [from, to] = ["of_netcdf_c", "of_netcdf_c_extended"].map(directory);
    for seed in 0..FILES / 2 {
        let name = format!("{seed:04}.json");
        std::fs::copy(files().join(&name), from.join(&name)).unwrap();
    }
    peer("reference", &from);
    script("netcdf_view/view.py", "view", &[&from]);
    let mut count = 0;
    for seed in 0..FILES / 2 {
        let path = from.join(format!("{seed:04}.nc"));
        let Ok(bytes) = std::fs::read(&path) else { continue };
        view::check(&path, &described(&bytes));
        // NetCDF4 does not shuffle what it does not compress.
        let file = with_filters_of(&bytes, Generated::new(seed));
        extended(&file, &bytes, seed, &to);
        count += 1;
    }
    peer("netcdf4", &to);
    peer("h5py", &to);
    assert!(count > FILES / 4, "{count}");
}
