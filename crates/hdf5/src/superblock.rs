//! The superblock: found, decoded, and compared with the length of the file.
//!
//! Versions 0 to 3. It is looked for at 0, 512, 1024, 2048, …: what is before it is the user block.
//! A file whose user block was added or removed by copying bytes still works: addresses count from
//! where the signature is, whatever the base address says, as the HDF5 library has it.

use crate::blocks::Fetch;
use crate::checksum::lookup3;
use crate::cursor::{Cursor, Widths, verified};
use crate::model::{Address, RootGroup, Superblock, TreeRanks};
use crate::{Error, Reason, Result, Structure};

/// What every HDF5 file has at its beginning or behind its user block.
pub const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// The most bytes that a superblock of any version takes.
const LONGEST: u64 = 9 + 15 + 4 * 8 + 4 + 40;

/// Finds the superblock and decodes it.
pub(crate) fn find(blocks: &dyn Fetch) -> Result<Superblock> {
    let mut location = 0;
    while location + SIGNATURE.len() as u64 <= blocks.length() {
        let mut found = [0; 8];
        blocks.metadata(location, &mut found).map_err(|error| failed(location, error))?;
        if found == SIGNATURE {
            return decode(blocks, location);
        }
        location = if location == 0 { 512 } else { location * 2 };
    }
    Err(Error::of(Structure::File, Reason::NotHdf5))
}

fn failed(location: u64, error: std::io::Error) -> Error {
    Error::at(Structure::Superblock, Address(location), error)
}

fn decode(blocks: &dyn Fetch, location: u64) -> Result<Superblock> {
    let mut bytes = vec![0; LONGEST.min(blocks.length() - location) as usize];
    blocks.metadata(location, &mut bytes).map_err(|error| failed(location, error))?;
    let widths = Widths { offset: 8, length: 8 };
    let mut cursor = Cursor::new(&bytes, Structure::Superblock, Address(location), widths);
    cursor.skip(SIGNATURE.len())?;
    let version = cursor.version(0..=3)?;
    let mut superblock =
        if version < 2 { old(&mut cursor, version)? } else { new(&mut cursor, &bytes, version)? };
    superblock.location = location;
    // The library does the same: the file was moved as a whole.
    if superblock.base != location {
        superblock.end = superblock.end.wrapping_sub(superblock.base).wrapping_add(location);
        superblock.base = location;
    }
    if superblock.end > blocks.length() {
        let reason = Reason::FileTruncated { length: blocks.length(), end: superblock.end };
        return Err(Error::of(Structure::File, reason));
    }
    Ok(superblock)
}

fn widths(cursor: &Cursor<'_>, offset: u8, length: u8) -> Result<Widths> {
    if ![2, 4, 8].contains(&offset) || ![2, 4, 8].contains(&length) {
        let widths = format!("addresses of {offset} bytes and lengths of {length}");
        return Err(cursor.error(Reason::Unsupported(widths)));
    }
    Ok(Widths { offset, length })
}

/// Versions 0 and 1: the root group is a symbol table entry.
fn old(cursor: &mut Cursor<'_>, version: u8) -> Result<Superblock> {
    cursor.skip(4)?;
    let (offset_size, length_size) = (cursor.u8()?, cursor.u8()?);
    let widths = widths(cursor, offset_size, length_size)?;
    cursor.skip(1)?;
    let (group_leaf, group_internal) = (cursor.u16()?, cursor.u16()?);
    let consistency_flags = cursor.u32()?;
    let mut tree_ranks = TreeRanks { group_leaf, group_internal, ..TreeRanks::default() };
    if version == 1 {
        tree_ranks.chunk_internal = cursor.u16()?;
        cursor.skip(2)?;
    }
    let mut fields = cursor.within(Structure::Superblock).with(widths);
    let base = fields.defined_address("the base address is undefined")?.0;
    let _free_space = fields.address()?;
    let end = fields.defined_address("the end of the file is undefined")?.0;
    let driver_information = fields.address()?;
    let _name = fields.length()?;
    let header = fields.defined_address("the root group has no address")?;
    let cached = fields.u32()?;
    fields.skip(4)?;
    let symbol_table = if cached == 1 { fields.address()?.zip(fields.address()?) } else { None };
    Ok(Superblock {
        version,
        offset_size,
        length_size,
        location: 0,
        base,
        end,
        root: RootGroup { header, symbol_table },
        extension: None,
        driver_information,
        tree_ranks,
        consistency_flags,
    })
}

/// Versions 2 and 3: the root group is an object header, and there is a checksum.
fn new(cursor: &mut Cursor<'_>, bytes: &[u8], version: u8) -> Result<Superblock> {
    let (offset_size, length_size) = (cursor.u8()?, cursor.u8()?);
    let widths = widths(cursor, offset_size, length_size)?;
    let consistency_flags = u32::from(cursor.u8()?);
    let length = cursor.position() + 4 * usize::from(offset_size) + 4;
    let mut fields = cursor.within(Structure::Superblock).with(widths);
    let base = fields.defined_address("the base address is undefined")?.0;
    let extension = fields.address()?;
    let end = fields.defined_address("the end of the file is undefined")?.0;
    let header = fields.defined_address("the root group has no address")?;
    fields.skip(4)?;
    verified(&bytes[..length], Structure::Superblock, Address(base))?;
    Ok(Superblock {
        version,
        offset_size,
        length_size,
        location: 0,
        base,
        end,
        root: RootGroup { header, symbol_table: None },
        extension,
        driver_information: None,
        tree_ranks: TreeRanks::default(),
        consistency_flags,
    })
}

/// Bytes of a superblock.
pub(crate) const fn size(superblock: &Superblock) -> u64 {
    let offset = superblock.offset_size as u64;
    match superblock.version {
        // Addresses, and the entry of the root group.
        0 | 1 => {
            let fixed = if superblock.version == 0 { 24 } else { 28 };
            fixed + 4 * offset + 2 * offset + 4 + 4 + 16
        }
        _ => 12 + 4 * offset + 4,
    }
}

/// The bytes of a superblock of version 2 or 3 as its writer leaves it when it closes the file: not
/// open for writing, and if another end is given, with that.
///
/// `None` if the bytes are none of a sound superblock of these versions.
pub fn closed_superblock(bytes: &[u8], end: Option<u64>) -> Option<Vec<u8>> {
    let version =
        bytes.strip_prefix(&SIGNATURE)?.first().filter(|version| (2..=3).contains(*version));
    let width = usize::from(*bytes.get(9).filter(|width| [2, 4, 8].contains(*width))?);
    let length = version.map(|_| 12 + 4 * width)?;
    let (body, sum) = bytes.get(..length + 4)?.split_at(length);
    if sum != lookup3(body).to_le_bytes() {
        return None;
    }
    let mut closed = body.to_vec();
    closed[11] = 0;
    if let Some(end) = end {
        let end = end.to_le_bytes();
        if end[width..].iter().any(|&byte| byte != 0) {
            return None;
        }
        closed[12 + 2 * width..12 + 3 * width].copy_from_slice(&end[..width]);
    }
    let sum = lookup3(&closed);
    closed.extend_from_slice(&sum.to_le_bytes());
    Some(closed)
}
