//! [`InOrder`]: the records of all processes by the time at which calls began.
//!
//! Each shard of a trace is a run of a [`WindowedMerge`]. Records of one thread come in their
//! order, whatever the clock said: a record is ordered by its own start or by that of the one
//! before it in its thread, whichever is later.

use std::collections::{BTreeMap, HashMap};

use striate_trace::{BlockInfo, Damage, Record, ShardRecords};

use crate::filter::Filter;
use crate::recording::{Process, ProcessIndex, Recording};
use crate::windowed_merge::{Run, WindowedMerge};

/// Records of a shard that are looked at before the first of them is handed out.
const WINDOW: usize = 512;

/// The records of a recording in the order in which calls began.
#[derive(Debug)]
pub struct InOrder<'r> {
    recording: &'r Recording,
    filter: Filter,
    merge: WindowedMerge<Vec<BlockInfo>, ShardRun<'r>>,
    /// Whether its records are counted as progress.
    counts: bool,
}

/// The records of a shard.
#[derive(Debug)]
struct ShardRun<'r> {
    process: &'r Process,
    records: ShardRecords,
    /// What the last record of each thread is ordered by.
    threads: HashMap<u32, u64>,
}

impl Run for ShardRun<'_> {
    type Item = Box<Record>;

    fn next(&mut self) -> Option<Result<(u64, Self::Item), Damage>> {
        let mut record = match self.records.next()? {
            Ok(record) => record,
            Err(damage) => return Some(Err(damage)),
        };
        record.start = self.process.time(record.start);
        let last = self.threads.entry(record.thread).or_insert(0);
        *last = record.start.max(*last);
        Some(Ok((*last, Box::new(record))))
    }
}

impl<'r> InOrder<'r> {
    pub(crate) fn new(recording: &'r Recording, filter: &Filter) -> Self {
        Self::of_processes(recording, filter, |_| true)
    }

    pub(crate) fn of_processes(
        recording: &'r Recording,
        filter: &Filter,
        wanted: impl Fn(ProcessIndex) -> bool,
    ) -> Self {
        let mut merge = WindowedMerge::new(WINDOW);
        for (index, process) in recording.processes().iter().enumerate() {
            if !wanted(index) || !filter.takes_process(process) {
                continue;
            }
            let mut shards: BTreeMap<u16, Vec<BlockInfo>> = BTreeMap::new();
            for block in process.blocks() {
                if filter.takes_span(process.time(block.from), process.time(block.until)) {
                    shards.entry(block.shard).or_default().push(*block);
                }
            }
            for blocks in shards.into_values() {
                let first = blocks.iter().map(|block| block.from).min().unwrap_or(0);
                merge.add(index, process.time(first), blocks);
            }
        }
        Self { recording, filter: filter.clone(), merge, counts: true }
    }

    /// The same, not counted as progress: for a caller that counts by other means.
    #[must_use]
    pub const fn uncounted(mut self) -> Self {
        self.counts = false;
        self
    }

    /// What could not be read after all, as far as this went.
    pub fn damages(&self) -> &[(ProcessIndex, Damage)] {
        self.merge.damages()
    }
}

impl Iterator for InOrder<'_> {
    type Item = (ProcessIndex, Record);

    fn next(&mut self) -> Option<Self::Item> {
        let recording = self.recording;
        loop {
            if recording.progress().is_stopped() {
                return None;
            }
            if self.counts {
                recording.progress().add(1);
            }
            let (process, record) = self.merge.next(|process, blocks| {
                let process = &recording.processes()[process];
                let records = process.trace().shard(blocks);
                ShardRun { process, records, threads: HashMap::new() }
            })?;
            if self.filter.takes(&record) {
                return Some((process, *record));
            }
        }
    }
}
