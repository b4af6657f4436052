//! [`parse_size`] and [`Bytes`]: sizes as `64KiB`, `4m`, `1g`. Suffixes are binary, as in IOR.

use std::fmt;

use thiserror::Error;

use crate::grouped;

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// There are no digits at the start.
    #[error("'{0}' is not a size: expected digits with an optional suffix such as KiB, m or g")]
    NoDigits(String),
    /// The text after the digits is not a unit.
    #[error("'{0}' is not a unit of size: use b, k, m, g, t or KiB, MiB, GiB, TiB")]
    Unit(String),
    /// More than 64 bits.
    #[error("'{0}' does not fit in 64 bits")]
    TooLarge(String),
}

/// Reads a size: digits and an optional binary suffix (`k`, `K`, `kib`, `KiB`, `KB`; likewise m, g,
/// t).
///
/// ```
/// assert_eq!(striate_datatype::parse_size("64KiB"), Ok(65_536));
/// assert_eq!(striate_datatype::parse_size("4m"), Ok(4_194_304));
/// ```
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(SizeError::NoDigits(text.into()));
    }
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(SizeError::Unit(unit.into())),
    };
    let number: Option<u64> = number.parse().ok();
    number.and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| SizeError::TooLarge(text.into()))
}

/// A number of bytes, displayed with three or four significant digits and a binary unit.
///
/// ```
/// use striate_datatype::Bytes;
/// assert_eq!(Bytes(3072).to_string(), "3 KiB");
/// assert_eq!(Bytes(1_500_000).to_string(), "1.43 MiB");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", grouped(self.0)));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1023.995 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = if value.fract() == 0.0 || value >= 1000.0 {
            0
        } else if value >= 100.0 {
            1
        } else {
            2
        };
        f.pad(&format!("{value:.digits$} {}", UNITS[unit]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_binary() {
        for (text, size) in
            [("0", 0), ("17", 17), ("3KiB", 3072), ("2k", 2048), ("1G", 1 << 30), ("1tb", 1 << 40)]
        {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_errors() {
        assert!(matches!(parse_size(""), Err(SizeError::NoDigits(_))));
        assert!(matches!(parse_size("KiB"), Err(SizeError::NoDigits(_))));
        assert!(matches!(parse_size("-1"), Err(SizeError::NoDigits(_))));
        assert!(matches!(parse_size("3 parsecs"), Err(SizeError::Unit(_))));
        assert!(matches!(parse_size("99999999999999999999"), Err(SizeError::TooLarge(_))));
        assert!(matches!(parse_size("16777216t"), Err(SizeError::TooLarge(_))));
    }

    #[test]
    fn display_is_short() {
        for (size, text) in [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1200, "1.17 KiB")] {
            assert_eq!(Bytes(size).to_string(), text);
        }
        assert_eq!(Bytes(u64::MAX).to_string(), "16 EiB");
    }
}
