//! [`Aside`]: a full block that is put aside, to be written when the program has its answer.
//!
//! Where a door answers first ([`Stack::answering_first`](crate::Stack::answering_first)), whoever filled a block is not
//! kept waiting: the block is put aside, and written by the same thread after its answer, while others go on to fill the
//! next. Whatever else is done with the file has it written first, by whoever comes. There is one at a time, so it costs
//! the memory of a block for each file that is written as a stream.
//!
//! Who has the buffer may wait for what is put aside; who writes that does not need the buffer.

use std::sync::Arc;

use striate_stack::{Memory, Next, OpenFile, Outcome};

use super::buffer::{Buffer, Held, Shared, write_all};

/// A block that was put aside.
#[derive(Debug)]
pub(super) struct Block {
    start: u64,
    bytes: Vec<u8>,
    writer: Arc<OpenFile>,
}

/// What is put aside.
#[derive(Debug)]
pub(super) enum Aside {
    /// Nothing, and memory for the next.
    Nothing(Vec<u8>),
    /// A block that nobody has written yet.
    Due(Block),
    /// A block of which so many bytes were written, and what came of it.
    Written(Block, usize, Outcome),
}

impl Default for Aside {
    fn default() -> Self {
        Self::Nothing(Vec::new())
    }
}

impl Aside {
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
    /// Has what was put aside written, and takes note of what came of it.
    pub(super) fn fetch_aside(&self, held: &mut Held, shared: &Shared, next: Next<'_>) {
        let mut aside = self.aside.lock();
        aside.write(next);
        held.aside = 0;
        if let Aside::Written(mut block, count, outcome) = std::mem::take(&mut *aside) {
            if let Err(error) = outcome {
                // It stays, as what could not be written does.
                let rest = block.bytes.get(count..).unwrap_or_default();
                held.extents.put(block.start + count as u64, &Memory::source(rest));
                held.failed = Some(error);
            }
            block.bytes.clear();
            *aside = Aside::Nothing(block.bytes);
        }
        drop(aside);
        held.account(shared);
    }

    /// Puts the tail aside if it is a full block, and returns whether it is.
    pub(super) fn put_aside(&self, held: &mut Held, shared: &Shared, next: Next<'_>) -> bool {
        if held.aside > 0 {
            self.fetch_aside(held, shared, next);
        }
        if held.appended || held.failed.is_some() || held.extents.due_tail().is_none() {
            return false;
        }
        let Some(writer) = held.writer() else { return false };
        let mut aside = self.aside.lock();
        let spare = match std::mem::take(&mut *aside) {
            Aside::Nothing(spare) => spare,
            _ => Vec::new(),
        };
        let (start, bytes) = held.extents.detach_tail(spare);
        held.aside = bytes.capacity().max(1);
        *aside = Aside::Due(Block { start, bytes, writer });
        drop(aside);
        held.account(shared);
        true
    }
}
