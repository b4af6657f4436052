//! Blocking data access: at explicit offsets and at the individual pointer, alone and together.

use striate_store::store::{Placement, Store};

use super::independent::{read_independently, write_independently};
use crate::access::FileSide;
use crate::{File, FileError, Memory, MemoryMut};

impl File {
    /// Reads at `offset` etypes. Returns the bytes read.
    #[inline]
    pub fn read_at<'m>(
        &mut self,
        offset: u64,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        let mut to = to.into();
        self.check_mode(false, "read_at")?;
        self.let_catch_up();
        if let Some(plain) = self.plain(offset, &to.shape) {
            let store = self.store.inner();
            let read = store.read_at(plain.offset, &mut to.bytes()[plain.memory.clone()])?;
            self.account_plain(&plain, read as u64);
            return Ok(read as u64);
        }
        self.read_at_in_pieces(offset, to)
    }

    fn read_at_in_pieces(&mut self, offset: u64, mut to: MemoryMut<'_>) -> Result<u64, FileError> {
        if let Some((overlap, mut room)) = self.overlap("read_at", offset, &to.shape)? {
            let read = self.read_side(overlap.side(), (&mut room).into())?;
            return overlap.hand_on(&room[..read as usize], &mut to);
        }
        let side = self.side("read_at", offset, &to.shape)?;
        self.read_side(&side, to)
    }

    fn read_side(&mut self, side: &FileSide, mut to: MemoryMut<'_>) -> Result<u64, FileError> {
        self.independent(false, side, &to.shape.clone(), |store, way, buffer| {
            read_independently(store, side, &mut to, way, buffer)
        })
    }

    /// Writes at `offset` etypes. Returns the bytes written: all.
    #[inline]
    pub fn write_at<'m>(
        &mut self,
        offset: u64,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        let from = from.into();
        self.check_mode(true, "write_at")?;
        self.let_catch_up();
        if let Some(plain) = self.plain(offset, &from.shape) {
            return self.write_plain_alone(&plain, &from);
        }
        self.write_at_in_pieces(offset, &from)
    }

    fn write_at_in_pieces(&mut self, offset: u64, from: &Memory<'_>) -> Result<u64, FileError> {
        let side = self.side("write_at", offset, &from.shape)?;
        self.independent(true, &side, &from.shape, |store, way, buffer| {
            write_independently(store, &side, from, way, buffer)?;
            Ok(side.len())
        })
    }

    /// Reads at `offset` etypes, together with the other ranks. Collective.
    pub fn read_at_all<'m>(
        &mut self,
        offset: u64,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        self.carry_out_pending();
        self.read_together(offset, to.into())
    }

    /// Writes at `offset` etypes, together with the other ranks. Collective.
    pub fn write_at_all<'m>(
        &mut self,
        offset: u64,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        self.carry_out_pending();
        self.write_together(offset, &from.into())
    }

    /// Reads at the individual pointer and moves it on.
    pub fn read<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        let bytes = self.read_at(self.position, to)?;
        self.move_on(bytes);
        Ok(bytes)
    }

    /// Writes at the individual pointer and moves it on.
    pub fn write<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        let bytes = self.write_at(self.position, from)?;
        self.move_on(bytes);
        Ok(bytes)
    }

    /// Reads at the individual pointer, together with the other ranks, and moves it on. Collective.
    pub fn read_all<'m>(&mut self, to: impl Into<MemoryMut<'m>>) -> Result<u64, FileError> {
        self.carry_out_pending();
        let bytes = self.read_together(self.position, to.into())?;
        self.move_on(bytes);
        Ok(bytes)
    }

    /// Writes at the individual pointer, together with the other ranks, and moves it on. Collective.
    pub fn write_all<'m>(&mut self, from: impl Into<Memory<'m>>) -> Result<u64, FileError> {
        self.carry_out_pending();
        let bytes = self.write_together(self.position, &from.into())?;
        self.move_on(bytes);
        Ok(bytes)
    }

    /// Reads the bytes that `place` describes, whatever the view.
    pub fn read_in<'m>(
        &mut self,
        place: &Placement,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        let to = to.into();
        self.check_mode(false, "read_in")?;
        self.let_catch_up();
        let side = Self::placed("read_in", place, &to.shape)?;
        self.read_side(&side, to)
    }

    /// Writes the bytes that `place` describes, whatever the view.
    pub fn write_in<'m>(
        &mut self,
        place: &Placement,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        let from = from.into();
        self.check_mode(true, "write_in")?;
        self.let_catch_up();
        let side = Self::placed("write_in", place, &from.shape)?;
        self.independent(true, &side, &from.shape, |store, way, buffer| {
            write_independently(store, &side, &from, way, buffer)?;
            Ok(side.len())
        })
    }

    /// Reads the bytes that `place` describes, whatever the view, together with the other ranks, each
    /// of which has a place of its own. Collective.
    pub fn read_in_all<'m>(
        &mut self,
        place: &Placement,
        to: impl Into<MemoryMut<'m>>,
    ) -> Result<u64, FileError> {
        self.carry_out_pending();
        let to = to.into();
        let side = self
            .check_mode(false, "read_in_all")
            .and_then(|()| Self::placed("read_in_all", place, &to.shape));
        self.read_side_together(side, to)
    }

    /// Writes the bytes that `place` describes, whatever the view, together with the other ranks,
    /// each of which has a place of its own. Collective.
    pub fn write_in_all<'m>(
        &mut self,
        place: &Placement,
        from: impl Into<Memory<'m>>,
    ) -> Result<u64, FileError> {
        self.carry_out_pending();
        let from = from.into();
        let side = self
            .check_mode(true, "write_in_all")
            .and_then(|()| Self::placed("write_in_all", place, &from.shape));
        self.write_side_together(side, &from)
    }

    /// As [`File::read_in_all`], for callers with something to agree on: a rank may bring an error instead
    /// of an access, with which all ranks then end, and a note, of which all get the bitwise or. It costs
    /// no more than without. Collective.
    pub fn read_noted(
        &mut self,
        access: Result<(&Placement, MemoryMut<'_>), FileError>,
        note: u8,
    ) -> Result<(u64, u8), FileError> {
        let (side, to) = match access {
            Ok((place, to)) => (self.check_mode(false, "read_noted").map(|()| place), to),
            Err(error) => (Err(error), (&mut []).into()),
        };
        let side = side.and_then(|place| Self::placed("read_noted", place, &to.shape));
        self.carry_out_pending();
        self.note = note;
        let bytes = self.read_side_together(side, to);
        let noted = std::mem::take(&mut self.note);
        Ok((bytes?, noted))
    }

    /// As [`File::write_in_all`], with an error and a note as in [`File::read_noted`]. Collective.
    pub fn write_noted(
        &mut self,
        access: Result<(&Placement, Memory<'_>), FileError>,
        note: u8,
    ) -> Result<(u64, u8), FileError> {
        let (side, from) = match access {
            Ok((place, from)) => (self.check_mode(true, "write_noted").map(|()| place), from),
            Err(error) => (Err(error), (&[]).into()),
        };
        let side = side.and_then(|place| Self::placed("write_noted", place, &from.shape));
        self.carry_out_pending();
        self.note = note;
        let bytes = self.write_side_together(side, &from);
        let noted = std::mem::take(&mut self.note);
        Ok((bytes?, noted))
    }

    pub(super) fn move_on(&mut self, bytes: u64) {
        self.position += bytes / self.view.etype().size();
    }
}
