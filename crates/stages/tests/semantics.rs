//! What a program observes through a stack is what it observes without: random steps by both.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use proptest::test_runner::{Config, TestRunner};
use striate_stack::{Placed, Stack};
use support::counting::Counting;
use support::door::Door;
use support::plain::Plain;
use support::{stack, stage, steps};

/// How many cases are tried; more with `STRIATE_CASES`.
fn cases() -> u32 {
    std::env::var("STRIATE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

fn holds(build: impl Fn() -> Vec<Placed>) {
    holds_by(build, |stack| stack);
}

fn holds_by(build: impl Fn() -> Vec<Placed>, change: impl Fn(Stack) -> Stack) {
    let config = Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&steps::steps(), |steps| {
        let (plain, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let built: Stack = change(stack(other.path(), build()));
        let door = Door::new(other.path(), built);
        let compared = steps::compare(&steps, &Plain::new(plain.path()), &door);
        compared.map_err(proptest::test_runner::TestCaseError::fail)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn through_a_stack_that_does_nothing() {
    holds(|| vec![Counting::default().placed()]);
}

#[test]
fn through_write_back() {
    holds(|| vec![stage("write-back", "block = 64\nmemory = 2048")]);
}

#[test]
fn through_write_back_where_the_answer_comes_first() {
    let small = || vec![stage("write-back", "block = 64\nmemory = 2048")];
    holds_by(small, Stack::answering_first);
    let tiny = || vec![stage("write-back", "block = 20\nmemory = 100\nlate_times = true")];
    holds_by(tiny, Stack::answering_first);
}

#[test]
fn through_write_back_with_little_memory_and_late_times() {
    holds(|| vec![stage("write-back", "block = 50\nmemory = 200\nlate_times = true")]);
}

#[test]
fn through_write_back_with_large_blocks() {
    holds(|| vec![stage("write-back", "")]);
}

#[test]
fn through_write_back_twice() {
    holds(|| {
        let counting = Counting::default();
        vec![
            stage("write-back", "block = 32\nmemory = 2048"),
            counting.placed(),
            stage("write-back", "block = 128"),
        ]
    });
}

#[test]
fn through_read_ahead() {
    holds(|| vec![stage("read-ahead", "window = 100\nmemory = 250\nadapt = false")]);
}

#[test]
fn through_read_ahead_that_adapts() {
    holds(|| vec![stage("read-ahead", "")]);
}

#[test]
fn through_align() {
    holds(|| vec![stage("align", "stripe = 32\nlargest = 64")]);
}

#[test]
fn through_all_of_them() {
    holds(|| {
        vec![
            stage("read-ahead", "window = 100\nadapt = false"),
            stage("write-back", "block = 64\nmemory = 500"),
            stage("read-ahead", "window = 300\nwaste = 9\nadapt = false"),
            stage("align", "stripe = 24\nmerge = false"),
        ]
    });
}
