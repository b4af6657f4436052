//! Version-1 B-tree: keys have the size, the filter mask and the coordinates of chunks.

use std::ops::ControlFlow;

use super::{ChunkVisitor, Indexed};
use crate::btree::version_1::{self, Entry, TreeKind};
use crate::cursor::Cursor;
use crate::model::{Address, Chunk};
use crate::walk::Walk;
use crate::{Result, Structure};

pub(super) fn visit(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    root: Address,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let rank = indexed.grid.rank();
    // Coordinates have one more number, of the bytes of an element, which is 0.
    let kind = TreeKind { number: 1, key_size: 4 + 4 + 8 * (rank + 1) };
    let offset = |key: &mut Cursor<'_>| (0..rank).map(|_| key.u64()).collect::<Result<Vec<_>>>();
    let passed = |mut key: Cursor<'_>| {
        key.skip(4 + 4)?;
        Ok(indexed.all_before_passed(&offset(&mut key)?))
    };
    let mut last: Option<Vec<u64>> = None;
    version_1::visit(walk, kind, root, &passed, &mut |entry: Entry<'_>| {
        let mut key = entry.key;
        let (size, filter_mask) = (u64::from(key.u32()?), key.u32()?);
        let offset = offset(&mut key)?;
        if last.as_ref().is_some_and(|last| *last >= offset) {
            return Err(key.invalid("chunks are out of order"));
        }
        if !indexed.grid.is_chunk(&offset) {
            return Err(key.invalid("coordinates that are not those of a chunk"));
        }
        last = Some(offset.clone());
        if !indexed.wanted(&offset) {
            return Ok(ControlFlow::Continue(()));
        }
        walk.pay(Structure::BTree1, root, 1)?;
        visitor(Chunk { offset, address: entry.child, size, filter_mask })
    })
}
