//! [`Fragment`]: encoded bytes in which addresses are still missing.
//!
//! No length in a file depends on an address. So everything is encoded before it has a place, with
//! references to blocks where addresses will stand, and linked when the places are known, as a
//! linker does with object files: relocations first, checksums over the result last.

use std::ops::Range;

use crate::checksum::lookup3;
use crate::model::Address;

/// A block of an image: something that has an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(pub(super) u32);

/// Encoded bytes with references to blocks. Numbers are little-endian, as in the format.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragment {
    bytes: Vec<u8>,
    references: Vec<AddressField>,
    /// Ranges whose checksum follows them.
    sealed: Vec<Range<usize>>,
}

/// An address field.
#[derive(Clone, Copy, Debug)]
struct AddressField {
    at: usize,
    block: BlockId,
    /// Counted from the beginning of the block.
    offset: u64,
}

/// Bytes of an address, and of a length, in the files that are written.
pub(crate) const WORD: usize = 8;

impl Fragment {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// The lowest bytes of a number.
    pub(crate) fn sized(&mut self, value: u64, width: usize) {
        self.bytes.extend(&value.to_le_bytes()[..width]);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    pub(crate) fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    /// Zeros up to a multiple.
    pub(crate) fn pad(&mut self, multiple: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(multiple), 0);
    }

    /// An address that is known; all bits set if there is none.
    pub(crate) fn address(&mut self, address: Option<Address>) {
        self.u64(address.map_or(u64::MAX, |address| address.0));
    }

    /// The address of a place in a block.
    pub(crate) fn reference(&mut self, block: BlockId, offset: u64) {
        self.references.push(AddressField { at: self.bytes.len(), block, offset });
        self.zeros(WORD);
    }

    /// The address of a block; all bits set if there is none.
    pub(crate) fn block(&mut self, block: Option<BlockId>) {
        match block {
            Some(block) => self.reference(block, 0),
            None => self.address(None),
        }
    }

    pub(crate) fn append(&mut self, other: &Self) {
        let shift = self.bytes.len();
        self.bytes.extend(&other.bytes);
        let references = other.references.iter();
        self.references.extend(
            references.map(|reference| AddressField { at: reference.at + shift, ..*reference }),
        );
        let sealed = other.sealed.iter();
        self.sealed.extend(sealed.map(|range| range.start + shift..range.end + shift));
    }

    /// The checksum of all bytes from there on.
    pub(crate) fn seal(&mut self, from: usize) {
        self.sealed.push(from..self.bytes.len());
        self.zeros(4);
    }

    /// The bytes with addresses and checksums.
    pub(crate) fn link(&self, address: impl Fn(BlockId) -> u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(&self.bytes);
        let bytes = &mut out[start..];
        for reference in &self.references {
            let target = address(reference.block) + reference.offset;
            bytes[reference.at..reference.at + WORD].copy_from_slice(&target.to_le_bytes());
        }
        for range in &self.sealed {
            let sum = lookup3(&bytes[range.clone()]);
            bytes[range.end..range.end + 4].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// The bytes of something that refers to nothing.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> Vec<u8> {
        assert!(self.references.is_empty());
        let mut out = Vec::new();
        self.link(|_| 0, &mut out);
        out
    }
}
