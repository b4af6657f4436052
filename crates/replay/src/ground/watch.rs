//! [`Watch`]: a stage that does nothing, before all others: so every file has one that wants it.

use striate_stack::classification::{Classification, Interference, Meaning, Scope, State};
use striate_stack::{Kinds, Next, Op, Outcome, Paths, Placed, Stage};

/// See the module.
#[derive(Debug)]
pub(super) struct Watch;

impl Watch {
    /// The stage, for all files.
    pub(super) fn placed() -> Placed {
        Placed { name: "watch", paths: Paths::all(), stage: Box::new(Self) }
    }
}

impl Stage for Watch {
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
        next.call(op)
    }
}
