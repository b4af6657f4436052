//! Collective calls of a single access: the agreement inside of the file's collective call is used
//! instead of one of the dataset's own.
//!
//! Such a call costs no reduction beyond those of [`striate_file`]. It applies where no records can
//! be added and nothing is divided into partitions.

use striate_file::{FileError, Memory, MemoryMut};

use super::Dataset;
use crate::ArrayError;
use crate::access::Access;
use crate::stream::{ReadStream, WriteStream};

impl Dataset {
    /// Writes a single access that adds no records. Collective, also for a rank that has an error.
    pub(super) fn put_single_collective(
        &mut self,
        access: Result<Access<WriteStream<'_>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let (request, note) = match &access {
            Ok(one) => {
                let memory =
                    one.memory.as_memory().unwrap_or_else(|| Memory::gathered(&one.memory));
                (Ok((&one.placement, memory)), u8::from(one.may_be_out_of_range))
            }
            Err(error) => (Err(FileError::caller(error.to_string())), 0),
        };
        let done = self.state.file.write_noted(request, note);
        let (access, _, may_be_out_of_range) = ended(access, done)?;
        let in_range =
            self.check_range([(access.variable, access.memory.all_in_range())].into_iter());
        if may_be_out_of_range { self.state.agree(in_range) } else { in_range }
    }

    /// Reads a single access. Collective, also for a rank that has an error.
    pub(super) fn get_single_collective(
        &mut self,
        mut access: Result<Access<ReadStream<'_>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let (request, note) = match &mut access {
            Ok(one) => {
                let note = u8::from(one.may_be_out_of_range);
                let memory = if one.memory.is_plain() {
                    one.memory.as_memory()
                } else {
                    Some(MemoryMut::scattered(&mut one.memory))
                };
                let memory = memory.unwrap_or_else(|| (&mut []).into());
                (Ok((&one.placement, memory)), note)
            }
            Err(error) => (Err(FileError::caller(error.to_string())), 0),
        };
        let done = self.state.file.read_noted(request, note);
        let (mut access, got, may_be_out_of_range) = ended(access, done)?;
        // Bytes beyond the end of the file read as zeros.
        let whole =
            if got < access.placement.len { access.memory.scatter_zeros(got) } else { Ok(()) };
        let in_range =
            self.check_range([(access.variable, access.memory.all_in_range())].into_iter());
        let in_range = whole.map_err(ArrayError::from).and(in_range);
        if may_be_out_of_range { self.state.agree(in_range) } else { in_range }
    }
}

/// The result of a single access: the access, the bytes, and whether a value of any rank may be out
/// of range.
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
        // The rank's own error says more than the one that the file returns.
        (Err(own), _) => Err(own),
    }
}
