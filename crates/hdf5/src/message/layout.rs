//! Data layout message, versions 1 to 5.
//!
//! Version 5 (HDF5 2.0) differs from version 4 in nothing that is in the message: the widths of
//! chunk sizes that it changes are taken from the headers of the indexes.

use crate::cursor::Cursor;
use crate::model::{ChunkIndex, ChunkedLayout, Layout, SingleChunkFilter};
use crate::{Reason, Result};

/// The most dimensions of a message: those of a dataspace, and the size of an element.
const HIGHEST_RANK: u8 = 33;

/// Contiguous layouts of versions 1 and 2 do not say their size: it is 0 here.
pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Layout> {
    let version = cursor.version(1..=5)?;
    if version < 3 {
        return old(cursor);
    }
    match cursor.u8()? {
        0 => {
            let size = cursor.u16()?;
            Ok(Layout::Compact { data: cursor.take(usize::from(size))?.to_vec() })
        }
        1 => Ok(Layout::Contiguous { address: cursor.address()?, size: cursor.length()? }),
        2 if version == 3 => {
            let rank = rank(cursor)?;
            let root = cursor.address()?;
            let dimensions = (0..rank).map(|_| Ok(u64::from(cursor.u32()?)));
            let dimensions = dimensions.collect::<Result<_>>()?;
            chunked(cursor, dimensions, false, ChunkIndex::BTree1 { root })
        }
        2 => indexed(cursor),
        3 if version >= 4 => Ok(Layout::Virtual { heap: cursor.address()?, index: cursor.u32()? }),
        class => Err(cursor.error(Reason::Unsupported(format!("layout class {class}")))),
    }
}

fn rank(cursor: &mut Cursor<'_>) -> Result<u8> {
    let rank = cursor.u8()?;
    if (2..=HIGHEST_RANK).contains(&rank) {
        Ok(rank)
    } else {
        Err(cursor.invalid("chunks have no dimension, or more than 32"))
    }
}

fn old(cursor: &mut Cursor<'_>) -> Result<Layout> {
    let rank = cursor.u8()?;
    let class = cursor.u8()?;
    cursor.skip(5)?;
    let address = if class == 0 { None } else { cursor.address()? };
    let dimensions = (0..rank).map(|_| Ok(u64::from(cursor.u32()?)));
    let dimensions: Vec<u64> = dimensions.collect::<Result<_>>()?;
    match class {
        0 => {
            let size = cursor.u32()?;
            Ok(Layout::Compact { data: cursor.take(size as usize)?.to_vec() })
        }
        1 => Ok(Layout::Contiguous { address, size: 0 }),
        2 => chunked(cursor, dimensions, false, ChunkIndex::BTree1 { root: address }),
        _ => Err(cursor.invalid("an unknown layout class")),
    }
}

/// Chunks of version 4 and later.
fn indexed(cursor: &mut Cursor<'_>) -> Result<Layout> {
    let flags = cursor.u8()?;
    let rank = rank(cursor)?;
    let width = cursor.u8()?;
    if !(1..=8).contains(&width) {
        return Err(cursor.invalid("chunk dimensions of no or more than 8 bytes"));
    }
    let dimensions = (0..rank).map(|_| cursor.uint(usize::from(width)));
    let dimensions = dimensions.collect::<Result<_>>()?;
    let index = match cursor.u8()? {
        1 => {
            let filter = if flags & 2 != 0 {
                Some(SingleChunkFilter { size: cursor.length()?, mask: cursor.u32()? })
            } else {
                None
            };
            ChunkIndex::Single { filter, address: cursor.address()? }
        }
        2 => ChunkIndex::Implicit { address: cursor.address()? },
        3 => ChunkIndex::FixedArray { page_bits: cursor.u8()?, header: cursor.address()? },
        4 => ChunkIndex::ExtensibleArray {
            maximum_bits: cursor.u8()?,
            index_elements: cursor.u8()?,
            minimum_pointers: cursor.u8()?,
            minimum_elements: cursor.u8()?,
            page_bits: cursor.u8()?,
            header: cursor.address()?,
        },
        5 => ChunkIndex::BTree2 {
            node_size: cursor.u32()?,
            split_percent: cursor.u8()?,
            merge_percent: cursor.u8()?,
            header: cursor.address()?,
        },
        kind => {
            return Err(cursor.error(Reason::Unsupported(format!("chunk index {kind}"))));
        }
    };
    chunked(cursor, dimensions, flags & 1 != 0, index)
}

/// The last dimension is the size of an element.
fn chunked(
    cursor: &Cursor<'_>,
    mut chunk: Vec<u64>,
    partial_chunks_unfiltered: bool,
    index: ChunkIndex,
) -> Result<Layout> {
    let element_size = chunk.pop().and_then(|size| u32::try_from(size).ok());
    let Some(element_size) = element_size.filter(|&size| size > 0) else {
        return Err(cursor.invalid("chunks without an element size"));
    };
    if chunk.is_empty() || chunk.contains(&0) {
        return Err(cursor.invalid("a chunk dimension of 0, or none"));
    }
    let bytes = chunk.iter().try_fold(u64::from(element_size), |bytes, n| bytes.checked_mul(*n));
    if bytes.is_none() {
        return Err(cursor.invalid("chunks of more than 64 bits"));
    }
    Ok(Layout::Chunked(ChunkedLayout { chunk, element_size, partial_chunks_unfiltered, index }))
}
