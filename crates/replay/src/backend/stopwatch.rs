//! [`Stopwatch`]: a stage above all others that only measures time. So every file has a stage that
//! wants it, and the duration of a call is measured where the stage `trace` measured it.

use std::cell::Cell;
use std::time::Instant;

use striate_stack::classification::{Classification, Interference, Meaning, Scope, State};
use striate_stack::{Kinds, Next, Op, Outcome, Paths, Placed, Stage};

/// See the module.
#[derive(Debug)]
pub(super) struct Stopwatch;

thread_local! {
    /// Nanoseconds that calls of this thread took since they were last asked for.
    static TOOK: Cell<u64> = const { Cell::new(0) };
}

impl Stopwatch {
    /// The stage, for all files.
    pub(super) fn placed() -> Placed {
        Placed { name: "watch", paths: Paths::all(), stage: Box::new(Self) }
    }

    /// How many nanoseconds calls of this thread took since this was last asked.
    pub(super) fn took() -> u64 {
        TOOK.take()
    }
}

impl Stage for Stopwatch {
    fn kinds(&self) -> Kinds {
        Kinds::ALL
    }

    fn classification(&self) -> Classification {
        Classification {
            scope: Scope::Both,
            interference: Interference::OneOperation,
            state: State::Stateless,
            meaning: Meaning::Kept,
        }
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let begin = Instant::now();
        let outcome = next.call(op);
        TOOK.set(TOOK.get() + begin.elapsed().as_nanos() as u64);
        outcome
    }
}
