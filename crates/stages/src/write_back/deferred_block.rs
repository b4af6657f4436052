//! [`DeferredBlock`]: a full block that is written after the program has its answer.
//!
//! Where a door answers first ([`Stack::answering_first`](striate_stack::Stack::answering_first)),
//! a write that fills a block does not wait: the block is deferred, and the same thread writes it
//! after its answer, while other threads fill the next one. Every other operation on the file
//! writes the deferred block first. There is one at a time, so it costs the memory of a block for
//! each file that is written as a stream.
//!
//! Lock order: a thread that holds the buffer may wait for the deferred block; the thread that
//! writes the deferred block does not need the buffer.

use std::sync::Arc;

use striate_stack::{Memory, Next, OpenFile, Outcome};

use super::buffer::{Buffer, BufferContents, BufferPool, write_all};

/// A block that was deferred.
#[derive(Debug)]
pub(super) struct FullBlock {
    start: u64,
    bytes: Vec<u8>,
    writer: Arc<OpenFile>,
}

/// What is deferred.
#[derive(Debug)]
pub(super) enum DeferredBlock {
    /// Nothing, and memory for the next.
    Nothing(Vec<u8>),
    /// A block that is not written yet.
    Due(FullBlock),
    /// A block of which so many bytes were written, and what came of it.
    Written(FullBlock, usize, Outcome),
}

impl Default for DeferredBlock {
    fn default() -> Self {
        Self::Nothing(Vec::new())
    }
}

impl DeferredBlock {
    /// Writes what is due.
    pub(super) fn write(&mut self, next: Next<'_>) {
        match std::mem::take(self) {
            Self::Due(block) => {
                let memory = Memory::source(&block.bytes);
                let (count, outcome) = write_all(&block.writer, block.start, memory, next);
                *self = Self::Written(block, count, outcome);
            }
            other => *self = other,
        }
    }
}

impl Buffer {
    /// Has what was deferred written, and takes note of what came of it.
    pub(super) fn fetch_deferred(
        &self,
        buffered: &mut BufferContents,
        shared: &BufferPool,
        next: Next<'_>,
    ) {
        let mut deferred = self.deferred.lock();
        deferred.write(next);
        buffered.deferred = 0;
        if let DeferredBlock::Written(mut block, count, outcome) = std::mem::take(&mut *deferred) {
            if let Err(error) = outcome {
                // It stays, as what could not be written does.
                let rest = block.bytes.get(count..).unwrap_or_default();
                buffered.extents.put(block.start + count as u64, &Memory::source(rest));
                buffered.failed = Some(error);
            }
            block.bytes.clear();
            *deferred = DeferredBlock::Nothing(block.bytes);
        }
        drop(deferred);
        buffered.account(shared);
    }

    /// Defers the tail if it is a full block, and returns whether it is.
    pub(super) fn defer(
        &self,
        buffered: &mut BufferContents,
        shared: &BufferPool,
        next: Next<'_>,
    ) -> bool {
        if buffered.deferred > 0 {
            self.fetch_deferred(buffered, shared, next);
        }
        if buffered.appended || buffered.failed.is_some() || buffered.extents.due_tail().is_none() {
            return false;
        }
        let Some(writer) = buffered.writer() else { return false };
        let mut deferred = self.deferred.lock();
        let spare = match std::mem::take(&mut *deferred) {
            DeferredBlock::Nothing(spare) => spare,
            _ => Vec::new(),
        };
        let (start, bytes) = buffered.extents.detach_tail(spare);
        buffered.deferred = bytes.capacity().max(1);
        *deferred = DeferredBlock::Due(FullBlock { start, bytes, writer });
        drop(deferred);
        buffered.account(shared);
        true
    }
}
