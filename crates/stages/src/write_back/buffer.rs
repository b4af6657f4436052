//! [`Buffer`]: the dirty bytes of one file; [`BufferPool`]: the memory that all buffers share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::io::Errno;
use striate_calls::Function;
use striate_process::lock::{Lock, Locked};
use striate_stack::{Action, Loss, Memory, Next, Op, OpenFile, Outcome};

use super::deferred_block::DeferredBlock;
use super::extents::{Appended, Extents};
use crate::inodes::{Identity, Inodes};

/// What all buffers have in common.
#[derive(Debug)]
pub(super) struct BufferPool {
    /// Bytes that are written out together.
    pub(super) block: u64,
    /// Memory that all buffers may take together.
    pub(super) memory: usize,
    pub(super) buffers: Inodes<Buffer>,
    used: AtomicUsize,
    /// How many buffers hold something.
    dirty: AtomicUsize,
    /// Counts what happens to buffers, to know which was written longest ago.
    events: AtomicU64,
}

impl BufferPool {
    pub(super) fn new(block: u64, memory: usize) -> Self {
        Self {
            block,
            memory,
            buffers: Inodes::default(),
            used: AtomicUsize::new(0),
            dirty: AtomicUsize::new(0),
            events: AtomicU64::new(0),
        }
    }

    /// Whether anything is buffered.
    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire) > 0
    }

    /// Whether buffers take more memory than they may.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.memory
    }

    /// Writes out the buffers that were written longest ago, until the others have room. The caller
    /// has none of them locked. Errors stay with the buffers.
    #[cold]
    pub(super) fn evict(&self, next: Next<'_>) {
        let mut buffers = self.buffers.all();
        buffers.sort_by_key(|buffer| buffer.written.load(Ordering::Relaxed));
        for buffer in buffers {
            if !self.is_full() {
                return;
            }
            let mut buffered = buffer.lock(self, next);
            let _ = buffered.settle(self, next);
            buffered.extents.shrink();
            buffered.account(self);
        }
    }
}

/// A file of which something may be buffered.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) identity: Identity,
    /// When it was written, as a count of events.
    written: AtomicU64,
    buffered: Lock<BufferContents>,
    /// Locked after the other, if both are.
    pub(super) deferred: Lock<DeferredBlock>,
}

impl Buffer {
    /// Nothing is buffered. `open_to_others`: nor ever will be.
    pub(super) fn new(identity: Identity, shared: &BufferPool, open_to_others: bool) -> Self {
        let buffered = BufferContents {
            extents: Extents::new(shared.block),
            appended: false,
            writer: None,
            was_dirty: false,
            failed: None,
            open_to_others,
            cost: 0,
            deferred: 0,
        };
        let (buffered, deferred) = (Lock::new(buffered), Lock::new(DeferredBlock::default()));
        Self { identity, written: AtomicU64::new(0), buffered, deferred }
    }

    /// What is buffered, with nothing deferred.
    #[inline]
    pub(super) fn lock(&self, shared: &BufferPool, next: Next<'_>) -> Locked<'_, BufferContents> {
        let mut buffered = self.buffered.lock();
        if buffered.deferred > 0 {
            self.fetch_deferred(&mut buffered, shared, next);
        }
        buffered
    }

    /// What is buffered, beside what is deferred.
    #[inline]
    pub(super) fn lock_buffer_only(&self) -> Locked<'_, BufferContents> {
        self.buffered.lock()
    }

    /// Notes that it was written now.
    pub(super) fn touch(&self, shared: &BufferPool) {
        let now = shared.events.fetch_add(1, Ordering::Relaxed);
        self.written.store(now + 1, Ordering::Relaxed);
    }
}

/// What is buffered of a file.
#[derive(Debug)]
pub(super) struct BufferContents {
    pub(super) extents: Extents,
    /// Whether it was written to the end of the file, by an open file that appends: then it is one
    /// extent, whose place is where the file ended when it was begun.
    pub(super) appended: bool,
    /// By which open file it is written out: the one that wrote first. `None` if nothing is
    /// buffered.
    writer: Option<Arc<OpenFile>>,
    /// Whether anything was buffered since the file was opened first.
    pub(super) was_dirty: bool,
    /// Why it could not be written out when that was tried last.
    pub(super) failed: Option<Errno>,
    /// Nothing may be buffered any more: others see the file.
    pub(super) open_to_others: bool,
    /// The memory that is accounted for.
    cost: usize,
    /// Memory of what is deferred; 0 if nothing is.
    pub(super) deferred: usize,
}

impl BufferContents {
    /// Whether there is anything.
    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.writer.is_some()
    }

    /// Starts to hold what an open file writes; `appended`: from where the file ends.
    pub(super) fn begin(&mut self, file: &Arc<OpenFile>, appended: bool, shared: &BufferPool) {
        self.writer = Some(Arc::clone(file));
        self.appended = appended;
        self.was_dirty = true;
        shared.dirty.fetch_add(1, Ordering::AcqRel);
    }

    /// The open file that it is written out by.
    pub(super) fn writer(&self) -> Option<Arc<OpenFile>> {
        self.writer.clone()
    }

    fn end(&mut self, shared: &BufferPool) {
        self.failed = None;
        self.appended = false;
        if self.writer.take().is_some() {
            shared.dirty.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// An open file is closed for good. What it could not write out is lost, and returned.
    pub(super) fn close(&mut self, file: &OpenFile, shared: &BufferPool) -> Option<Loss> {
        let is_writer = |writer: &Arc<OpenFile>| std::ptr::eq(writer.as_ref(), file);
        if !self.writer.as_ref().is_some_and(is_writer) {
            return None;
        }
        let loss = self.loss();
        self.discard(shared);
        loss
    }

    /// What would be lost if the process ended now.
    pub(super) fn loss(&self) -> Option<Loss> {
        let writer = self.writer.as_ref()?;
        let removed = writer
            .descriptor()
            .ok()
            .and_then(|descriptor| rustix::fs::fstat(descriptor).ok())
            .is_some_and(|stat| stat.st_nlink == 0);
        // What has no name goes with the process.
        (!removed).then(|| Loss {
            path: writer.path().to_path_buf(),
            bytes: self.extents.covered(0..u64::MAX),
            error: self.failed.unwrap_or(Errno::IO),
            saved_in: None,
        })
    }

    /// Forgets all.
    pub(super) fn discard(&mut self, shared: &BufferPool) {
        self.extents.clear();
        self.account(shared);
    }

    /// Tells how much memory it takes now, and whether it holds anything.
    pub(super) fn account(&mut self, shared: &BufferPool) {
        if self.extents.is_empty() && self.deferred == 0 {
            self.end(shared);
        }
        let cost = self.extents.cost() + self.deferred;
        if cost >= self.cost {
            shared.used.fetch_add(cost - self.cost, Ordering::Relaxed);
        } else {
            shared.used.fetch_sub(self.cost - cost, Ordering::Relaxed);
        }
        self.cost = cost;
    }

    /// Takes bytes. Full blocks are written out; if that fails, they stay, and the error too.
    pub(super) fn take(
        &mut self,
        at: u64,
        memory: &mut Memory<'_>,
        shared: &BufferPool,
        next: Next<'_>,
    ) {
        let count = memory.len();
        let end = at + count as u64;
        // What continues the tail fills its block; the rest goes to the next one, in the same
        // memory.
        let room = self.extents.room(at).min(count as u64) as usize;
        if 0 < room && room < count {
            let filled = at + room as u64;
            self.take_piece(at, &memory.range(0..room));
            self.write_out_due(at..filled, next);
            self.take_piece(filled, &memory.range(room..count));
            self.write_out_due(filled..end, next);
        } else {
            self.take_piece(at, memory);
            self.write_out_due(at..end, next);
        }
        self.account(shared);
    }

    fn take_piece(&mut self, at: u64, memory: &Memory<'_>) {
        if let [slice] = memory.slices()[..]
            && self.extents.append(at, &slice) != Appended::No
        {
            return;
        }
        self.extents.put(at, memory);
    }

    /// The tail has grown by this range: its block may be due.
    pub(super) fn after_append(&mut self, range: Range<u64>, shared: &BufferPool, next: Next<'_>) {
        self.write_out_due(range, next);
        self.account(shared);
    }

    /// Writes out blocks that a write of this range has filled. A call that waits for the write
    /// finds the error.
    fn write_out_due(&mut self, range: Range<u64>, next: Next<'_>) {
        if self.appended && self.extents.lone_tail().is_none() {
            // What is appended goes in its order.
            if self.extents.due_tail().is_some() || self.extents.complete(range).is_some() {
                let _ = self.write_out_runs(&(0..u64::MAX), next);
            }
            return;
        }
        if self.extents.due_tail().is_some() && self.write_out_tail(next).is_err() {
            return;
        }
        while let Some(block) = self.extents.complete(range.clone()) {
            if self.write_out_runs(&block, next).is_err() {
                return;
            }
        }
    }

    /// Writes out all.
    pub(super) fn settle(&mut self, shared: &BufferPool, next: Next<'_>) -> Outcome {
        if !self.is_dirty() {
            return Ok(0);
        }
        if self.extents.lone_tail().is_some() {
            self.write_out_tail(next)?;
        }
        self.write_out(0..u64::MAX, shared, next)
    }

    /// Writes out all runs that meet a range.
    pub(super) fn write_out(
        &mut self,
        range: Range<u64>,
        shared: &BufferPool,
        next: Next<'_>,
    ) -> Outcome {
        if !self.is_dirty() {
            return Ok(0);
        }
        let outcome = self.write_out_runs(&range, next);
        self.account(shared);
        outcome
    }

    fn write_out_runs(&mut self, range: &Range<u64>, next: Next<'_>) -> Outcome {
        let Some(writer) = self.writer.clone() else { return Ok(0) };
        let mut staging = Vec::new();
        loop {
            let Some(run) = self.extents.run(range) else { return Ok(0) };
            let start = run.start;
            staging.clear();
            let (count, outcome) = write_all(&writer, start, run.memory(&mut staging), next);
            drop(run);
            self.extents.run_written(start, count);
            if let Err(error) = outcome {
                self.failed = Some(error);
                return Err(error);
            }
        }
    }

    /// Writes out the tail.
    fn write_out_tail(&mut self, next: Next<'_>) -> Outcome {
        let tail = self.extents.due_tail().or_else(|| self.extents.lone_tail());
        let (Some((start, bytes)), Some(writer)) = (tail, &self.writer) else { return Ok(0) };
        let (count, outcome) = write_all(writer, start, Memory::source(bytes), next);
        self.extents.tail_written(count);
        if let Err(error) = outcome {
            self.failed = Some(error);
        }
        outcome
    }
}

/// Writes all of some bytes. Returns how many of them it could, and the error if those are not all.
pub(super) fn write_all(
    writer: &Arc<OpenFile>,
    start: u64,
    mut memory: Memory<'_>,
    next: Next<'_>,
) -> (usize, Outcome) {
    let (mut done, all) = (0, memory.len());
    while done < all {
        let at = Some(start + done as u64);
        let memory = memory.range(done..all);
        let action = Action::Write { file: writer, memory, at, flags: 0 };
        match next.call(&mut Op::on(writer, Function::Flush, action)) {
            Ok(0) => return (done, Err(Errno::IO)),
            Ok(count) => done += count as usize,
            Err(Errno::INTR) => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(0))
}
