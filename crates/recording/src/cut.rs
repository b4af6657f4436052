//! Cutting: the records that a filter selects, written as a new recording.
//!
//! Each process is read twice. The first pass follows which files are open, so that files whose
//! `open` is cut away are known with their path, flags, position, size and descriptors
//! ([`PreopenedFile`]). The second pass writes the records. Times stay those of the whole
//! recording.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use striate_trace::{
    BlockInfo, Call, Damage, InOrder, LayerRecord, Part, PreopenedFile, Record, Subject, TracedEnd,
    TracedFile,
};

use crate::error::RecordingError;
use crate::filter::Filter;
use crate::merge::{refuse_within, written};
use crate::progress::Progress;
use crate::recording::{Process, Recording};

/// Writes what a filter lets pass into a new file; how many records that are.
pub fn cut(recording: &Recording, filter: &Filter, into: &Path) -> Result<u64, RecordingError> {
    refuse_within(recording, into)?;
    let mut records = 0;
    written(into, |writer| {
        for process in recording.processes() {
            if !filter.takes_process(process) {
                continue;
            }
            let (preopened, kept) = preopened(process, filter, recording.progress());
            if recording.progress().is_stopped() {
                return Err(RecordingError::Interrupted);
            }
            let layers = || layers(process, filter);
            if kept == 0 && process.records() > 0 && layers().flatten().next().is_none() {
                continue;
            }
            let failed = |error| RecordingError::write(into, error);
            let (header, source) = (process.header(), process.source());
            let part = Part { header, source, zero: Some(process.zero()), preopened: &preopened };
            writer.begin(&part).map_err(failed)?;
            let mut damage = process.damage().cloned();
            let mut order = read(process, |block| {
                filter.takes_span(process.time(block.from), process.time(block.until))
            });
            while let Some(next) = order.next_of_shard() {
                if recording.progress().is_stopped() {
                    return Err(RecordingError::Interrupted);
                }
                recording.progress().add(1);
                let (shard, record) = match next {
                    Ok(next) => next,
                    Err(found) => {
                        damage.get_or_insert(found);
                        break;
                    }
                };
                if takes(filter, process, &record) {
                    writer.write(shard, &record).map_err(failed)?;
                    records += 1;
                }
            }
            for call in layers() {
                match call {
                    Ok(call) => {
                        writer.write_layer(&call).map_err(failed)?;
                        records += 1;
                    }
                    Err(found) => {
                        damage.get_or_insert(found);
                    }
                }
            }
            if let Some(damage) = damage {
                writer.set_damage(damage);
            }
        }
        Ok(())
    })?;
    Ok(records)
}

fn read(process: &Process, wanted: impl Fn(&BlockInfo) -> bool) -> InOrder {
    let blocks = process.blocks().iter().filter(|block| wanted(block));
    process.trace().in_order_of(blocks.copied().collect())
}

/// Whether a record with a time of its own clock passes.
fn takes(filter: &Filter, process: &Process, record: &Record) -> bool {
    filter.takes_time(process.time(record.start)) && filter.takes_at_any_time(record)
}

/// The calls of layers that pass, with times of their own clock.
fn layers(process: &Process, filter: &Filter) -> impl Iterator<Item = Result<LayerRecord, Damage>> {
    let passes = |call: &LayerRecord| {
        filter.takes_time(process.time(call.start)) && filter.takes_layer_at_any_time(call)
    };
    let calls = process.trace().layer_records(process.layer_blocks().iter().copied());
    calls.filter(move |call| call.as_ref().map_or(true, passes))
}

/// The files that what passes needs and does not open, and how many records pass.
fn preopened(process: &Process, filter: &Filter, progress: &Progress) -> (Vec<PreopenedFile>, u64) {
    let mut open = OpenFiles::default();
    let mut preopened: BTreeMap<Key, PreopenedFile> = BTreeMap::new();
    for known in process.preopened().unwrap_or_default() {
        if filter.from.is_none() && filter.takes_path(&known.file.path) {
            preopened.insert(key(&known.file), known.clone());
        }
        open.0.insert(key(&known.file), CutFile { preopened: known, opened_in_cut: false });
    }
    let (mut kept, mut begun) = (0, filter.from.is_none());
    let mut order = read(process, |block| filter.to.is_none_or(|to| process.time(block.from) < to));
    // Damage is found again when what passes is written.
    while let Some(Ok((_, record))) = order.next_of_shard() {
        if progress.is_stopped() {
            break;
        }
        if !begun && filter.from.is_some_and(|from| process.time(record.start) >= from) {
            begun = true;
            let states =
                open.0.iter().filter(|(_, state)| filter.takes_path(&state.preopened.file.path));
            preopened.extend(states.map(|(key, state)| (*key, state.preopened.clone())));
        }
        let passes = takes(filter, process, &record);
        kept += u64::from(passes);
        for file in files(&record) {
            let state = open.state(file, &record);
            if let Call::Open { .. } = record.call {
                state.opened_in_cut |= passes;
            } else if passes && !state.opened_in_cut {
                preopened.entry(key(file)).or_insert_with(|| state.preopened.clone());
            }
        }
        open.apply(&record);
    }
    (preopened.into_values().collect(), kept)
}

type Key = (u32, u64);

fn key(file: &TracedFile) -> Key {
    (file.opener, file.number)
}

/// The open files of a call.
fn files(record: &Record) -> impl Iterator<Item = &Arc<TracedFile>> {
    let second = match &record.call {
        Call::CopyRange { to, .. } | Call::SendFile { to, .. } => to.file.as_ref(),
        _ => None,
    };
    // The name of an `open` that failed has no file to it.
    let first = match (&record.call, record.outcome) {
        (Call::Open { .. }, Err(_)) => None,
        (call, _) => call.file(),
    };
    first.into_iter().chain(second)
}

/// The files that a process has open, according to its calls.
#[derive(Debug, Default)]
struct OpenFiles(HashMap<Key, CutFile>);

#[derive(Debug)]
struct CutFile {
    preopened: PreopenedFile,
    opened_in_cut: bool,
}

impl OpenFiles {
    /// What is known of a file before a call on it.
    fn state(&mut self, file: &Arc<TracedFile>, record: &Record) -> &mut CutFile {
        self.0.entry(key(file)).or_insert_with(|| {
            // It was open before anything was recorded.
            let (position, descriptors) = match &record.call {
                Call::Open { .. } => (Some(0), Vec::new()),
                Call::Read { placed: false, offset, .. }
                | Call::Write { placed: false, offset, .. } => (*offset, Vec::new()),
                Call::Close { descriptor, .. } => (None, vec![*descriptor]),
                _ => (None, Vec::new()),
            };
            let file = TracedFile::clone(file);
            let preopened = PreopenedFile { file, position, size: None, descriptors };
            CutFile { preopened, opened_in_cut: false }
        })
    }

    fn apply(&mut self, record: &Record) {
        let Ok(result) = record.outcome else { return };
        if let Call::Close { file, descriptor, last } = &record.call {
            match self.0.get_mut(&key(file)) {
                Some(state) if !last => {
                    state.preopened.descriptors.retain(|known| known != descriptor);
                }
                _ => drop(self.0.remove(&key(file))),
            }
            return;
        }
        if let Call::CopyRange { from, to, .. } | Call::SendFile { from, to, .. } = &record.call {
            self.moved(from, result, false);
            self.moved(to, result, true);
            return;
        }
        let Some(state) = record.call.file().and_then(|file| self.0.get_mut(&key(file))) else {
            return;
        };
        let preopened = &mut state.preopened;
        match &record.call {
            Call::Open { size, .. } => {
                (preopened.position, preopened.size) = (Some(0), *size);
                preopened.descriptors = i32::try_from(result).into_iter().collect();
            }
            Call::Duplicate { descriptor, .. } => preopened.descriptors.push(*descriptor),
            Call::Read { placed: false, offset, .. } => {
                preopened.position = offset.and_then(|offset| offset.checked_add(result));
            }
            Call::Write { placed, offset, .. } => {
                let end = match offset {
                    Some(offset) => offset.checked_add(result),
                    None => preopened.size.and_then(|size| size.checked_add(result)),
                };
                grow(preopened, end);
                if !placed {
                    preopened.position = end;
                }
            }
            Call::Seek { .. } => preopened.position = Some(result),
            Call::Truncate { length, .. } => preopened.size = Some(*length),
            Call::Allocate { mode: 0, offset, length, .. } => {
                grow(preopened, offset.checked_add(*length));
            }
            Call::Stat { of: Subject::File(_), size: Some(size), .. } => {
                preopened.size = Some(*size);
            }
            _ => {}
        }
    }

    /// Bytes were moved at an end of a copy.
    fn moved(&mut self, end: &TracedEnd<Arc<TracedFile>>, count: u64, writes: bool) {
        let Some(file) = &end.file else { return };
        let Some(state) = self.0.get_mut(&key(file)) else { return };
        let at = end.at.or(state.preopened.position).and_then(|at| at.checked_add(count));
        if writes {
            grow(&mut state.preopened, at);
        }
        if end.at.is_none() {
            state.preopened.position = at;
        }
    }
}

/// Bytes were written up to here.
fn grow(preopened: &mut PreopenedFile, end: Option<u64>) {
    if let (Some(size), Some(end)) = (&mut preopened.size, end) {
        *size = end.max(*size);
    }
}
