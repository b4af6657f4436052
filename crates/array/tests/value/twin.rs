//! The slow twin of a conversion: one number at a time, with integers that are wide enough for all.

use striate_array::value::{Conversion, Kind};
use striate_array::{Format, Type};

pub(crate) const KINDS: [Kind; 11] = [
    Kind::I8,
    Kind::U8,
    Kind::I16,
    Kind::U16,
    Kind::I32,
    Kind::U32,
    Kind::I64,
    Kind::U64,
    Kind::F32,
    Kind::F64,
    Kind::Text,
];

/// Any number of memory or files.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExactNumber {
    Integer(i128),
    Single(f32),
    Double(f64),
}

impl ExactNumber {
    /// From its bytes in native order.
    pub(crate) fn in_memory(kind: Kind, bytes: &[u8]) -> Self {
        macro_rules! integer {
            ($type:ty) => {
                Self::Integer(<$type>::from_ne_bytes(bytes.try_into().unwrap()).into())
            };
        }
        match kind {
            Kind::I8 => integer!(i8),
            Kind::U8 | Kind::Text | Kind::Raw => integer!(u8),
            Kind::I16 => integer!(i16),
            Kind::U16 => integer!(u16),
            Kind::I32 => integer!(i32),
            Kind::U32 => integer!(u32),
            Kind::I64 => integer!(i64),
            Kind::U64 => integer!(u64),
            Kind::F32 => Self::Single(f32::from_ne_bytes(bytes.try_into().unwrap())),
            Kind::F64 => Self::Double(f64::from_ne_bytes(bytes.try_into().unwrap())),
        }
    }

    /// Equal bits; all NaNs are equal.
    pub(crate) fn is_same_as(self, other: Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Single(a), Self::Single(b)) => {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            }
            (Self::Double(a), Self::Double(b)) => {
                a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
            }
            _ => false,
        }
    }
}

/// The type in memory with the same bits as an external type.
pub(crate) const fn kind_of(external: Type) -> Kind {
    match external {
        Type::Byte => Kind::I8,
        Type::Char => Kind::Text,
        Type::Short => Kind::I16,
        Type::Int => Kind::I32,
        Type::Float => Kind::F32,
        Type::Double => Kind::F64,
        Type::UByte => Kind::U8,
        Type::UShort => Kind::U16,
        Type::UInt => Kind::U32,
        Type::Int64 => Kind::I64,
        Type::UInt64 => Kind::U64,
        Type::String | Type::Text(_) | Type::User(_) => Kind::Raw,
    }
}

/// The limits of an integer type.
pub(crate) fn limits(kind: Kind) -> Option<(i128, i128)> {
    let signed = |bits: u32| Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1));
    let unsigned = |bits: u32| Some((0, (1 << bits) - 1));
    match kind {
        Kind::I8 => signed(8),
        Kind::I16 => signed(16),
        Kind::I32 => signed(32),
        Kind::I64 => signed(64),
        Kind::U8 | Kind::Text | Kind::Raw => unsigned(8),
        Kind::U16 => unsigned(16),
        Kind::U32 => unsigned(32),
        Kind::U64 => unsigned(64),
        Kind::F32 | Kind::F64 => None,
    }
}

/// netCDF's default fill value.
pub(crate) fn default_fill(kind: Kind) -> ExactNumber {
    match kind {
        Kind::F32 => ExactNumber::Single(9.969_209_968_386_869e36_f64 as f32),
        Kind::F64 => ExactNumber::Double(9.969_209_968_386_869e36),
        Kind::Text | Kind::Raw => ExactNumber::Integer(0),
        Kind::I64 => ExactNumber::Integer(-(1 << 63) + 2),
        Kind::U64 => ExactNumber::Integer((1 << 64) - 2),
        _ => {
            let (least, greatest) = limits(kind).unwrap();
            ExactNumber::Integer(if least == 0 { greatest } else { least + 1 })
        }
    }
}

/// A number of one kind converted to another, in either direction; `None` if it is out of range.
pub(crate) fn converted(
    value: ExactNumber,
    from: Kind,
    conversion: &Conversion,
    to: Kind,
) -> Option<ExactNumber> {
    let unchecked_bytes = conversion.format != Format::Cdf5
        && (conversion.memory, conversion.external) == (Kind::U8, Type::Byte);
    if from == to {
        return Some(value);
    }
    match (value, limits(to)) {
        (ExactNumber::Integer(value), Some((least, greatest))) => {
            if unchecked_bytes {
                let byte = value as u8;
                return Some(ExactNumber::Integer(if least == 0 {
                    byte.into()
                } else {
                    (byte as i8).into()
                }));
            }
            (least..=greatest).contains(&value).then_some(ExactNumber::Integer(value))
        }
        (ExactNumber::Integer(value), None) => Some(match to {
            Kind::F32 => ExactNumber::Single(value as f32),
            _ => ExactNumber::Double(value as f64),
        }),
        (ExactNumber::Single(value), Some(limits)) => to_integer(value.into(), limits),
        (ExactNumber::Double(value), Some(limits)) => to_integer(value, limits),
        (ExactNumber::Single(value), None) => Some(ExactNumber::Double(value.into())),
        (ExactNumber::Double(value), None) => {
            let fits = !value.is_finite() || value.abs() <= f64::from(f32::MAX);
            fits.then_some(ExactNumber::Single(value as f32))
        }
    }
}

/// The limits are rounded to double, and compared before truncation.
fn to_integer(value: f64, (least, greatest): (i128, i128)) -> Option<ExactNumber> {
    if value.is_nan() || value < least as f64 || value > greatest as f64 {
        return None;
    }
    Some(ExactNumber::Integer((value.trunc() as i128).clamp(least, greatest)))
}
