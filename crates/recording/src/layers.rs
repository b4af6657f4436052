//! [`LayersInOrder`]: calls of layers above POSIX of all processes, by the time at which they
//! began.
//!
//! The calls of each process are a run of a [`WindowedMerge`]. Those of a thread follow each other,
//! so in a trace they are in the order of time except for concurrent calls of several threads: a
//! small window is enough.

use striate_trace::{BlockInfo, Damage, LayerRecord, LayerRecords};

use crate::filter::Filter;
use crate::recording::{Process, ProcessIndex, Recording};
use crate::windowed_merge::{Run, WindowedMerge};

/// Calls of a process that are looked at before the first of them is handed out.
const WINDOW: usize = 64;

/// The calls of layers that a filter lets pass, in the order in which they began.
#[derive(Debug)]
pub struct LayersInOrder<'r> {
    recording: &'r Recording,
    filter: Filter,
    merge: WindowedMerge<Vec<BlockInfo>, LayerRun<'r>>,
}

/// The calls of a process.
#[derive(Debug)]
struct LayerRun<'r> {
    process: &'r Process,
    calls: LayerRecords,
}

impl Run for LayerRun<'_> {
    type Item = LayerRecord;

    fn next(&mut self) -> Option<Result<(u64, LayerRecord), Damage>> {
        let call = self.calls.next()?;
        Some(call.map(|mut call| {
            call.start = self.process.time(call.start);
            (call.start, call)
        }))
    }
}

impl<'r> LayersInOrder<'r> {
    pub(crate) fn new(recording: &'r Recording, filter: &Filter) -> Self {
        let mut merge = WindowedMerge::new(WINDOW);
        for (index, process) in recording.processes().iter().enumerate() {
            if !filter.takes_process(process) || filter.without_layers {
                continue;
            }
            let wanted = |block: &&BlockInfo| {
                filter.takes_span(process.time(block.from), process.time(block.until))
            };
            let blocks: Vec<_> = process.layer_blocks().iter().filter(wanted).copied().collect();
            if let Some(first) = blocks.iter().map(|block| block.from).min() {
                merge.add(index, process.time(first), blocks);
            }
        }
        Self { recording, filter: filter.clone(), merge }
    }

    /// What could not be read after all, as far as this went.
    pub fn damages(&self) -> &[(ProcessIndex, Damage)] {
        self.merge.damages()
    }
}

impl Iterator for LayersInOrder<'_> {
    type Item = (ProcessIndex, LayerRecord);

    fn next(&mut self) -> Option<Self::Item> {
        let recording = self.recording;
        loop {
            let (process, call) = self.merge.next(|process, blocks| {
                let process = &recording.processes()[process];
                LayerRun { process, calls: process.trace().layer_records(blocks) }
            })?;
            if self.filter.takes_layer(&call) {
                return Some((process, call));
            }
        }
    }
}
