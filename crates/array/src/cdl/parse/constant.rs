//! [`Number`]: numbers as a text writes them.
//!
//! A suffix says of which type a number is; one without has the first of `int`, `uint` and the
//! 64-bit types that holds it. A number that begins with 0 is octal, as in C.

use std::fmt;

use striate_hdf5::write::netcdf::AtomicType;

use super::place::{Fault, Parsed};
use super::token::Token;

/// A number with the type that it has by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// An integer of an integer type, which it is in the range of.
    Integer(i128, AtomicType),
    /// `1.5f`.
    Float(f32),
    /// `1.5`.
    Double(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value, _) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
        }
    }
}

/// The number that a text begins with, and its length. It begins with a digit, a sign or a point.
pub(super) fn number(text: &[u8], at: usize) -> Parsed<(Token<'_>, usize)> {
    let count = |from: usize, is: fn(&u8) -> bool| {
        text.get(from..).unwrap_or_default().iter().take_while(|byte| is(byte)).count()
    };
    let sign = count(0, |byte| matches!(byte, b'+' | b'-')).min(1);
    let letters = count(sign, u8::is_ascii_alphabetic);
    if sign == 1 && letters > 0 {
        let len = sign + letters;
        let word = text.get(sign..len).unwrap_or_default();
        let negative = text.first() == Some(&b'-');
        let value = match word {
            b"Infinity" => Number::Double(f64::INFINITY),
            b"Infinityf" | b"Inff" => Number::Float(f32::INFINITY),
            b"NaN" | b"nan" => Number::Double(f64::NAN),
            b"NaNf" | b"nanf" => Number::Float(f32::NAN),
            _ => return Err(Fault::new(at, "a sign is not followed by a number")),
        };
        let value = match value {
            Number::Double(value) if negative => Number::Double(-value),
            Number::Float(value) if negative => Number::Float(-value),
            value => value,
        };
        return Ok((Token::Number(value), len));
    }
    if sign == 0 && matches!(text, [b'0', b'x' | b'X', ..]) {
        let digits = count(2, u8::is_ascii_hexdigit);
        if digits == 0 || count(2 + digits, u8::is_ascii_alphanumeric) > 0 {
            return Err(Fault::new(at, "0x is not followed by hexadecimal digits only"));
        }
        return Ok((Token::Opaque(text.get(2..2 + digits).unwrap_or_default()), 2 + digits));
    }
    let mut end = sign + count(sign, u8::is_ascii_digit);
    let whole = end;
    if text.get(end) == Some(&b'.') {
        end += 1 + count(end + 1, u8::is_ascii_digit);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let digits = count(end + 1 + sign, u8::is_ascii_digit);
        if digits > 0 {
            end += 1 + sign + digits;
        }
    }
    let suffix = count(end, u8::is_ascii_alphabetic);
    let len = end + suffix;
    let digits = std::str::from_utf8(text.get(..end).unwrap_or_default()).unwrap_or_default();
    let suffix = text.get(end..len).unwrap_or_default().to_ascii_lowercase();
    let value = match suffix.as_slice() {
        b"f" => digits.parse().ok().map(Number::Float),
        b"d" => digits.parse().ok().map(Number::Double),
        b"" | b"l" if end > whole => digits.parse().ok().map(Number::Double),
        _ if end > whole => None,
        suffix => Some(integer(digits, suffix, at)?),
    };
    let shown = || String::from_utf8_lossy(text.get(..len).unwrap_or_default()).into_owned();
    let value = value.ok_or_else(|| Fault::new(at, format!("{} is not a number", shown())))?;
    Ok((Token::Number(value), len))
}

/// An integer with its suffix in small letters.
fn integer(digits: &str, suffix: &[u8], at: usize) -> Parsed<Number> {
    let unsigned_digits = digits.trim_start_matches(['+', '-']);
    let octal = unsigned_digits.len() > 1 && unsigned_digits.starts_with('0');
    let magnitude = u64::from_str_radix(unsigned_digits, if octal { 8 } else { 10 });
    let magnitude = magnitude.map_err(|_| {
        Fault::new(
            at,
            match (unsigned_digits.is_empty(), octal) {
                (true, _) => "a sign or point is not followed by a number".into(),
                (_, true) => format!("{digits} begins with 0 and is not an octal number"),
                _ => format!("{digits} is beyond all integer types"),
            },
        )
    })?;
    let value = if digits.starts_with('-') { -i128::from(magnitude) } else { magnitude.into() };
    let kind = match suffix {
        b"" => of_value(value),
        b"b" => AtomicType::Byte,
        b"s" => AtomicType::Short,
        b"l" => AtomicType::Int,
        b"ll" => AtomicType::Int64,
        b"u" | b"ul" | b"lu" => AtomicType::UInt,
        b"ub" | b"bu" => AtomicType::UByte,
        b"us" | b"su" => AtomicType::UShort,
        b"ull" | b"llu" => AtomicType::UInt64,
        other => {
            let other = String::from_utf8_lossy(other).into_owned();
            return Err(Fault::new(at, format!("'{other}' is not a suffix of a number")));
        }
    };
    let wrapped = wrapped(value, kind);
    let wrapped = wrapped.ok_or_else(|| {
        Fault::new(at, format!("{digits} is out of the range that its suffix stands for"))
    })?;
    Ok(Number::Integer(wrapped, kind))
}

/// The type of a number without suffix.
fn of_value(value: i128) -> AtomicType {
    if i32::try_from(value).is_ok() {
        AtomicType::Int
    } else if u32::try_from(value).is_ok() {
        AtomicType::UInt
    } else if value < 0 {
        AtomicType::Int64
    } else {
        AtomicType::UInt64
    }
}

/// The range of an integer type.
pub(super) const fn range(kind: AtomicType) -> Option<(i128, i128)> {
    Some(match kind {
        AtomicType::Byte => (i8::MIN as i128, i8::MAX as i128),
        AtomicType::UByte => (0, u8::MAX as i128),
        AtomicType::Short => (i16::MIN as i128, i16::MAX as i128),
        AtomicType::UShort => (0, u16::MAX as i128),
        AtomicType::Int => (i32::MIN as i128, i32::MAX as i128),
        AtomicType::UInt => (0, u32::MAX as i128),
        AtomicType::Int64 => (i64::MIN as i128, i64::MAX as i128),
        AtomicType::UInt64 => (0, u64::MAX as i128),
        _ => return None,
    })
}

/// A number in the range of a type; for signed ones also one that fits without its sign, so that
/// `255b` is −1.
fn wrapped(value: i128, kind: AtomicType) -> Option<i128> {
    let (low, high) = range(kind)?;
    let width = high - low + 1;
    match value {
        value if (low..=high).contains(&value) => Some(value),
        value if low < 0 && value > high && value < width => Some(value - width),
        _ => None,
    }
}

/// The number that a name stands for.
pub(super) fn named(name: &str) -> Option<Number> {
    Some(match name {
        "NaN" | "nan" => Number::Double(f64::NAN),
        "NaNf" | "nanf" => Number::Float(f32::NAN),
        "Infinity" | "DoubleInf" => Number::Double(f64::INFINITY),
        "Infinityf" | "Inff" | "FloatInf" => Number::Float(f32::INFINITY),
        _ => return None,
    })
}

/// Whether a name stands for no text.
pub(super) fn is_nil(name: &str) -> bool {
    matches!(name, "NIL" | "nil" | "Nil")
}
