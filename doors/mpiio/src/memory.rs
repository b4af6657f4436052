//! [`UserMemory`]: the program's buffer of a call, as its datatype describes it.
//!
//! Contiguous buffers, the common case, are a plain slice.

use std::ffi::c_void;

use striate_datatype::{Datatype, PackError};
use striate_file::{Memory, MemoryMut, Source, Target, Typed};

use crate::access::Direction;
use crate::constants::{self as mpi, MPI_Datatype};
use crate::datarep::{Converted, Registered};
use crate::errors::{Failure, Outcome};
use crate::types::external::{Incoming, Outgoing};
use crate::types::{Described, TypeProblem, describe, predefined};

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

// SAFETY: the program leaves the buffer of a call to it until the call is complete, whichever
// thread works on it.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the program's buffer reaches as far as count and datatype say. Between its parts
        // may lie memory that is not part of it; nothing here touches that.
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
pub(crate) struct UserMemory {
    content: Content,
    /// Bytes of the file that it is for.
    len: u64,
    /// Bytes of an element of the call in memory and in the file, where they differ.
    scale: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Content {
    /// In one piece.
    Plain(Bytes),
    /// As a datatype says.
    Typed(Box<Typed<Bytes>>),
    /// To be converted on its way to the file.
    Outgoing(Box<Outgoing<'static>>),
    /// To be converted on its way from the file.
    Incoming(Box<Incoming<'static>>),
    /// Converted by a function of the program before it was written.
    Written(Box<Converted>),
    /// To be converted by a function of the program once it was read.
    Read(Box<Converted>),
}

impl From<TypeProblem> for Failure {
    fn from(problem: TypeProblem) -> Self {
        Self::with_reason(mpi::ERR_TYPE, problem.to_string())
    }
}

impl UserMemory {
    /// The memory of a buffer whose bytes are those of the file.
    #[inline]
    pub(crate) fn native(buffer: Buffer) -> Outcome<Self> {
        // Most buffers are of a type of MPI's own.
        match predefined(buffer.datatype) {
            Some(described) => Self::described(buffer, described),
            None => Self::described(buffer, &*describe(buffer.datatype)?),
        }
    }

    /// The memory of a buffer whose elements the file holds as external32.
    pub(crate) fn external(buffer: Buffer, direction: Direction) -> Outcome<Self> {
        let described = describe(buffer.datatype)?;
        if described.plain {
            return Self::described(buffer, &described);
        }
        let (count, _) = length(buffer.count, described.size)?;
        let external = described.external()?.size;
        let (count, len) = length(count as i64, external)?;
        if len == 0 {
            return Ok(Self::empty());
        }
        let shifted;
        let (address, described) = if buffer.address.is_null() {
            let low = described.first;
            shifted = described.displaced(low.wrapping_neg())?;
            (place(std::ptr::null_mut(), low)?.cast(), &shifted)
        } else {
            (buffer.address, &*described)
        };
        let (mut bytes, origin) = reach(address, count, &described.datatype)?;
        let content = match direction {
            Direction::Write => {
                // SAFETY: the program leaves its buffer to the call until that is complete, and
                // nothing of the call outlives it.
                let bytes = unsafe { &*std::ptr::from_ref(bytes.as_ref()) };
                Content::Outgoing(Box::new(Outgoing::new(bytes, origin, count, described)?))
            }
            Direction::Read => {
                // SAFETY: as above; a buffer to read into is the call's alone.
                let bytes = unsafe { &mut *std::ptr::from_mut(bytes.as_mut()) };
                Content::Incoming(Box::new(Incoming::new(bytes, origin, count, described)?))
            }
        };
        Ok(Self { content, len, scale: Some((described.size, external)) })
    }

    /// The memory of a buffer that functions of the program convert.
    pub(crate) fn registered(
        buffer: Buffer,
        direction: Direction,
        representation: &'static Registered,
    ) -> Outcome<Self> {
        let described = describe(buffer.datatype)?;
        let function = match direction {
            Direction::Read => representation.read,
            Direction::Write => representation.write,
        };
        let Some(function) = function else { return Self::described(buffer, &described) };
        let in_file = representation.in_file(buffer.datatype)?;
        let (_, inside) = length(buffer.count, described.size)?;
        let (_, len) = length(buffer.count, in_file.size)?;
        if inside == 0 || len == 0 {
            return Ok(Self::empty());
        }
        let scale = Some((described.size, in_file.size));
        let user = (buffer.address, buffer.datatype, &*described);
        let mut converted = Converted::new(representation, function, user, in_file, len)?;
        let content = match direction {
            Direction::Read => Content::Read(Box::new(converted)),
            Direction::Write => {
                converted.convert(len)?;
                Content::Written(Box::new(converted))
            }
        };
        Ok(Self { content, len, scale })
    }

    const fn empty() -> Self {
        let none = Bytes { first: std::ptr::null_mut(), len: 0 };
        Self { content: Content::Plain(none), len: 0, scale: None }
    }

    #[inline]
    fn described(buffer: Buffer, described: &Described) -> Outcome<Self> {
        if !described.contiguous {
            return Self::typed(buffer, described);
        }
        let (_, len) = length(buffer.count, described.size)?;
        if len == 0 {
            return Ok(Self::empty());
        }
        let first = place(buffer.address, described.first)?;
        let content = Content::Plain(Bytes { first, len: len as usize });
        Ok(Self { content, len, scale: None })
    }

    #[inline(never)]
    fn typed(buffer: Buffer, described: &Described) -> Outcome<Self> {
        let (count, len) = length(buffer.count, described.size)?;
        if len == 0 {
            return Ok(Self::empty());
        }
        let typed = if buffer.address.is_null() {
            Self::absolute(count, &described.datatype)?
        } else {
            let (bytes, origin) = reach(buffer.address, count, &described.datatype)?;
            Typed::new(bytes, origin, count, &described.datatype).map_err(does_not_fit)?
        };
        Ok(Self { content: Content::Typed(Box::new(typed)), len, scale: None })
    }

    /// Memory whose places are addresses, counted from `MPI_BOTTOM`: it is described again from its
    /// first byte on, since no slice begins at address 0.
    fn absolute(count: u64, datatype: &Datatype) -> Outcome<Typed<Bytes>> {
        let low = datatype.true_lower_bound();
        let shifted = datatype.displaced(low.wrapping_neg()).map_err(TypeProblem::Description)?;
        let (bytes, origin) = reach(place(std::ptr::null_mut(), low)?.cast(), count, &shifted)?;
        Typed::new(bytes, origin, count, &shifted).map_err(does_not_fit)
    }

    /// Bytes of the file that it is for.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Ends a call that has moved so many bytes of the file, and returns how many of memory they
    /// are. Refuses a write of values that the file's representation could not hold.
    #[inline]
    pub(crate) fn complete(&mut self, moved: u64) -> Outcome<u64> {
        match &mut self.content {
            Content::Outgoing(outgoing) if !outgoing.all_in_range() => {
                return Err(Failure::new(
                    mpi::ERR_CONVERSION,
                    "a value is too large for its size in external32",
                ));
            }
            Content::Read(converted) => converted.convert(moved)?,
            _ => {}
        }
        Ok(match self.scale {
            None => moved,
            Some((inside, outside)) => {
                moved / outside * inside + moved % outside * inside / outside
            }
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the end of the error")]
fn does_not_fit(error: PackError) -> Failure {
    Failure::with_reason(mpi::ERR_ARG, error.to_string())
}

/// The count of a call, and the bytes that so many elements have.
#[inline]
fn length(count: i64, size: u64) -> Outcome<(u64, u64)> {
    let count =
        u64::try_from(count).map_err(|_| Failure::new(mpi::ERR_COUNT, "the count is negative"))?;
    let len = size.checked_mul(count).filter(|&len| isize::try_from(len).is_ok());
    len.map(|len| (count, len))
        .ok_or(Failure::new(mpi::ERR_COUNT, "the buffer is larger than memory can be"))
}

/// From the first to the last byte of a buffer, and where in them its description counts from.
fn reach(address: *mut c_void, count: u64, datatype: &Datatype) -> Outcome<(Bytes, usize)> {
    let too_far = || Failure::new(mpi::ERR_ARG, "the buffer reaches beyond what memory can be");
    let last = i64::try_from(count - 1)
        .ok()
        .and_then(|copies| copies.checked_mul(datatype.extent()))
        .ok_or_else(too_far)?;
    // The origin may lie outside of the bytes that are meant; the slice includes it, and it is
    // never accessed.
    let low = datatype.true_lower_bound().checked_add(last.min(0)).ok_or_else(too_far)?.min(0);
    let high = datatype.true_upper_bound().checked_add(last.max(0)).ok_or_else(too_far)?.max(0);
    let len = high.checked_sub(low).ok_or_else(too_far)?;
    Ok((Bytes { first: place(address, low)?, len: len as usize }, low.unsigned_abs() as usize))
}

/// The first byte of a buffer; addresses may be absolute, counted from `MPI_BOTTOM`.
#[inline]
fn place(address: *mut c_void, offset: i64) -> Outcome<*mut u8> {
    let first = address.cast::<u8>().wrapping_offset(offset as isize);
    if first.is_null() {
        return Err(Failure::new(mpi::ERR_BUFFER, "the buffer is null"));
    }
    Ok(first)
}

impl Source for UserMemory {
    #[inline]
    fn memory(&self) -> Memory<'_> {
        match &self.content {
            Content::Plain(bytes) => bytes.as_ref().into(),
            Content::Typed(typed) => typed.memory(),
            Content::Outgoing(outgoing) => Memory::gathered(&**outgoing),
            Content::Written(converted) => (&converted.bytes).into(),
            // A buffer to read into is never written from.
            Content::Incoming(_) | Content::Read(_) => (&[]).into(),
        }
    }
}

impl Target for UserMemory {
    #[inline]
    fn memory_mut(&mut self) -> MemoryMut<'_> {
        match &mut self.content {
            Content::Plain(bytes) => bytes.as_mut().into(),
            Content::Typed(typed) => typed.memory_mut(),
            Content::Incoming(incoming) => MemoryMut::scattered(&mut **incoming),
            Content::Read(converted) => (&mut converted.bytes).into(),
            // A buffer to write from is never read into.
            Content::Outgoing(_) | Content::Written(_) => (&mut []).into(),
        }
    }
}
