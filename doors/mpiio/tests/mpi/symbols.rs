//! The door is all or nothing: a function that is not covered would be given a handle that it does
//! not know.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use striate_testing::mpi_job::is_openmpi;

use crate::door::library;

fn exported(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(output.status.success(), "nm {}", library.display());
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect()
}

/// The MPI library that this test program is linked with.
fn mpi_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let name = if is_openmpi() { "/libmpi.so" } else { "/libmpich.so" };
    let path = maps.lines().filter_map(|line| line.split_whitespace().last());
    path.filter(|path| path.contains(name)).map(PathBuf::from).next().expect("an MPI is loaded")
}

#[test]
fn every_function_of_files_is_exported() {
    let ours = exported(library());
    let of_files = |name: &&String| {
        let name = name.strip_prefix('P').unwrap_or(name);
        name.starts_with("MPI_File_") || name.starts_with("MPI_Register_datarep")
    };
    let theirs = exported(&mpi_library());
    let theirs: Vec<&String> = theirs.iter().filter(of_files).collect();
    assert!(theirs.len() >= 120, "only {} functions found", theirs.len());
    let missing: Vec<_> = theirs.iter().filter(|name| !ours.contains(**name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}
