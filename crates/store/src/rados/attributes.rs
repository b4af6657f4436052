//! [`HeadAttributes`]: what the head object of a file says of it.
//!
//! Numbers are 16 hexadecimal digits, so that the engine's comparison of bytes is that of numbers.

use std::ffi::CStr;
use std::num::NonZeroU64;

use crate::placement::MAX_LEN;

/// The version of the layout of objects.
pub(super) const VERSION: &CStr = c"striate.version";
pub(super) const STRIP: &CStr = c"striate.strip";
pub(super) const SIZE: &CStr = c"striate.size";
pub(super) const STRIPS: &CStr = c"striate.strips";
pub(super) const CUTS: &CStr = c"striate.cuts";
pub(super) const CREATED: &CStr = c"striate.created";
/// There while a cut is carried out: the length it cuts to.
pub(super) const CUTTING: &CStr = c"striate.cutting";
/// There while the file is removed.
pub(super) const REMOVED: &CStr = c"striate.removed";
/// The table of locks.
pub(super) const LOCKS: &CStr = c"striate.locks";

/// The version that is written; others are not read.
pub(super) const CURRENT: &[u8] = b"1";

/// The largest strip: an object of RADOS is at most 128 MiB by default.
pub(super) const MAX_STRIP: u64 = 64 << 20;

/// What the head object of a file says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadAttributes {
    /// Bytes of a strip.
    pub(super) strip: NonZeroU64,
    /// Bytes of the file.
    pub(super) size: u64,
    /// No strip of this index or a higher one exists. It never decreases.
    pub(super) strips: u64,
    /// How often the file was cut.
    pub(super) cuts: u64,
    /// When it was created, in ms since 1970.
    pub(super) created_ms: u64,
    /// The length of a cut that is not finished.
    pub(super) cutting: Option<u64>,
    /// Whether the file is being removed.
    pub(super) removed: bool,
}

/// A number as an attribute.
pub(super) fn number(number: u64) -> [u8; 16] {
    let mut digits = [b'0'; 16];
    for (index, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * index) & 15) as usize];
    }
    digits
}

fn parse(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() == 16)?;
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    u64::from_str_radix(text, 16).ok()
}

impl HeadAttributes {
    /// A file of no bytes.
    pub(super) fn new(strip: NonZeroU64, created_ms: u64) -> Self {
        Self { strip, size: 0, strips: 1, cuts: 0, created_ms, cutting: None, removed: false }
    }

    /// What the attributes say, or what is wrong with them.
    pub(super) fn decode(attributes: &[(String, Vec<u8>)]) -> Result<Self, String> {
        let named = |name: &CStr| {
            let found = attributes.iter().find(|(found, _)| found.as_bytes() == name.to_bytes());
            found.map(|(_, value)| value.as_slice())
        };
        let optional = |name: &CStr| match named(name) {
            None => Ok(None),
            Some(value) => {
                let wrong = || format!("attribute {} is no number", name.to_string_lossy());
                parse(value).map(Some).ok_or_else(wrong)
            }
        };
        let number = |name: &CStr| {
            optional(name)?
                .ok_or_else(|| format!("attribute {} is missing", name.to_string_lossy()))
        };
        match named(VERSION) {
            Some(CURRENT) => {}
            Some(other) => {
                return Err(format!("its layout has version {}", String::from_utf8_lossy(other)));
            }
            None => return Err(format!("attribute {} is missing", VERSION.to_string_lossy())),
        }
        let strip = NonZeroU64::new(number(STRIP)?).filter(|strip| strip.get() <= MAX_STRIP);
        let size = number(SIZE)?;
        if size > MAX_LEN {
            return Err(format!("{size} bytes are no size of a file"));
        }
        Ok(Self {
            strip: strip.ok_or("strips are of no bytes, or of too many")?,
            size,
            strips: number(STRIPS)?,
            cuts: number(CUTS)?,
            created_ms: number(CREATED)?,
            cutting: optional(CUTTING)?,
            removed: named(REMOVED).is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Vec<(String, Vec<u8>)> {
        let name = |name: &CStr| name.to_str().unwrap().to_owned();
        let numbers = [(STRIP, 4 << 20), (SIZE, 100), (STRIPS, 2), (CUTS, 3), (CREATED, 9)];
        let mut all = vec![(name(VERSION), CURRENT.to_vec())];
        all.extend(numbers.map(|(attribute, n)| (name(attribute), number(n).to_vec())));
        all
    }

    #[test]
    fn numbers_order_as_their_bytes() {
        let numbers = [0, 1, 9, 10, 15, 16, 255, 256, 1 << 40, u64::MAX];
        assert!(numbers.map(number).is_sorted());
        assert_eq!(numbers.map(|n| parse(&number(n))), numbers.map(Some));
        for wrong in
            [&b""[..], b"0", b"+00000000000000f", b"00000000000000000", b"zzzzzzzzzzzzzzzz"]
        {
            assert_eq!(parse(wrong), None);
        }
    }

    #[test]
    fn attributes_that_are_missing_or_wrong_are_named() {
        let head = HeadAttributes::decode(&sound()).unwrap();
        assert_eq!((head.strip.get(), head.size, head.strips, head.cuts), (4 << 20, 100, 2, 3));
        for index in 0..sound().len() {
            let mut lacking = sound();
            let (name, _) = lacking.remove(index);
            let message = HeadAttributes::decode(&lacking).unwrap_err();
            assert!(message.contains(&name), "{message}");
            let mut wrong = sound();
            wrong[index].1 = b"7f".to_vec();
            HeadAttributes::decode(&wrong).unwrap_err();
        }
        let mut none = sound();
        none[1].1 = number(0).to_vec();
        HeadAttributes::decode(&none).unwrap_err();
        none[1].1 = number(MAX_STRIP + 1).to_vec();
        HeadAttributes::decode(&none).unwrap_err();
    }
}
