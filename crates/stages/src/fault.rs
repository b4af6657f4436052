//! **fault**: makes operations fail, or move fewer bytes than requested, to test programs.
//!
//! Which ones fail depends on the number of earlier operations of these kinds, and on `seed`; so a
//! single-threaded run is reproducible.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use serde::Deserialize;
use striate_calls::{Kind, Kinds};
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{Action, Classification, Next, Op, Outcome, Stage};
use toml::Table;

use crate::options;

/// The kind of stage.
pub(super) const CLASSIFICATION: Classification = Classification {
    scope: Scope::Both,
    interference: Interference::OneOperation,
    state: State::Stateful,
    meaning: Meaning::Changed,
};

const TRANSFERS: Kinds = Kinds::of(&[Kind::Read, Kind::Write]);
/// These are only notices of calls that are about to be made.
const NOTICES: [Kind; 4] = [Kind::ReadDirectory, Kind::Duplicate, Kind::Map, Kind::Notice];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultOptions {
    kinds: Option<Vec<String>>,
    error: Option<String>,
    #[serde(default)]
    short: bool,
    nth: Option<u64>,
    every: Option<u64>,
    probability: Option<f64>,
    #[serde(default)]
    seed: u64,
    times: Option<u64>,
}

/// Which operations are hit, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FaultSchedule {
    Nth(u64),
    Every(u64),
    /// So many of 2⁶⁴.
    Chance {
        of_all: u64,
        seed: u64,
    },
}

impl FaultSchedule {
    fn hits(self, number: u64) -> bool {
        match self {
            Self::Nth(nth) => number == nth,
            Self::Every(every) => number.is_multiple_of(every),
            Self::Chance { of_all, seed } => mixed(seed ^ mixed(number)) < of_all,
        }
    }
}

/// A number that looks like a random one (the finaliser of `SplitMix64`).
const fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The stage.
#[derive(Debug)]
pub(super) struct Fault {
    kinds: Kinds,
    when: FaultSchedule,
    /// `None`: fewer bytes are moved.
    error: Option<Errno>,
    times: u64,
    seen: AtomicU64,
    hit: AtomicU64,
}

impl Fault {
    /// Makes one from its table in a configuration.
    pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
        Self::new(table).map(|stage| Box::new(stage) as Box<dyn Stage>)
    }

    fn new(table: Table) -> Result<Self, String> {
        let options: FaultOptions = options::read(table)?;
        let when = match (options.nth, options.every, options.probability) {
            (Some(nth), None, None) if nth > 0 => FaultSchedule::Nth(nth),
            (None, Some(every), None) if every > 0 => FaultSchedule::Every(every),
            (None, None, Some(p)) if (0.0..=1.0).contains(&p) => {
                // The conversion saturates, so that 1 is (nearly) all.
                FaultSchedule::Chance { of_all: (p * 2f64.powi(64)) as u64, seed: options.seed }
            }
            _ => {
                return Err("say one of nth (from 1), every (from 1), probability (0 to 1)".into());
            }
        };
        let kinds = options.kinds.as_deref().map_or(Ok(TRANSFERS), options::kinds)?;
        if let Some(notice) = NOTICES.into_iter().find(|kind| kinds.has(*kind)) {
            return Err(format!("kinds: {} cannot fail here", notice.name()));
        }
        if options.short {
            if options.error.is_some() {
                return Err("short and error: say one of them".into());
            }
            if let Some(other) = kinds.iter().find(|kind| !TRANSFERS.has(*kind)) {
                return Err(format!("short: {} moves no bytes of the program", other.name()));
            }
        }
        let error = match options.error {
            _ if options.short => None,
            Some(name) => Some(options::error(&name)?),
            None => Some(Errno::IO),
        };
        let times = options.times.unwrap_or(u64::MAX);
        Ok(Self { kinds, when, error, times, seen: AtomicU64::new(0), hit: AtomicU64::new(0) })
    }

    /// Whether the next operation is hit.
    fn strikes(&self) -> bool {
        let number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        self.when.hits(number) && self.hit.fetch_add(1, Ordering::Relaxed) < self.times
    }
}

/// Carries out the first half of a transfer.
fn half(op: &mut Op<'_>, next: Next<'_>) -> Outcome {
    let reads = op.action.kind() == Kind::Read;
    let (Action::Read { file, memory, at, flags } | Action::Write { file, memory, at, flags }) =
        &mut op.action
    else {
        return next.call(op);
    };
    let (file, at, flags) = (*file, *at, *flags);
    let length = memory.len().div_ceil(2);
    let memory = memory.range(0..length);
    let action = if reads {
        Action::Read { file, memory, at, flags }
    } else {
        Action::Write { file, memory, at, flags }
    };
    next.call(&mut Op { function: op.function, route: op.route, action })
}

impl Stage for Fault {
    fn kinds(&self) -> Kinds {
        self.kinds
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        if !self.strikes() {
            return next.call(op);
        }
        match (self.error, &op.action) {
            (None, _) => half(op, next),
            // The kernel closes a descriptor also when it returns an error.
            (Some(error), Action::Close { .. }) => {
                next.call(op)?;
                Err(error)
            }
            (Some(error), _) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Result<Fault, String> {
        Fault::new(toml::from_str(text).unwrap())
    }

    fn hits(text: &str, of: u64) -> Vec<u64> {
        let fault = fault(text).unwrap();
        (1..=of).filter(|_| fault.strikes()).collect()
    }

    #[test]
    fn operations_are_hit_as_said() {
        assert_eq!(hits("nth = 3", 9), [3]);
        assert_eq!(hits("every = 3", 9), [3, 6, 9]);
        assert_eq!(hits("every = 3\ntimes = 2", 9), [3, 6]);
        assert_eq!(hits("probability = 1.0", 5), [1, 2, 3, 4, 5]);
        assert_eq!(hits("probability = 0.0", 100), []);
        let some = hits("probability = 0.1\nseed = 7", 10_000);
        assert!((800..1200).contains(&some.len()), "{}", some.len());
        assert_eq!(some, hits("probability = 0.1\nseed = 7", 10_000));
        assert_ne!(some, hits("probability = 0.1\nseed = 8", 10_000));
    }

    #[test]
    fn options_are_checked() {
        for wrong in [
            "",
            "nth = 0",
            "every = 0",
            "nth = 1\nevery = 2",
            "probability = 1.5",
            "nth = 1\nerror = 'EWHAT'",
            "nth = 1\nshort = true\nerror = 'EIO'",
            "nth = 1\nshort = true\nkinds = ['open']",
            "nth = 1\nkinds = ['mmap']",
            "nth = 1\nkind = 'open'",
        ] {
            assert!(fault(wrong).is_err(), "{wrong}");
        }
        assert_eq!(fault("nth = 1\nerror = 'ENOSPC'").unwrap().error, Some(Errno::NOSPC));
    }
}
