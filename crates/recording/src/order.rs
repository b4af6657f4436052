//! [`InOrder`]: the records of all processes by the time at which calls began.
//!
//! Records of a shard are in the order in which calls ended, so a call that took long stands behind shorter ones
//! of other threads that began later. A window of records is kept for each shard that is being read, out of which
//! the one that began first comes first. Only a call during which more than a window of others ended in its
//! shard comes late. A shard is begun when its time has come and forgotten at its end, so what is in
//! memory is bounded by how many processes were active at a time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use striate_trace::{BlockInfo, Damage, Record, ShardRecords};

use crate::filter::Filter;
use crate::recording::{Process, ProcessIndex, Recording};

/// Records of a shard that are looked at before the first of them is handed out.
const WINDOW: usize = 512;

/// The records of a recording in the order in which calls began.
#[derive(Debug)]
pub struct InOrder<'r> {
    recording: &'r Recording,
    filter: Filter,
    /// Shards by the time of their next record, or by that of their first block if they are not begun.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// By process and number, with the process.
    shards: Vec<(ProcessIndex, State)>,
    damages: Vec<(ProcessIndex, Damage)>,
    /// Whether its records are counted as progress.
    counts: bool,
}

/// How far a shard is.
#[derive(Debug)]
enum State {
    /// Its time has not come.
    Waiting(Vec<BlockInfo>),
    Begun(Box<Shard>),
    Ended,
}

/// A shard that is being read.
#[derive(Debug)]
struct Shard {
    records: Option<ShardRecords>,
    window: BinaryHeap<Reverse<Waiting>>,
    sequence: u64,
    /// What the last record of each thread is ordered by.
    threads: HashMap<u32, u64>,
}

/// A record in a window.
#[derive(Debug)]
struct Waiting {
    key: u64,
    sequence: u64,
    record: Box<Record>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.key, self.sequence).cmp(&(other.key, other.sequence))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl Shard {
    fn new(records: ShardRecords) -> Self {
        let (window, threads) = (BinaryHeap::new(), HashMap::new());
        Self { records: Some(records), window, sequence: 0, threads }
    }

    /// Fills the window.
    fn fill(&mut self, process: &Process) -> Result<(), Damage> {
        while self.window.len() < WINDOW {
            let Some(records) = &mut self.records else { return Ok(()) };
            let mut record = match records.next() {
                Some(Ok(record)) => record,
                None => {
                    self.records = None;
                    return Ok(());
                }
                Some(Err(damage)) => {
                    self.records = None;
                    return Err(damage);
                }
            };
            record.start = process.time(record.start);
            let last = self.threads.entry(record.thread).or_insert(0);
            *last = record.start.max(*last);
            let (key, sequence) = (*last, self.sequence);
            self.window.push(Reverse(Waiting { key, sequence, record: Box::new(record) }));
            self.sequence += 1;
        }
        Ok(())
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
        let mut order = Self {
            recording,
            filter: filter.clone(),
            next: BinaryHeap::new(),
            shards: Vec::new(),
            damages: Vec::new(),
            counts: true,
        };
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
                order.next.push(Reverse((process.time(first), order.shards.len())));
                order.shards.push((index, State::Waiting(blocks)));
            }
        }
        order
    }

    /// The same for somebody who says by other means how far it is.
    #[must_use]
    pub const fn uncounted(mut self) -> Self {
        self.counts = false;
        self
    }

    /// What could not be read after all, as far as this went.
    pub fn damages(&self) -> &[(ProcessIndex, Damage)] {
        &self.damages
    }

    /// Fills the window of a shard, and notes when its next record is.
    fn refill(&mut self, place: usize) {
        let (process, state) = &mut self.shards[place];
        let State::Begun(shard) = state else { return };
        if let Err(damage) = shard.fill(&self.recording.processes()[*process]) {
            self.damages.push((*process, damage));
        }
        match shard.window.peek() {
            Some(Reverse(first)) => self.next.push(Reverse((first.key, place))),
            None => *state = State::Ended,
        }
    }

    fn step(&mut self) -> Option<(ProcessIndex, Record)> {
        if self.recording.progress().is_stopped() {
            return None;
        }
        if self.counts {
            self.recording.progress().add(1);
        }
        loop {
            let Reverse((_, place)) = self.next.pop()?;
            let (process, state) = &mut self.shards[place];
            let process = *process;
            let taken = match state {
                State::Waiting(blocks) => {
                    let blocks = std::mem::take(blocks);
                    let records = self.recording.processes()[process].trace().shard(blocks);
                    *state = State::Begun(Box::new(Shard::new(records)));
                    None
                }
                State::Begun(shard) => shard.window.pop(),
                State::Ended => None,
            };
            self.refill(place);
            if let Some(Reverse(waiting)) = taken {
                return Some((process, *waiting.record));
            }
        }
    }
}

impl Iterator for InOrder<'_> {
    type Item = (ProcessIndex, Record);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (process, record) = self.step()?;
            if self.filter.takes(&record) {
                return Some((process, record));
            }
        }
    }
}
