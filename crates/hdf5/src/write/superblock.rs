//! Encoding of the superblock, version 2.

use super::fragment::Fragment;
use crate::model::Address;

/// Bytes of the superblock.
pub const SUPERBLOCK_SIZE: u64 = 48;

/// The superblock of a file without a user block: 48 bytes, within one sector, so that storage
/// replaces them as a whole.
pub fn superblock(end: Address, root: Address) -> Vec<u8> {
    let mut out = Fragment::with_capacity(SUPERBLOCK_SIZE as usize);
    out.raw(b"\x89HDF\r\n\x1a\n");
    out.u8(2);
    // Bytes of addresses and of lengths; consistency flags.
    out.u8(8);
    out.u8(8);
    out.u8(0);
    // Base address; no extension.
    out.u64(0);
    out.address(None);
    out.address(Some(end));
    out.address(Some(root));
    out.seal(0);
    let mut bytes = Vec::new();
    out.link(|_| 0, &mut bytes);
    bytes
}
