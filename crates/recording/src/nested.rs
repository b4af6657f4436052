//! [`Nested`]: all calls of a recording, with those of layers before the ones that they caused.
//!
//! A call belongs to a call of a layer (MPI-IO) if its thread made it during that one; or another
//! thread of the process did, and on the same file: layers have helper threads. Both were timed by
//! one clock, but each block has its own estimate of the tick length, so a call is assigned by a
//! moment within it, not by its start.

use std::sync::Arc;

use striate_trace::{Damage, LayerRecord, Record};

use crate::filter::{Filter, paths_of};
use crate::layers::LayersInOrder;
use crate::order::InOrder;
use crate::recording::{ProcessIndex, Recording};

/// As far into a call its moment is at most: what begins later elsewhere has nothing to do with it.
const DEPTH: u64 = 20_000;
/// So long after its end a call of a layer is still known, because records may come a little late.
const LATE: u64 = 1_000_000;

/// A call.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A call of a layer.
    Layer(Arc<LayerRecord>),
    /// A call on files, and the call of a layer that it belongs to.
    Call(Record, Option<Arc<LayerRecord>>),
}

impl Entry {
    /// When it began.
    pub fn start(&self) -> u64 {
        match self {
            Self::Layer(layer) => layer.start,
            Self::Call(record, _) => record.start,
        }
    }
}

/// All calls in the order in which they began, with times of the recording.
#[derive(Debug)]
pub struct Nested<'r> {
    calls: InOrder<'r>,
    layers: LayersInOrder<'r>,
    next_call: Option<(ProcessIndex, Record)>,
    next_layer: Option<(ProcessIndex, LayerRecord)>,
    /// Calls of layers that are under way, by process.
    active: Vec<Vec<Arc<LayerRecord>>>,
}

impl<'r> Nested<'r> {
    pub(crate) fn new(recording: &'r Recording, filter: &Filter) -> Self {
        let mut calls = InOrder::new(recording, filter);
        let mut layers = LayersInOrder::new(recording, filter);
        let (next_call, next_layer) = (calls.next(), layers.next());
        let active = vec![Vec::new(); recording.processes().len()];
        Self { calls, layers, next_call, next_layer, active }
    }

    /// What could not be read after all, as far as this went.
    pub fn damages(&self) -> Vec<(ProcessIndex, Damage)> {
        [self.calls.damages(), self.layers.damages()].concat()
    }

    /// The call of a layer that a call belongs to.
    fn above(&mut self, process: ProcessIndex, record: &Record) -> Option<Arc<LayerRecord>> {
        let active = self.active.get_mut(process).filter(|active| !active.is_empty())?;
        active.retain(|layer| layer.end().saturating_add(LATE) >= record.start);
        let moment = moment(record);
        let during = |layer: &&Arc<LayerRecord>| (layer.start..=layer.end()).contains(&moment);
        // Of those within each other the innermost began last.
        let own = active.iter().rev().filter(during).find(|layer| layer.thread == record.thread);
        let helped = || {
            let path = paths_of(record)[0]?;
            active.iter().rev().filter(during).find(|layer| &*layer.path == path)
        };
        own.or_else(helped).cloned()
    }
}

impl Iterator for Nested<'_> {
    type Item = (ProcessIndex, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        let until = self.next_call.as_ref().map_or(u64::MAX, |(_, record)| moment(record));
        if let Some((process, layer)) = self.next_layer.take_if(|(_, layer)| layer.start <= until) {
            self.next_layer = self.layers.next();
            let layer = Arc::new(layer);
            if let Some(active) = self.active.get_mut(process) {
                active.retain(|other| other.end().saturating_add(LATE) >= layer.start);
                active.push(Arc::clone(&layer));
            }
            return Some((process, Entry::Layer(layer)));
        }
        let (process, record) = self.next_call.take()?;
        self.next_call = self.calls.next();
        let above = self.above(process, &record);
        Some((process, Entry::Call(record, above)))
    }
}

/// A moment within a call.
fn moment(record: &Record) -> u64 {
    record.start.saturating_add((record.duration / 2).min(DEPTH))
}
