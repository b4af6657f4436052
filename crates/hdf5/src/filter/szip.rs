//! szip: the adaptive entropy coding of CCSDS 121.0-B, as the HDF5 filter uses it. It is decoded
//! only.
//!
//! A scanline is a reference sample interval of its own: blocks of samples, each with the code
//! that suits it best. With the nearest-neighbour option, samples are differences from their
//! predecessors, folded to be positive. Samples of 32 and 64 bits are not coded as such: their
//! bytes are, one plane after the other.

use super::FilterFault;
use super::bits::BitReader;
use super::shuffle::unshuffle;

const MSB: u32 = 16;
const NEAREST_NEIGHBOUR: u32 = 32;

/// The code of a run of zero blocks that lasts until the end of a segment.
const REST_OF_SEGMENT: u32 = 5;
const SEGMENT: usize = 64;

const SHORT: FilterFault = FilterFault::Damaged("it ends too early");

/// What the parameters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Szip {
    /// Bits of a sample.
    bits: u32,
    /// Bytes of a sample in memory.
    bytes: usize,
    /// The samples are bytes of elements of this size, in planes.
    planes: Option<usize>,
    big_endian: bool,
    differences: bool,
    block: usize,
    scanline: usize,
}

impl Szip {
    pub(super) fn new(parameters: &[u32]) -> Result<Self, FilterFault> {
        let &[options, block, bits, scanline] = parameters else {
            return Err(FilterFault::Parameters("there are not four"));
        };
        let (bits, planes) = match bits {
            1..=31 => (bits, None),
            32 | 64 => (8, Some(bits as usize / 8)),
            _ => return Err(FilterFault::Parameters("the bits of a pixel")),
        };
        if block % 2 != 0 || !(2..=32).contains(&block) {
            return Err(FilterFault::Parameters("the pixels of a block"));
        }
        if !(1..=4096).contains(&scanline) {
            return Err(FilterFault::Parameters("the pixels of a scanline"));
        }
        Ok(Self {
            bits,
            bytes: match bits {
                0..=8 => 1,
                9..=16 => 2,
                _ => 4,
            },
            planes,
            big_endian: options & MSB != 0,
            differences: options & NEAREST_NEIGHBOUR != 0,
            block: block as usize,
            scanline: scanline as usize,
        })
    }

    /// The number of bytes after decoding. `spare` is memory to work in.
    pub(super) fn decode(
        &self,
        input: &[u8],
        output: &mut [u8],
        spare: &mut Vec<u8>,
    ) -> Result<usize, FilterFault> {
        let (len, input) = input.split_first_chunk::<4>().ok_or(SHORT)?;
        let len = u32::from_le_bytes(*len) as usize;
        let limit = output.len();
        let output = output.get_mut(..len).ok_or(FilterFault::TooLong { limit })?;
        match self.planes {
            None => self.decode_samples(input, output)?,
            Some(size) => {
                spare.resize(len, 0);
                self.decode_samples(input, spare)?;
                unshuffle(size, spare, output);
            }
        }
        Ok(len)
    }

    fn decode_samples(&self, input: &[u8], output: &mut [u8]) -> Result<(), FilterFault> {
        if !output.len().is_multiple_of(self.bytes) {
            return Err(FilterFault::Damaged("a part of a pixel"));
        }
        let mut interval = Interval { szip: *self, bits: BitReader::new(input), samples: vec![] };
        for line in output.chunks_mut(self.scanline * self.bytes) {
            // What fills the last block of a scanline is no data.
            let wanted = line.len() / self.bytes;
            interval.decode(wanted)?;
            if self.differences {
                interval.add_differences();
            }
            for (pixel, sample) in line.chunks_exact_mut(self.bytes).zip(&interval.samples) {
                if self.big_endian {
                    pixel.copy_from_slice(&sample.to_be_bytes()[4 - self.bytes..]);
                } else {
                    pixel.copy_from_slice(&sample.to_le_bytes()[..self.bytes]);
                }
            }
        }
        Ok(())
    }
}

/// A reference sample interval.
struct Interval<'a> {
    szip: Szip,
    bits: BitReader<'a>,
    samples: Vec<u32>,
}

impl Interval<'_> {
    /// Decodes whole blocks until there are so many samples, at least.
    fn decode(&mut self, wanted: usize) -> Result<(), FilterFault> {
        let Szip { bits, block, scanline, .. } = self.szip;
        let len = scanline.next_multiple_of(block);
        // An interval that is longer than what is wanted is decoded whole if it is not the last.
        let wanted = if wanted == scanline { len } else { wanted };
        let code_bits = match bits {
            0..=8 => 3,
            9..=16 => 4,
            _ => 5,
        };
        let raw = (1 << code_bits) - 1;
        self.samples.clear();
        while self.samples.len() < wanted {
            let reference = self.szip.differences && self.samples.is_empty();
            let code = self.bits.read(code_bits).ok_or(SHORT)?;
            if code == raw {
                for _ in 0..block {
                    let sample = self.bits.read(bits).ok_or(SHORT)?;
                    self.samples.push(sample);
                }
                continue;
            }
            let low_entropy = if code == 0 { Some(self.bits.read(1).ok_or(SHORT)?) } else { None };
            if reference {
                let sample = self.bits.read(bits).ok_or(SHORT)?;
                self.samples.push(sample);
            }
            match low_entropy {
                None => self.split_samples(code - 1, block - usize::from(reference))?,
                Some(0) => self.zero_blocks(len)?,
                Some(_) => self.second_extension(block)?,
            }
        }
        Ok(())
    }

    /// The upper parts of all samples in unary, then their lower bits.
    fn split_samples(&mut self, low_bits: u32, count: usize) -> Result<(), FilterFault> {
        let start = self.samples.len();
        for _ in 0..count {
            let high = self.bits.read_unary().ok_or(SHORT)?;
            self.samples.push(high.wrapping_shl(low_bits));
        }
        for sample in &mut self.samples[start..] {
            *sample |= self.bits.read(low_bits).ok_or(SHORT)?;
        }
        Ok(())
    }

    fn zero_blocks(&mut self, len: usize) -> Result<(), FilterFault> {
        let block = self.szip.block;
        let before = self.samples.len() / block;
        let blocks = match self.bits.read_unary().ok_or(SHORT)?.saturating_add(1) {
            REST_OF_SEGMENT => (len / block - before).min(SEGMENT - before % SEGMENT),
            code if code > REST_OF_SEGMENT => code as usize - 1,
            code => code as usize,
        };
        let end = before.saturating_add(blocks).saturating_mul(block);
        if end > len {
            return Err(FilterFault::Damaged("zeros beyond the end of a scanline"));
        }
        self.samples.resize(end, 0);
        Ok(())
    }

    /// Two samples as one number: the pairs are counted along the diagonals of a table.
    fn second_extension(&mut self, block: usize) -> Result<(), FilterFault> {
        let end = (self.samples.len() / block + 1) * block;
        while self.samples.len() < end {
            let number = self.bits.read_unary().ok_or(SHORT)?;
            let mut sum = 0;
            let mut second = number;
            while second > sum {
                sum += 1;
                second -= sum;
                if sum > 12 {
                    return Err(FilterFault::Damaged("a pair beyond the table"));
                }
            }
            // The first sample of an interval is the reference, which has no difference.
            if self.samples.len().is_multiple_of(2) {
                self.samples.push(sum - second);
            }
            self.samples.push(second);
        }
        Ok(())
    }

    /// The samples from the first one and folded differences.
    fn add_differences(&mut self) {
        let bits = self.szip.bits;
        let largest = u32::MAX >> (32 - bits);
        let middle = largest / 2 + 1;
        let Some((first, differences)) = self.samples.split_first_mut() else {
            return;
        };
        let mut last = *first;
        for sample in differences {
            let difference = *sample;
            // A difference that only one direction allows is not folded.
            let mirror = if last & middle == 0 { 0 } else { largest };
            let magnitude = (difference >> 1) + (difference & 1);
            last = if magnitude > mirror ^ last {
                mirror ^ difference
            } else if difference & 1 == 0 {
                last.wrapping_add(difference >> 1)
            } else {
                last.wrapping_sub(magnitude)
            };
            *sample = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_no_writer_sets() {
        assert!(Szip::new(&[NEAREST_NEIGHBOUR, 8, 16]).is_err());
        assert!(Szip::new(&[NEAREST_NEIGHBOUR, 8, 0, 64]).is_err());
        assert!(Szip::new(&[NEAREST_NEIGHBOUR, 8, 33, 64]).is_err());
        assert!(Szip::new(&[NEAREST_NEIGHBOUR, 7, 16, 64]).is_err());
        assert!(Szip::new(&[NEAREST_NEIGHBOUR, 0, 16, 64]).is_err());
        assert!(Szip::new(&[NEAREST_NEIGHBOUR, 8, 16, 5000]).is_err());
        assert!(Szip::new(&[NEAREST_NEIGHBOUR, 8, 64, 64]).is_ok());
    }

    #[test]
    fn raw_blocks_zeros_and_splits() {
        // Bytes without differences, two samples a block, four a scanline.
        let szip = Szip::new(&[0, 2, 8, 4]).unwrap();
        let mut spare = Vec::new();
        let mut output = [9; 8];
        // Code 7: raw 0xAB 0xCD. Code 3: 2 low bits, "01" and "1", then 11 and 10.
        // Code 0, 0: zeros until the end ("00001").
        let bits = "111 10101011 11001101  011 01 1 11 10  000 0 00001";
        let mut input = 8_u32.to_le_bytes().to_vec();
        let bits: Vec<u8> = bits.bytes().filter(|bit| *bit != b' ').map(|bit| bit - b'0').collect();
        input.extend(
            bits.chunks(8).map(|bits| {
                bits.iter().enumerate().fold(0, |byte, (at, bit)| byte | bit << (7 - at))
            }),
        );
        assert_eq!(szip.decode(&input, &mut output, &mut spare), Ok(8));
        assert_eq!(output, [0xAB, 0xCD, 7, 2, 0, 0, 0, 0]);
        for len in 0..input.len() {
            assert!(szip.decode(&input[..len], &mut output, &mut spare).is_err());
        }
        assert!(szip.decode(&input, &mut output[..7], &mut spare).is_err());
    }
}
