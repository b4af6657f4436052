//! [`AtomicType`]: netCDF's own types as HDF5 types, with their default fill values.

use crate::model::{
    ByteOrder, CharacterSet, Class, Datatype, FixedPoint, FloatingPoint, Normalization, Padding,
    StringPadding,
};
use crate::write::DESCRIPTOR;
use crate::write::Elements;

/// A type of netCDF that is not defined by a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicType {
    /// 8-bit signed integer.
    Byte,
    /// One byte of text.
    Char,
    /// 16-bit signed integer.
    Short,
    /// 32-bit signed integer.
    Int,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// 8-bit unsigned integer.
    UByte,
    /// 16-bit unsigned integer.
    UShort,
    /// 32-bit unsigned integer.
    UInt,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit unsigned integer.
    UInt64,
    /// Text of any length.
    String,
}

impl AtomicType {
    /// All types, in netCDF's order.
    pub const ALL: [Self; 12] = [
        Self::Byte,
        Self::Char,
        Self::Short,
        Self::Int,
        Self::Float,
        Self::Double,
        Self::UByte,
        Self::UShort,
        Self::UInt,
        Self::Int64,
        Self::UInt64,
        Self::String,
    ];

    /// The type in a file.
    pub fn datatype(self, order: ByteOrder) -> Datatype {
        match self {
            Self::Byte => integer(1, true, order),
            Self::Short => integer(2, true, order),
            Self::Int => integer(4, true, order),
            Self::Int64 => integer(8, true, order),
            Self::UByte => integer(1, false, order),
            Self::UShort => integer(2, false, order),
            Self::UInt => integer(4, false, order),
            Self::UInt64 => integer(8, false, order),
            Self::Float => float(order),
            Self::Double => double(order),
            Self::Char => text(1, CharacterSet::Ascii),
            Self::String => string(),
        }
    }
}

fn integer(size: u32, signed: bool, order: ByteOrder) -> Datatype {
    let precision = 8 * size as u16;
    let padding = Padding::default();
    let number = FixedPoint { order, signed, offset: 0, precision, padding };
    Datatype::new(size, Class::FixedPoint(number))
}

fn float(order: ByteOrder) -> Datatype {
    let number = FloatingPoint {
        order,
        offset: 0,
        precision: 32,
        padding: Padding::default(),
        internal_padding: false,
        normalization: Normalization::Implied,
        sign_location: 31,
        exponent_location: 23,
        exponent_size: 8,
        mantissa_location: 0,
        mantissa_size: 23,
        exponent_bias: 127,
    };
    Datatype::new(4, Class::FloatingPoint(number))
}

fn double(order: ByteOrder) -> Datatype {
    let number = FloatingPoint {
        order,
        offset: 0,
        precision: 64,
        padding: Padding::default(),
        internal_padding: false,
        normalization: Normalization::Implied,
        sign_location: 63,
        exponent_location: 52,
        exponent_size: 11,
        mantissa_location: 0,
        mantissa_size: 52,
        exponent_bias: 1023,
    };
    Datatype::new(8, Class::FloatingPoint(number))
}

/// Text of a fixed length.
pub(crate) fn text(size: u32, charset: CharacterSet) -> Datatype {
    Datatype::new(size, Class::String { padding: StringPadding::NullTerminated, charset })
}

/// Text of any length, in UTF-8. The library's type of its characters is a number.
fn string() -> Datatype {
    let class = Class::VariableString {
        base: Box::new(integer(1, false, ByteOrder::Little)),
        padding: StringPadding::NullTerminated,
        charset: CharacterSet::Utf8,
    };
    Datatype::new(DESCRIPTOR as u32, class)
}

/// What netCDF fills with unless a variable has `_FillValue`: a value at the end of the range for
/// numbers, the empty text for strings, zeros for all else.
pub fn default_fill(datatype: &Datatype) -> Elements {
    match &datatype.class {
        Class::FixedPoint(number) => {
            let value = match (number.signed, datatype.size) {
                (true, 1) => -127,
                (true, 2) => -32767,
                (true, 4) => -2_147_483_647,
                (true, 8) => -9_223_372_036_854_775_806,
                // -2 has the bytes of 2⁶⁴ − 2.
                (false, 8) => -2,
                (false, 1 | 2 | 4) => -1,
                _ => 0,
            };
            ordered(&i64::to_le_bytes(value)[..(datatype.size as usize).min(8)], number.order)
        }
        Class::FloatingPoint(number) if datatype.size == 4 => {
            // 9.96921 × 10³⁶, both times exactly 15 × 2¹¹⁹.
            ordered(&0x7cf0_0000_u32.to_le_bytes(), number.order)
        }
        Class::FloatingPoint(number) if datatype.size == 8 => {
            ordered(&0x479e_0000_0000_0000_u64.to_le_bytes(), number.order)
        }
        Class::Enumeration { base, .. } => default_fill(base),
        Class::VariableString { .. } => Elements::strings([""]),
        _ => Elements::fixed(vec![0; datatype.size as usize]),
    }
}

/// A number whose lowest byte is first, in an order.
fn ordered(bytes: &[u8], order: ByteOrder) -> Elements {
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    Elements::fixed(bytes)
}
