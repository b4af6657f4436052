//! What programs observe by their calls stays what it is without Striate: random sequences of calls
//! over several descriptors, streams, threads and children, compared answer by answer, and the
//! files they leave byte by byte.
//!
//! `STRIATE_ROUNDS=1000` tries so many sequences under each stack; `STRIATE_SEED=17` only that one.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod stacks;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use stacks::{Ended, Image, LONGEST, Stack, Workspace, run};
use striate_unmodified::actor::{self, difference};

/// Calls of one sequence.
const STEPS: u32 = 200;

/// How many sequences are tried under each stack, if not said otherwise.
const ROUNDS: u64 = 24;

/// The actor, compiled in two ways: as it is, and as distributions build programs.
fn actors() -> &'static [PathBuf; 2] {
    static ACTORS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    ACTORS.get_or_init(|| actor::compile(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}

/// One sequence: what the actor told, and what it left.
fn act(place: &Workspace, stack: &Stack, seed: u64) -> (Ended, Image) {
    place.renew();
    std::fs::create_dir(place.work().join("d")).unwrap();
    let actor = &actors()[(seed % 2) as usize];
    let mut command = place.command(actor, stack);
    command.args([seed.to_string(), STEPS.to_string()]).arg(place.work());
    let ended = run(&mut command, LONGEST);
    place.unpack();
    let image = Image::of(&place.work(), |_| false);
    (ended, image)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Sequences under one stack. Each stack has seeds of its own.
fn same_under(name: &str) {
    let stack = Stack::named(name);
    let first =
        name.bytes().fold(0, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte)) * 1_000_000;
    let seeds: Vec<u64> = match number("STRIATE_SEED") {
        Some(seed) => vec![seed],
        None => (first..first + number("STRIATE_ROUNDS").unwrap_or(ROUNDS)).collect(),
    };
    let place = Workspace::new();
    let mut failures = Vec::new();
    for seed in &seeds {
        let native = act(&place, &Stack::NATIVE, *seed);
        assert!(native.0.status.is_some(), "seed {seed} does not end without Striate");
        if let Some(told) = difference(&native, &act(&place, stack, *seed)) {
            failures.push(format!("seed {seed}:\n{told}"));
        }
    }
    let shown = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        failures.is_empty(),
        "{} of {} sequences differ under {name}:\n{shown}",
        failures.len(),
        seeds.len()
    );
}

/// The actor itself does the same twice: otherwise nothing here means anything.
#[test]
fn the_actor_repeats_itself() {
    let place = Workspace::new();
    for seed in 0..4 {
        let first = act(&place, &Stack::NATIVE, seed);
        assert!(first.0.stdout.lines().count() >= STEPS as usize, "{first:?}", first = first.0);
        assert_eq!(difference(&first, &act(&place, &Stack::NATIVE, seed)), None);
    }
}

#[test]
fn same_under_path_rewrite_of_existing_files() {
    same_under("path-rewrite, existing");
}

#[test]
fn same_under_containers() {
    same_under("container");
}

macro_rules! stacks {
    ($($test:ident $name:literal;)*) => {
        $(#[test] fn $test() { same_under($name); })*

        #[test]
        fn every_stack_is_tried() {
            let tried = [$($name),*];
            let all: Vec<_> = stacks::STACKS.iter().map(|stack| stack.name).collect();
            assert_eq!(all, tried);
        }
    };
}

stacks! {
    same_without_stages "no stages";
    same_under_count "count";
    same_under_count_everywhere "count everywhere";
    same_under_trace "trace";
    same_under_write_back "write-back";
    same_under_small_write_back "write-back, small";
    same_under_read_ahead "read-ahead";
    same_under_small_read_ahead "read-ahead, small";
    same_under_combine "combine";
    same_under_path_rewrite "path-rewrite";
    same_under_path_rewrite_in_the_background "path-rewrite, background";
    same_under_align "align";
    same_under_throttle "throttle";
    same_under_full "full";
}
