//! The elements of predefined types, in memory and in external32.
//!
//! An [`Element`] converts between the two. Everything in external32 is big-endian; most elements
//! have the size that they have in memory, and are swapped at the speed of a copy. Three are not:
//! C's `long` has 4 bytes there, wide characters have 2, and `long double` is IEEE's 128-bit
//! format.

use striate_datatype::{swap_copy, swap_in_place};

use super::extended;

/// Whether all values could be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InRange {
    All,
    NotAll,
}

impl InRange {
    const fn of(all: bool) -> Self {
        if all { Self::All } else { Self::NotAll }
    }
}

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// A byte: the same in memory and in external32.
    Byte,
    /// A number of this many bytes (2, 4, 8 or 16), big-endian in external32.
    Number(u8),
    /// An integer that has more bytes in memory (the first number) than in external32.
    Integer { signed: bool, native: u8, external: u8 },
    /// A wide character of 4 bytes, 2 in external32.
    WideCharacter,
    /// The x87's extended double in 16 bytes, IEEE's 128-bit format in external32.
    Extended,
    /// Bytes of which only the number is known.
    Unknown(u32),
    /// An element that only a function of the program can convert.
    Foreign { native: u32, external: u32 },
}

impl Element {
    /// The element of a predefined type: `kind` is a letter of `types.c`, the sizes are in bytes.
    pub(super) fn of(kind: u8, native: u64, external: u8, long_double_digits: i32) -> Self {
        let unknown = Self::Unknown(native as u32);
        match (kind, native, external) {
            (b'b' | b'i' | b'u', 1, 1) => Self::Byte,
            (b'i' | b'u' | b'f' | b'w', 2 | 4 | 8 | 16, _) if native == u64::from(external) => {
                Self::Number(external)
            }
            (b'i' | b'u', 2 | 4 | 8, 1 | 2 | 4) if native > u64::from(external) => {
                Self::Integer { signed: kind == b'i', native: native as u8, external }
            }
            (b'w', 4, 2) => Self::WideCharacter,
            (b'x', 16, 16) if long_double_digits == 64 => Self::Extended,
            (b'x', 16, 16) if long_double_digits == 113 => Self::Number(16),
            _ => unknown,
        }
    }

    /// Bytes in memory.
    pub(super) const fn native(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Number(size) => size as u64,
            Self::Integer { native, .. } => native as u64,
            Self::WideCharacter => 4,
            Self::Extended => 16,
            Self::Unknown(size) | Self::Foreign { native: size, .. } => size as u64,
        }
    }

    /// Bytes in external32.
    pub(super) const fn external(self) -> u64 {
        match self {
            Self::Integer { external, .. } => external as u64,
            Self::WideCharacter => 2,
            Self::Foreign { external, .. } => external as u64,
            _ => self.native(),
        }
    }

    /// Whether the representations in memory and in external32 are the same.
    pub(super) const fn is_plain(self) -> bool {
        matches!(self, Self::Byte)
            || (cfg!(target_endian = "big") && matches!(self, Self::Number(_)))
    }

    /// Converts whole elements that have the same size on both sides, in place.
    pub(super) fn encode_in_place(self, bytes: &mut [u8]) {
        match self {
            Self::Number(16) if cfg!(target_endian = "little") => {
                bytes.chunks_exact_mut(16).for_each(<[u8]>::reverse);
            }
            Self::Number(size) if cfg!(target_endian = "little") => {
                swap_in_place(bytes, size.into());
            }
            Self::Extended => {
                for element in bytes.as_chunks_mut::<16>().0 {
                    *element = extended::to_quad(*element);
                }
            }
            _ => {}
        }
    }

    /// Converts whole elements from memory to external32.
    pub(super) fn encode(self, native: &[u8], external: &mut [u8]) -> InRange {
        match self {
            Self::Integer { signed, native: size, external: narrow } => {
                let mut all = true;
                let pairs =
                    native.chunks_exact(size.into()).zip(external.chunks_exact_mut(narrow.into()));
                for (from, to) in pairs {
                    let (value, unused) = (widen(from, signed), 64 - 8 * u32::from(narrow));
                    let kept = if signed {
                        value << unused >> unused
                    } else {
                        unsigned_kept(value, unused)
                    };
                    all &= kept == value;
                    to.copy_from_slice(&value.to_be_bytes()[8 - to.len()..]);
                }
                InRange::of(all)
            }
            Self::WideCharacter => {
                let mut all = true;
                let pairs = native.as_chunks::<4>().0.iter().zip(external.as_chunks_mut::<2>().0);
                for (from, to) in pairs {
                    let value = u16::try_from(u32::from_ne_bytes(*from));
                    all &= value.is_ok();
                    *to = value.unwrap_or(REPLACEMENT).to_be_bytes();
                }
                InRange::of(all)
            }
            Self::Number(size @ (2 | 4 | 8)) if cfg!(target_endian = "little") => {
                swap_copy(native, external, size.into());
                InRange::All
            }
            _ => {
                external.copy_from_slice(native);
                self.encode_in_place(external);
                InRange::All
            }
        }
    }

    /// Converts whole elements from external32 to memory.
    pub(super) fn decode(self, external: &[u8], native: &mut [u8]) {
        match self {
            Self::Integer { signed, native: size, external: narrow } => {
                let pairs =
                    external.chunks_exact(narrow.into()).zip(native.chunks_exact_mut(size.into()));
                for (from, to) in pairs {
                    let value = from.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
                    let unused = 64 - 8 * u32::from(narrow);
                    let extended = (value << unused) as i64 >> unused;
                    let value = if signed { extended } else { value as i64 };
                    narrow_to(value, to);
                }
            }
            Self::WideCharacter => {
                let pairs = external.as_chunks::<2>().0.iter().zip(native.as_chunks_mut::<4>().0);
                for (from, to) in pairs {
                    *to = u32::from(u16::from_be_bytes(*from)).to_ne_bytes();
                }
            }
            Self::Extended => {
                let pairs = external.as_chunks::<16>().0.iter().zip(native.as_chunks_mut::<16>().0);
                for (from, to) in pairs {
                    *to = extended::from_quad(*from);
                }
            }
            Self::Number(size @ (2 | 4 | 8)) if cfg!(target_endian = "little") => {
                swap_copy(external, native, size.into());
            }
            _ => {
                native.copy_from_slice(external);
                self.encode_in_place(native);
            }
        }
    }
}

/// Replaces a character that does not fit two bytes.
const REPLACEMENT: u16 = 0xFFFD;

/// An integer of memory as 64 bits.
fn widen(bytes: &[u8], signed: bool) -> i64 {
    match (bytes, signed) {
        (&[a, b], true) => i16::from_ne_bytes([a, b]).into(),
        (&[a, b], false) => u16::from_ne_bytes([a, b]).into(),
        (&[a, b, c, d], true) => i32::from_ne_bytes([a, b, c, d]).into(),
        (&[a, b, c, d], false) => u32::from_ne_bytes([a, b, c, d]).into(),
        (&[a, b, c, d, e, f, g, h], _) => i64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// The low bits of a value, all but `unused` of them.
const fn unsigned_kept(value: i64, unused: u32) -> i64 {
    ((value as u64) << unused >> unused) as i64
}

/// The low bytes of a value, as an integer of that size in memory.
fn narrow_to(value: i64, to: &mut [u8]) {
    match to.len() {
        2 => to.copy_from_slice(&(value as i16).to_ne_bytes()),
        4 => to.copy_from_slice(&(value as i32).to_ne_bytes()),
        8 => to.copy_from_slice(&value.to_ne_bytes()),
        _ => {}
    }
}
