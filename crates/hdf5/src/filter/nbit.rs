//! The n-bit filter: elements without their padding bits.
//!
//! The parameters describe the datatype as a tree ([`Nbit`]), which is checked once. What is
//! encoded or decoded then follows the tree, an element at a time. Padding is 0 when it comes
//! back.

use super::FilterFault;
use super::bits::{BitReader, BitWriter};

/// Types within types, at most.
const DEPTH: usize = 32;

const PARAMETERS: FilterFault =
    FilterFault::Parameters("they do not describe a datatype as the n-bit filter has them");

/// What the parameters say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Nbit {
    /// The data is left as it is.
    Unchanged,
    /// So many elements of a type.
    Packed { elements: usize, node: Node },
}

/// A datatype, as far as the filter needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Atomic(Atomic),
    /// As many elements as fit.
    Array {
        size: usize,
        element: Box<Node>,
    },
    /// Members with their offsets; all of them together are not longer than the compound.
    Compound {
        size: usize,
        members: Vec<(usize, Node)>,
    },
    /// Whole bytes.
    Opaque {
        size: usize,
    },
}

/// A number with padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Atomic {
    size: usize,
    big_endian: bool,
    precision: u32,
    offset: u32,
}

impl Nbit {
    pub(super) fn new(parameters: &[u32]) -> Result<Self, FilterFault> {
        let [_, unchanged, elements, description @ ..] = parameters else {
            return Err(PARAMETERS);
        };
        if *unchanged != 0 {
            return Ok(Self::Unchanged);
        }
        let mut words = description.iter().map(|&word| word as usize);
        let class = words.next().ok_or(PARAMETERS)?;
        let node = Node::new(class, &mut words, DEPTH).ok_or(PARAMETERS)?;
        Ok(Self::Packed { elements: *elements as usize, node })
    }

    /// The number of bytes after decoding.
    pub(super) fn decode(&self, input: &[u8], output: &mut [u8]) -> Result<usize, FilterFault> {
        let Self::Packed { elements, node } = self else {
            let limit = output.len();
            let output = output.get_mut(..input.len()).ok_or(FilterFault::TooLong { limit })?;
            output.copy_from_slice(input);
            return Ok(input.len());
        };
        let output = unpacked(*elements, node, output)?;
        output.fill(0);
        let mut bits = BitReader::new(input);
        for element in output.chunks_exact_mut(node.size()) {
            node.decode(&mut bits, element).ok_or(FilterFault::Damaged("it ends too early"))?;
        }
        Ok(output.len())
    }

    /// The number of bytes after encoding, unless there is no room for them.
    pub(super) fn encode(
        &self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Option<usize>, FilterFault> {
        let Self::Packed { elements, node } = self else {
            let Some(output) = output.get_mut(..input.len()) else {
                return Ok(None);
            };
            output.copy_from_slice(input);
            return Ok(Some(input.len()));
        };
        if elements.checked_mul(node.size()) != Some(input.len()) {
            return Err(FilterFault::Parameters("they are for another size of chunk"));
        }
        let mut bits = BitWriter::new(output);
        for element in input.chunks_exact(node.size()) {
            if node.encode(&mut bits, element).is_none() {
                return Ok(None);
            }
        }
        Ok(bits.finish())
    }
}

/// The part of a buffer that elements take.
fn unpacked<'a>(
    elements: usize,
    node: &Node,
    output: &'a mut [u8],
) -> Result<&'a mut [u8], FilterFault> {
    let limit = output.len();
    let len = elements.checked_mul(node.size()).filter(|&len| len <= limit);
    Ok(&mut output[..len.ok_or(FilterFault::TooLong { limit })?])
}

impl Node {
    /// Reads the description of a type; `class` came in front of it. A type has a byte at least.
    fn new(class: usize, words: &mut impl Iterator<Item = usize>, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let size = words.next().filter(|&size| size > 0)?;
        Some(match class {
            1 => Self::Atomic(Atomic::new(size, words)?),
            2 => {
                let class = words.next()?;
                if class == 4 {
                    words.next()?;
                    return Some(Self::Opaque { size });
                }
                let element = Self::new(class, words, depth)?;
                Self::Array { size, element: Box::new(element) }
            }
            3 => {
                let count = words.next()?;
                let mut left = size;
                let mut members = Vec::new();
                for _ in 0..count {
                    let offset = words.next()?;
                    let class = words.next()?;
                    let member = Self::new(class, words, depth)?;
                    left = left.checked_sub(member.size())?;
                    if offset.checked_add(member.size())? > size {
                        return None;
                    }
                    members.push((offset, member));
                }
                Self::Compound { size, members }
            }
            4 => Self::Opaque { size },
            _ => return None,
        })
    }

    fn size(&self) -> usize {
        match self {
            Self::Atomic(atomic) => atomic.size,
            Self::Array { size, .. } | Self::Compound { size, .. } | Self::Opaque { size } => *size,
        }
    }

    fn decode(&self, bits: &mut BitReader<'_>, output: &mut [u8]) -> Option<()> {
        match self {
            Self::Atomic(atomic) => atomic.bytes().try_for_each(|part| {
                output[part.byte] = (bits.read(part.bits)? as u8) << part.shift;
                Some(())
            }),
            Self::Array { element, .. } => {
                let mut elements = output.chunks_exact_mut(element.size());
                elements.try_for_each(|output| element.decode(bits, output))
            }
            Self::Compound { members, .. } => members.iter().try_for_each(|(offset, member)| {
                member.decode(bits, &mut output[*offset..][..member.size()])
            }),
            Self::Opaque { size } => output[..*size].iter_mut().try_for_each(|byte| {
                *byte = bits.read(8)? as u8;
                Some(())
            }),
        }
    }

    fn encode(&self, bits: &mut BitWriter<'_>, input: &[u8]) -> Option<()> {
        match self {
            Self::Atomic(atomic) => {
                let mut parts = atomic.bytes();
                parts.try_for_each(|part| bits.write(input[part.byte] >> part.shift, part.bits))
            }
            Self::Array { element, .. } => {
                let mut elements = input.chunks_exact(element.size());
                elements.try_for_each(|input| element.encode(bits, input))
            }
            Self::Compound { members, .. } => members.iter().try_for_each(|(offset, member)| {
                member.encode(bits, &input[*offset..][..member.size()])
            }),
            Self::Opaque { size } => {
                input[..*size].iter().try_for_each(|&byte| bits.write(byte, 8))
            }
        }
    }
}

/// The significant bits within one byte.
#[derive(Clone, Copy, Debug)]
struct Part {
    byte: usize,
    bits: u32,
    shift: u32,
}

impl Atomic {
    fn new(size: usize, words: &mut impl Iterator<Item = usize>) -> Option<Self> {
        let big_endian = match words.next()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let precision = u32::try_from(words.next()?).ok()?;
        let offset = u32::try_from(words.next()?).ok()?;
        let end = precision.checked_add(offset)?;
        (end as usize <= size.checked_mul(8)?).then_some(Self {
            size,
            big_endian,
            precision,
            offset,
        })
    }

    /// The bytes that have significant bits, from the most significant one.
    fn bytes(self) -> impl Iterator<Item = Part> {
        let end = self.offset + self.precision;
        let bytes = if self.precision == 0 { 0..0 } else { self.offset / 8..end.div_ceil(8) };
        bytes.rev().map(move |byte| {
            let from = self.offset.max(8 * byte);
            let until = end.min(8 * byte + 8);
            let place = byte as usize;
            let byte = if self.big_endian { self.size - 1 - place } else { place };
            Part { byte, bits: until - from, shift: from % 8 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_of_twelve_bits_in_both_orders() {
        // 12 bits from bit 3 on, in 4 bytes.
        for order in [0, 1] {
            let nbit = Nbit::new(&[8, 0, 2, 1, 4, order, 12, 3]).unwrap();
            let numbers = [0xABC_u32 << 3, 0x123 << 3];
            let bytes = numbers.map(|number| match order {
                0 => number.to_le_bytes(),
                _ => number.to_be_bytes(),
            });
            let mut packed = [0; 8];
            let len = nbit.encode(bytes.as_flattened(), &mut packed).unwrap().unwrap();
            assert_eq!(packed[..len], [0xAB, 0xC1, 0x23, 0]);
            let mut back = [9; 8];
            assert_eq!(nbit.decode(&packed[..len], &mut back), Ok(8));
            assert_eq!(back, bytes.as_flattened());
            assert!(nbit.decode(&packed[..2], &mut back).is_err());
            assert!(nbit.decode(&packed, &mut back[..7]).is_err());
        }
    }

    #[test]
    fn parameters_that_describe_nothing() {
        for bad in [
            &[8, 0][..],
            &[8, 0, 2],
            &[8, 0, 2, 1, 0, 0, 1, 0],
            &[8, 0, 2, 1, 4, 2, 12, 3],
            &[8, 0, 2, 1, 4, 0, 30, 3],
            &[8, 0, 2, 7, 4, 0, 30, 3],
            // A member beyond the end, members that are longer than the compound, no member.
            &[0, 0, 2, 3, 4, 1, 1, 1, 4, 0, 8, 0],
            &[0, 0, 2, 3, 4, 2, 0, 4, 3, 0, 4, 3],
            &[0, 0, 2, 3, 4, 1],
        ] {
            assert_eq!(Nbit::new(bad), Err(PARAMETERS), "{bad:?}");
        }
        let nested: Vec<u32> = [0, 0, 1].into_iter().chain([2, 8].repeat(40)).collect();
        assert_eq!(Nbit::new(&nested), Err(PARAMETERS));
        assert_eq!(Nbit::new(&[3, 1, 5]), Ok(Nbit::Unchanged));
    }

    proptest! {
        #[test]
        fn compounds_of_numbers_come_back(
            members in prop::collection::vec((1_u32..9, any::<bool>(), 0_u32..65, 0_u32..65), 1..5),
            values in prop::collection::vec(any::<u8>(), 64),
        ) {
            let mut words = Vec::new();
            let mut mask = Vec::new();
            for &(size, big, precision, offset) in &members {
                let precision = precision % (8 * size) + 1;
                let offset = offset % (8 * size - precision + 1);
                words.extend([mask.len() as u32, 1, size, u32::from(big), precision, offset]);
                let bits = u128::MAX >> (128 - precision) << offset;
                let mut bytes = bits.to_le_bytes()[..size as usize].to_vec();
                if big {
                    bytes.reverse();
                }
                mask.extend(bytes);
            }
            let mut parameters = vec![0, 0, 2, 3, mask.len() as u32, members.len() as u32];
            parameters.extend(words);
            let nbit = Nbit::new(&parameters).unwrap();
            let data: Vec<u8> =
                mask.iter().cycle().zip(&values).map(|(m, v)| m & v).take(2 * mask.len()).collect();
            let mut packed = vec![0; data.len() + 1];
            let len = nbit.encode(&data, &mut packed).unwrap().unwrap();
            let mut back = vec![1; data.len()];
            prop_assert_eq!(nbit.decode(&packed[..len], &mut back), Ok(data.len()));
            prop_assert_eq!(back, data);
        }
    }
}
