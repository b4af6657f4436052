//! [`Datatype::encode`] and [`Datatype::decode`]: the binary form, which is sent to servers and
//! stored in traces.
//!
//! One version byte, then the bounds and the loops in preorder; numbers are LEB128, signed ones
//! zigzag, offsets of lists as differences. There is exactly one encoding of a datatype: decoding
//! rebuilds the normal form and refuses anything that does not encode back to the same bytes, so
//! equal bytes and equal descriptions are the same thing.
//!
//! Decoding accepts any input. Depth and node count are limited, all arithmetic is checked by the
//! constructors, and nothing is allocated beyond a small multiple of the input.

use thiserror::Error;

use crate::datatype::{Bounds, Datatype};
use crate::node::{Loop, Node};
use crate::normal::{self, Placed};
use crate::{MAX_DEPTH, MAX_NODES, TypeError};

/// First byte of version 1.
const VERSION_1: u8 = 0xD1;

/// Why bytes are not a datatype.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The first byte is of no known version.
    #[error("not a datatype, or of an unknown version: first byte {0:#04x}")]
    Version(u8),
    /// The bytes end too early.
    #[error("the description ends in the middle, after {0} bytes")]
    Truncated(usize),
    /// A loop kind that does not exist.
    #[error("unknown loop kind {kind} at byte {position}")]
    Kind {
        /// The code found.
        kind: u8,
        /// Where.
        position: usize,
    },
    /// A number longer than 64 bits.
    #[error("a number at byte {0} does not fit in 64 bits")]
    Number(usize),
    /// Bytes after the end of the description.
    #[error("{0} bytes follow the description")]
    Trailing(usize),
    /// The loops describe no valid type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A valid description, but not in its one normal encoding.
    #[error("the description is not in normal form")]
    NotNormal,
}

impl Datatype {
    /// The compact binary form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION_1];
        for number in [self.lower_bound(), self.extent(), self.first_offset()] {
            put_signed(&mut out, number);
        }
        encode_node(self.root(), &mut out);
        out
    }

    /// Reads what [`Datatype::encode`] wrote; any other bytes give an error.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input { bytes, position: 0, nodes: 0 };
        match input.byte()? {
            VERSION_1 => {}
            other => return Err(DecodeError::Version(other)),
        }
        let (lb, extent, offset) = (input.signed()?, input.signed()?, input.signed()?);
        let node = input.node(0)?;
        if input.position < bytes.len() {
            return Err(DecodeError::Trailing(bytes.len() - input.position));
        }
        let ub = lb.checked_add(extent).ok_or(TypeError::overflow("extent"))?;
        let ty = Self::from_parts(node.shift(offset)?, Bounds { lb, ub }, 1)?;
        if ty.encode() == bytes { Ok(ty) } else { Err(DecodeError::NotNormal) }
    }
}

const BYTES: u8 = 0;
const CONTIG: u8 = 1;
const VECTOR: u8 = 2;
const BLOCK_INDEXED: u8 = 3;
const INDEXED: u8 = 4;
const STRUCT: u8 = 5;

fn encode_node(node: &Node, out: &mut Vec<u8>) {
    match node.kind() {
        Loop::Bytes => {
            out.push(BYTES);
            put(out, node.size());
        }
        Loop::Contig { count, child } => {
            out.push(CONTIG);
            put(out, *count);
            encode_node(child, out);
        }
        Loop::Vector { count, stride, child } => {
            out.push(VECTOR);
            put(out, *count);
            put_signed(out, *stride);
            encode_node(child, out);
        }
        Loop::BlockIndexed { offsets, child } => {
            out.push(BLOCK_INDEXED);
            put(out, offsets.len() as u64);
            let mut previous = 0;
            for &offset in offsets {
                put_signed(out, offset.wrapping_sub(previous));
                previous = offset;
            }
            encode_node(child, out);
        }
        Loop::Indexed { blocks, child, stride } => {
            out.push(INDEXED);
            put(out, blocks.len() as u64);
            let mut previous = 0;
            for block in blocks {
                put_signed(out, block.offset.wrapping_sub(previous));
                put(out, block.len);
                previous = block.offset;
            }
            put_signed(out, *stride);
            encode_node(child, out);
        }
        Loop::Struct { fields } => {
            out.push(STRUCT);
            put(out, fields.len() as u64);
            let mut previous = 0;
            for field in fields {
                put_signed(out, field.offset.wrapping_sub(previous));
                previous = field.offset;
                encode_node(&field.child, out);
            }
        }
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)) as u64);
}

struct Input<'a> {
    bytes: &'a [u8],
    position: usize,
    nodes: u32,
}

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.position).ok_or(DecodeError::Truncated(self.position))?;
        self.position += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let start = self.position;
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(DecodeError::Number(start))
    }

    fn signed(&mut self) -> Result<i64, DecodeError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The length of a list; each entry takes at least a byte, so no list is longer than the input.
    fn length(&mut self) -> Result<usize, DecodeError> {
        let length = self.number()?;
        let left = self.bytes.len() - self.position;
        usize::try_from(length)
            .ok()
            .filter(|&length| length <= left)
            .ok_or(DecodeError::Truncated(self.bytes.len()))
    }

    fn node(&mut self, depth: u32) -> Result<Placed, DecodeError> {
        if depth > MAX_DEPTH {
            return Err(TypeError::TooDeep { limit: MAX_DEPTH }.into());
        }
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(TypeError::TooManyLoops { limit: MAX_NODES }.into());
        }
        let position = self.position;
        Ok(match self.byte()? {
            BYTES => Placed::bytes(self.number()?)?,
            CONTIG => {
                let count = self.number()?;
                let child = self.node(depth + 1)?;
                let stride = child.node.true_extent();
                normal::repeated(count, stride, child)?
            }
            VECTOR => {
                let (count, stride) = (self.number()?, self.signed()?);
                normal::repeated(count, stride, self.node(depth + 1)?)?
            }
            BLOCK_INDEXED => {
                let mut offset = 0i64;
                let offsets = (0..self.length()?)
                    .map(|_| {
                        offset = offset.wrapping_add(self.signed()?);
                        Ok(offset)
                    })
                    .collect::<Result<Vec<_>, DecodeError>>()?;
                normal::scattered(&offsets, &self.node(depth + 1)?)?
            }
            INDEXED => {
                let mut offset = 0i64;
                let blocks = (0..self.length()?)
                    .map(|_| {
                        offset = offset.wrapping_add(self.signed()?);
                        Ok((offset, self.number()?))
                    })
                    .collect::<Result<Vec<_>, DecodeError>>()?;
                let stride = self.signed()?;
                normal::indexed(blocks, stride, &self.node(depth + 1)?)?
            }
            STRUCT => {
                let mut offset = 0i64;
                let fields = (0..self.length()?)
                    .map(|_| {
                        offset = offset.wrapping_add(self.signed()?);
                        Ok(self.node(depth + 1)?.shift(offset)?)
                    })
                    .collect::<Result<Vec<_>, DecodeError>>()?;
                normal::sequence(fields)?
            }
            kind => return Err(DecodeError::Kind { kind, position }),
        })
    }
}

impl TryFrom<&[u8]> for Datatype {
    type Error = DecodeError;

    fn try_from(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(bytes)
    }
}
