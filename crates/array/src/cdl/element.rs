//! [`Element`]: the text of a value of a variable.

use std::io::Write as _;

use super::c_format::CFormat;
use super::number::{Tail, general, sign, special};

/// The style in which the values of a variable are printed.
#[derive(Debug)]
pub(super) struct Style {
    /// The attribute `C_format` of the variable.
    pub(super) format: Option<CFormat>,
    /// Significant digits without a `C_format`.
    pub(super) digits: usize,
}

/// A value of a variable.
pub(super) trait Element: Copy {
    /// Whether it is the fill value.
    fn is_fill(self, fill: Self) -> bool;

    /// Appends its text.
    fn print(self, out: &mut Vec<u8>, style: &Style);
}

macro_rules! integers {
    ($($type:ty: $bits:literal),+) => {$(
        impl Element for $type {
            fn is_fill(self, fill: Self) -> bool {
                self == fill
            }

            fn print(self, out: &mut Vec<u8>, style: &Style) {
                match style.format.as_ref().filter(|format| format.is_for_integers()) {
                    Some(format) => format.integer(out, i128::from(self), $bits),
                    // Writing to memory does not fail.
                    None => drop(write!(out, "{self}")),
                }
            }
        }
    )+};
}

integers!(i8: 32, u8: 32, i16: 32, u16: 32, i32: 32, u32: 32, i64: 64, u64: 64);

/// A number equals the fill value if they differ by at most the precision of the type.
macro_rules! floats {
    ($($type:ident: $suffix:literal),+) => {$(
        impl Element for $type {
            fn is_fill(self, fill: Self) -> bool {
                if (self > 0.0) != (fill > 0.0) {
                    return false;
                }
                if self.is_finite() && fill.is_finite() {
                    return (fill - self).abs() <= ($type::EPSILON * self).abs();
                }
                (self.is_nan() && fill.is_nan()) || (self.is_infinite() && fill.is_infinite())
            }

            fn print(self, out: &mut Vec<u8>, style: &Style) {
                let value = f64::from(self);
                if let Some(name) = special(value) {
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice($suffix);
                    return;
                }
                match style.format.as_ref().filter(|format| format.is_for_floats()) {
                    Some(format) => format.float(out, value),
                    None => {
                        sign(out, value);
                        general(out, value, style.digits, Tail::Short);
                    }
                }
            }
        }
    )+};
}

floats!(f32: b"f", f64: b"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_are_recognised_within_precision() {
        let fill = 9.969_21e36f32;
        assert!(fill.is_fill(fill) && f32::from_bits(fill.to_bits() + 1).is_fill(fill));
        assert!(!f32::from_bits(fill.to_bits() + 3).is_fill(fill));
        assert!(f64::NAN.is_fill(f64::NAN) && !f64::NAN.is_fill(0.0) && !0.0.is_fill(f64::NAN));
        assert!(f64::NEG_INFINITY.is_fill(f64::NEG_INFINITY));
        assert!(!f64::NEG_INFINITY.is_fill(f64::INFINITY));
        assert!((-0.0f64).is_fill(0.0) && !5e-324f64.is_fill(0.0));
    }
}
