//! Blocking data access: at explicit offsets and at the individual pointer, independent and
//! collective.

use striate_store::store::Placement;

use super::collective::CollectiveAccess;
use crate::{Direction, File, FileError, Memory, MemoryMut};

impl File {
    /// Reads at `offset` etypes. Returns the bytes read.
    #[inline]
    pub fn read_at<'m>(
        &mut self,
        offset: u64,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        let mut to = to.into();
        self.handle.check_mode(Direction::Read, "read_at")?;
        self.wait_for_late_ranks();
        if let Some(request) = self.contiguous_request(offset, &to.shape) {
            return self.read_contiguous(&request, &mut to);
        }
        self.read_at_in_pieces(offset, to)
    }

    fn read_at_in_pieces(&mut self, offset: u64, mut to: MemoryMut<'_>) -> Result<u64, FileError> {
        let overlapping = self.describe_overlapping("read_at", offset, &to.shape)?;
        if let Some((overlapping, mut buffer)) = overlapping {
            let read = self.read_described(overlapping.side(), &mut (&mut buffer).into())?;
            return overlapping.copy_to(&buffer[..read as usize], &mut to);
        }
        let side = self.describe("read_at", offset, &to.shape)?;
        self.read_described(&side, &mut to)
    }

    /// Writes at `offset` etypes. Returns the bytes written: all.
    #[inline]
    pub fn write_at<'m>(
        &mut self,
        offset: u64,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        let from = from.into();
        self.handle.check_mode(Direction::Write, "write_at")?;
        self.wait_for_late_ranks();
        if let Some(request) = self.contiguous_request(offset, &from.shape) {
            return self.write_contiguous_alone(&request, &from);
        }
        self.write_at_in_pieces(offset, &from)
    }

    fn write_at_in_pieces(&mut self, offset: u64, from: &Memory<'_>) -> Result<u64, FileError> {
        let side = self.describe("write_at", offset, &from.shape)?;
        self.write_described(&side, from)
    }

    /// Reads at `offset` etypes. Collective.
    pub fn read_at_all<'m>(
        &mut self,
        offset: u64,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        self.complete_pending();
        self.read_collective(offset, to.into())
    }

    /// Writes at `offset` etypes. Collective.
    pub fn write_at_all<'m>(
        &mut self,
        offset: u64,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        self.complete_pending();
        self.write_collective(offset, &from.into())
    }

    /// Reads at the individual pointer and advances it.
    pub fn read<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let bytes = self.read_at(self.pointers.individual, to)?;
        self.advance(bytes);
        Ok(bytes)
    }

    /// Writes at the individual pointer and advances it.
    pub fn write<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let bytes = self.write_at(self.pointers.individual, from)?;
        self.advance(bytes);
        Ok(bytes)
    }

    /// Reads at the individual pointer and advances it. Collective.
    pub fn read_all<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let bytes = self.read_at_all(self.pointers.individual, to)?;
        self.advance(bytes);
        Ok(bytes)
    }

    /// Writes at the individual pointer and advances it. Collective.
    pub fn write_all<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let bytes = self.write_at_all(self.pointers.individual, from)?;
        self.advance(bytes);
        Ok(bytes)
    }

    /// Reads the bytes that `placement` describes, whatever the view.
    pub fn read_in<'m>(
        &mut self,
        placement: &Placement,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        let mut to = to.into();
        self.handle.check_mode(Direction::Read, "read_in")?;
        self.wait_for_late_ranks();
        let side = Self::describe_placement("read_in", placement, &to.shape)?;
        self.read_described(&side, &mut to)
    }

    /// Writes the bytes that `placement` describes, whatever the view.
    pub fn write_in<'m>(
        &mut self,
        placement: &Placement,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        let from = from.into();
        self.handle.check_mode(Direction::Write, "write_in")?;
        self.wait_for_late_ranks();
        let side = Self::describe_placement("write_in", placement, &from.shape)?;
        self.write_described(&side, &from)
    }

    /// Reads the bytes that `placement` describes, whatever the view. Collective; each rank has a
    /// placement of its own.
    pub fn read_in_all<'m>(
        &mut self,
        placement: &Placement,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        self.complete_pending();
        self.read_placed("read_in_all", Ok(placement), to.into())
    }

    /// Writes the bytes that `placement` describes, whatever the view. Collective; each rank has a
    /// placement of its own.
    pub fn write_in_all<'m>(
        &mut self,
        placement: &Placement,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        self.complete_pending();
        self.write_placed("write_in_all", Ok(placement), &from.into())
    }

    /// As [`File::read_in_all`], for callers with something to agree on: a rank may bring an error
    /// instead of an access, with which all ranks then end, and a note, of which all get the
    /// bitwise or. It costs no more than without. Collective.
    pub fn read_noted(
        &mut self,
        access: Result<(&Placement, MemoryMut<'_>), FileError>,
        note: u8,
    ) -> Result<(u64, u8), FileError> {
        let (placement, to) = match access {
            Ok((placement, to)) => (Ok(placement), to),
            Err(error) => (Err(error), (&mut []).into()),
        };
        self.complete_pending();
        self.collective.note = note;
        let bytes = self.read_placed("read_noted", placement, to);
        let noted = std::mem::take(&mut self.collective.note);
        Ok((bytes?, noted))
    }

    /// As [`File::write_in_all`], with an error and a note as in [`File::read_noted`]. Collective.
    pub fn write_noted(
        &mut self,
        access: Result<(&Placement, Memory<'_>), FileError>,
        note: u8,
    ) -> Result<(u64, u8), FileError> {
        let (placement, from) = match access {
            Ok((placement, from)) => (Ok(placement), from),
            Err(error) => (Err(error), (&[]).into()),
        };
        self.complete_pending();
        self.collective.note = note;
        let bytes = self.write_placed("write_noted", placement, &from);
        let noted = std::mem::take(&mut self.collective.note);
        Ok((bytes?, noted))
    }

    fn read_placed(
        &mut self,
        call: &'static str,
        placement: Result<&Placement, FileError>,
        mut to: MemoryMut<'_>,
    ) -> Result<u64, FileError> {
        let side = placement.and_then(|placement| {
            self.handle.check_mode(Direction::Read, call)?;
            Self::describe_placement(call, placement, &to.shape)
        });
        self.read_with_rendezvous(CollectiveAccess::Described(side), &mut to)
    }

    fn write_placed(
        &mut self,
        call: &'static str,
        placement: Result<&Placement, FileError>,
        from: &Memory<'_>,
    ) -> Result<u64, FileError> {
        let side = placement.and_then(|placement| {
            self.handle.check_mode(Direction::Write, call)?;
            Self::describe_placement(call, placement, &from.shape)
        });
        self.write_with_rendezvous(CollectiveAccess::Described(side), from)
    }

    /// Advances the individual pointer.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.pointers.individual += bytes / self.view.etype().size();
    }
}
