//! Files of the HDF5 library, of netCDF-C and of h5py, read by this crate and compared with what
//! h5py says: structures, addresses, chunks and values.
//!
//! `make.py` makes files over every layout, chunk index, type, kind of group and version of the
//! format, `ncgen` and `nccopy` some more; `describe.py` and `describe.rs` put what they find in
//! the same lines.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cdl;
mod describe;
mod fuzz_body;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};

use striate_hdf5::model::Address;
use striate_hdf5::write::{FilePlan, PlanOptions};
use striate_hdf5::{File, netcdf};
use tools::{python, run, script, text};

/// The files of HDF5 in a directory.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    let kinds = ["h5", "nc", "mat", "hdf5"];
    let is_one = |path: &PathBuf| path.extension().is_some_and(|it| kinds.iter().any(|k| it == *k));
    files.retain(is_one);
    files.sort();
    files
}

/// Lines without what follows them where there are no values.
fn trimmed<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// What differs between what we find in a file and what h5py has written beside it.
fn compare_one(path: &Path) -> Result<(), String> {
    let expected = fs::read_to_string(format!("{}.txt", path.display())).unwrap();
    let name = path.file_name().unwrap().display();
    let found = describe::describe(path).map_err(|error| format!("{name}: {error}"))?;
    let found = trimmed(found.iter().map(String::as_str));
    let expected = trimmed(expected.lines());
    if found != expected {
        return Err(format!("{name}:\n{}", difference(&found, &expected)));
    }
    as_netcdf(path).map_err(|error| format!("{name} as netCDF: {error}"))
}

/// Compares the lines of all files of a directory.
fn compare(directory: &Path) -> usize {
    let files = files_of(directory);
    let describing = script("describe.py");
    let mut arguments = vec![text(&describing)];
    arguments.extend(files.iter().map(|path| text(path)));
    run(python(), &arguments);
    let failures: Vec<String> = files.iter().filter_map(|path| compare_one(path).err()).collect();
    assert!(
        failures.is_empty(),
        "{} of {} files:\n{}",
        failures.len(),
        files.len(),
        failures.join("\n")
    );
    files.len()
}

/// The files of the directory that `STRIATE_HDF5_FILES` names, for example those of the tests of
/// another project: what h5py reads of them is what we read.
#[test]
fn files_of_others_are_what_the_hdf5_library_says() {
    let Some(directory) = std::env::var_os("STRIATE_HDF5_FILES") else { return };
    let mut failures = Vec::new();
    let (mut same, mut unread) = (0, 0);
    for path in files_of(Path::new(&directory)) {
        let describing = script("describe.py");
        let arguments = [text(&describing), text(&path)];
        let described = std::process::Command::new("timeout")
            .arg("20")
            .arg(python())
            .args(arguments)
            .output()
            .unwrap();
        if described.status.success() {
            match compare_one(&path) {
                Ok(()) => same += 1,
                Err(difference) => failures.push(difference),
            }
        } else {
            // Not all that libhdf5 or numpy refuse is wrong: there is nothing to compare with.
            unread += 1;
            let bytes = fs::read(&path).unwrap();
            let _ = File::open(&bytes[..]).and_then(|file| netcdf::describe(&file));
        }
    }
    println!("{same} are the same, h5py cannot read {unread}");
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}

/// Describes a file in netCDF's terms, and makes a commit of it if it can be written again.
fn as_netcdf(path: &Path) -> striate_hdf5::Result<()> {
    let bytes = fs::read(path).unwrap();
    let file = File::open(&bytes[..])?;
    let found = netcdf::describe(&file)?;
    if found.rewritable().is_err() {
        return Ok(());
    }
    let (placements, end) = (found.placements(&file)?, Address(bytes.len() as u64));
    let options = PlanOptions::default();
    let mut plan = FilePlan::resume(found.definition.clone(), placements, end, options)?;
    plan.redefine(found.definition)?;
    plan.commit()?;
    Ok(())
}

/// The first lines that differ.
fn difference(found: &str, expected: &str) -> String {
    let cut = |line: &str| line.chars().take(400).collect::<String>();
    let pairs = found.lines().zip(expected.lines());
    let lines: Vec<String> = pairs
        .filter(|(found, expected)| found != expected)
        .take(3)
        .map(|(found, expected)| format!("  found    {}\n  expected {}", cut(found), cut(expected)))
        .collect();
    let counts = format!("  {} and {} lines", found.lines().count(), expected.lines().count());
    format!("{}\n{counts}", lines.join("\n"))
}

#[test]
fn files_of_the_hdf5_library_are_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let making = script("make.py");
    run(python(), &[text(&making), text(directory.path())]);
    assert!(compare(directory.path()) >= 75);
}

#[test]
fn files_of_netcdf_c_are_what_the_hdf5_library_says() {
    let directory = tempfile::tempdir().unwrap();
    for (number, cdl) in cdl::TEXTS.iter().enumerate() {
        let from = directory.path().join(format!("{number}.cdl"));
        fs::write(&from, cdl).unwrap();
        let file = directory.path().join(format!("{number}.nc"));
        run("ncgen", &["-k", "nc4", "-o", text(&file), text(&from)]);
        let copied = directory.path().join(format!("{number}-copied.nc"));
        // Values of variable length are not compressed.
        let is_variable = cdl.contains("string ") || cdl.contains("(*)");
        let packing: &[&str] = if is_variable { &[] } else { &["-d", "5", "-s"] };
        let arguments = [&["-k", "nc4"], packing, &[text(&file), text(&copied)]].concat();
        run("nccopy", &arguments);
        if !cdl.contains("group:") && !cdl.contains("types:") && !cdl.contains("string ") {
            let classic = directory.path().join(format!("{number}-classic.nc"));
            run("ncgen", &["-k", "nc7", "-o", text(&classic), text(&from)]);
        }
    }
    assert!(compare(directory.path()) >= 2 * cdl::TEXTS.len());
}
