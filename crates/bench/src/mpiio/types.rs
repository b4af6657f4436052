//! Conversion of descriptions to MPI datatypes.

use std::ffi::c_int;

use striate_datatype::{Datatype, Loop, Node};

use super::{ErrorsReturn, MpiIoError, check, int, sys};

/// A description as a type of MPI, ready for use.
#[derive(Debug)]
pub struct MpiType {
    pub(super) raw: RawType,
    pub(super) size: u64,
    pub(super) extent: i64,
    /// The lowest offset of the data, and one past the highest.
    pub(super) span: (i64, i64),
}

impl MpiType {
    /// Builds the type. MPI has to be initialised.
    pub fn build(datatype: &Datatype) -> Result<Self, MpiIoError> {
        let _errors = ErrorsReturn::begin()?;
        let (lb, extent) = (datatype.lower_bound(), datatype.extent());
        let size = datatype.size();
        let mut raw = RawType::of(datatype.root(), datatype.first_offset())?;
        let bounds = raw.bounds()?;
        if (bounds.lb, bounds.extent) != (lb, extent) {
            raw = raw.resized(lb, extent)?;
        }
        // What MPI takes for other bytes than we do would leave the memory that was checked.
        let RawBounds { true_lb, true_extent, size: raw_size, .. } = raw.bounds()?;
        let ours = (datatype.true_lower_bound(), datatype.true_extent() as i64, size);
        let theirs = (true_lb, true_extent, raw_size);
        if size > 0 && ours != theirs || raw_size != size {
            return Err(MpiIoError::Differs { ours, theirs });
        }
        // SAFETY: the type exists.
        let code = unsafe { sys::striate_mpiio_commit(raw.0) };
        check("MPI_Type_commit", code).map_err(MpiIoError::Type)?;
        let span = (datatype.true_lower_bound(), datatype.true_upper_bound());
        Ok(Self { raw, size, extent, span })
    }

    /// Gathers `count` copies from `memory` into `stream` with `MPI_Pack`.
    pub fn pack(
        &self,
        memory: &[u8],
        origin: usize,
        count: u64,
        stream: &mut [u8],
    ) -> Result<(), MpiIoError> {
        let count = self.fit(memory.len(), origin, count)?;
        let room = self.stream(count, stream.len())?;
        let _errors = ErrorsReturn::begin()?;
        let mut position = 0;
        // SAFETY: all data of the copies lies in `memory`, and the stream has the room it says.
        let code = unsafe {
            let first = memory.as_ptr().wrapping_add(origin).cast();
            let to = stream.as_mut_ptr().cast();
            sys::striate_mpiio_pack(first, count, self.raw.0, to, room, &raw mut position)
        };
        check("MPI_Pack", code).map_err(MpiIoError::Type)
    }

    /// Scatters `stream` to `count` copies in `memory` with `MPI_Unpack`.
    pub fn unpack(
        &self,
        stream: &[u8],
        memory: &mut [u8],
        origin: usize,
        count: u64,
    ) -> Result<(), MpiIoError> {
        let count = self.fit(memory.len(), origin, count)?;
        let len = self.stream(count, stream.len())?;
        let _errors = ErrorsReturn::begin()?;
        let mut position = 0;
        // SAFETY: all data of the copies lies in `memory`, and the stream has the length it says.
        let code = unsafe {
            let first = memory.as_mut_ptr().wrapping_add(origin).cast();
            let from = stream.as_ptr().cast();
            sys::striate_mpiio_unpack(from, len, &raw mut position, first, count, self.raw.0)
        };
        check("MPI_Unpack", code).map_err(MpiIoError::Type)
    }

    /// Checks that the data of `count` copies lies in the memory; the count as MPI takes it.
    pub(super) fn fit(&self, len: usize, origin: usize, count: u64) -> Result<c_int, MpiIoError> {
        let count = int("copies", count)?;
        if count > 0 && self.size > 0 {
            let last = i128::from(count - 1) * i128::from(self.extent);
            let low = i128::from(self.span.0) + last.min(0);
            let high = i128::from(self.span.1) + last.max(0);
            let (before, behind) = (origin as i128, len as i128 - origin as i128);
            if low < -before || high > behind {
                return Err(MpiIoError::Outside { low, high, origin, len });
            }
        }
        Ok(count)
    }

    pub(super) fn stream(&self, count: c_int, len: usize) -> Result<c_int, MpiIoError> {
        let size = self.size_of(count);
        if len as u64 != size {
            return Err(MpiIoError::Stream { len, size });
        }
        int("bytes of stream", size)
    }

    pub(super) fn size_of(&self, count: c_int) -> u64 {
        self.size.saturating_mul(count as u64)
    }
}

/// Bounds that MPI gives a type.
pub(super) struct RawBounds {
    lb: i64,
    extent: i64,
    true_lb: i64,
    true_extent: i64,
    size: u64,
}

/// A type of MPI that is ours to free.
#[derive(Debug)]
pub(super) struct RawType(pub(super) isize);

impl Drop for RawType {
    fn drop(&mut self) {
        if sys::striate_mpiio_is_running() != 0 {
            // SAFETY: the type exists and is not used again; whatever was made of it outlives it.
            unsafe { sys::striate_mpiio_free(self.0) };
        }
    }
}

/// What a loop repeats: bytes are blocks of MPI's own type.
pub(super) struct Part {
    ty: Option<RawType>,
    block: c_int,
}

impl Part {
    pub(super) fn of(node: &Node) -> Result<Self, MpiIoError> {
        Ok(match node.kind() {
            Loop::Bytes => Self { ty: None, block: int("bytes of a run", node.size())? },
            _ => Self { ty: Some(RawType::of(node, 0)?), block: 1 },
        })
    }

    pub(super) fn handle(&self) -> isize {
        self.ty.as_ref().map_or_else(|| sys::striate_mpiio_byte(), |ty| ty.0)
    }
}

impl RawType {
    /// Adopts what a constructor made.
    pub(super) fn made(
        call: &'static str,
        construct: impl FnOnce(*mut isize) -> c_int,
    ) -> Result<Self, MpiIoError> {
        let mut made = 0;
        check(call, construct(&raw mut made)).map_err(MpiIoError::Type)?;
        Ok(Self(made))
    }

    /// The type of a loop whose first byte lies at `at`.
    pub(super) fn of(node: &Node, at: i64) -> Result<Self, MpiIoError> {
        match node.kind() {
            Loop::Bytes => {
                let part = Part::of(node)?;
                if at == 0 { Self::contiguous(part.block, part.handle()) } else { part.at(&[at]) }
            }
            Loop::Contig { count, child } => {
                let (count, child) = (int("copies", *count)?, Self::of(child, 0)?);
                let bounds = child.bounds()?;
                if bounds.extent == bounds.true_extent {
                    Self::contiguous(count, child.0)?.displaced(at)
                } else {
                    let part = Part { ty: Some(child), block: 1 };
                    part.repeated(count, bounds.true_extent)?.displaced(at)
                }
            }
            Loop::Vector { count, stride, child } => {
                Part::of(child)?.repeated(int("copies", *count)?, *stride)?.displaced(at)
            }
            Loop::BlockIndexed { offsets, child } => {
                let offsets: Vec<i64> = offsets.iter().map(|offset| offset + at).collect();
                Part::of(child)?.at(&offsets)
            }
            Loop::Indexed { blocks, child, stride } => {
                let offsets: Vec<i64> = blocks.iter().map(|block| block.offset + at).collect();
                // Where runs of bytes touch, a block is a longer run.
                let touch = matches!(child.kind(), Loop::Bytes) && child.size() as i64 == *stride;
                let unit = if touch { child.size() } else { 1 };
                let lens: Vec<c_int> = blocks
                    .iter()
                    .map(|block| int("children of a block", block.len.saturating_mul(unit)))
                    .collect::<Result<_, _>>()?;
                if touch {
                    return Self::hindexed(&lens, &offsets, sys::striate_mpiio_byte());
                }
                let mut child = Self::of(child, 0)?;
                let bounds = child.bounds()?;
                if bounds.extent != *stride {
                    child = child.resized(bounds.lb, *stride)?;
                }
                Self::hindexed(&lens, &offsets, child.0)
            }
            Loop::Struct { fields } => {
                let offsets: Vec<i64> = fields.iter().map(|field| field.offset + at).collect();
                let parts: Vec<Part> =
                    fields.iter().map(|field| Part::of(&field.child)).collect::<Result<_, _>>()?;
                let lens: Vec<c_int> = parts.iter().map(|part| part.block).collect();
                let types: Vec<isize> = parts.iter().map(Part::handle).collect();
                let count = int("fields", fields.len() as u64)?;
                let (lens, offsets, types) = (lens.as_ptr(), offsets.as_ptr(), types.as_ptr());
                // SAFETY: the lists have `count` entries, and the types exist.
                Self::made("MPI_Type_create_struct", |made| unsafe {
                    sys::striate_mpiio_struct(count, lens, offsets, types, made)
                })
            }
        }
    }

    pub(super) fn contiguous(count: c_int, child: isize) -> Result<Self, MpiIoError> {
        // SAFETY: the child exists.
        Self::made("MPI_Type_contiguous", |made| unsafe {
            sys::striate_mpiio_contiguous(count, child, made)
        })
    }

    pub(super) fn hindexed(
        lens: &[c_int],
        offsets: &[i64],
        child: isize,
    ) -> Result<Self, MpiIoError> {
        let count = int("blocks", lens.len().min(offsets.len()) as u64)?;
        // SAFETY: both lists have `count` entries, and the child exists.
        Self::made("MPI_Type_create_hindexed", |made| unsafe {
            sys::striate_mpiio_hindexed(count, lens.as_ptr(), offsets.as_ptr(), child, made)
        })
    }

    pub(super) fn resized(&self, lb: i64, extent: i64) -> Result<Self, MpiIoError> {
        // SAFETY: the type exists.
        Self::made("MPI_Type_create_resized", |made| unsafe {
            sys::striate_mpiio_resized(self.0, lb, extent, made)
        })
    }

    pub(super) fn displaced(self, by: i64) -> Result<Self, MpiIoError> {
        if by == 0 { Ok(self) } else { Part { ty: Some(self), block: 1 }.at(&[by]) }
    }

    pub(super) fn bounds(&self) -> Result<RawBounds, MpiIoError> {
        let mut bounds = [0; 5];
        // SAFETY: the type exists, and there is room for the five numbers.
        let code = unsafe { sys::striate_mpiio_bounds(self.0, bounds.as_mut_ptr()) };
        check("MPI_Type_get_extent", code).map_err(MpiIoError::Type)?;
        let [lb, extent, true_lb, true_extent, size] = bounds;
        Ok(RawBounds { lb, extent, true_lb, true_extent, size: size as u64 })
    }
}

impl Part {
    pub(super) fn repeated(&self, count: c_int, stride: i64) -> Result<RawType, MpiIoError> {
        if stride == -1 {
            // Open MPI 4 takes this number for "as far as the child reaches".
            let child = RawType::contiguous(self.block, self.handle())?;
            return RawType::contiguous(count, child.resized(0, stride)?.0);
        }
        // SAFETY: the child exists.
        RawType::made("MPI_Type_create_hvector", |made| unsafe {
            sys::striate_mpiio_hvector(count, self.block, stride, self.handle(), made)
        })
    }

    pub(super) fn at(&self, offsets: &[i64]) -> Result<RawType, MpiIoError> {
        let count = int("blocks", offsets.len() as u64)?;
        let (list, child) = (offsets.as_ptr(), self.handle());
        // SAFETY: the list has `count` entries, and the child exists.
        RawType::made("MPI_Type_create_hindexed_block", |made| unsafe {
            sys::striate_mpiio_hindexed_block(count, self.block, list, child, made)
        })
    }
}
