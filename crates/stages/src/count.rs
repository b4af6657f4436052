//! **count**: calls, errors, bytes, lengths and times, by function and by ending of file names.
//!
//! Each thread adds to counters of its own, so that counting costs little more than reading the
//! clock twice. The stage also measures its own cost, at every 64th call of a function.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use serde::Deserialize;
use striate_calls::Kinds;
use striate_calls::layer::LayerCall;
use striate_process::lock::lock;
use striate_process::{Origin, StartupStderr, clock, origin};
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, Completed, Next, Op, Outcome, Stage, notice, thread_slot,
};
use striate_trace::count::layout::{BUCKETS, Shard, layer_place};
use striate_trace::count::{Counters, KnownEndings, Page, Report};
use toml::Table;

use crate::options;

/// The kind of stage.
pub(super) const CLASSIFICATION: Classification = Classification {
    scope: Scope::Both,
    interference: Interference::OneOperation,
    state: State::Stateless,
    meaning: Meaning::Kept,
};

/// Every so many calls of a function it is measured what counting costs.
const SAMPLE: u64 = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountOptions {
    #[serde(default)]
    label: String,
    directory: Option<PathBuf>,
}

/// The stage.
#[derive(Debug)]
pub(super) struct Count {
    label: String,
    directory: Option<PathBuf>,
    rank: Option<u32>,
    /// The process that is acted out, if it is not this one.
    acted: Option<Origin>,
    /// Made by the first call: a stack may be built only to be looked at.
    page: AtomicPtr<Page>,
    making: Mutex<()>,
    endings: KnownEndings,
    told: AtomicBool,
    stderr: StartupStderr,
}

impl Count {
    /// Makes one from its table in a configuration.
    pub(super) fn build(table: Table) -> Result<Box<dyn Stage>, String> {
        let options: CountOptions = options::read(table)?;
        Ok(Box::new(Self {
            label: options.label,
            directory: options.directory.or_else(origin::run_directory),
            rank: origin::rank(),
            acted: origin::acted(),
            page: AtomicPtr::default(),
            making: Mutex::default(),
            endings: KnownEndings::default(),
            told: AtomicBool::new(false),
            stderr: StartupStderr::capture(),
        }))
    }

    #[inline]
    fn page(&self, place: usize) -> Option<&Page> {
        let page = self.page.load(Ordering::Acquire);
        // SAFETY: it is freed only when no other thread uses it.
        unsafe { page.as_ref() }.or_else(|| self.make_page(place))
    }

    #[cold]
    fn make_page(&self, place: usize) -> Option<&Page> {
        let _making = lock(&self.making);
        // SAFETY: as above.
        if let Some(page) = unsafe { self.page.load(Ordering::Acquire).as_ref() } {
            return Some(page);
        }
        let directory = self.directory.as_deref();
        let origin = self.acted.clone().unwrap_or_else(|| Origin::this(self.rank));
        let page = Page::new(directory, &origin, &self.label, place, &self.endings);
        let page = Box::into_raw(Box::new(page.ok()?));
        self.page.store(page, Ordering::Release);
        // SAFETY: as above.
        unsafe { page.as_ref() }
    }

    fn existing_page(&self) -> Option<&Page> {
        // SAFETY: as above.
        unsafe { self.page.load(Ordering::Acquire).as_ref() }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let page = self.page.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !page.is_null() {
            // SAFETY: it was made by a box, and has no user any more.
            drop(unsafe { Box::from_raw(page) });
        }
    }
}

/// Adds to a counter, and returns what it is then. Those of a slot have one thread that writes
/// them.
#[inline]
fn add<const ALONE: bool>(counter: &AtomicU64, value: u64) -> u64 {
    if ALONE {
        let sum = counter.load(Ordering::Relaxed).wrapping_add(value);
        counter.store(sum, Ordering::Relaxed);
        sum
    } else {
        counter.fetch_add(value, Ordering::Relaxed).wrapping_add(value)
    }
}

fn bucket(length: u64) -> usize {
    ((u64::BITS - length.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// What is counted of a call.
struct Call<'a> {
    op: &'a Op<'a>,
    outcome: Outcome,
    start: u64,
    end: u64,
    slot: usize,
}

impl Call<'_> {
    #[inline]
    fn count_on(&self, page: &Page) {
        let slot = thread_slot::slot();
        let shard = page.shard(slot);
        if slot == thread_slot::SHARED_SLOT {
            self.count::<false>(shard);
        } else {
            self.count::<true>(shard);
        }
    }

    #[inline]
    fn count<const ALONE: bool>(&self, shard: &Shard) {
        let Some(cell) = shard.functions.get(self.op.function as usize) else { return };
        let ticks = self.end.saturating_sub(self.start);
        let calls = add::<ALONE>(&cell.calls, 1);
        add::<ALONE>(&cell.ticks, ticks);
        let (mut read, mut written) = (0, 0);
        match (&self.op.action, self.outcome) {
            (Action::Read { .. }, Ok(moved)) => {
                add::<ALONE>(&shard.reads[bucket(moved)], 1);
                add::<ALONE>(&cell.bytes, moved);
                add::<ALONE>(&shard.bytes_read, moved);
                read = moved;
            }
            (Action::Write { .. }, Ok(moved)) => {
                add::<ALONE>(&shard.writes[bucket(moved)], 1);
                add::<ALONE>(&cell.bytes, moved);
                add::<ALONE>(&shard.bytes_written, moved);
                written = moved;
            }
            (Action::CopyRange { from, to, .. } | Action::SendFile { from, to, .. }, Ok(bytes)) => {
                add::<ALONE>(&cell.bytes, bytes);
                for (end, moved) in [(from, &shard.bytes_read), (to, &shard.bytes_written)] {
                    if end.file.is_some() {
                        add::<ALONE>(moved, bytes);
                    }
                }
            }
            (_, Ok(_)) => {}
            (_, Err(_)) => {
                add::<ALONE>(&cell.errors, 1);
            }
        }
        // Counted from 1 on: 0 is none.
        let ending = self.op.action.file().map_or(0, |file| file.number(self.slot));
        if let Some(cell) = shard.endings.get((ending as usize).wrapping_sub(1)) {
            add::<ALONE>(&cell.calls, 1);
            add::<ALONE>(&cell.ticks, ticks);
            if read > 0 {
                add::<ALONE>(&cell.read, read);
            } else if written > 0 {
                add::<ALONE>(&cell.written, written);
            }
        }
        if calls.is_multiple_of(SAMPLE) {
            add::<ALONE>(&shard.own, clock::now().saturating_sub(self.end) * SAMPLE);
        }
    }
}

impl Stage for Count {
    fn kinds(&self) -> Kinds {
        Kinds::ALL
    }

    fn classification(&self) -> Classification {
        CLASSIFICATION
    }

    #[inline]
    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let slot = next.slot();
        let start = clock::now();
        let outcome = next.call(op);
        let end = clock::now();
        if op.action.is_notice() && notice::result_follows(op.function) {
            return outcome;
        }
        let Some(page) = self.page(slot) else { return outcome };
        if let Action::Open { file, .. } = &op.action {
            page.note_moment();
            if outcome.is_ok() {
                let ending = page.ending(file.path(), &self.endings);
                file.set_number(slot, u64::from(ending) + 1);
            }
        }
        Call { op, outcome, start, end, slot }.count_on(page);
        outcome
    }

    fn completed(&self, done: &Completed<'_, '_>, place: usize) {
        let Some(page) = self.page(place) else { return };
        let Completed { op, outcome, times: (start, end), .. } = *done;
        Call { op, outcome, start, end, slot: place }.count_on(page);
    }

    fn settle_all(&self, _next: Next<'_>) -> Outcome {
        if let Some(page) = self.existing_page() {
            page.note_moment();
        }
        Ok(0)
    }

    fn wants_layer_calls(&self) -> bool {
        true
    }

    fn layer_call(&self, call: &LayerCall<'_>, place: usize) {
        let Some(page) = self.page(place) else { return };
        page.note_moment();
        // The shared place: these calls are few next to those that they cause.
        let cell = &page.shard(thread_slot::SHARED_SLOT).layers[layer_place(call.function)];
        add::<false>(&cell.calls, 1);
        add::<false>(&cell.ticks, call.end.saturating_sub(call.start));
        match call.outcome {
            Err(_) => add::<false>(&cell.errors, 1),
            Ok(moved) => add::<false>(&cell.bytes, moved),
        };
    }

    fn start_anew(&self) {
        self.told.store(false, Ordering::Relaxed);
        let page = self.page.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !page.is_null() {
            // SAFETY: it was made by a box, and no other thread can use it.
            drop(unsafe { Box::from_raw(page) });
        }
    }

    fn finish(&self) {
        let Some(page) = self.existing_page() else { return };
        page.note_end();
        if !page.is_file()
            && !self.told.swap(true, Ordering::Relaxed)
            && let Ok(counters) = Counters::decode(&page.bytes())
        {
            self.stderr.say(&Report(&counters).to_string());
        }
    }
}
