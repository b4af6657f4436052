//! **trace**: records every call, with all that is needed to repeat it.
//!
//! Threads record into a few shards, each with a block in memory. A block goes to the file when it
//! is full, a second after it was begun if there is another call then, and when all is settled.
//! What a killed process leaves is a trace up to its last block.
//!
//! A process that carries out calls of others ([`for_caller`](striate_stack::for_caller)) records a
//! trace for each of them.

mod callers;
mod recorded_call;
mod shards;
mod spin_lock;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use serde::Deserialize;
use striate_calls::layer::LayerCall;
use striate_calls::{Function, Kinds};
use striate_process::{clock, origin};
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, Completed, Next, Op, OpenFile, Outcome, Stage, caller,
};
use striate_trace::{Call, Timed, TracedFile};
use toml::Table;

use self::callers::Callers;
use self::shards::Shards;
use crate::options;

/// The kind of stage.
pub(super) const CLASSIFICATION: Classification = Classification {
    scope: Scope::Both,
    interference: Interference::OneOperation,
    state: State::Stateless,
    meaning: Meaning::Kept,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceOptions {
    directory: Option<PathBuf>,
    #[serde(default)]
    label: String,
}

/// The stage.
#[derive(Debug)]
pub(super) struct Recorder {
    shards: Shards,
    /// The processes that are served, if any.
    callers: Callers,
    /// Where their traces go, and what they are called.
    place: (PathBuf, String),
    /// The number of the next file that is opened.
    next_file: AtomicU64,
    /// The process that is acted out, if it is not this one.
    acted: Option<u32>,
}

/// What the stage leaves with a file.
#[derive(Debug)]
struct TracedState {
    file: TracedFile,
    /// The position, or -1 where it is not known.
    position: AtomicI64,
}

impl Recorder {
    /// Makes one from its table in a configuration.
    pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
        let options: TraceOptions = options::read(table)?;
        let directory = options.directory.or_else(origin::run_directory).unwrap_or(".".into());
        let directory = std::path::absolute(&directory)
            .map_err(|error| format!("directory {}: {error}", directory.display()))?;
        let origin = origin::acted();
        let acted = origin.as_ref().map(|origin| origin.process);
        let place = (directory.clone(), options.label.clone());
        let shards = Shards::new(directory, options.label, origin::rank(), origin);
        let (callers, next_file) = (Callers::default(), AtomicU64::new(1));
        Ok(Box::new(Self { shards, callers, place, next_file, acted }))
    }

    /// The process that is served, and its thread.
    #[inline]
    fn served(&self) -> Option<(u32, u32)> {
        let thread = caller()?;
        Some((self.callers.process_of(thread)?, thread))
    }

    /// Records a call, in the trace of the process that made it.
    #[inline]
    fn record(
        &self,
        slot: usize,
        function: Function,
        timed: Timed,
        outcome: Option<Outcome>,
        call: &Call<&TracedFile, &Path>,
    ) {
        match self.served() {
            None => self.shards.record((slot, None), function, timed, outcome, call),
            Some((process, thread)) => {
                let make = |origin| {
                    let (directory, label) = self.place.clone();
                    Shards::new(directory, label, None, Some(origin))
                };
                let shards = self.callers.of(process, make);
                shards.record((slot, Some(thread)), function, timed, outcome, call);
            }
        }
    }

    /// What is known of a file, also of one that was open before the recording began.
    fn known<'f>(&self, file: &'f Arc<OpenFile>, slot: usize) -> Option<&'f TracedState> {
        file.state::<TracedState>(slot).or_else(|| {
            file.set_state(
                slot,
                TracedState {
                    file: TracedFile {
                        opener: self.opener(),
                        number: self.next_file.fetch_add(1, Ordering::Relaxed),
                        path: file.path().to_path_buf(),
                        flags: file.flags(),
                    },
                    position: AtomicI64::new(0),
                },
            );
            file.state(slot)
        })
    }
}

impl Recorder {
    /// The process that opens a file.
    fn opener(&self) -> u32 {
        let served = self.served().map(|(process, _)| process);
        served.or(self.acted).unwrap_or_else(std::process::id)
    }
}

impl TracedState {
    /// Where a call at the position happens, unless others have moved it.
    #[inline]
    fn position(&self) -> Option<u64> {
        u64::try_from(self.position.load(Ordering::Relaxed)).ok()
    }

    #[inline]
    fn move_to(&self, position: Option<u64>) {
        let position = position.and_then(|position| i64::try_from(position).ok()).unwrap_or(-1);
        self.position.store(position, Ordering::Relaxed);
    }
}

impl Stage for Recorder {
    fn kinds(&self) -> Kinds {
        Kinds::ALL
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    #[inline]
    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let slot = next.slot();
        // What was asked for is taken down before others change it.
        match &op.action {
            Action::Read { file, memory, at, flags }
            | Action::Write { file, memory, at, flags } => {
                let (file, at) = (*file, *at);
                let Some(known) = self.known(file, slot) else { return next.call(op) };
                let (length, flags) = (memory.len() as u64, *flags);
                let parts = memory.parts().len() as u32;
                let reads = matches!(op.action, Action::Read { .. });
                let appends = !reads && file.appends();
                let offset = match at {
                    _ if appends => None,
                    Some(at) => Some(at),
                    None => known.position(),
                };
                let mut asked = recorded_call::Transfer {
                    reads,
                    placed: at.is_some(),
                    offset,
                    length,
                    flags,
                    parts,
                };
                let function = op.function;
                let start = clock::now();
                let outcome = next.call(op);
                let timed = Timed { start, end: clock::now() };
                if at.is_none() && file.is_shared() {
                    // Others may have moved the position; the kernel has it.
                    let end = recorded_call::kernel_position(file);
                    asked.offset = end.and_then(|end| end.checked_sub(outcome.unwrap_or(0)));
                    known.move_to(end);
                } else if at.is_none() {
                    known.move_to(
                        offset.and_then(|offset| offset.checked_add(outcome.unwrap_or(0))),
                    );
                }
                let call = asked.call(&known.file);
                self.record(slot, function, timed, Some(outcome), &call);
                outcome
            }
            _ => self.call_other(op, next),
        }
    }

    fn settle_all(&self, _next: Next<'_>) -> Outcome {
        self.shards.flush();
        self.callers.all().iter().for_each(|shards| shards.flush());
        Ok(0)
    }

    fn completed(&self, done: &Completed<'_, '_>, place: usize) {
        self.record_completed(done, place);
    }

    fn wants_layer_calls(&self) -> bool {
        true
    }

    fn layer_call(&self, call: &LayerCall<'_>, place: usize) {
        self.shards.record_layer(place, call);
    }

    fn is_inherited(&self) -> bool {
        true
    }

    fn start_anew(&self) {
        self.shards.start_anew();
    }

    fn finish(&self) {
        self.shards.finish();
        self.callers.all().iter().for_each(|shards| shards.finish());
    }
}
