//! [`Values`]: elements of one external type, in memory.

use super::Type;

/// Elements of one external type: the values of an attribute, or of a part of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// 8-bit signed integers.
    Byte(Vec<i8>),
    /// Text: bytes, as in the file.
    Char(Vec<u8>),
    /// 16-bit signed integers.
    Short(Vec<i16>),
    /// 32-bit signed integers.
    Int(Vec<i32>),
    /// 32-bit floating point numbers.
    Float(Vec<f32>),
    /// 64-bit floating point numbers.
    Double(Vec<f64>),
    /// 8-bit unsigned integers.
    UByte(Vec<u8>),
    /// 16-bit unsigned integers.
    UShort(Vec<u16>),
    /// 32-bit unsigned integers.
    UInt(Vec<u32>),
    /// 64-bit signed integers.
    Int64(Vec<i64>),
    /// 64-bit unsigned integers.
    UInt64(Vec<u64>),
}

/// `each!(values, list => expression)`: the same expression for a list of any type.
macro_rules! each {
    ($values:expr, $list:ident => $body:expr) => {
        match $values {
            $crate::format::Values::Byte($list) => $body,
            $crate::format::Values::Char($list) | $crate::format::Values::UByte($list) => $body,
            $crate::format::Values::Short($list) => $body,
            $crate::format::Values::Int($list) => $body,
            $crate::format::Values::Float($list) => $body,
            $crate::format::Values::Double($list) => $body,
            $crate::format::Values::UShort($list) => $body,
            $crate::format::Values::UInt($list) => $body,
            $crate::format::Values::Int64($list) => $body,
            $crate::format::Values::UInt64($list) => $body,
        }
    };
}

pub(super) use each;

impl Values {
    /// Their external type.
    pub const fn external(&self) -> Type {
        match self {
            Self::Byte(_) => Type::Byte,
            Self::Char(_) => Type::Char,
            Self::Short(_) => Type::Short,
            Self::Int(_) => Type::Int,
            Self::Float(_) => Type::Float,
            Self::Double(_) => Type::Double,
            Self::UByte(_) => Type::UByte,
            Self::UShort(_) => Type::UShort,
            Self::UInt(_) => Type::UInt,
            Self::Int64(_) => Type::Int64,
            Self::UInt64(_) => Type::UInt64,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        each!(self, list => list.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        each!(self, list => list.truncate(len));
    }

    /// Their bytes in a file: big-endian, without padding.
    pub fn to_bytes(&self) -> Vec<u8> {
        each!(self, list => list.iter().flat_map(|value| value.to_be_bytes()).collect())
    }

    /// Whether both have the same type and the same bits; a NaN equals itself.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => one
                .iter()
                .map(|value| value.to_bits())
                .eq(other.iter().map(|value| value.to_bits())),
            (Self::Double(one), Self::Double(other)) => one
                .iter()
                .map(|value| value.to_bits())
                .eq(other.iter().map(|value| value.to_bits())),
            _ => self == other,
        }
    }

    /// Bytes in a file, without padding.
    pub fn size(&self) -> u64 {
        self.len() as u64 * self.external().size()
    }

    /// From their bytes in a file; a part of an element at the end is dropped.
    pub fn from_bytes(external: Type, bytes: &[u8]) -> Self {
        macro_rules! list {
            ($variant:ident, $type:ty) => {
                Self::$variant(
                    bytes
                        .chunks_exact(size_of::<$type>())
                        .map(|chunk| <$type>::from_be_bytes(chunk.try_into().unwrap_or_default()))
                        .collect(),
                )
            };
        }
        match external {
            Type::Byte => list!(Byte, i8),
            Type::Char => Self::Char(bytes.to_vec()),
            Type::Short => list!(Short, i16),
            Type::Int => list!(Int, i32),
            Type::Float => list!(Float, f32),
            Type::Double => list!(Double, f64),
            Type::UByte => Self::UByte(bytes.to_vec()),
            Type::UShort => list!(UShort, u16),
            Type::UInt => list!(UInt, u32),
            Type::Int64 => list!(Int64, i64),
            Type::UInt64 => list!(UInt64, u64),
        }
    }
}

impl From<&str> for Values {
    fn from(text: &str) -> Self {
        Self::Char(text.as_bytes().to_vec())
    }
}

impl From<String> for Values {
    fn from(text: String) -> Self {
        Self::Char(text.into_bytes())
    }
}

/// Numbers become values of their own type; `u8` becomes [`Values::UByte`], which only CDF-5 has.
macro_rules! from_numbers {
    ($($type:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$type> for Values {
            fn from(value: $type) -> Self {
                Self::$variant(vec![value])
            }
        }

        impl From<Vec<$type>> for Values {
            fn from(values: Vec<$type>) -> Self {
                Self::$variant(values)
            }
        }

        impl From<&[$type]> for Values {
            fn from(values: &[$type]) -> Self {
                Self::$variant(values.to_vec())
            }
        }
    )+};
}

from_numbers! {
    i8 => Byte, i16 => Short, i32 => Int, i64 => Int64, f32 => Float, f64 => Double,
    u8 => UByte, u16 => UShort, u32 => UInt, u64 => UInt64,
}
