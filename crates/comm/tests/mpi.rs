//! Runs the conformance suite under `mpiexec`.
//!
//! The program that is launched is an example, which `cargo test` builds, but `cargo test --test
//! mpi` does not.

use std::path::PathBuf;

use striate_testing::mpi_job::{self, Ended, ranks};

/// The program with the suite, which `cargo test` builds next to the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let target = test.ancestors().nth(2).expect("tests lie in target/*/deps");
    let program = target.join("examples/mpi_conformance");
    assert!(program.exists(), "build it: cargo build --features mpi --examples");
    program
}

fn run(ranks: usize, mode: &str, variables: &[(&str, &str)]) -> Ended {
    let mut job = mpi_job::mpiexec(ranks);
    job.arg(program()).args((!mode.is_empty()).then_some(mode));
    mpi_job::run(job.envs(variables.iter().copied()))
}

fn passes(ranks: usize, variables: &[(&str, &str)]) -> String {
    let ended = run(ranks, "", variables);
    assert!(ended.success && ended.output.contains("checks passed"), "{}", ended.output);
    ended.output
}

#[test]
fn conformance() {
    for ranks in 1..=ranks() {
        passes(ranks, &[]);
    }
}

#[test]
fn simulated_nodes() {
    let output = passes(ranks(), &[("STRIATE_RANKS_PER_NODE", "1")]);
    let expected = format!("on nodes {:?}", (0..ranks()).collect::<Vec<_>>());
    assert!(output.contains(&expected), "{output}");
    if ranks() == 4 {
        let output = passes(4, &[("STRIATE_RANKS_PER_NODE", "3")]);
        assert!(output.contains("on nodes [0, 0, 0, 1]"), "{output}");
    }
}

#[test]
fn nonsense_in_the_environment() {
    let ended = run(2, "", &[("STRIATE_RANKS_PER_NODE", "many")]);
    assert!(!ended.success);
    assert!(ended.output.contains("STRIATE_RANKS_PER_NODE is \"many\""), "{}", ended.output);
}

#[test]
fn more_bytes_than_31_bits_count() {
    let ended = run(2, "large", &[]);
    assert!(ended.success, "{}", ended.output);
}

#[test]
fn a_panic_ends_the_job() {
    let ended = run(ranks(), "panic", &[]);
    assert!(!ended.success);
    assert!(ended.output.contains("rank 1 failed: panicked: boom"), "{}", ended.output);
}

#[test]
fn an_error_of_one_rank_ends_the_job() {
    let ended = run(ranks(), "fail", &[]);
    assert!(!ended.success);
    assert!(ended.output.contains("rank 1 failed: the request belongs"), "{}", ended.output);
}

#[test]
fn an_error_of_all_ranks_is_returned() {
    let ended = run(ranks(), "fail-all", &[]);
    assert!(!ended.success);
    assert!(ended.output.contains("mpi_conformance: the request belongs"), "{}", ended.output);
    assert!(!ended.output.contains("is ended"), "{}", ended.output);
}
