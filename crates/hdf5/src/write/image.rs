//! [`Image`]: the blocks of all metadata, and their places relative to each other.
//!
//! Blocks lie one behind the other in the order of their creation, so an image is one piece: one
//! write for the rank that writes it. The order depends on the definitions alone, hence every rank
//! that makes the same definitions has the same image.

use super::fragment::{BlockId, Fragment};

/// Multiple of the address of every block.
const ALIGNMENT: usize = 8;

/// All metadata of a file but the superblock.
#[derive(Debug, Default)]
pub(crate) struct Image {
    blocks: Vec<Fragment>,
}

impl Image {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A block whose bytes come later, so that others can refer to it.
    pub(crate) fn reserve(&mut self) -> BlockId {
        self.add(Fragment::new())
    }

    /// The bytes of a reserved block.
    pub(crate) fn set(&mut self, block: BlockId, bytes: Fragment) {
        self.blocks[block.0 as usize] = bytes;
    }

    pub(crate) fn add(&mut self, bytes: Fragment) -> BlockId {
        self.blocks.push(bytes);
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Where each block begins, from the beginning of the image.
    fn offsets(&self) -> (Vec<u64>, u64) {
        let mut end = 0;
        let begin = self.blocks.iter().map(|block| {
            let begin = end;
            end += block.len().next_multiple_of(ALIGNMENT) as u64;
            begin
        });
        (begin.collect(), end)
    }

    /// Bytes of the image.
    pub(crate) fn len(&self) -> u64 {
        self.offsets().1
    }

    /// The address of a block of an image at an address.
    pub(crate) fn address(&self, block: BlockId, base: u64) -> u64 {
        base + self.offsets().0[block.0 as usize]
    }

    /// The image at an address.
    pub(crate) fn link(&self, base: u64) -> Vec<u8> {
        let (offsets, len) = self.offsets();
        let mut bytes = Vec::with_capacity(len as usize);
        for block in &self.blocks {
            block.link(|id| base + offsets[id.0 as usize], &mut bytes);
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        }
        bytes
    }

    /// Something outside of the image that refers to it.
    pub(crate) fn resolve(&self, fragment: &Fragment, base: u64) -> Vec<u8> {
        let (offsets, _) = self.offsets();
        let mut bytes = Vec::with_capacity(fragment.len());
        fragment.link(|id| base + offsets[id.0 as usize], &mut bytes);
        bytes
    }
}
