//! Integers and floating-point numbers of any size and place of their bits.

use crate::model::{ByteOrder, FixedPoint, FloatingPoint, Normalization};

/// The widest elements whose bits are looked at.
const WIDEST: usize = 16;

/// Some bits of an element, the lowest first; `None` if there are too many.
pub(super) fn bits(bytes: &[u8], order: ByteOrder, offset: u16, precision: u16) -> Option<u128> {
    let word = word(bytes, order)?;
    let low = word.checked_shr(u32::from(offset)).unwrap_or(0);
    Some(if precision >= 128 { low } else { low & ((1 << precision) - 1) })
}

fn word(bytes: &[u8], order: ByteOrder) -> Option<u128> {
    let mut little = [0; WIDEST];
    let place = little.get_mut(..bytes.len())?;
    place.copy_from_slice(bytes);
    match order {
        ByteOrder::Little => {}
        ByteOrder::Big => place.reverse(),
        ByteOrder::Vax => {
            // Pairs of bytes, highest pair first.
            place.reverse();
            place.chunks_exact_mut(2).for_each(<[u8]>::reverse);
        }
    }
    Some(u128::from_le_bytes(little))
}

/// An integer of up to 127 bits, or 128 with a sign.
pub(super) fn integer(bytes: &[u8], kind: FixedPoint) -> Option<i128> {
    let bits = bits(bytes, kind.order, kind.offset, kind.precision)?;
    let precision = u32::from(kind.precision);
    if !kind.signed {
        return i128::try_from(bits).ok();
    }
    let unused = 128_u32.checked_sub(precision)?;
    Some((bits.checked_shl(unused)? as i128) >> unused)
}

/// A floating-point number, rounded if a double cannot hold it.
pub(super) fn float(bytes: &[u8], kind: &FloatingPoint) -> Option<f64> {
    let word = word(bytes, kind.order)?;
    let field = |location: u8, size: u8| {
        let low = word.checked_shr(u32::from(location)).unwrap_or(0);
        if size >= 128 { low } else { low & ((1 << size) - 1) }
    };
    let negative = field(kind.sign_location, 1) == 1;
    let exponent = field(kind.exponent_location, kind.exponent_size);
    let mantissa = field(kind.mantissa_location, kind.mantissa_size);
    if kind.exponent_size > 31 || kind.mantissa_size > 112 {
        return None;
    }
    let implied = kind.normalization == Normalization::Implied;
    let highest = (1_u128 << kind.exponent_size) - 1;
    // An explicit highest bit says nothing about infinity.
    let fraction = match kind.normalization {
        Normalization::MostSignificantSet | Normalization::None if kind.mantissa_size > 0 => {
            mantissa & !(1 << (kind.mantissa_size - 1))
        }
        _ => mantissa,
    };
    let magnitude = if exponent == highest && kind.order != ByteOrder::Vax {
        if fraction == 0 { f64::INFINITY } else { f64::NAN }
    } else {
        let subnormal = exponent == 0 && implied && kind.order != ByteOrder::Vax;
        let significand = if implied && !subnormal && !(exponent == 0 && mantissa == 0) {
            mantissa | 1 << kind.mantissa_size
        } else {
            mantissa
        };
        let scale = i64::from(kind.mantissa_size) - i64::from(!implied);
        let power = exponent as i64 + i64::from(subnormal) - i64::from(kind.exponent_bias) - scale;
        scaled(significand, power)
    };
    Some(if negative { -magnitude } else { magnitude })
}

/// `significand × 2^power`, rounded once to the nearest double.
fn scaled(significand: u128, power: i64) -> f64 {
    if significand == 0 {
        return 0.0;
    }
    // The position of the highest bit decides how many bits a double has left for it.
    let top = i64::from(significand.ilog2()) + power;
    if top > 1023 {
        return f64::INFINITY;
    }
    let lowest = (top - 52).max(-1074);
    let drop = lowest - power;
    let rounded = if drop <= 0 {
        significand
    } else if drop > 127 {
        0
    } else {
        let (kept, rest) = (significand >> drop, significand & ((1 << drop) - 1));
        let half = 1_u128 << (drop - 1);
        kept + u128::from(rest > half || (rest == half && kept & 1 == 1))
    };
    let power = if drop <= 0 { power } else { lowest };
    // At most 53 bits and a power that a double has, in two exact steps.
    let first = power.clamp(-1000, 1000);
    rounded as f64 * power_of_two(first) * power_of_two(power - first)
}

fn power_of_two(power: i64) -> f64 {
    2_f64.powi(power as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Padding;

    fn ieee(exponent: u8, mantissa: u8) -> FloatingPoint {
        FloatingPoint {
            order: ByteOrder::Little,
            offset: 0,
            precision: u16::from(exponent + mantissa) + 1,
            padding: Padding::default(),
            internal_padding: false,
            normalization: Normalization::Implied,
            sign_location: exponent + mantissa,
            exponent_location: mantissa,
            exponent_size: exponent,
            mantissa_location: 0,
            mantissa_size: mantissa,
            exponent_bias: (1 << (exponent - 1)) - 1,
        }
    }

    #[test]
    fn doubles_and_singles_are_what_the_machine_says() {
        let (double, single) = (ieee(11, 52), ieee(8, 23));
        for number in [0.0, -0.0, 1.0, -2.5, 1e308, 5e-324, 2.2e-308, f64::MAX, f64::INFINITY] {
            assert_eq!(
                float(&number.to_le_bytes(), &double).map(f64::to_bits),
                Some(number.to_bits())
            );
            let number = number as f32;
            assert_eq!(float(&number.to_le_bytes(), &single), Some(f64::from(number)));
        }
        assert!(float(&f64::NAN.to_le_bytes(), &double).is_some_and(f64::is_nan));
        let big = FloatingPoint { order: ByteOrder::Big, ..double };
        assert_eq!(float(&(-1e-7_f64).to_be_bytes(), &big), Some(-1e-7));
    }

    #[test]
    fn integers_of_odd_places() {
        let kind = FixedPoint {
            order: ByteOrder::Big,
            signed: true,
            offset: 4,
            precision: 10,
            padding: Padding::default(),
        };
        assert_eq!(integer(&[0x3F, 0xF5], kind), Some(-1));
        assert_eq!(integer(&[0x1F, 0xFF], kind), Some(511));
        let unsigned = FixedPoint { signed: false, ..kind };
        assert_eq!(integer(&[0x3F, 0xF5], unsigned), Some(1023));
    }
}
