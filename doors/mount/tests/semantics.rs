//! What programs observe by their calls is on a mount what it is without: random sequences of calls
//! over several descriptors, streams, threads and children, compared answer by answer, and the
//! files they leave byte by byte.
//!
//! `STRIATE_ROUNDS=1000` tries so many sequences with each stack; `STRIATE_SEED=17` only that one.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use striate_unmodified::actor::{self, Acted, difference};
use striate_unmodified::{Image, LONGEST, STACKS, Stack, run};
use support::{Mount, command, renew};

/// Calls of one sequence.
const STEPS: u32 = 200;

/// How many sequences are tried with each stack, if not said otherwise.
const ROUNDS: u64 = 6;

fn actors() -> &'static [PathBuf; 2] {
    static ACTORS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    ACTORS.get_or_init(|| actor::compile(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}

/// One sequence, below a directory.
fn act(below: &Path, seed: u64, still_appends: bool) -> Acted {
    renew(below);
    let work = below.join("work");
    std::fs::create_dir(work.join("d")).unwrap();
    let mut command = command(&actors()[(seed % 2) as usize], below);
    command.args([seed.to_string(), STEPS.to_string()]).arg(&work);
    if still_appends {
        command.env("ACTOR_STILL_APPENDS", "1");
    }
    let ended = run(&mut command, LONGEST);
    (ended, Image::of(&work, |_| false))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// `passthrough`: the kernel uses files itself, and does not hear that one is not to append any
/// more.
fn same_with(stack: &Stack, passthrough: bool) {
    let first =
        stack.name.bytes().fold(0, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte)) * 1_000_000;
    let seeds: Vec<u64> = match number("STRIATE_SEED") {
        Some(seed) => vec![seed],
        None => (first..first + number("STRIATE_ROUNDS").unwrap_or(ROUNDS)).collect(),
    };
    let mut mount = Mount::under_with(stack, |options| options.passthrough = passthrough);
    let mut failures = Vec::new();
    for seed in &seeds {
        let native = act(&mount.beside(), *seed, passthrough);
        assert!(native.0.status.is_some(), "seed {seed} does not end without Striate");
        let other = act(&mount.point(""), *seed, passthrough);
        if let Some(told) = difference(&native, &other) {
            failures.push(format!("seed {seed}:\n{told}"));
        }
        let (source, shown) = (mount.source("work"), mount.point("work"));
        let shown = Image::of(&shown, |_| false);
        if Some(seed) == seeds.last() {
            mount.end();
            let left = shown.difference(&Image::of(&source, |_| false));
            failures.extend(left.iter().map(|told| format!("on the source: {told}")));
        }
    }
    let shown = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    let (name, count) = (stack.name, seeds.len());
    assert!(failures.is_empty(), "{} of {count} differ with {name}:\n{shown}", failures.len());
}

#[test]
fn sequences_of_calls_are_answered_alike() {
    let only = std::env::var("STRIATE_STACKS").ok();
    let mut failures = Vec::new();
    for stack in STACKS {
        if only.as_ref().is_none_or(|only| only.split(';').any(|name| name == stack.name)) {
            // Where stages want all files there is no difference.
            let ways: &[bool] = if stack.name == "no stages" { &[true, false] } else { &[false] };
            for passthrough in ways {
                let tried = std::panic::catch_unwind(|| same_with(stack, *passthrough));
                failures.extend(tried.is_err().then_some(stack.name));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}
