//! [`Value`] and [`Conversion`]: elements in memory, and their conversion to and from the external
//! types of a file.
//!
//! A [`Conversion`] turns packed elements into their bytes in a file and back. A value
//! that is out of range of the other type becomes a fill value, and the return value says so; the
//! others are converted, as in netCDF.
//!
//! # What is in range
//!
//! * Integers to integer types: those that the other type has. To floating point: all, rounded.
//! * Floating point numbers to integer types: those between the smallest and the largest integer; a
//!   fraction is truncated. A number beyond a limit by a fraction only (127.5, or −0.5 for an
//!   unsigned type) is out of range, as are infinities and NaN. 2⁶³ and 2⁶⁴, to which netCDF rounds
//!   the limits of 64-bit integers, are in range of these and become the largest integer.
//! * Doubles to floats: up to the largest `f32`, infinities and NaN.
//! * Unsigned bytes to [`Type::Byte`] of CDF-1 and CDF-2, and the reverse: all. These formats have
//!   no unsigned type, and netCDF lets the program decide what a byte is. CDF-5 has an unsigned
//!   type, and checks.

mod convert;
mod number;

use bytemuck::Pod;
use number::FileNumber;

use crate::format::{ByteOrder, Format, Type};

/// An element in memory.
pub trait Value: Pod + PartialEq + std::fmt::Debug + Send + Sync + private::Sealed {
    /// Its kind.
    const KIND: Kind;
}

/// The kind of an element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// [`Char`].
    Text,
    /// [`Raw`].
    Raw,
}

/// A character of text, which is not a number. It converts to and from [`Type::Char`] only.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    bytemuck::Pod,
    bytemuck::Zeroable,
)]
#[repr(transparent)]
pub struct Char(pub u8);

impl Char {
    /// Bytes as text.
    pub fn slice(bytes: &[u8]) -> &[Self] {
        bytemuck::cast_slice(bytes)
    }

    /// Bytes as text.
    pub fn slice_mut(bytes: &mut [u8]) -> &mut [Self] {
        bytemuck::cast_slice_mut(bytes)
    }
}

/// A byte of elements as they are stored: of enumerations, opaque and compound types, and of text
/// of a fixed length. An access has as many of them as its elements have bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Raw(pub u8);

impl Raw {
    /// The bytes of elements, for example of structures in C's layout.
    pub fn slice<T: bytemuck::NoUninit>(elements: &[T]) -> &[Self] {
        bytemuck::cast_slice(bytemuck::cast_slice::<T, u8>(elements))
    }

    /// The bytes of elements to be read.
    pub fn slice_mut<T: Pod>(elements: &mut [T]) -> &mut [Self] {
        bytemuck::cast_slice_mut(bytemuck::cast_slice_mut::<T, u8>(elements))
    }
}

mod private {
    pub trait Sealed {}
}

macro_rules! values {
    ($($type:ty => $kind:ident),+ $(,)?) => {$(
        impl private::Sealed for $type {}
        impl Value for $type {
            const KIND: Kind = Kind::$kind;
        }
    )+};
}

values! {
    i8 => I8, u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64,
    f32 => F32, f64 => F64, Char => Text, Raw => Raw,
}

impl Kind {
    /// Bytes of an element in memory.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Text | Self::Raw => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether elements convert to and from an external type: numbers to numbers, text to text.
    pub const fn converts(self, external: Type) -> bool {
        match self {
            Self::Text => matches!(external, Type::Char),
            Self::Raw => matches!(external, Type::String | Type::Text(_) | Type::User(_)),
            _ => external.is_number(),
        }
    }

    /// Whether both types have the same bits, so that only the byte order differs.
    pub const fn is_same(self, external: Type) -> bool {
        matches!(
            (self, external),
            (Self::I8, Type::Byte)
                | (Self::U8, Type::UByte)
                | (Self::I16, Type::Short)
                | (Self::U16, Type::UShort)
                | (Self::I32, Type::Int)
                | (Self::U32, Type::UInt)
                | (Self::I64, Type::Int64)
                | (Self::U64, Type::UInt64)
                | (Self::F32, Type::Float)
                | (Self::F64, Type::Double)
                | (Self::Text, Type::Char)
        )
    }
}

/// A conversion between elements in memory and in a file.
///
/// The module comment says which values are in range. Text and numbers do not convert to each other
/// ([`Kind::converts`]); if a caller does it nevertheless, the bytes of the text are unsigned
/// numbers.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The type in memory.
    pub memory: Kind,
    /// The type in the file.
    pub external: Type,
    /// The format of the file: before CDF-5, `Byte` also takes unsigned bytes without a check.
    pub format: Format,
    /// The fill value of the variable, in the first `external.size()` bytes, the most significant
    /// first whatever the byte order of the file is.
    pub fill: [u8; 8],
    /// The byte order of elements in the file.
    pub byte_order: ByteOrder,
}

/// Whether all values were in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum InRange {
    /// All values were in range.
    All,
    /// Some values were not, and became fill values.
    NotAll,
}

impl InRange {
    /// The result for two parts together.
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, Self::All) => Self::All,
            _ => Self::NotAll,
        }
    }
}

impl Conversion {
    /// Packed elements → their bytes in the file. A value out of range becomes
    /// [`Conversion::fill`].
    ///
    /// Neither side needs an alignment.
    ///
    /// # Panics
    /// If the slices do not hold equally many whole elements.
    pub fn encode(&self, memory: &[u8], file: &mut [u8]) -> InRange {
        self.assert_lengths(memory.len(), file.len());
        if self.has_same_bits() {
            convert::copy(memory, file, self.memory.size(), self.swaps());
            return InRange::All;
        }
        convert::to_file(self, memory, file)
    }

    /// Bytes in the file → packed elements. A value out of range becomes netCDF's default fill
    /// value of the type in memory, since that of the variable may be out of range as well.
    ///
    /// Neither side needs an alignment.
    ///
    /// # Panics
    /// If the slices do not hold equally many whole elements.
    pub fn decode(&self, file: &[u8], memory: &mut [u8]) -> InRange {
        self.assert_lengths(memory.len(), file.len());
        if self.has_same_bits() {
            convert::copy(file, memory, self.memory.size(), self.swaps());
            return InRange::All;
        }
        convert::to_memory(self, file, memory)
    }

    /// Converts in place, in either direction; `None` if the two types do not have the same bits.
    ///
    /// # Panics
    /// If `bytes` does not hold whole elements.
    pub fn in_place(&self, bytes: &mut [u8]) -> Option<()> {
        self.has_same_bits().then(|| convert::reorder(bytes, self.memory.size(), self.swaps()))
    }

    /// Whether the bytes in memory are those in the file.
    pub const fn is_identity(&self) -> bool {
        self.has_same_bits() && !self.swaps()
    }

    /// Whether the byte order of the file is not that of memory.
    const fn swaps(&self) -> bool {
        let is_big = matches!(self.byte_order, ByteOrder::Big);
        self.external.size() > 1 && is_big != cfg!(target_endian = "big")
    }

    /// Whether only the byte order differs.
    const fn has_same_bits(&self) -> bool {
        self.memory.is_same(self.external)
            || matches!(
                (self.memory, self.external, self.format),
                (Kind::U8, Type::Byte, Format::Cdf1 | Format::Cdf2)
            )
    }

    fn assert_lengths(&self, memory: usize, file: usize) {
        let (size, external) = (self.memory.size(), self.external.size() as usize);
        assert!(
            memory.is_multiple_of(size)
                && file.is_multiple_of(external)
                && memory / size == file / external,
            "{memory} bytes of {:?} and {file} of {} are not equally many elements",
            self.memory,
            self.external
        );
    }
}

/// netCDF's default fill value of a type, as bytes in a file, padded with zeros.
pub fn default_fill(external: Type) -> [u8; 8] {
    match external {
        Type::Byte => i8::FILL.to_file(),
        Type::Char | Type::String | Type::Text(_) | Type::User(_) => [0; 8],
        Type::Short => i16::FILL.to_file(),
        Type::Int => i32::FILL.to_file(),
        Type::Float => f32::FILL.to_file(),
        Type::Double => f64::FILL.to_file(),
        Type::UByte => u8::FILL.to_file(),
        Type::UShort => u16::FILL.to_file(),
        Type::UInt => u32::FILL.to_file(),
        Type::Int64 => i64::FILL.to_file(),
        Type::UInt64 => u64::FILL.to_file(),
    }
}
