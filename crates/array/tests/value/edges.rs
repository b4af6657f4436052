//! Edge values of conversions: around the limits of every type, special floating point values, and
//! random ones.

use striate_array::value::Kind;

use crate::twin::{KINDS, limits};

/// Edge values of a kind, packed in native byte order: more than a block of the conversion.
pub(crate) fn of(kind: Kind) -> Vec<u8> {
    let mut bytes = Vec::new();
    match kind {
        Kind::F32 => {
            for value in reals() {
                for value in [value as f32, (value as f32).next_up(), (value as f32).next_down()] {
                    bytes.extend(value.to_ne_bytes());
                }
            }
        }
        Kind::F64 => {
            for value in reals() {
                for value in [value, value.next_up(), value.next_down()] {
                    bytes.extend(value.to_ne_bytes());
                }
            }
        }
        // Wider integers are truncated, which gives further values.
        _ => {
            for value in integers() {
                let wide = value.to_le_bytes();
                let mut element = wide[..kind.size()].to_vec();
                if cfg!(target_endian = "big") {
                    element.reverse();
                }
                bytes.extend(element);
            }
        }
    }
    bytes.extend(noise(1500 * kind.size()));
    bytes
}

fn integers() -> Vec<i128> {
    let mut all = vec![0, 1, -1, 2, 100];
    for (least, greatest) in KINDS.into_iter().filter_map(limits) {
        all.extend((-3..=3).flat_map(|d| [least + d, greatest + d]));
    }
    for bits in [24, 25, 53, 54, 63] {
        all.extend((-2..=2).flat_map(|d| [(1 << bits) + d, -(1 << bits) + d]));
    }
    all
}

fn reals() -> Vec<f64> {
    let mut all = vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    for value in integers() {
        let value = value as f64;
        all.extend([value, value + 0.5, value - 0.5, value * 0.999, value * 1.001]);
    }
    let largest = f64::from(f32::MAX);
    let special = [
        largest,
        // Half way to the next value, from which on rounding gives infinity.
        largest + 2f64.powi(102),
        largest + 2f64.powi(103),
        largest * 1.1,
        2f64.powi(128),
        1e300,
        f64::MAX,
        f64::from(f32::MIN_POSITIVE),
        f64::from(f32::from_bits(1)),
        2f64.powi(-150),
        f64::MIN_POSITIVE,
        f64::from_bits(1),
        0.5,
        0.999_999_99,
    ];
    all.extend(special.iter().flat_map(|&value| [value, -value]));
    all
}

/// A fixed pseudorandom sequence.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
