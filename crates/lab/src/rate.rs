//! [`Rate`]: bits per second of a cable, in the notation of `tc`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::LabError;

/// Bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rate(pub u64);

/// Units, the longest first, since each ends with the next.
const UNITS: [(&str, u64); 4] =
    [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];

/// The slowest that a token bucket keeps well.
const SLOWEST: u64 = 1000;

impl Rate {
    /// A rate in Mbit/s.
    pub const fn mbit(mbit: u64) -> Self {
        Self(mbit * 1_000_000)
    }

    /// Bytes per second.
    pub const fn bytes(self) -> u64 {
        self.0 / 8
    }
}

impl FromStr for Rate {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let wrong = || {
            LabError::Setting(format!(
                "'{text}' is not a rate: a number with bit, kbit, mbit or gbit, e.g. 100mbit"
            ))
        };
        let lower = text.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find(|(unit, _)| lower.ends_with(unit));
        let (unit, factor) = unit.ok_or_else(wrong)?;
        let number = lower[..lower.len() - unit.len()].trim();
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let bits = number * *factor as f64;
        if !(bits.is_finite() && bits < 1e15) {
            return Err(wrong());
        }
        if bits < SLOWEST as f64 {
            return Err(LabError::Setting(format!("'{text}' is less than 1kbit, the least")));
        }
        Ok(Self(bits.round() as u64))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |unit: &&(&str, u64)| self.0 >= unit.1;
        let (unit, factor) = UNITS.iter().find(of).unwrap_or(&UNITS[UNITS.len() - 1]);
        write!(f, "{}{unit}", self.0 as f64 / *factor as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn rates_are_those_of_tc() {
        for (text, bits) in [
            ("100mbit", 100_000_000),
            ("0.5Mbit", 500_000),
            ("1gbit", 1_000_000_000),
            ("9 kbit", 9000),
        ] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, Rate(bits));
            assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
        }
        assert_eq!(Rate::mbit(20).to_string(), "20mbit");
        for wrong in ["", "100", "mbit", "-1mbit", "1e99gbit", "nanbit", "100mb", "1bit", "0kbit"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
