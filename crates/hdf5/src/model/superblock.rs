//! [`Superblock`]: where a file begins, where it ends, and where its root group is.

use super::Address;

/// The superblock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Superblock {
    /// 0 to 3.
    pub version: u8,
    /// Bytes of an address: 2, 4, 8 (16 and 32 exist in the specification only).
    pub offset_size: u8,
    /// Bytes of a length: 2, 4, 8.
    pub length_size: u8,
    /// Where the signature was found: behind the user block.
    pub location: u64,
    /// What addresses are counted from; the same as the location unless the file was moved.
    pub base: u64,
    /// Where the file ends, in bytes from its very beginning.
    pub end: u64,
    /// The root group.
    pub root: RootGroup,
    /// The superblock extension, an object header.
    pub extension: Option<Address>,
    /// Driver information (versions 0 and 1), of the family and multi drivers.
    pub driver_information: Option<Address>,
    /// Ranks of B-trees (versions 0 and 1; defaults otherwise).
    pub tree_ranks: TreeRanks,
    /// File consistency flags: bit 0, open for writing; bit 2, for single writer and many readers.
    pub consistency_flags: u32,
}

/// The root group, as a superblock has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RootGroup {
    /// Its object header.
    pub header: Address,
    /// The symbol table that a superblock of version 0 or 1 may keep with it.
    pub symbol_table: Option<(Address, Address)>,
}

/// Half of the most entries of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeRanks {
    /// Of a symbol table node.
    pub group_leaf: u16,
    /// Of a node of a group's B-tree.
    pub group_internal: u16,
    /// Of a node of a chunk B-tree.
    pub chunk_internal: u16,
}

impl Default for TreeRanks {
    fn default() -> Self {
        Self { group_leaf: 4, group_internal: 16, chunk_internal: 32 }
    }
}
