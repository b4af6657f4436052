//! [`Outcome`]: the result of a replay: counts, times and differences.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::compare::{Difference, DifferenceKind};

/// What was recorded and what was replayed of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionFigures {
    /// Calls that were repeated, or reported to stages.
    pub calls: u64,
    /// Bytes that were moved in the recording.
    pub bytes_recorded: u64,
    /// The same in the replay.
    pub bytes_replayed: u64,
    /// Nanoseconds in calls of the recording.
    pub time_recorded: u64,
    /// The same in the replay.
    pub time_replayed: u64,
}

impl FunctionFigures {
    pub(crate) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.bytes_recorded += other.bytes_recorded;
        self.bytes_replayed += other.bytes_replayed;
        self.time_recorded += other.time_recorded;
        self.time_replayed += other.time_replayed;
    }
}

/// The result of a replay. Times are in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Recorded processes.
    pub processes: usize,
    /// Recorded threads.
    pub threads: usize,
    /// Threads that made their calls.
    pub workers: usize,
    /// Records in the recording.
    pub records: u64,
    /// By function.
    pub functions: BTreeMap<&'static str, FunctionFigures>,
    /// Calls that stages were only notified of, since the recording has too little to make them, by
    /// function.
    pub noted: BTreeMap<&'static str, u64>,
    /// Calls that were not made at all: why, and how many.
    pub skipped: BTreeMap<String, u64>,
    /// Calls of layers above POSIX (MPI-IO), which are not made again: the calls that they caused
    /// are.
    pub layer_calls: u64,
    /// Files and directories that were made before the replay began.
    pub made_first: u64,
    /// Their bytes.
    pub made_bytes: u64,
    /// Corrections between calls, because programs that were not recorded have changed files.
    pub made_good: BTreeMap<&'static str, u64>,
    /// From the beginning of the first call to the end of the last, in the recording.
    pub time_recorded: u64,
    /// The same in the replay, to the end of the last process, when all that stages held back is
    /// there. With [`Timing::Think`](crate::Timing::Think) it is what the clocks of the
    /// threads show: what calls took and the recorded time between them, without what the
    /// replay itself needed.
    pub time_replayed: u64,
    /// Nanoseconds that processes waited for what stages held back, when they started others and
    /// when they ended. It is in no call.
    pub time_settling: u64,
    /// What passed while it was replayed, with all of that.
    pub time_passed: u64,
    /// Differences, by kind.
    pub differences: BTreeMap<DifferenceKind, u64>,
    /// The first of them.
    pub first_differences: Vec<Difference>,
    /// Waits that were given up because nothing moved any more.
    pub waits_given_up: u64,
    /// What is wrong with the recording.
    pub complaints: Vec<String>,
    /// What could not be done at the end of a process, such as writing out what stages held back.
    pub failures: Vec<String>,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// Where the files are, if they are still there.
    pub root: Option<PathBuf>,
}

impl Outcome {
    /// The figures of all functions together.
    pub fn total(&self) -> FunctionFigures {
        let mut total = FunctionFigures::default();
        self.functions.values().for_each(|figures| total.add(figures));
        total
    }

    /// How many differences there are.
    pub fn differences_count(&self) -> u64 {
        self.differences.values().sum()
    }
}
