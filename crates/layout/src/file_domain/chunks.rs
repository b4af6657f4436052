//! [`Chunks`]: equal chunks at a constant distance, cut into windows.
//!
//! Windows are numbered through the whole file first, as if the part had no ends. Those of a part
//! are then a consecutive stretch of the numbers, of which the first and the last are shortened.
//!
//! Lengths and distances saturate when they leave 64 bits. That is exact: what saturates lies
//! behind every byte of the file, so there is no second chunk to be misplaced.

use std::num::NonZeroU64;
use std::ops::Range;

/// The bytes of one aggregator.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    /// What lies outside is not the aggregator's.
    pub part: Range<u64>,
    /// Where the first chunk of the file starts.
    pub first: u64,
    /// Bytes of a chunk.
    pub len: u64,
    /// From one chunk to the next; at least `len`.
    pub distance: u64,
    /// How a chunk is cut.
    pub cut: WindowCut,
}

/// How chunks are cut into windows: into cells, and these into pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowCut {
    /// As many whole units as a window can hold, but at least one.
    cell: u64,
    /// Most bytes of a window.
    window: u64,
}

impl WindowCut {
    /// Windows of full length, whatever they share with their neighbours.
    pub(super) fn anywhere(window: NonZeroU64) -> Self {
        Self { cell: window.get(), window: window.get() }
    }

    /// Windows that hold whole units or lie inside of one.
    pub(super) fn into_units(unit: NonZeroU64, window: NonZeroU64) -> Self {
        let whole = window.get() - window.get() % unit;
        Self { cell: whole.max(unit.get()), window: window.get() }
    }

    /// Windows of a whole cell.
    pub(super) const fn pieces(self) -> u64 {
        self.cell.div_ceil(self.window)
    }
}

impl Chunks {
    /// A single chunk, of which `part` counts.
    pub(super) fn one(part: Range<u64>, chunk: Range<u64>, cut: WindowCut) -> Self {
        let len = chunk.end - chunk.start;
        Self { part, first: chunk.start, len, distance: len.max(1), cut }
    }

    /// Number of windows.
    pub(super) fn windows(&self) -> u64 {
        let (first, end) = self.numbers();
        end - first
    }

    /// The i-th window.
    pub(super) fn window(&self, i: u64) -> Option<Range<u64>> {
        let (first, end) = self.numbers();
        if i >= end - first {
            return None;
        }
        let (chunk, within) = ((first + i) / self.per_chunk(), (first + i) % self.per_chunk());
        let (cell, piece) = (within / self.cut.pieces(), within % self.cut.pieces());
        let chunk = self.first + chunk * self.distance;
        let cell = cell * self.cut.cell;
        let start = chunk + cell + piece * self.cut.window;
        let cell_end = chunk.saturating_add(cell.saturating_add(self.cut.cell).min(self.len));
        let end = start.saturating_add(self.cut.window).min(cell_end);
        Some(start.max(self.part.start)..end.min(self.part.end))
    }

    /// Index of the first window that ends after `offset`; the number of windows if there is none.
    pub(super) fn window_after(&self, offset: u64) -> u64 {
        let (first, end) = self.numbers();
        if offset >= self.part.end {
            end - first
        } else {
            self.number_after(offset).clamp(first, end) - first
        }
    }

    /// The numbers of the windows that reach into the part.
    fn numbers(&self) -> (u64, u64) {
        if self.part.is_empty() || self.len == 0 {
            return (0, 0);
        }
        let last = self.part.end - 1;
        let end = self.number_after(last) + u64::from(self.contains(last));
        (self.number_after(self.part.start), end)
    }

    /// The number of the first window of the file that ends after `offset`.
    fn number_after(&self, offset: u64) -> u64 {
        let Some(behind) = offset.checked_sub(self.first) else { return 0 };
        let (chunk, within) = (behind / self.distance, behind % self.distance);
        if within >= self.len {
            return (chunk + 1).saturating_mul(self.per_chunk());
        }
        let (cell, piece) = (within / self.cut.cell, within % self.cut.cell / self.cut.window);
        chunk * self.per_chunk() + cell * self.cut.pieces() + piece
    }

    fn contains(&self, offset: u64) -> bool {
        offset.checked_sub(self.first).is_some_and(|behind| behind % self.distance < self.len)
    }

    /// Windows of a whole chunk.
    fn per_chunk(&self) -> u64 {
        self.len.div_ceil(self.cut.cell).saturating_mul(self.cut.pieces())
    }
}
