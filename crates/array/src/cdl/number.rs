//! Floating point numbers as C's `printf` prints them.
//!
//! Rust's exact formatting gives the digits, correctly rounded as glibc's; the functions here place
//! point and exponent.

use std::io::Write as _;

/// How the digits of a number end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Trailing zeros after the point are removed, and a trailing point: `%g`.
    Short,
    /// Trailing zeros after the point are removed, the point stays, to distinguish the number from
    /// an integer.
    Point,
    /// Nothing is removed, and there is always a point: `%#g`.
    Whole,
}

/// The name of a number without digits.
pub(super) fn special(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Appends the sign of a negative number or negative zero.
pub(super) fn sign(out: &mut Vec<u8>, value: f64) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
}

/// Appends a finite number without its sign as `%g` prints it, with `digits` significant digits (0
/// means 1).
pub(super) fn general(out: &mut Vec<u8>, value: f64, digits: usize, tail: Tail) {
    let digits = digits.max(1);
    let start = out.len();
    let power = scientific(out, value, digits - 1);
    if power < -4 || power >= digits as i64 {
        finish(out, start, tail);
        exponent(out, power);
        return;
    }
    if power >= 0 {
        // The point, if there is one, moves to the right.
        let end = (start + 2 + power as usize).min(out.len());
        if end > start + 1 {
            out[start + 1..end].rotate_left(1);
        }
    } else {
        if out.len() > start + 1 {
            out.remove(start + 1);
        }
        let zeros = b"0.0000";
        out.splice(start..start, zeros[..(1 - power) as usize].iter().copied());
    }
    finish(out, start, tail);
}

/// Appends a finite number without its sign as `%e` prints it.
pub(super) fn exponential(out: &mut Vec<u8>, value: f64, decimals: usize, point: bool) {
    let start = out.len();
    let power = scientific(out, value, decimals);
    if point {
        finish(out, start, Tail::Whole);
    }
    exponent(out, power);
}

/// Appends a finite number without its sign as `%f` prints it.
pub(super) fn fixed(out: &mut Vec<u8>, value: f64, decimals: usize, point: bool) {
    let start = out.len();
    // Writing to memory does not fail.
    let _ = write!(out, "{:.*}", decimals, value.abs());
    if point {
        finish(out, start, Tail::Whole);
    }
}

/// Appends `d.ddd` and returns the power of ten that belongs to it.
fn scientific(out: &mut Vec<u8>, value: f64, decimals: usize) -> i64 {
    let start = out.len();
    let _ = write!(out, "{:.*e}", decimals, value.abs());
    let at = out[start..].iter().rposition(|&byte| byte == b'e').map_or(out.len(), |at| start + at);
    let power = std::str::from_utf8(out.get(at + 1..).unwrap_or_default()).unwrap_or_default();
    let power = power.parse().unwrap_or(0);
    out.truncate(at);
    power
}

fn exponent(out: &mut Vec<u8>, power: i64) {
    let sign = if power < 0 { '-' } else { '+' };
    let _ = write!(out, "e{sign}{:02}", power.unsigned_abs());
}

/// Formats the end of the digits from `start` on.
fn finish(out: &mut Vec<u8>, start: usize, tail: Tail) {
    if !out[start..].contains(&b'.') {
        if tail != Tail::Short {
            out.push(b'.');
        }
        return;
    }
    if tail == Tail::Whole {
        return;
    }
    while out.ends_with(b"0") {
        out.pop();
    }
    if tail == Tail::Short && out.ends_with(b".") {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn g(value: f64, digits: usize, tail: Tail) -> String {
        let mut out = b"=".to_vec();
        sign(&mut out, value);
        general(&mut out, value, digits, tail);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn general_numbers() {
        // What C prints with %.*g, %#.*g without zeros, %#.*g.
        for (value, digits, short, point, whole) in [
            (0.0, 7, "0", "0.", "0.000000"),
            (-0.0, 7, "-0", "-0.", "-0.000000"),
            (1.0, 7, "1", "1.", "1.000000"),
            (1.0, 1, "1", "1.", "1."),
            (-1.5, 3, "-1.5", "-1.5", "-1.50"),
            (100_000.0, 7, "100000", "100000.", "100000.0"),
            (1_234_567.0, 7, "1234567", "1234567.", "1234567."),
            (12_345_678.0, 7, "1.234568e+07", "1.234568e+07", "1.234568e+07"),
            (1e10, 7, "1e+10", "1.e+10", "1.000000e+10"),
            (9_999_999.6, 7, "1e+07", "1.e+07", "1.000000e+07"),
            (0.0001, 7, "0.0001", "0.0001", "0.0001000000"),
            (0.000_099_999_999, 7, "0.0001", "0.0001", "0.0001000000"),
            (0.00001, 7, "1e-05", "1.e-05", "1.000000e-05"),
            (0.25, 1, "0.2", "0.2", "0.2"),
            (0.75, 1, "0.8", "0.8", "0.8"),
            (2.5, 1, "2", "2.", "2."),
            (3.5, 1, "4", "4.", "4."),
            (15.0, 1, "2e+01", "2.e+01", "2.e+01"),
            (0.1, 20, "0.10000000000000000555", "0.10000000000000000555", "0.10000000000000000555"),
            (5e-324, 15, "4.94065645841247e-324", "4.94065645841247e-324", "4.94065645841247e-324"),
            (1e100, 15, "1e+100", "1.e+100", "1.00000000000000e+100"),
        ] {
            assert_eq!(g(value, digits, Tail::Short), format!("={short}"));
            assert_eq!(g(value, digits, Tail::Point), format!("={point}"));
            assert_eq!(g(value, digits, Tail::Whole), format!("={whole}"));
        }
    }

    #[test]
    fn numbers_without_digits() {
        assert_eq!(special(-f64::NAN), Some("NaN"));
        assert_eq!(special(f64::NEG_INFINITY), Some("-Infinity"));
        assert_eq!(special(f64::MAX), None);
    }
}
