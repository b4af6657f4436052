//! Version-2 B-tree: records have the address of a chunk and where it is, in chunks.

use std::ops::ControlFlow;

use super::element::ElementKind;
use super::{ChunkVisitor, Indexed};
use crate::btree::version_2::BTree2;
use crate::cursor::Cursor;
use crate::model::{Address, Chunk};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

/// Records of chunks without and with filters.
const PLAIN: u8 = 10;
const FILTERED: u8 = 11;

pub(super) fn visit(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    header: Address,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let failed = |why| Error::at(Structure::BTree2, header, Reason::Invalid(why));
    let tree = BTree2::read(walk, header)?;
    tree.expect(&[PLAIN, FILTERED])?;
    let rank = indexed.grid.rank();
    let element_size = usize::from(tree.record_size).checked_sub(8 * rank);
    let element_size = element_size.ok_or_else(|| failed("records without coordinates"))?;
    let kind = ElementKind::new(tree.kind == FILTERED, element_size, walk.widths());
    let kind = kind.ok_or_else(|| failed("records of an impossible size"))?;
    let offset = |record: &mut Cursor<'_>| {
        let steps = (0..rank).map(|_| record.u64()).collect::<Result<Vec<_>>>()?;
        let offset = indexed.grid.scaled(&steps);
        offset.ok_or_else(|| record.invalid("coordinates beyond 64 bits"))
    };
    let passed = |mut record: Cursor<'_>| {
        record.skip(element_size)?;
        Ok(!indexed.wanted(&offset(&mut record)?))
    };
    let mut last: Option<Vec<u64>> = None;
    tree.visit(walk, &passed, &mut |mut record| {
        let element = kind.decode(&mut record, indexed.bytes)?;
        let offset = offset(&mut record)?;
        if last.as_ref().is_some_and(|last| *last >= offset) {
            return Err(record.invalid("chunks are out of order"));
        }
        last = Some(offset.clone());
        match element {
            Some((address, size, filter_mask)) => {
                visitor(Chunk { offset, address, size, filter_mask })
            }
            None => Ok(ControlFlow::Continue(())),
        }
    })
}
