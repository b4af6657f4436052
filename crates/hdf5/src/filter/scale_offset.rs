//! The scale-offset filter: numbers as differences from the smallest, in as few bits as they need.
//!
//! Floating-point numbers are first multiplied by a power of ten and rounded (D-scale); the library
//! never had the other scaling (E-scale). The filter is decoded only.

use super::FilterFault;
use super::bits::BitReader;

/// What the parameters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScaleOffset {
    /// All bits are kept: the data is left as it is.
    Unchanged,
    Packed(Packed),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    elements: usize,
    size: usize,
    big_endian: bool,
    scale: Scale,
    /// The bits of the fill value, which has a number of its own.
    fill: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Integer,
    /// Divided by this power of ten.
    Decimal(i32),
}

/// In front of the numbers: their width, the size of the minimum, the minimum, and unused bytes.
const HEADER: usize = 21;

impl ScaleOffset {
    pub(super) fn new(parameters: &[u32]) -> Result<Self, FilterFault> {
        let [kind, factor, elements, class, size, _sign, order, fill, rest @ ..] = parameters
        else {
            return Err(FilterFault::Parameters("there are fewer than eight"));
        };
        let (size, factor) = (*size as usize, factor.cast_signed());
        let scale = match (class, kind, size) {
            (0, 2, 1 | 2 | 4 | 8) => Scale::Integer,
            (1, 0, 4 | 8) => Scale::Decimal(factor),
            (1, 1, _) => return Err(FilterFault::Unsupported("E-scaled numbers")),
            _ => return Err(FilterFault::Parameters("such numbers are not scaled")),
        };
        if scale == Scale::Integer && factor == 8 * size as i32 {
            return Ok(Self::Unchanged);
        }
        let fill = (*fill == 1).then(|| {
            let word = |at: usize| u64::from(rest.get(at).copied().unwrap_or(0));
            truncated(word(0) | word(1) << 32, size)
        });
        let big_endian = *order == 1;
        let elements = *elements as usize;
        Ok(Self::Packed(Packed { elements, size, big_endian, scale, fill }))
    }

    /// The number of bytes after decoding.
    pub(super) fn decode(&self, input: &[u8], output: &mut [u8]) -> Result<usize, FilterFault> {
        let limit = output.len();
        let too_long = FilterFault::TooLong { limit };
        let Self::Packed(packed) = self else {
            output.get_mut(..input.len()).ok_or(too_long)?.copy_from_slice(input);
            return Ok(input.len());
        };
        let len = packed.elements.checked_mul(packed.size).ok_or(too_long.clone())?;
        packed.decode(input, output.get_mut(..len).ok_or(too_long)?)?;
        Ok(len)
    }
}

impl Packed {
    fn decode(self, input: &[u8], output: &mut [u8]) -> Result<(), FilterFault> {
        let short = FilterFault::Damaged("it ends too early");
        let (head, numbers) = input.split_at_checked(HEADER).ok_or(short.clone())?;
        let bits = head.iter().take(4).rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        let minimum_len = usize::from(head[4]).min(8);
        let minimum =
            head[5..5 + minimum_len].iter().rev().fold(0, |min, &byte| min << 8 | u64::from(byte));
        let width = 8 * self.size as u32;
        if bits > width {
            return Err(FilterFault::Damaged("a number has more bits than its type"));
        }
        if bits == width {
            output.copy_from_slice(numbers.get(..output.len()).ok_or(short)?);
            if self.big_endian {
                output.chunks_exact_mut(self.size).for_each(<[u8]>::reverse);
            }
            return Ok(());
        }
        let fill = self.fill.map(|fill| ((1_u64 << bits) - 1, fill));
        let mut numbers = BitReader::new(numbers);
        for element in output.chunks_exact_mut(self.size) {
            let number = numbers.read_long(bits).ok_or(short.clone())?;
            let value = match fill {
                Some((last, fill)) if number == last => fill,
                _ => self.value(number, minimum),
            };
            if self.big_endian {
                element.copy_from_slice(&value.to_be_bytes()[8 - self.size..]);
            } else {
                element.copy_from_slice(&value.to_le_bytes()[..self.size]);
            }
        }
        Ok(())
    }

    /// The bits of a value. The arithmetic is that of the library, in the type of the data.
    fn value(self, number: u64, minimum: u64) -> u64 {
        match (self.scale, self.size) {
            (Scale::Integer, _) => truncated(number.wrapping_add(minimum), self.size),
            (Scale::Decimal(factor), 4) => {
                let minimum = f32::from_bits(minimum as u32);
                let scaled = (number as i32) as f32 / 10_f32.powf(factor as f32);
                u64::from((scaled + minimum).to_bits())
            }
            (Scale::Decimal(factor), _) => {
                let scaled = number.cast_signed() as f64 / 10_f64.powf(f64::from(factor));
                (scaled + f64::from_bits(minimum)).to_bits()
            }
        }
    }
}

/// The lowest bytes of a number.
fn truncated(bits: u64, size: usize) -> u64 {
    bits & u64::MAX >> (64 - 8 * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bits: u32, minimum: u64, numbers: &[u8]) -> Vec<u8> {
        [&bits.to_le_bytes()[..], &[8], &minimum.to_le_bytes(), &[0; 8], numbers].concat()
    }

    #[test]
    fn integers_with_a_fill_value() {
        let parameters = [2, 0, 4, 0, 2, 1, 0, 1, 0xFFFF_8001];
        let filter = ScaleOffset::new(&parameters).unwrap();
        // Numbers of two bits: 0, 1, 2 and the one of the fill value.
        let mut output = [0; 8];
        let input = stored(2, (-5_i64).cast_unsigned(), &[0b0001_1011]);
        assert_eq!(filter.decode(&input, &mut output), Ok(8));
        let values = output.as_chunks::<2>().0.iter().map(|&value| i16::from_le_bytes(value));
        assert_eq!(values.collect::<Vec<_>>(), [-5, -4, -3, -0x7FFF]);
        assert!(filter.decode(&input[..21], &mut output).is_err());
        assert!(filter.decode(&input[..20], &mut output).is_err());
        assert!(filter.decode(&stored(17, 0, &[0; 20]), &mut output).is_err());
        assert!(filter.decode(&input, &mut output[..7]).is_err());
    }

    #[test]
    fn all_the_same_and_all_bits() {
        let filter = ScaleOffset::new(&[2, 0, 3, 0, 4, 0, 1, 0]).unwrap();
        let mut output = [9; 12];
        assert_eq!(filter.decode(&stored(0, 7, &[]), &mut output), Ok(12));
        assert_eq!(output, [0, 0, 0, 7].repeat(3)[..]);
        assert_eq!(filter.decode(&stored(32, 7, &[1, 2, 3, 4].repeat(3)), &mut output), Ok(12));
        assert_eq!(output, [4, 3, 2, 1].repeat(3)[..]);
        assert_eq!(ScaleOffset::new(&[2, 32, 3, 0, 4, 0, 1, 0]), Ok(ScaleOffset::Unchanged));
    }

    #[test]
    fn numbers_that_are_not_scaled() {
        assert!(ScaleOffset::new(&[2, 0, 3, 0, 4, 0, 1]).is_err());
        assert!(ScaleOffset::new(&[2, 0, 3, 0, 3, 0, 1, 0]).is_err());
        assert!(ScaleOffset::new(&[0, 0, 3, 1, 2, 0, 1, 0]).is_err());
        let fault = ScaleOffset::new(&[1, 0, 3, 1, 4, 0, 1, 0]).unwrap_err();
        assert_eq!(fault, FilterFault::Unsupported("E-scaled numbers"));
    }
}
