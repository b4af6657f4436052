//! [`StreamBuffers`]: access for memory that makes or takes its stream itself, one buffer at a
//! time.
//!
//! A buffer stays in a core's cache while it is converted and written. Where there are more cores
//! than ranks, a second thread takes part in long accesses: it makes and writes every other buffer,
//! or reads the next one while the last one is converted.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use striate_store::AlignedBuffer;
use striate_store::store::Store;

use crate::access::FileSide;
use crate::{FileError, Gather, Scatter};

/// Bytes of a buffer for a local file.
const LOCAL: u64 = 512 << 10;
/// The same with a second thread, which has to be woken for each.
const WITH_THREAD: u64 = 1 << 20;
/// The same for servers, where a request costs a round trip.
const REMOTE: u64 = 4 << 20;
/// Buffers of an access from which on a second thread pays.
const LONG: u64 = 8;
/// Buffers that two threads exchange.
const BUFFERS: usize = 3;

/// Reads or writes a part of the access between a buffer and the store; returns the bytes moved.
pub(super) trait Move: Fn(&FileSide, &mut [u8]) -> Result<u64, FileError> + Sync {}

impl<F: Fn(&FileSide, &mut [u8]) -> Result<u64, FileError> + Sync> Move for F {}

/// See the module.
pub(super) struct StreamBuffers<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) side: &'a FileSide,
    /// Whether there is a core for a second thread.
    pub(super) spare_core: bool,
    pub(super) buffer: &'a mut Option<AlignedBuffer>,
}

impl StreamBuffers<'_> {
    fn size(&self) -> u64 {
        let most = if self.store.capabilities().typed { REMOTE } else { LOCAL };
        self.side.len().clamp(1, most)
    }

    /// The size of buffers if a second thread works on them.
    fn size_with_thread(&self) -> Option<u64> {
        let size = self.size().max(WITH_THREAD);
        (self.spare_core && self.side.len() >= LONG * size).then_some(size)
    }

    /// The buffer that is reused from call to call.
    fn reused_buffer(&mut self) -> &mut AlignedBuffer {
        let size = self.size() as usize;
        match self.buffer {
            Some(buffer) if (size..=REMOTE as usize).contains(&buffer.len()) => {}
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
        if let Some(size) = self.size_with_thread() {
            return write_with_thread(side, size, source, carry_out);
        }
        let buffer = self.reused_buffer();
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
        if let Some(size) = self.size_with_thread() {
            return std::thread::scope(|scope| {
                read_with_thread(scope, side, size as usize, target, carry_out)
            });
        }
        let buffer = self.reused_buffer();
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

/// A buffer, the part of the stream it holds, and how many bytes of that the file had.
type Full = (AlignedBuffer, Range<u64>, u64);

/// The buffers that two threads exchange.
fn round(size: usize) -> (SyncSender<AlignedBuffer>, Receiver<AlignedBuffer>) {
    let (free, freed) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // The channel has space for all, and the receiver exists.
        let _ = free.send(AlignedBuffer::new(size));
    }
    (free, freed)
}

/// Two threads take the next part in turn, and each makes and writes it: a part is in the cache of
/// the core that writes it, and while one thread is in the file system the other makes its next
/// part.
fn write_with_thread(
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

fn read_with_thread<'scope>(
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
            // The other thread failed if it returns no buffer, or takes none.
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
