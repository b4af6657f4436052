//! `long double` of x86 processors and IEEE's 128-bit format.
//!
//! Both have a sign, 15 bits of exponent and the same bias. The x87 stores the leading bit of the
//! significand and 63 more; IEEE's format has 112 without it. The conversion to IEEE's format is
//! exact, the conversion back rounds to the nearest, ties to even.

/// Bits that IEEE's significand has beyond the x87's.
const BEYOND: u32 = 112 - 63;
const LEADING: u64 = 1 << 63;
const QUIET: u64 = 1 << 62;
const LARGEST: u16 = 0x7FFF;

/// From an x87's register image in 16 bytes to IEEE's format, big-endian.
pub(super) fn to_quad(image: [u8; 16]) -> [u8; 16] {
    let image = u128::from_le_bytes(image);
    let (significand, head) = (image as u64, (image >> 64) as u16);
    let (sign, exponent) = (head & !LARGEST, head & LARGEST);
    let fraction = u128::from(significand & !LEADING) << BEYOND;
    let has_leading = significand & LEADING != 0;
    let (exponent, fraction) = match (exponent, has_leading) {
        // A leading bit without an exponent means the smallest exponent.
        (0, true) => (1, fraction),
        // The processor treats a number without its leading bit as invalid.
        (1..LARGEST, false) => (LARGEST, u128::from(QUIET) << BEYOND),
        (exponent, _) => (exponent, fraction),
    };
    (u128::from(sign | exponent) << 112 | fraction).to_be_bytes()
}

/// From IEEE's format, big-endian, to an x87's register image in 16 bytes.
pub(super) fn from_quad(quad: [u8; 16]) -> [u8; 16] {
    let quad = u128::from_be_bytes(quad);
    let head = (quad >> 112) as u16;
    let (sign, exponent) = (head & !LARGEST, head & LARGEST);
    let fraction = quad & ((1 << 112) - 1);
    let (exponent, significand) = match exponent {
        LARGEST if fraction == 0 => (LARGEST, LEADING),
        LARGEST => {
            let payload = (fraction >> BEYOND) as u64;
            // The remaining bits must not look like infinity.
            (LARGEST, LEADING | if payload == 0 { QUIET } else { payload })
        }
        0 => {
            let significand = rounded(fraction);
            (u16::from(significand & LEADING != 0), significand)
        }
        exponent => match rounded(fraction | 1 << 112) {
            // Rounded up to the next power of two, whose bit is beyond the 64.
            0 => (exponent + 1, LEADING),
            significand => (exponent, significand),
        },
    };
    (u128::from(sign | exponent) << 64 | u128::from(significand)).to_le_bytes()
}

/// The upper 64 of 113 bits, rounded; 0 for 2⁶⁴.
const fn rounded(bits: u128) -> u64 {
    let kept = bits >> BEYOND;
    let rest = bits & ((1 << BEYOND) - 1);
    let half = 1 << (BEYOND - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    (kept + up as u128) as u64
}
