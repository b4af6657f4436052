//! [`LayersInOrder`]: calls of layers above POSIX of all processes, by the time at which they began.
//!
//! Those of a thread follow each other, so in a trace they are in the order of time but for what threads did at the same
//! time. A small window for each process puts that right.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use striate_trace::{BlockInfo, Damage, LayerRecord, LayerRecords};

use crate::filter::Filter;
use crate::recording::{Process, ProcessIndex, Recording};

/// Calls of a process that are looked at before the first of them is handed out.
const WINDOW: usize = 64;

/// The calls of layers that a filter lets pass, in the order in which they began.
#[derive(Debug)]
pub struct LayersInOrder<'r> {
    recording: &'r Recording,
    filter: Filter,
    /// Sources by the time of their next call.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    sources: Vec<(ProcessIndex, State)>,
    damages: Vec<(ProcessIndex, Damage)>,
}

/// How far a process is.
#[derive(Debug)]
enum State {
    /// Its time has not come.
    Waiting(Vec<BlockInfo>),
    Begun(Box<Source>),
}

/// A process whose calls are being read.
#[derive(Debug)]
struct Source {
    calls: Option<LayerRecords>,
    window: BinaryHeap<Reverse<Waiting>>,
    sequence: u64,
}

/// A call in a window.
#[derive(Debug)]
struct Waiting {
    sequence: u64,
    call: LayerRecord,
}

impl Waiting {
    const fn key(&self) -> (u64, u64) {
        (self.call.start, self.sequence)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
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

impl Source {
    fn fill(&mut self, process: &Process) -> Result<(), Damage> {
        while self.window.len() < WINDOW
            && let Some(calls) = &mut self.calls
        {
            match calls.next() {
                Some(Ok(mut call)) => {
                    call.start = process.time(call.start);
                    self.window.push(Reverse(Waiting { sequence: self.sequence, call }));
                    self.sequence += 1;
                }
                None => self.calls = None,
                Some(Err(damage)) => {
                    self.calls = None;
                    return Err(damage);
                }
            }
        }
        Ok(())
    }
}

impl<'r> LayersInOrder<'r> {
    pub(crate) fn new(recording: &'r Recording, filter: &Filter) -> Self {
        let mut order = Self {
            recording,
            filter: filter.clone(),
            next: BinaryHeap::new(),
            sources: Vec::new(),
            damages: Vec::new(),
        };
        for (index, process) in recording.processes().iter().enumerate() {
            if !filter.takes_process(process) || filter.without_layers {
                continue;
            }
            let wanted = |block: &&BlockInfo| {
                filter.takes_span(process.time(block.from), process.time(block.until))
            };
            let blocks: Vec<_> = process.layer_blocks().iter().filter(wanted).copied().collect();
            if let Some(first) = blocks.iter().map(|block| block.from).min() {
                order.next.push(Reverse((process.time(first), order.sources.len())));
                order.sources.push((index, State::Waiting(blocks)));
            }
        }
        order
    }

    /// What could not be read after all, as far as this went.
    pub fn damages(&self) -> &[(ProcessIndex, Damage)] {
        &self.damages
    }

    /// Fills the window of a source, and notes when its next call is.
    fn refill(&mut self, place: usize) {
        let (process, state) = &mut self.sources[place];
        let State::Begun(source) = state else { return };
        if let Err(damage) = source.fill(&self.recording.processes()[*process]) {
            self.damages.push((*process, damage));
        }
        if let Some(Reverse(first)) = source.window.peek() {
            self.next.push(Reverse((first.call.start, place)));
        }
    }
}

impl Iterator for LayersInOrder<'_> {
    type Item = (ProcessIndex, LayerRecord);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Reverse((_, place)) = self.next.pop()?;
            let (process, state) = &mut self.sources[place];
            let process = *process;
            let taken = match state {
                State::Waiting(blocks) => {
                    let blocks = std::mem::take(blocks);
                    let calls = self.recording.processes()[process].trace().layer_records(blocks);
                    let (calls, window) = (Some(calls), BinaryHeap::new());
                    *state = State::Begun(Box::new(Source { calls, window, sequence: 0 }));
                    None
                }
                State::Begun(source) => source.window.pop(),
            };
            self.refill(place);
            if let Some(Reverse(waiting)) = taken
                && self.filter.takes_layer(&waiting.call)
            {
                return Some((process, waiting.call));
            }
        }
    }
}
