//! [`Pieces`]: two cursors in step, which yield pieces that are contiguous in memory and in the
//! file. Every access method is based on it.

use crate::{Cursor, Run};

/// Bytes that are contiguous both in memory and in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Offset in memory.
    pub memory: i64,
    /// Offset in the file.
    pub file: i64,
    /// Number of bytes.
    pub len: u64,
}

/// Walks a memory and a file description in step, from the positions of their cursors, until the
/// shorter one ends.
#[derive(Clone, Debug)]
pub struct Pieces<'m, 'f> {
    memory: RunReader<'m>,
    file: RunReader<'f>,
}

impl<'m, 'f> Pieces<'m, 'f> {
    /// Pairs the streams of two cursors.
    pub const fn new(memory: Cursor<'m>, file: Cursor<'f>) -> Self {
        Self { memory: RunReader::new(memory), file: RunReader::new(file) }
    }

    /// The next piece, of at most `max` bytes.
    pub fn next_piece(&mut self, max: u64) -> Option<Piece> {
        let memory = self.memory.run()?;
        let file = self.file.run()?;
        let len = memory.len.min(file.len).min(max);
        if len == 0 {
            return None;
        }
        self.memory.consume(len);
        self.file.consume(len);
        Some(Piece { memory: memory.offset, file: file.offset, len })
    }
}

impl Iterator for Pieces<'_, '_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        self.next_piece(u64::MAX)
    }
}

/// A cursor, and the rest of the run that it yielded last.
#[derive(Clone, Debug)]
struct RunReader<'t> {
    cursor: Cursor<'t>,
    left: Run,
}

impl<'t> RunReader<'t> {
    const fn new(cursor: Cursor<'t>) -> Self {
        Self { cursor, left: Run { offset: 0, len: 0 } }
    }

    fn run(&mut self) -> Option<Run> {
        if self.left.len == 0 {
            self.left = self.cursor.next()?;
        }
        Some(self.left)
    }

    const fn consume(&mut self, len: u64) {
        self.left.offset += len as i64;
        self.left.len -= len;
    }
}
