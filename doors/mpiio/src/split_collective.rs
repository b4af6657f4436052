//! Split collective calls (`…_begin`, `…_end`). The first half carries out the call, which the
//! standard allows; the second returns its status.

use std::ffi::c_void;

use crate::access::{Access, Direction, FilePosition, carry_out};
use crate::constants::{self as mpi, MPI_Status};
use crate::errors::{Failure, Outcome};
use crate::memory::Buffer;
use crate::open::Open;
use crate::status;

/// Which function ends a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplitKind {
    direction: Direction,
    place: PointerKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointerKind {
    At,
    Individual,
    Ordered,
}

impl SplitKind {
    /// The kind of an access; where exactly is of no importance.
    pub(crate) const fn of(access: Access) -> Self {
        let place = match access.at {
            FilePosition::Offset(_) => PointerKind::At,
            FilePosition::Individual => PointerKind::Individual,
            FilePosition::Shared => PointerKind::Ordered,
        };
        Self { direction: access.direction, place }
    }
}

/// A call whose first half was made.
#[derive(Debug)]
pub(crate) struct Begun {
    kind: SplitKind,
    buffer: usize,
    bytes: u64,
}

/// The first half.
pub(crate) fn begin(open: &mut Open, access: Access, buffer: Buffer) -> Outcome {
    let bytes = carry_out(open, access, buffer)?;
    let begun = Begun { kind: SplitKind::of(access), buffer: buffer.address as usize, bytes };
    open.begun = Some(begun);
    Ok(())
}

/// The second half.
///
/// # Safety
///
/// `to` is as the function of MPI demands.
pub(crate) unsafe fn end(
    open: &mut Open,
    kind: SplitKind,
    buffer: *const c_void,
    to: *mut MPI_Status,
) -> Outcome {
    let wrong = |reason| Err(Failure::new(mpi::ERR_OTHER, reason));
    match open.begun.take() {
        None => wrong("no split collective call was begun"),
        Some(begun) if begun.kind != kind => {
            open.begun = Some(begun);
            wrong("another kind of split collective call was begun")
        }
        Some(begun) if begun.buffer != buffer as usize => {
            open.begun = Some(begun);
            wrong("the split collective call was begun with another buffer")
        }
        // SAFETY: the caller's promise.
        Some(begun) => unsafe { status::set(to, begun.bytes) },
    }
}
