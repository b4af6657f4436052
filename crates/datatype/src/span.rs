//! [`Span`]: the summary of a description, computed without walking it by an algebra of four
//! operations.
//!
//! Every loop is a composition of *leaf*, *shift*, *repeat* and *then*, so its size, bounds and
//! number of contiguous runs follow in constant time per loop, however many runs it stands for.
//! The run count is exact: two neighbours in the stream are one run if, and only if, the first ends
//! where the second begins, and that depends only on where each part begins and ends.

use crate::TypeError;

/// The summary of a byte sequence at signed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Bytes of data.
    pub size: u64,
    /// Offset of the first byte of the stream.
    pub first: i64,
    /// Offset just past the last byte of the stream.
    pub end: i64,
    /// Smallest offset touched.
    pub low: i64,
    /// One past the largest offset touched.
    pub high: i64,
    /// Contiguous runs in stream order, neighbours coalesced.
    pub runs: u64,
    /// Leaf pieces, before coalescing.
    pub pieces: u64,
    /// Every piece starts at or after the end of the one before.
    pub ascending: bool,
}

impl Span {
    pub(crate) const EMPTY: Self =
        Self { size: 0, first: 0, end: 0, low: 0, high: 0, runs: 0, pieces: 0, ascending: true };

    pub(crate) fn leaf(len: u64) -> Result<Self, TypeError> {
        if len == 0 {
            return Ok(Self::EMPTY);
        }
        let end = i64::try_from(len).map_err(|_| TypeError::overflow("size"))?;
        Ok(Self {
            size: len,
            first: 0,
            end,
            low: 0,
            high: end,
            runs: 1,
            pieces: 1,
            ascending: true,
        })
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The same sequence `by` bytes further on.
    pub(crate) fn shift(self, by: i64) -> Result<Self, TypeError> {
        if self.is_empty() {
            return Ok(self);
        }
        let add = |x: i64| x.checked_add(by).ok_or(TypeError::overflow("displacement"));
        Ok(Self {
            first: add(self.first)?,
            end: add(self.end)?,
            low: add(self.low)?,
            high: add(self.high)?,
            ..self
        })
    }

    /// `count` copies, each `stride` bytes after the one before.
    pub(crate) fn repeat(self, count: u64, stride: i64) -> Result<Self, TypeError> {
        if count == 0 || self.is_empty() {
            return Ok(Self::EMPTY);
        }
        let reach = last_shift(count, stride)?;
        let joins = if self.end.checked_sub(self.first) == Some(stride) { count - 1 } else { 0 };
        let times = |x: u64| {
            x.checked_mul(count)
                .filter(|&n| i64::try_from(n).is_ok())
                .ok_or(TypeError::overflow("size"))
        };
        let add = |x: i64, by: i64| x.checked_add(by).ok_or(TypeError::overflow("extent"));
        let (low, high) = (add(self.low, reach.min(0))?, add(self.high, reach.max(0))?);
        high.checked_sub(low).ok_or(TypeError::overflow("extent"))?;
        Ok(Self {
            size: times(self.size)?,
            first: self.first,
            end: add(self.end, reach)?,
            low,
            high,
            runs: times(self.runs)? - joins,
            pieces: times(self.pieces)?,
            ascending: self.ascending && (count == 1 || stride >= self.high - self.low),
        })
    }

    /// `self`, then `next`.
    pub(crate) fn then(self, next: Self) -> Result<Self, TypeError> {
        if self.is_empty() {
            return Ok(next);
        }
        if next.is_empty() {
            return Ok(self);
        }
        let add = |a: u64, b: u64| {
            a.checked_add(b)
                .filter(|&n| i64::try_from(n).is_ok())
                .ok_or(TypeError::overflow("size"))
        };
        let joins = u64::from(self.end == next.first);
        let (low, high) = (self.low.min(next.low), self.high.max(next.high));
        high.checked_sub(low).ok_or(TypeError::overflow("extent"))?;
        Ok(Self {
            size: add(self.size, next.size)?,
            first: self.first,
            end: next.end,
            low,
            high,
            runs: add(self.runs, next.runs)? - joins,
            pieces: add(self.pieces, next.pieces)?,
            ascending: self.ascending && next.ascending && next.first >= self.end,
        })
    }
}

/// Where the last of `count` copies starts, relative to the first.
pub(crate) fn last_shift(count: u64, stride: i64) -> Result<i64, TypeError> {
    i64::try_from(count.saturating_sub(1))
        .ok()
        .and_then(|n| n.checked_mul(stride))
        .ok_or(TypeError::overflow("extent"))
}
