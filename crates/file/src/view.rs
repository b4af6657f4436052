//! [`View`]: which bytes of the file a rank sees, and in which units it counts them.

use striate_datatype::{Cursor, Datatype};

use crate::FileError;

/// The file as a rank sees it: endless copies of `filetype` from `displacement` on, counted in
/// `etype`s. Bytes in the gaps of the filetype are not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    displacement: u64,
    etype: Datatype,
    filetype: Datatype,
    /// Whether it may show bytes more than once. Never set where it cannot.
    overlaps: bool,
    /// Where each copy of the filetype is one run of bytes, and copies ascend: where runs are.
    runs: Option<Runs>,
}

/// Runs of equal length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs {
    /// Where the first begins, from the displacement on.
    first: u64,
    len: u64,
    /// From the start of one to the start of the next.
    step: u64,
}

impl Runs {
    fn of(filetype: &Datatype) -> Option<Self> {
        let (first, len) = (filetype.true_lower_bound(), filetype.size());
        let one = len > 0 && filetype.is_contiguous() && filetype.is_monotonic();
        let (first, step) = (u64::try_from(first).ok()?, u64::try_from(filetype.extent()).ok()?);
        (one && step >= len).then_some(Self { first, len, step })
    }
}

impl View {
    /// A view. The filetype holds whole etypes, its bytes ascend and do not overlap; none lies
    /// before the displacement. A filetype without bytes shows nothing.
    ///
    /// Where its bounds are so narrow that copies would overlap (libraries make such types, and use
    /// one copy), accesses beyond the first copy are refused.
    pub fn new(
        displacement: u64,
        etype: &Datatype,
        filetype: &Datatype,
    ) -> Result<Self, FileError> {
        let view = Self::checked(displacement, etype, filetype)?;
        if !filetype.is_ascending() {
            return refuse("the filetype's bytes must ascend without overlap");
        }
        Ok(view)
    }

    /// A view of a file that is only read: as [`View::new`], but its filetype may show bytes more
    /// than once, as MPI allows, if the starts of its runs do not descend. Copies that overlap can
    /// all be read.
    ///
    /// A read of bytes that the view shows twice takes memory for what it reads and for a list of
    /// its runs.
    pub fn for_reading(
        displacement: u64,
        etype: &Datatype,
        filetype: &Datatype,
    ) -> Result<Self, FileError> {
        let view = Self::checked(displacement, etype, filetype)?;
        if !filetype.is_ascending() && !starts_ascend(filetype)? {
            return refuse("the runs of the filetype must not begin before one another");
        }
        // Copies of a negative extent would descend.
        let overlaps = filetype.size() > 0 && !filetype.is_monotonic() && filetype.extent() >= 0;
        if !overlaps && !filetype.is_ascending() {
            return refuse("copies of a filetype that overlaps itself must not descend");
        }
        Ok(Self { overlaps, ..view })
    }

    /// The checks of all views.
    fn checked(
        displacement: u64,
        etype: &Datatype,
        filetype: &Datatype,
    ) -> Result<Self, FileError> {
        if i64::try_from(displacement).is_err() {
            return refuse(format!("displacement {displacement} is beyond 2^63 - 1"));
        }
        if etype.size() == 0 {
            return refuse("an etype must hold at least one byte");
        }
        if !filetype.size().is_multiple_of(etype.size()) {
            let (whole, part) = (filetype.size(), etype.size());
            return refuse(format!(
                "a filetype of {whole} bytes does not hold whole etypes of {part}"
            ));
        }
        if filetype.size() > 0 && filetype.true_lower_bound() < 0 {
            return refuse("the filetype reaches below the displacement");
        }
        let (etype, filetype, runs) = (etype.clone(), filetype.clone(), Runs::of(filetype));
        Ok(Self { displacement, etype, filetype, overlaps: false, runs })
    }

    /// The view of a file that has just been opened: all bytes.
    pub fn bytes() -> Self {
        let byte = Datatype::element(striate_datatype::Element::U8);
        let runs = Runs::of(&byte);
        Self { displacement: 0, etype: byte.clone(), filetype: byte, overlaps: false, runs }
    }

    /// Where the first copy of the filetype lies.
    pub const fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The unit of offsets.
    pub const fn etype(&self) -> &Datatype {
        &self.etype
    }

    /// What is seen.
    pub const fn filetype(&self) -> &Datatype {
        &self.filetype
    }

    /// Whether it shows every byte from the displacement on.
    pub fn is_contiguous(&self) -> bool {
        self.runs.is_some_and(|runs| runs.first == 0 && runs.step == runs.len)
    }

    /// Where in the file `len` bytes from `position` of the view's stream on lie, if they are one
    /// run and that is quick to see.
    #[inline]
    pub(crate) fn run_at(&self, position: u64, len: u64) -> Option<u64> {
        let runs = self.runs?;
        if runs.step == runs.len {
            return position.checked_add(runs.first)?.checked_add(self.displacement);
        }
        let (copy, inside) = (position / runs.len, position % runs.len);
        if len > runs.len - inside {
            return None;
        }
        let start = copy.checked_mul(runs.step)?.checked_add(runs.first)?.checked_add(inside)?;
        self.displacement.checked_add(start)
    }

    /// Whether it may show bytes more than once: such a view is for reading only.
    pub const fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// Whether `len` bytes from `position` of the view's stream on may not ascend, so that they
    /// have to be read as an [`OverlappingRead`](crate::overlapping_read::OverlappingRead).
    pub(crate) fn folds(&self, position: u64, len: u64) -> bool {
        let in_first = position.saturating_add(len) <= self.filetype.size();
        self.overlaps && len > 0 && !(in_first && self.filetype.is_ascending())
    }

    /// Whether `len` bytes from `position` of the view's stream on are there, in ascending order.
    pub(crate) fn shows(&self, position: u64, len: u64) -> Result<(), FileError> {
        let size = self.filetype.size();
        if len == 0 {
            Ok(())
        } else if size == 0 {
            refuse("the filetype holds no byte: there is nothing to access")
        } else if !self.filetype.is_monotonic() && position.saturating_add(len) > size {
            refuse("copies of the filetype overlap: only the first can be accessed")
        } else {
            Ok(())
        }
    }

    /// Offset in the file of the byte at `position` of the view's stream.
    pub fn byte_offset(&self, position: u64) -> Result<u64, FileError> {
        let size = self.filetype.size().max(1);
        let inside = crate::access::FileSide::new(self, position % size, 1)?.range();
        let extent = self.filetype.extent().unsigned_abs();
        let skipped = (position / size).checked_mul(extent);
        inside
            .zip(skipped)
            .and_then(|(inside, skipped)| inside.start.checked_add(skipped))
            .ok_or(FileError::View { reason: "an offset beyond 2^64".into() })
    }

    /// Bytes of the view's stream before the byte at `offset` of the file.
    pub(crate) fn stream_before(&self, offset: u64) -> Result<u64, FileError> {
        let Some(rest) = offset.checked_sub(self.displacement) else { return Ok(0) };
        if self.overlaps {
            return self.stream_until(rest);
        }
        if !self.filetype.is_monotonic() || self.filetype.size() == 0 {
            let rest = i64::try_from(rest).unwrap_or(i64::MAX);
            return Ok(self.filetype.bytes_before(1, rest)?);
        }
        let extent = self.filetype.extent().unsigned_abs().max(1);
        // The copies before the one that `offset` may lie in, and those that still begin before it.
        let first =
            (rest / extent).saturating_sub(self.filetype.true_upper_bound() as u64 / extent);
        let copies = rest / extent - first + 1;
        let inside = i64::try_from(rest - first * extent).unwrap_or(i64::MAX);
        Ok(first * self.filetype.size() + self.filetype.bytes_before(copies, inside)?)
    }

    /// Bytes of the view's stream before the first one that lies `rest` bytes or more from the
    /// displacement, where offsets do not ascend.
    fn stream_until(&self, rest: u64) -> Result<u64, FileError> {
        let Self { filetype, .. } = self;
        // No byte of a copy lies beyond.
        let end = filetype.true_upper_bound().unsigned_abs();
        let extent = filetype.extent().unsigned_abs();
        if extent == 0 && end <= rest {
            return refuse("all copies of the filetype lie at the same place: there is no end");
        }
        // Copies that lie wholly before it; the next one does not.
        let whole = match rest.checked_sub(end) {
            Some(beyond) => beyond / extent + 1,
            None => 0,
        };
        // The next copy may begin after it.
        let inside = rest.saturating_sub(whole * extent);
        let mut cursor = Cursor::new(filetype, 1)?;
        let mut before = whole.saturating_mul(filetype.size());
        while let Some(run) = cursor.next_run(u64::MAX) {
            if run.end() as u64 > inside {
                return Ok(before + inside.saturating_sub(run.offset as u64));
            }
            before += run.len;
        }
        Ok(before)
    }
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, FileError> {
    Err(FileError::View { reason: reason.into() })
}

/// Whether no run begins before the one before it does.
fn starts_ascend(filetype: &Datatype) -> Result<bool, FileError> {
    let mut cursor = Cursor::new(filetype, 1)?;
    Ok(std::iter::from_fn(|| cursor.next_run(u64::MAX)).is_sorted_by_key(|run| run.offset))
}

impl Default for View {
    fn default() -> Self {
        Self::bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_match_byte_offsets() {
        let block = Datatype::bytes(5).unwrap();
        let byte = Datatype::bytes(1).unwrap();
        let behind = Datatype::hindexed(&[(5, 3)], &byte).unwrap();
        let types = [
            block.clone(),
            Datatype::resized(&block, 0, 8).unwrap(),
            Datatype::resized(&behind, 0, 8).unwrap(),
            Datatype::resized(&behind, 0, 5).unwrap(),
        ];
        for filetype in &types {
            let view = View::new(100, &byte, filetype).unwrap();
            for position in 0..23 {
                for len in 1..12 {
                    let at = |i| view.byte_offset(position + i).unwrap();
                    let is_run = (1..len).all(|i| at(i) == at(0) + i);
                    let run = view.run_at(position, len);
                    assert_eq!(run, is_run.then(|| at(0)), "{position} {len} {filetype:?}");
                }
            }
        }
        // Two runs per copy, and copies that would overlap, are not quick to see.
        let pair = Datatype::hindexed(&[(2, 0), (2, 4)], &byte).unwrap();
        assert_eq!(View::new(0, &byte, &pair).unwrap().run_at(0, 1), None);
        let narrow = Datatype::resized(&block, 0, 3).unwrap();
        assert_eq!(View::new(0, &byte, &narrow).unwrap().run_at(0, 5), None);
        assert_eq!(View::bytes().run_at(u64::MAX, 1), Some(u64::MAX));
        assert_eq!(View::new(9, &byte, &byte).unwrap().run_at(u64::MAX, 1), None);
    }
}
