//! [`Values`]: elements of one external type, in memory.

use std::fmt::Write;

use striate_hdf5::write::{DESCRIPTOR, Elements};

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
    /// Strings, and elements of types that programs defined; netCDF-4 only.
    Stored(StoredValues),
}

/// Elements of a type that is neither that of a number nor of a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValues {
    /// Their type.
    pub of: Type,
    /// The elements as they are in the file but in the byte order of the machine, with those of
    /// variable length beside them.
    pub elements: Elements,
}

impl StoredValues {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.elements.len() / (self.of.size() as usize).max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An element as text: a string in quotes, all else as the hexadecimal digits of its bytes, of
    /// values of variable length too.
    pub fn shown(&self, number: usize) -> String {
        if let Some(text) = self.texts().and_then(|texts| texts.get(number).copied()) {
            return format!("{:?}", String::from_utf8_lossy(text));
        }
        let size = self.of.size() as usize;
        hexadecimal(&self.elements.part(number * size..(number + 1) * size))
    }

    /// The bytes of the strings; `None` if they are not text.
    pub fn texts(&self) -> Option<Vec<&[u8]>> {
        let bytes = self.elements.as_bytes();
        let up_to_zero = |text: &'_ [u8]| text.iter().position(|&byte| byte == 0);
        let cut = |text| &text[..up_to_zero(text).unwrap_or(text.len())];
        match self.of {
            Type::String => {
                let size = self.of.size() as usize;
                let text = |number: usize| {
                    let value = self.elements.heap_value(number * size);
                    value.map_or(&[][..], |(_, text)| cut(text.as_bytes()))
                };
                Some((0..self.len()).map(text).collect())
            }
            Type::Text(size) => Some(bytes.chunks_exact((size as usize).max(1)).map(cut).collect()),
            _ => None,
        }
    }
}

/// The digits of the bytes of elements; those of values of variable length in braces.
fn hexadecimal(elements: &Elements) -> String {
    let mut text = String::from("0X");
    let mut at = 0;
    while let Some(byte) = elements.as_bytes().get(at) {
        if let Some((_, value)) = elements.heap_value(at) {
            text.push('{');
            text.push_str(&hexadecimal(value));
            text.push('}');
            at += DESCRIPTOR;
        } else {
            let _ = write!(text, "{byte:02X}");
            at += 1;
        }
    }
    text
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
            $crate::format::Values::Stored(stored) => {
                let $list = stored.elements.as_bytes();
                $body
            }
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
            Self::Stored(stored) => stored.of,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Stored(stored) => stored.len(),
            numbers => each!(numbers, list => list.len()),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        match self {
            Self::Byte(list) => list.truncate(len),
            Self::Char(list) | Self::UByte(list) => list.truncate(len),
            Self::Short(list) => list.truncate(len),
            Self::Int(list) => list.truncate(len),
            Self::Float(list) => list.truncate(len),
            Self::Double(list) => list.truncate(len),
            Self::UShort(list) => list.truncate(len),
            Self::UInt(list) => list.truncate(len),
            Self::Int64(list) => list.truncate(len),
            Self::UInt64(list) => list.truncate(len),
            Self::Stored(stored) => {
                let end = stored.elements.len().min(len * stored.of.size() as usize);
                stored.elements = stored.elements.part(0..end);
            }
        }
    }

    /// Their bytes in a file: big-endian, without padding. Those of stored values are as they are,
    /// without what is of variable length.
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
            of @ (Type::String | Type::Text(_) | Type::User(_)) => {
                Self::Stored(StoredValues { of, elements: Elements::fixed(bytes) })
            }
        }
    }
}

impl Values {
    /// Strings (netCDF's `NC_STRING`), which only netCDF-4 has.
    pub fn strings<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Self {
        Self::Stored(StoredValues { of: Type::String, elements: Elements::strings(strings) })
    }

    /// Elements of a type that a program defined, and strings.
    pub fn stored(of: impl Into<Type>, elements: Elements) -> Self {
        Self::Stored(StoredValues { of: of.into(), elements })
    }

    /// The text, or the only string; `None` if it is something else, or not UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        let bytes = match self {
            Self::Char(text) => text.as_slice(),
            Self::Stored(stored) => match stored.texts()?.as_slice() {
                [one] => one,
                _ => return None,
            },
            _ => return None,
        };
        std::str::from_utf8(bytes).ok()
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
