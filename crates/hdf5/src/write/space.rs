//! [`Space`]: which part of a file is in use.
//!
//! Space is added at the end, or used again where nothing refers to it any more
//! ([`Space::reused_data`]). Everything is a function of the order of calls, so ranks that make the
//! same calls have the same addresses.

use super::free_list::FreeList;
use crate::{Error, Reason, Result, Structure};

/// Alignment of data, with the meaning of `nc_set_alignment` and `H5Pset_alignment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataAlignment {
    /// Blocks of at least that many bytes are aligned.
    pub threshold: u64,
    /// Their addresses are multiples of this.
    pub alignment: u64,
}

impl Default for DataAlignment {
    fn default() -> Self {
        Self { threshold: 1, alignment: 1 }
    }
}

/// What everything is aligned to that is not larger than the threshold.
const NATURAL: u64 = 8;

/// The space of a file.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    end: u64,
    alignment: DataAlignment,
    /// Space that no state of the file refers to, neither one on storage nor the next one.
    free: FreeList,
}

impl Space {
    pub(crate) fn new(end: u64, alignment: DataAlignment) -> Self {
        Self { end, alignment, free: FreeList::default() }
    }

    pub(crate) const fn free(&mut self) -> &mut FreeList {
        &mut self.free
    }

    pub(crate) const fn free_blocks(&self) -> &FreeList {
        &self.free
    }

    /// The first byte that is not in use.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// What a block of that many bytes is aligned to.
    pub(crate) fn boundary(&self, bytes: u64) -> u64 {
        if bytes >= self.alignment.threshold {
            // A boundary that is no multiple of 8 is what the caller asked for.
            if self.alignment.alignment <= 1 { NATURAL } else { self.alignment.alignment }
        } else {
            NATURAL
        }
    }

    /// From one chunk to the next.
    pub(crate) fn stride(&self, chunk: u64) -> Result<u64> {
        let boundary = self.boundary(chunk);
        let packed = boundary == NATURAL;
        let stride = if packed { Some(chunk) } else { chunk.checked_next_multiple_of(boundary) };
        stride.ok_or_else(too_far)
    }

    /// Space for a block of data that is written as a whole, so that nobody sees what was there.
    pub(crate) fn reused_data(&mut self, bytes: u64) -> Result<u64> {
        let boundary = self.boundary(bytes);
        self.free.take(boundary, bytes).map_or_else(|| self.take(boundary, bytes), Ok)
    }

    /// Space for a block of data.
    pub(crate) fn data(&mut self, bytes: u64) -> Result<u64> {
        self.take(self.boundary(bytes), bytes)
    }

    /// Space for a box of chunks; each of them is aligned.
    pub(crate) fn chunks(&mut self, chunk: u64, shape: &[u64]) -> Result<u64> {
        let stride = self.stride(chunk)?;
        let all = shape.iter().try_fold(stride, |all, &one| all.checked_mul(one));
        self.take(self.boundary(chunk), all.ok_or_else(too_far)?)
    }

    /// Space for metadata.
    pub(crate) fn metadata(&mut self, bytes: u64) -> Result<u64> {
        self.free.take(NATURAL, bytes).map_or_else(|| self.take(NATURAL, bytes), Ok)
    }

    /// Where arenas of at least that many bytes begin, and how many bytes they have.
    pub(crate) fn arenas(&self, at_least: u64) -> Result<(u64, u64)> {
        // A block of that size fits at any boundary.
        let boundary = self.alignment.alignment.max(NATURAL);
        let bytes = at_least.checked_add(boundary).ok_or_else(too_far)?;
        let bytes = bytes.checked_next_multiple_of(boundary).ok_or_else(too_far)?;
        let base = self.end.checked_next_multiple_of(boundary).ok_or_else(too_far)?;
        Ok((base, bytes))
    }

    /// Moves the end; what is between is in use.
    pub(crate) fn extend_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Moves the end back over what is free there, but not below `low`.
    pub(crate) fn trim(&mut self, low: u64) {
        if let Some(end) = self.free.take_end(self.end, low) {
            self.end = end;
        }
    }

    fn take(&mut self, boundary: u64, bytes: u64) -> Result<u64> {
        let begin = self.end.checked_next_multiple_of(boundary).ok_or_else(too_far)?;
        let end = begin.checked_add(bytes).filter(|&end| i64::try_from(end).is_ok());
        self.end = end.ok_or_else(too_far)?;
        Ok(begin)
    }
}

fn too_far() -> Error {
    let limit = i64::MAX as u64;
    Error::of(Structure::File, Reason::Limit { what: "bytes", found: u64::MAX, limit })
}
