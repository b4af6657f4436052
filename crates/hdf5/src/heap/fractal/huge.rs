//! Huge objects of a fractal heap: at addresses of their own.
//!
//! An identifier has the address if there is room for it, else the number of a record in a
//! version-2 B-tree.

use std::ops::ControlFlow;

use super::FractalHeap;
use crate::btree::version_2::BTree2;
use crate::cursor::Cursor;
use crate::model::Address;
use crate::walk::Walk;
use crate::{Result, Structure};

/// Records of objects that are found by number: without and with filters.
const PLAIN: u8 = 1;
const FILTERED: u8 = 2;

/// Where a huge object is.
struct HugePlace {
    address: Address,
    /// Bytes as stored.
    stored: u64,
    /// Filters left out, and bytes of the object, if there are filters.
    filtered: Option<(u32, u64)>,
}

pub(super) fn object(heap: &FractalHeap, walk: &Walk<'_>, rest: &[u8]) -> Result<Vec<u8>> {
    let (offset, length) = (usize::from(walk.widths().offset), usize::from(walk.widths().length));
    let has_filters = !heap.header.filters.is_empty();
    let direct = if has_filters { offset + length + 4 + length } else { offset + length };
    let room = usize::from(heap.header.id_length.saturating_sub(1));
    let mut cursor = walk.cursor(rest, Structure::FractalHeap, heap.address);
    let place = if room >= direct {
        decode(&mut cursor, has_filters)?
    } else {
        let number = cursor.uint(length.min(room).min(8))?;
        by_number(heap, walk, number, has_filters)?
    };
    match place.filtered {
        Some((mask, size)) => heap.unfilter(walk, place.address, place.stored, mask, size),
        None => walk.read(Structure::FractalHeap, place.address, place.stored),
    }
}

fn decode(cursor: &mut Cursor<'_>, has_filters: bool) -> Result<HugePlace> {
    let address = cursor.defined_address("a huge object at no address")?;
    let stored = cursor.length()?;
    let filtered = if has_filters { Some((cursor.u32()?, cursor.length()?)) } else { None };
    Ok(HugePlace { address, stored, filtered })
}

fn by_number(
    heap: &FractalHeap,
    walk: &Walk<'_>,
    number: u64,
    has_filters: bool,
) -> Result<HugePlace> {
    let Some(address) = heap.header.huge_tree else {
        return Err(heap.invalid("a huge object of a heap without huge objects"));
    };
    let tree = BTree2::read(walk, address)?;
    tree.expect(&[if has_filters { FILTERED } else { PLAIN }])?;
    let record = |mut cursor: Cursor<'_>| -> Result<(HugePlace, u64)> {
        let place = decode(&mut cursor, has_filters)?;
        Ok((place, cursor.length()?))
    };
    let mut found = None;
    let _: ControlFlow<()> =
        tree.visit(walk, &|cursor| Ok(record(cursor)?.1 < number), &mut |cursor| {
            let (place, of) = record(cursor)?;
            found = (of == number).then_some(place);
            Ok(ControlFlow::Break(()))
        })?;
    found.ok_or_else(|| heap.invalid("a huge object that its tree does not have"))
}
