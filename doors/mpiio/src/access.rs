//! Blocking data access: at explicit offsets, at the individual and at the shared pointer,
//! independent and collective.
//!
//! A rank that cannot take part in a collective call, because its arguments are wrong, still takes
//! part in the rendezvous with its error: the other ranks get an error instead of waiting.

use striate_file::{File, FileError, Source, Target};

use crate::constants::{self as mpi, MPI_Offset, MPI_Status};
use crate::errors::{Failure, Outcome};
use crate::memory::{Buffer, UserMemory};
use crate::open::{CallDetails, Open};
use crate::status;
use crate::view::Representation;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// Where in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePosition {
    /// At an offset that the call says, in etypes.
    Offset(MPI_Offset),
    /// At the rank's own pointer.
    Individual,
    /// At the pointer that all ranks share; collective: one after the other, in order of rank.
    Shared,
}

/// Which ranks take part, as the standard calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coordination {
    /// The rank alone.
    Independent,
    /// All ranks of the file.
    Collective,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) direction: Direction,
    pub(crate) at: FilePosition,
    pub(crate) coordination: Coordination,
}

/// A call whose arguments are in order.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) memory: UserMemory,
    /// In units of the view; `None` is the individual pointer.
    pub(crate) offset: Option<u64>,
}

/// A call that the program waits for.
///
/// # Safety
///
/// Buffer and status are as the function of MPI demands.
#[expect(
    clippy::inline_always,
    reason = "a frame less above the system call was measurably faster"
)]
#[inline(always)]
pub(crate) unsafe fn blocking(
    open: &mut Open,
    access: Access,
    buffer: Buffer,
    to: *mut MPI_Status,
) -> Outcome {
    let bytes = carry_out(open, access, buffer)?;
    // SAFETY: the caller's promise.
    unsafe { status::set(to, bytes) }
}

/// Moves the bytes of a call, and returns how many.
#[expect(
    clippy::inline_always,
    reason = "so that the parts of an access arrive in registers: a structure in memory was waited for"
)]
#[inline(always)]
pub(crate) fn carry_out(open: &mut Open, access: Access, buffer: Buffer) -> Outcome<u64> {
    let Access { direction, at, coordination } = access;
    transfer(open, direction, at, coordination, buffer)
}

#[inline(never)]
fn transfer(
    open: &mut Open,
    direction: Direction,
    at: FilePosition,
    coordination: Coordination,
    buffer: Buffer,
) -> Outcome<u64> {
    let access = Access { direction, at, coordination };
    let Prepared { mut memory, offset } = prepare(open, access, buffer)?;
    let file = &mut open.file;
    let moved = match (access.coordination, access.direction, offset) {
        (Coordination::Independent, direction, offset) => {
            transfer_alone(file, direction, offset, &mut memory)
        }
        (Coordination::Collective, Direction::Read, Some(offset)) => {
            file.read_at_all(offset, memory.memory_mut())
        }
        (Coordination::Collective, Direction::Read, None) => file.read_all(memory.memory_mut()),
        (Coordination::Collective, Direction::Write, Some(offset)) => {
            file.write_at_all(offset, memory.memory())
        }
        (Coordination::Collective, Direction::Write, None) => file.write_all(memory.memory()),
    }?;
    open.tally.add(access, moved);
    let bytes = memory.complete(moved)?;
    open.details.moved = bytes;
    Ok(bytes)
}

/// Moves bytes by this rank alone; without an offset, at its own pointer.
#[inline]
fn transfer_alone(
    file: &mut File,
    direction: Direction,
    offset: Option<u64>,
    memory: &mut UserMemory,
) -> Result<u64, FileError> {
    match (direction, offset) {
        (Direction::Read, Some(offset)) => file.read_at(offset, memory.memory_mut()),
        (Direction::Read, None) => file.read(memory.memory_mut()),
        (Direction::Write, Some(offset)) => file.write_at(offset, memory.memory()),
        (Direction::Write, None) => file.write(memory.memory()),
    }
}

/// Looks at the arguments of a call, and finds its place in the file.
#[inline]
pub(crate) fn prepare(open: &mut Open, access: Access, buffer: Buffer) -> Outcome<Prepared> {
    let (memory, etypes) = match check(open, access, buffer) {
        Ok(checked) => checked,
        Err(failure) => {
            match access {
                Access { coordination: Coordination::Independent, .. } => {}
                // The other ranks synchronise for the pointer first.
                Access { at: FilePosition::Shared, .. } => open.decline(&failure),
                Access { direction, .. } => open.decline_access(direction, &failure),
            }
            return Err(failure);
        }
    };
    open.details = CallDetails {
        offset: if let FilePosition::Offset(offset) = access.at { Some(offset) } else { None },
        length: memory.len(),
        count: buffer.count as u64,
        moved: 0,
    };
    let offset = match access.at {
        FilePosition::Offset(offset) => Some(offset as u64),
        FilePosition::Individual => None,
        FilePosition::Shared if access.coordination == Coordination::Collective => {
            Some(open.file.take_ordered(etypes)?)
        }
        FilePosition::Shared => Some(open.file.take_shared(etypes)?),
    };
    Ok(Prepared { memory, offset })
}

/// The memory of a call, and how many etypes it holds.
#[inline]
pub(crate) fn check(open: &Open, access: Access, buffer: Buffer) -> Outcome<(UserMemory, u64)> {
    if access.at != FilePosition::Shared {
        open.not_sequential()?;
    }
    if access.coordination == Coordination::Collective {
        open.no_split()?;
    }
    match access.direction {
        Direction::Read if open.amode & mpi::MODE_WRONLY != 0 => {
            return Err(Failure::new(mpi::ERR_ACCESS, "the file was opened for writing only"));
        }
        Direction::Write if open.amode & mpi::MODE_RDONLY != 0 => {
            return Err(Failure::new(mpi::ERR_READ_ONLY, "the file was opened for reading only"));
        }
        _ => {}
    }
    if let FilePosition::Offset(offset) = access.at
        && offset < 0
    {
        return Err(Failure::new(mpi::ERR_ARG, "the offset is negative"));
    }
    let memory = match open.view.representation {
        Representation::External32 => UserMemory::external(buffer, access.direction)?,
        Representation::Registered(representation) => {
            UserMemory::registered(buffer, access.direction, representation)?
        }
        Representation::Native | Representation::Internal => UserMemory::native(buffer)?,
    };
    let bytes = memory.len();
    let etype = open.view.etype_size;
    if etype == 1 {
        // Most views are of bytes, and a division takes long.
        return Ok((memory, bytes));
    }
    if !bytes.is_multiple_of(etype) {
        return Err(Failure::new(mpi::ERR_IO, "only whole etypes can be read or written"));
    }
    Ok((memory, bytes / etype))
}
