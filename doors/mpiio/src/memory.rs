//! [`UserMemory`]: the program's buffer of a call, as its datatype describes it.
//!
//! Contiguous buffers, which are most, are a slice and nothing else.

use std::ffi::c_void;

use striate_file::{Memory, MemoryMut, Source, Target, Typed};

use crate::constants::{self as mpi, MPI_Datatype};
use crate::errors::{Failure, Outcome};
use crate::types::{Described, TypeProblem, describe};

/// A buffer as a call gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) address: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: MPI_Datatype,
}

/// Bytes of the program, for as long as a call has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    first: *mut u8,
    len: usize,
}

// SAFETY: the program leaves the buffer of a call to it until the call is complete, whichever thread works on it.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the program's buffer reaches as far as count and datatype say. Between its parts may lie memory
        // that is not part of it; nothing here touches that.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl AsMut<[u8]> for Bytes {
    fn as_mut(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: as above; a buffer to read into is the call's alone.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

/// The memory of a call.
#[derive(Debug)]
pub(crate) enum UserMemory {
    /// In one piece.
    Plain(Bytes),
    /// As a datatype says.
    Typed(Box<Typed<Bytes>>),
}

impl From<TypeProblem> for Failure {
    fn from(problem: TypeProblem) -> Self {
        Self::told(mpi::ERR_TYPE, problem.to_string())
    }
}

impl UserMemory {
    /// The memory of a buffer, and the bytes of data in it.
    #[inline]
    pub(crate) fn new(buffer: Buffer) -> Outcome<(Self, u64)> {
        let count = u64::try_from(buffer.count)
            .map_err(|_| Failure::new(mpi::ERR_COUNT, "the count is negative"))?;
        let described = describe(buffer.datatype)?;
        let len = described
            .size
            .checked_mul(count)
            .filter(|&len| isize::try_from(len).is_ok())
            .ok_or(Failure::new(mpi::ERR_COUNT, "the buffer is larger than memory can be"))?;
        if len == 0 {
            return Ok((Self::Plain(Bytes { first: std::ptr::null_mut(), len: 0 }), 0));
        }
        let memory = if described.contiguous {
            let low = described.datatype.true_lower_bound();
            Self::Plain(Bytes { first: place(buffer.address, low)?, len: len as usize })
        } else {
            Self::typed(buffer.address, count, &described)?
        };
        Ok((memory, len))
    }

    fn typed(address: *mut c_void, count: u64, described: &Described) -> Outcome<Self> {
        let datatype = &described.datatype;
        let too_far = Failure::new(mpi::ERR_ARG, "the buffer reaches beyond what memory can be");
        let last = i64::try_from(count - 1)
            .ok()
            .and_then(|copies| copies.checked_mul(datatype.extent()))
            .ok_or(too_far.clone())?;
        let (low, high) = (datatype.true_lower_bound(), datatype.true_upper_bound());
        let low = low.checked_add(last.min(0)).ok_or(too_far.clone())?;
        let high = high.checked_add(last.max(0)).ok_or(too_far.clone())?;
        let len = high.checked_sub(low).ok_or(too_far)?;
        let bytes = Bytes { first: place(address, low)?, len: len as usize };
        // Where the description counts from may lie before or behind the bytes that it names.
        let (origin, datatype) = match usize::try_from(low.wrapping_neg()) {
            Ok(origin) if origin <= bytes.len => (origin, datatype.clone()),
            _ => (0, datatype.displaced(low.wrapping_neg()).map_err(TypeProblem::Description)?),
        };
        let typed = Typed::new(bytes, origin, count, &datatype)
            .map_err(|error| Failure::told(mpi::ERR_ARG, error.to_string()))?;
        Ok(Self::Typed(Box::new(typed)))
    }
}

/// The first byte of a buffer; addresses may be absolute, counted from `MPI_BOTTOM`.
fn place(address: *mut c_void, offset: i64) -> Outcome<*mut u8> {
    let first = address.cast::<u8>().wrapping_offset(offset as isize);
    if first.is_null() {
        return Err(Failure::new(mpi::ERR_BUFFER, "the buffer is null"));
    }
    Ok(first)
}

impl Source for UserMemory {
    fn memory(&self) -> Memory<'_> {
        match self {
            Self::Plain(bytes) => bytes.as_ref().into(),
            Self::Typed(typed) => typed.memory(),
        }
    }
}

impl Target for UserMemory {
    fn memory_mut(&mut self) -> MemoryMut<'_> {
        match self {
            Self::Plain(bytes) => bytes.as_mut().into(),
            Self::Typed(typed) => typed.memory_mut(),
        }
    }
}
