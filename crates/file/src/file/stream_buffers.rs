//! Methods that hand memory to the store as it is, for memory that makes or takes its stream itself: a
//! buffer at a time, which stays in a core's cache.
//!
//! Where a core has nothing else to do, a thread takes part in long accesses: it makes and writes every
//! other window, or reads the next while the last one is taken.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use striate_store::AlignedBuffer;
use striate_store::store::Store;

use crate::access::FileSide;
use crate::{FileError, Gather, Scatter};

/// Bytes of a stream that are made at once for a local file.
const LOCAL: u64 = 512 << 10;
/// The same with a thread, which has to be woken for each.
const BESIDE: u64 = 1 << 20;
/// The same for servers, where a request costs a way there and back.
const REMOTE: u64 = 4 << 20;
/// StreamBuffers from which on a thread pays.
const LONG: u64 = 8;
/// Buffers that go round between two threads.
const BUFFERS: usize = 3;

/// Reads or writes a part of the access between a buffer and the store; returns the bytes moved.
pub(super) trait Move: Fn(&FileSide, &mut [u8]) -> Result<u64, FileError> + Sync {}

impl<F: Fn(&FileSide, &mut [u8]) -> Result<u64, FileError> + Sync> Move for F {}

/// What the access of a stream needs.
pub(super) struct StreamBuffers<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) side: &'a FileSide,
    /// Whether there is a core for another thread.
    pub(super) beside: bool,
    pub(super) buffer: &'a mut Option<AlignedBuffer>,
}

impl StreamBuffers<'_> {
    fn size(&self) -> u64 {
        let most = if self.store.capabilities().typed { REMOTE } else { LOCAL };
        self.side.len().clamp(1, most)
    }

    /// The size of windows if a thread is to work on them.
    fn size_beside(&self) -> Option<u64> {
        let size = self.size().max(BESIDE);
        (self.beside && self.side.len() >= LONG * size).then_some(size)
    }

    /// The buffer that is kept from call to call.
    fn kept(&mut self) -> &mut AlignedBuffer {
        let size = self.size() as usize;
        match self.buffer {
            Some(kept) if (size..=REMOTE as usize).contains(&kept.len()) => {}
            _ => *self.buffer = Some(AlignedBuffer::new(size)),
        }
        self.buffer.get_or_insert_with(|| AlignedBuffer::new(size))
    }

    /// Writes what `source` makes.
    pub(super) fn write(
        mut self,
        source: &dyn Gather,
        carry_out: &impl Move,
    ) -> Result<(), FileError> {
        let (side, size) = (self.side, self.size());
        if let Some(size) = self.size_beside() {
            return write_beside(side, size, source, carry_out);
        }
        let buffer = self.kept();
        for range in ranges(side.len(), size) {
            let window = &mut buffer[..(range.end - range.start) as usize];
            source.gather(range.start, window)?;
            carry_out(&side.part(range)?, window)?;
        }
        Ok(())
    }

    /// Reads for `target`; returns how many bytes there were.
    pub(super) fn read(
        mut self,
        target: &mut dyn Scatter,
        carry_out: &impl Move,
    ) -> Result<u64, FileError> {
        let (side, size) = (self.side, self.size());
        if let Some(size) = self.size_beside() {
            return std::thread::scope(|scope| {
                read_beside(scope, side, size as usize, target, carry_out)
            });
        }
        let buffer = self.kept();
        let mut total = 0;
        for range in ranges(side.len(), size) {
            let window = &mut buffer[..(range.end - range.start) as usize];
            let got = carry_out(&side.part(range.clone())?, window)?;
            target.scatter(range.start, &window[..got as usize])?;
            total += got;
            if got < range.end - range.start {
                break;
            }
        }
        Ok(total)
    }
}

fn ranges(len: u64, size: u64) -> impl Iterator<Item = Range<u64>> {
    (0..len).step_by(size as usize).map(move |start| start..len.min(start + size))
}

/// A buffer, which part of the stream it holds, and how much of that.
type Full = (AlignedBuffer, Range<u64>, u64);

/// The buffers that go round between two threads.
fn round(size: usize) -> (SyncSender<AlignedBuffer>, Receiver<AlignedBuffer>) {
    let (free, freed) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // There is room for all, and the receiver is here.
        let _ = free.send(AlignedBuffer::new(size));
    }
    (free, freed)
}

/// Two threads take the next window in turn, and each makes and writes it: what a core made is in its own
/// cache when it is written, and while one is in the file system the other makes its next.
fn write_beside(
    side: &FileSide,
    size: u64,
    source: &dyn Gather,
    carry_out: &impl Move,
) -> Result<(), FileError> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut buffer = AlignedBuffer::new(size as usize);
        loop {
            let start = next.fetch_add(size, Ordering::Relaxed);
            if start >= side.len() {
                return Ok(());
            }
            let range = start..side.len().min(start + size);
            let window = &mut buffer[..(range.end - range.start) as usize];
            let done = source.gather(start, window).and_then(|()| {
                carry_out(&side.part(range)?, window)?;
                Ok(())
            });
            if done.is_err() {
                // The other thread need not go on.
                next.store(side.len(), Ordering::Relaxed);
                return done;
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let own = work();
        end_of(other).and(own)
    })
}

fn read_beside<'scope>(
    scope: &'scope Scope<'scope, '_>,
    side: &'scope FileSide,
    size: usize,
    target: &mut dyn Scatter,
    carry_out: &'scope impl Move,
) -> Result<u64, FileError> {
    let (free, freed) = round(size);
    let (full, filled) = sync_channel::<Full>(BUFFERS);
    let reader = scope.spawn(move || {
        for range in ranges(side.len(), size as u64) {
            // The other side failed if it gives nothing back, or takes nothing.
            let Ok(mut buffer) = freed.recv() else { break };
            let len = range.end - range.start;
            let got = carry_out(&side.part(range.clone())?, &mut buffer[..len as usize])?;
            if full.send((buffer, range, got)).is_err() || got < len {
                break;
            }
        }
        Ok(())
    });
    let mut total = 0;
    let mut taken = Ok(());
    for (buffer, range, got) in &filled {
        taken = target.scatter(range.start, &buffer[..got as usize]);
        if taken.is_err() {
            break;
        }
        total += got;
        let _ = free.send(buffer);
    }
    drop((filled, free));
    end_of(reader).and(taken)?;
    Ok(total)
}

fn end_of(thread: ScopedJoinHandle<'_, Result<(), FileError>>) -> Result<(), FileError> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
