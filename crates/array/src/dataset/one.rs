//! A collective call of one access: the file room's own meeting is enough to agree.

use striate_file::{FileError, Memory, MemoryMut};

use super::Dataset;
use crate::ArrayError;
use crate::access::Access;
use crate::stream::{Incoming, Outgoing};

impl Dataset {
    /// Writes one access together with the other ranks, where no records can come of it. Collective, also for a rank that has an error.
    pub(super) fn put_one_together(
        &mut self,
        access: Result<Access<Outgoing<'_>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let (place, note) = match &access {
            Ok(one) => (Ok((&one.place, Memory::gathered(&one.memory))), u8::from(one.may_miss)),
            Err(error) => (Err(FileError::caller(error.to_string())), 0),
        };
        let done = self.state.file.write_noted(place, note);
        let (access, _, may_miss) = ended(access, done)?;
        let missed = self.misses([(access.variable, access.memory.all_in_range())].into_iter());
        if may_miss { self.state.agree(missed) } else { missed }
    }

    /// Reads one access together with the other ranks. Collective, also for a rank that has an error.
    pub(super) fn get_one_together(
        &mut self,
        mut access: Result<Access<Incoming<'_>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let (place, note) = match &mut access {
            Ok(one) => {
                let memory = MemoryMut::scattered(&mut one.memory);
                (Ok((&one.place, memory)), u8::from(one.may_miss))
            }
            Err(error) => (Err(FileError::caller(error.to_string())), 0),
        };
        let done = self.state.file.read_noted(place, note);
        let (mut access, got, may_miss) = ended(access, done)?;
        // What lies beyond the end of the file reads as zeros.
        let whole = if got < access.place.len { access.memory.scatter_zeros(got) } else { Ok(()) };
        let missed = self.misses([(access.variable, access.memory.all_in_range())].into_iter());
        let missed = whole.map_err(ArrayError::from).and(missed);
        if may_miss { self.state.agree(missed) } else { missed }
    }
}

/// How a call of one access ended: the access, the bytes, and whether a value of any rank may not have fit.
fn ended<M>(
    access: Result<Access<M>, ArrayError>,
    done: Result<(u64, u8), FileError>,
) -> Result<(Access<M>, u64, bool), ArrayError> {
    match (access, done) {
        (Ok(access), Ok((bytes, note))) => Ok((access, bytes, note > 0)),
        (Ok(_), Err(FileError::Rank { rank, reason, .. })) => {
            Err(ArrayError::Rank { rank, reason })
        }
        (Ok(_), Err(error)) => Err(error.into()),
        // What went wrong here is known better here.
        (Err(own), _) => Err(own),
    }
}
