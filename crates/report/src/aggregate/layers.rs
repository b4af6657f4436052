//! [`Layers`]: MPI-IO calls, and the calls beneath them.

use std::collections::BTreeMap;

use striate_recording::Recording;
use striate_trace::layer::{LayerFunction, LayerSort};
use striate_trace::{LayerRecord, Record};

use super::calls::{class, sums};
use crate::durations::Durations;
use crate::mpi_io::{LayerFunctionRow, LayerProcessRow, LayerSums, MpiIo};

/// What has been gathered of them.
#[derive(Debug)]
pub(super) struct Layers {
    functions: BTreeMap<LayerFunction, (LayerSums, Durations)>,
    processes: Vec<LayerProcessRow>,
}

impl Layers {
    pub(super) fn new(recording: &Recording) -> Self {
        let row = |process: &striate_recording::Process| {
            let origin = &process.header().origin;
            let (process, rank) = (origin.process, origin.rank);
            LayerProcessRow { process, rank, ..LayerProcessRow::default() }
        };
        let processes = recording.processes().iter().map(row).collect();
        Self { functions: BTreeMap::new(), processes }
    }

    /// An MPI-IO call.
    pub(super) fn add(&mut self, process: usize, layer: &LayerRecord) {
        let moved = layer.outcome.unwrap_or(0);
        let sort = layer.function.sort();
        let sums = LayerSums {
            calls: 1,
            failed: u64::from(layer.outcome.is_err()),
            bytes_read: if sort == LayerSort::Read { moved } else { 0 },
            bytes_written: if sort == LayerSort::Write { moved } else { 0 },
            time_ns: layer.duration,
            ..LayerSums::default()
        };
        self.count(process, layer.function, &sums);
        let function = self.functions.entry(layer.function).or_default();
        function.1.add(layer.duration);
    }

    /// A call on files that was made for one.
    pub(super) fn beneath(&mut self, process: usize, above: &LayerRecord, record: &Record) {
        let beneath = sums(class(record.call.kind()), record);
        self.count(process, above.function, &LayerSums { beneath, ..LayerSums::default() });
    }

    fn count(&mut self, process: usize, function: LayerFunction, sums: &LayerSums) {
        self.functions.entry(function).or_default().0.add(sums);
        if let Some(row) = self.processes.get_mut(process) {
            let side =
                if function.is_collective() { &mut row.collective } else { &mut row.independent };
            side.add(sums);
        }
    }

    /// The part of the model, with as many processes at most.
    pub(super) fn finish(mut self, most: usize) -> MpiIo {
        let mut model = MpiIo::default();
        for (function, (sums, durations)) in self.functions {
            let collective = function.is_collective();
            let side = if collective { &mut model.collective } else { &mut model.independent };
            side.add(&sums);
            let name = function.name().to_owned();
            model.functions.push(LayerFunctionRow { name, collective, sums, durations });
        }
        model.functions.sort_by_key(|row| std::cmp::Reverse((row.sums.time_ns, row.sums.calls)));
        self.processes.retain(|row| row.all().calls > 0);
        self.processes.sort_by_key(|row| std::cmp::Reverse(row.all().time_ns));
        model.other_processes = self.processes.len().saturating_sub(most) as u64;
        self.processes.truncate(most);
        self.processes.sort_by_key(|row| (row.rank.unwrap_or(u32::MAX), row.process));
        model.processes = self.processes;
        model
    }
}
