//! A stage that notes what reaches it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, Function, Kind, Kinds, Next, Op, Outcome, Paths, Placed, Stage,
};

/// One operation that reached the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedOps {
    pub kind: Kind,
    pub function: Function,
    pub at: Option<u64>,
    pub length: u64,
    pub parts: usize,
}

/// What has reached it, and what it does to writes.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    seen: Arc<Mutex<Vec<CountedOps>>>,
    /// Writes fail with this error, if it is not 0.
    pub failing: Arc<AtomicI32>,
    /// Writes take no more bytes than this, if it is not 0.
    pub most: Arc<AtomicUsize>,
}

impl Counting {
    /// The stage.
    pub fn placed(&self) -> Placed {
        Placed { name: "counting", paths: Paths::all(), stage: Box::new(self.clone()) }
    }

    /// What was seen since this was asked last.
    pub fn seen(&self) -> Vec<CountedOps> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Offset and length of all reads and writes since this was asked last.
    pub fn transfers(&self) -> Vec<(Kind, u64, u64)> {
        let transfers = self.seen().into_iter();
        let transfers = transfers.filter(|seen| matches!(seen.kind, Kind::Read | Kind::Write));
        transfers.map(|seen| (seen.kind, seen.at.unwrap(), seen.length)).collect()
    }
}

impl Stage for Counting {
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
        let (at, length, parts) = match &op.action {
            Action::Read { memory, at, .. } | Action::Write { memory, at, .. } => {
                (*at, memory.len() as u64, memory.parts().len())
            }
            _ => (None, 0, 0),
        };
        let seen = CountedOps { kind: op.action.kind(), function: op.function, at, length, parts };
        self.seen.lock().unwrap().push(seen);
        if let Action::Write { file, memory, at, flags } = &mut op.action {
            let (failing, most) = (self.failing.load(Relaxed), self.most.load(Relaxed));
            if failing != 0 {
                return Err(Errno::from_raw_os_error(failing));
            }
            if most != 0 {
                let memory = memory.range(0..most);
                let action = Action::Write { file, memory, at: *at, flags: *flags };
                return next.call(&mut Op { function: op.function, route: op.route, action });
            }
        }
        next.call(op)
    }
}
