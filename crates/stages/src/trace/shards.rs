//! [`Shards`]: the blocks that threads are filling, and the file they are written to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use striate_calls::Function;
use striate_calls::layer::LayerCall;
use striate_process::clock::{self, Moment};
use striate_process::{Origin, StartupStderr};
use striate_stack::{Outcome, thread_slot};
use striate_trace::{Call, Encoder, Header, LayerEncoder, Output, Timed, TracedFile};

use super::spin_lock::SpinLock;

/// Blocks that are filled at a time. More threads share them.
const SHARDS: usize = 16;

/// How long it is waited for a thread that records, when all is written out.
const PATIENCE: Duration = Duration::from_secs(2);

/// A block that is being filled.
#[derive(Debug)]
struct Shard {
    encoder: Encoder,
    /// When it is to be written even though it is not full, in ticks.
    due: u64,
}

/// The block of calls of layers. There are few of them next to those that they cause, so all
/// threads share it.
#[derive(Debug, Default)]
struct LayerShard {
    /// Made when it is first needed.
    encoder: Option<LayerEncoder>,
    due: u64,
}

/// The blocks of this process.
#[derive(Debug)]
pub(super) struct Shards {
    directory: PathBuf,
    label: String,
    rank: Option<u32>,
    /// The process that is acted out, if it is not this one.
    acted: Option<Origin>,
    place: AtomicUsize,
    /// Made when they are first needed; a block takes 100 KiB.
    blocks: [AtomicPtr<SpinLock<Shard>>; SHARDS],
    layers: SpinLock<LayerShard>,
    output: SpinLock<Option<Output>>,
    /// Whether it was said that something cannot be written.
    complained: AtomicBool,
    stderr: StartupStderr,
}

impl Shards {
    pub(super) fn new(
        directory: PathBuf,
        label: String,
        rank: Option<u32>,
        acted: Option<Origin>,
    ) -> Self {
        Self {
            directory,
            label,
            rank,
            acted,
            place: AtomicUsize::new(0),
            blocks: [const { AtomicPtr::new(std::ptr::null_mut()) }; SHARDS],
            layers: SpinLock::new(LayerShard { encoder: None, due: 0 }),
            output: SpinLock::new(None),
            complained: AtomicBool::new(false),
            stderr: StartupStderr::capture(),
        }
    }

    /// Adds a record of a stage at a place in its stack, of this thread or another.
    #[inline]
    pub(super) fn record(
        &self,
        (place, of): (usize, Option<u32>),
        function: Function,
        timed: Timed,
        outcome: Option<Outcome>,
        call: &Call<&TracedFile, &Path>,
    ) {
        let (slot, thread) = thread_slot::slot_and_thread();
        let number = if slot == thread_slot::SHARED_SLOT { thread as usize } else { slot } % SHARDS;
        let mut shard = self.shard(number, place).lock();
        let outcome = outcome.map(|outcome| outcome.map_err(rustix::io::Errno::raw_os_error));
        shard.encoder.push(of.unwrap_or(thread), function, timed, outcome, call);
        if shard.encoder.count() == 1 {
            shard.due = timed.end.saturating_add(clock::ticks_per_second());
        }
        if shard.encoder.is_full() || timed.end >= shard.due {
            self.write(number, &mut shard);
        }
    }

    /// Adds a call of a layer, for a stage at a place in its stack.
    pub(super) fn record_layer(&self, place: usize, call: &LayerCall<'_>) {
        let (_, thread) = thread_slot::slot_and_thread();
        let mut layers = self.layers.lock();
        if layers.encoder.is_none() {
            self.place.store(place, Ordering::Relaxed);
            self.prepare(&mut self.output.lock());
        }
        let LayerShard { encoder, due } = &mut *layers;
        let encoder = encoder.get_or_insert_with(LayerEncoder::new);
        encoder.push(thread, call);
        if encoder.count() == 1 {
            *due = call.end.saturating_add(clock::ticks_per_second());
        }
        if encoder.is_full() || call.end >= *due {
            self.write_layers(&mut self.output.lock(), encoder);
        }
    }

    #[inline]
    fn shard(&self, number: usize, place: usize) -> &SpinLock<Shard> {
        let shard = self.blocks[number].load(Ordering::Acquire);
        // SAFETY: they are freed with this only.
        unsafe { shard.as_ref() }.unwrap_or_else(|| self.make(number, place))
    }

    #[cold]
    fn make(&self, number: usize, place: usize) -> &SpinLock<Shard> {
        // The file is made before records are, so that it knows a moment before them.
        self.place.store(place, Ordering::Relaxed);
        self.prepare(&mut self.output.lock());
        let shard =
            Box::into_raw(Box::new(SpinLock::new(Shard { encoder: Encoder::new(), due: 0 })));
        let null = std::ptr::null_mut();
        let taken =
            self.blocks[number].compare_exchange(null, shard, Ordering::AcqRel, Ordering::Acquire);
        let shard = taken.map_or_else(
            |other| {
                // SAFETY: it was made above, and has no other user.
                drop(unsafe { Box::from_raw(shard) });
                other
            },
            |_| shard,
        );
        // SAFETY: as in `shard`.
        unsafe { &*shard }
    }

    /// Makes the file if there is none.
    fn prepare(&self, output: &mut Option<Output>) {
        if output.is_some() {
            return;
        }
        let (began, start) = (clock::wall(), Moment::now());
        let header = Header {
            origin: self.acted.clone().unwrap_or_else(|| Origin::this(self.rank)),
            directory: std::env::current_dir().unwrap_or_default(),
            began,
            clock: start.nanoseconds,
            label: self.label.clone(),
            place: self.place.load(Ordering::Relaxed) as u32,
        };
        let place = match header.place {
            0 => String::new(),
            place => format!("-{place}"),
        };
        let name = format!("{}-{began:x}{place}.trace", header.origin.process);
        match Output::create(self.directory.join(name), &header, start) {
            Ok(made) => *output = Some(made),
            Err(error) => self.complain(&error),
        }
    }

    /// Says once that something cannot be written.
    fn complain(&self, error: &std::io::Error) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            let directory = self.directory.display();
            self.stderr.say(&format!("striate: trace in {directory}: {error}\n"));
        }
    }

    #[cold]
    fn write(&self, number: usize, shard: &mut Shard) {
        self.write_to(&mut self.output.lock(), number, shard);
    }

    fn write_to(&self, output: &mut Option<Output>, number: usize, shard: &mut Shard) {
        self.prepare(output);
        match output {
            Some(output) => {
                let written = output.write(number as u16, &mut shard.encoder, Moment::now());
                written.unwrap_or_else(|error| self.complain(&error));
            }
            None => shard.encoder.clear(),
        }
    }

    fn write_layers(&self, output: &mut Option<Output>, encoder: &mut LayerEncoder) {
        self.prepare(output);
        match output {
            Some(output) => {
                let written = output.write_layers(encoder, Moment::now());
                written.unwrap_or_else(|error| self.complain(&error));
            }
            None => encoder.clear(),
        }
    }

    /// Writes what all threads have recorded. It may be called when a thread was interrupted in the
    /// middle of recording: what cannot be had then is left.
    pub(super) fn flush(&self) {
        let patience = Instant::now() + PATIENCE;
        for (number, shard) in self.blocks.iter().enumerate() {
            // SAFETY: as in `shard`.
            let shard = unsafe { shard.load(Ordering::Acquire).as_ref() };
            let Some(shard) = shard else { continue };
            let Some(mut shard) = shard.lock_until(patience) else { continue };
            if shard.encoder.count() > 0
                && let Some(mut output) = self.output.lock_until(patience)
            {
                self.write_to(&mut output, number, &mut shard);
            }
        }
        if let Some(mut layers) = self.layers.lock_until(patience)
            && let Some(encoder) = &mut layers.encoder
            && encoder.count() > 0
            && let Some(mut output) = self.output.lock_until(patience)
        {
            self.write_layers(&mut output, encoder);
        }
    }

    /// Writes all, and an end.
    pub(super) fn finish(&self) {
        self.flush();
        let output = self.output.lock_until(Instant::now() + PATIENCE);
        if let Some(mut output) = output
            && let Some(output) = &mut *output
        {
            output.finish().unwrap_or_else(|error| self.complain(&error));
        }
    }

    /// This process is a copy of another, and has a file of its own.
    pub(super) fn start_anew(&self) {
        *self.output.lock() = None;
        if let Some(encoder) = &mut self.layers.lock().encoder {
            encoder.clear();
        }
        self.complained.store(false, Ordering::Relaxed);
        for shard in &self.blocks {
            // SAFETY: as in `shard`.
            if let Some(shard) = unsafe { shard.load(Ordering::Acquire).as_ref() } {
                shard.lock().encoder.clear();
            }
        }
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        for shard in &mut self.blocks {
            let shard = *shard.get_mut();
            if !shard.is_null() {
                // SAFETY: it was made by a box, and has no user any more.
                drop(unsafe { Box::from_raw(shard) });
            }
        }
    }
}
