//! The loops of [`Conversion`]: one per direction, generic over the two types.
//!
//! They work on blocks. A block is converted in native byte order, in a loop without branches, and
//! swapped by the kernel of `crates/datatype` while it is in the first-level cache: two simple
//! loops are faster than one that the compiler cannot vectorise. Only a block with a value out of
//! range is processed again, for the fill values.

use striate_datatype::{swap_copy, swap_in_place};

use super::number::{Convert, FileNumber};
use super::{Conversion, InRange, Kind};
use crate::format::Type;

/// Elements of a block: at most 8 KiB of either side.
const BLOCK: usize = 1024;

/// `$function::<memory type, external type>($arguments)` for the types of a conversion. Text is
/// treated as unsigned bytes; it never gets here, because it has the same bits on both sides.
macro_rules! dispatch {
    ($conversion:expr, $function:ident $arguments:tt) => {
        match $conversion.memory {
            Kind::I8 => dispatch!(@ $conversion, i8, $function $arguments),
            Kind::U8 | Kind::Text | Kind::Raw => dispatch!(@ $conversion, u8, $function $arguments),
            Kind::I16 => dispatch!(@ $conversion, i16, $function $arguments),
            Kind::U16 => dispatch!(@ $conversion, u16, $function $arguments),
            Kind::I32 => dispatch!(@ $conversion, i32, $function $arguments),
            Kind::U32 => dispatch!(@ $conversion, u32, $function $arguments),
            Kind::I64 => dispatch!(@ $conversion, i64, $function $arguments),
            Kind::U64 => dispatch!(@ $conversion, u64, $function $arguments),
            Kind::F32 => dispatch!(@ $conversion, f32, $function $arguments),
            Kind::F64 => dispatch!(@ $conversion, f64, $function $arguments),
        }
    };
    (@ $conversion:expr, $memory:ty, $function:ident $arguments:tt) => {
        match $conversion.external {
            Type::Byte => $function::<$memory, i8> $arguments,
            Type::UByte | Type::Char | Type::String | Type::Text(_) | Type::User(_) => {
                $function::<$memory, u8> $arguments
            }
            Type::Short => $function::<$memory, i16> $arguments,
            Type::UShort => $function::<$memory, u16> $arguments,
            Type::Int => $function::<$memory, i32> $arguments,
            Type::UInt => $function::<$memory, u32> $arguments,
            Type::Int64 => $function::<$memory, i64> $arguments,
            Type::UInt64 => $function::<$memory, u64> $arguments,
            Type::Float => $function::<$memory, f32> $arguments,
            Type::Double => $function::<$memory, f64> $arguments,
        }
    };
}

/// Packed elements → their bytes in the file.
pub(super) fn to_file(conversion: &Conversion, memory: &[u8], file: &mut [u8]) -> InRange {
    dispatch!(conversion, encode(memory, file, conversion.fill, conversion.swaps()))
}

/// Bytes in the file → packed elements.
pub(super) fn to_memory(conversion: &Conversion, file: &[u8], memory: &mut [u8]) -> InRange {
    dispatch!(conversion, decode(file, memory, conversion.swaps()))
}

fn encode<M: FileNumber + Convert<E>, E: FileNumber>(
    memory: &[u8],
    file: &mut [u8],
    fill: [u8; 8],
    swaps: bool,
) -> InRange {
    let fill = E::from_file(fill);
    let mut all = InRange::All;
    let blocks = file.chunks_mut(BLOCK * size_of::<E>());
    for (from, to) in memory.chunks(BLOCK * size_of::<M>()).zip(blocks) {
        all = all.and(convert::<M, E>(from, to, fill));
        reorder(to, size_of::<E>(), swaps);
    }
    all
}

fn decode<M: FileNumber, E: FileNumber + Convert<M>>(
    file: &[u8],
    memory: &mut [u8],
    swaps: bool,
) -> InRange {
    let mut native = [0; BLOCK * size_of::<u64>()];
    let mut all = InRange::All;
    let blocks = memory.chunks_mut(BLOCK * size_of::<M>());
    for (from, to) in file.chunks(BLOCK * size_of::<E>()).zip(blocks) {
        let native = &mut native[..from.len()];
        copy(from, native, size_of::<E>(), swaps);
        all = all.and(convert::<E, M>(native, to, M::FILL));
    }
    all
}

/// Converts a block in native byte order.
fn convert<F: FileNumber + Convert<T>, T: FileNumber>(
    from: &[u8],
    to: &mut [u8],
    fill: T,
) -> InRange {
    let from: &[F::Bytes] = bytemuck::cast_slice(from);
    let to: &mut [T::Bytes] = bytemuck::cast_slice_mut(to);
    let mut all = true;
    for (from, to) in from.iter().zip(&mut *to) {
        let (value, fits) = F::from_bytes(*from).convert();
        *to = value.to_bytes();
        all &= fits;
    }
    if all {
        return InRange::All;
    }
    for (from, to) in from.iter().zip(to) {
        if !F::from_bytes(*from).convert().1 {
            *to = fill.to_bytes();
        }
    }
    InRange::NotAll
}

/// Copies elements, with their bytes in the opposite order if `swaps` says so.
pub(super) fn copy(from: &[u8], to: &mut [u8], width: usize, swaps: bool) {
    if swaps {
        swap_copy(from, to, width);
    } else {
        to.copy_from_slice(from);
    }
}

/// Reverses the bytes of elements in place if `swaps` says so.
pub(super) fn reorder(bytes: &mut [u8], width: usize, swaps: bool) {
    if swaps {
        swap_in_place(bytes, width);
    }
}
