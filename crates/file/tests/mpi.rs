//! Runs the checks of nonblocking calls under `mpiexec`.
//!
//! The program that is launched is an example, which `cargo test` builds, but `cargo test --test
//! mpi` does not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use striate_testing::mpi_job::{self, ranks};

fn passes(ranks: usize, variables: &[(&str, &str)]) {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/mpi_nonblocking");
    assert!(program.exists(), "build it: cargo build --features mpi --examples");
    let directory = tempfile::tempdir().unwrap();
    let mut job = mpi_job::mpiexec(ranks);
    job.arg(program).arg(directory.path());
    let ended = mpi_job::run(job.envs(variables.iter().copied()));
    assert!(ended.success && ended.output.contains("checks passed"), "{}", ended.output);
}

#[test]
fn on_one_node() {
    passes(ranks(), &[]);
}

#[test]
fn on_simulated_nodes() {
    passes(ranks(), &[("STRIATE_RANKS_PER_NODE", "1")]);
    if ranks() == 4 {
        passes(4, &[("STRIATE_RANKS_PER_NODE", "2")]);
    }
}
