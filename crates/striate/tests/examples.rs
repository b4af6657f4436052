//! Every example runs and verifies what it wrote: as threads, and under `mpiexec` if built for MPI.
//!
//! The programs lie next to the tests: `cargo test` builds them, `cargo test --test examples` does
//! not.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(feature = "mpi")]
use striate_testing::mpi_job;

/// The directory of the examples' sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// The names of all examples that the features of this build allow.
fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(sources())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 7, "{names:?}");
    let needs = |name: &str| match name {
        "netcdf" | "partitioned" => cfg!(feature = "netcdf"),
        "io_servers" => cfg!(feature = "servers"),
        _ => true,
    };
    names.retain(|name| needs(name));
    names
}

/// The program of an example.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.exists(), "build it: cargo build -p striate --examples; {}", program.display());
    program
}

/// Runs one example alone.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&told).into_owned())
}

#[test]
fn examples_verify_what_threads_wrote() {
    for name in names() {
        let directory = tempfile::tempdir().unwrap();
        let (success, told) = run(Command::new(program(&name)).arg(directory.path()));
        assert!(success && told.contains("verified: "), "{name}:\n{told}");
    }
}

/// Without MPI in it, a program that a launcher started says so.
#[cfg(not(feature = "mpi"))]
#[test]
fn processes_of_a_job_need_the_feature() {
    let directory = tempfile::tempdir().unwrap();
    let mut job = Command::new(program("block_array"));
    let (success, told) = run(job.arg(directory.path()).env("OMPI_COMM_WORLD_SIZE", "4"));
    assert!(!success && told.contains("feature `mpi`"), "{told}");
}

#[cfg(feature = "mpi")]
#[test]
fn examples_verify_what_processes_wrote() {
    for name in names() {
        let directory = tempfile::tempdir().unwrap();
        let mut job = mpi_job::mpiexec(mpi_job::ranks());
        let ended = mpi_job::run(job.arg(program(&name)).arg(directory.path()));
        assert!(ended.success, "{name}:\n{}", ended.output);
        // One rank speaks.
        assert_eq!(ended.output.matches("verified: ").count(), 1, "{name}:\n{}", ended.output);
    }
}

#[test]
fn the_table_of_the_examples_has_all() {
    let table = fs::read_to_string(sources().join("README.md")).unwrap();
    for name in names() {
        assert!(table.contains(&format!("| [{name}]({name}.rs) |")), "{name}");
    }
}
