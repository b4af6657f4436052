//! Fixed array: one entry for each chunk that the dataset can have, in pages if there are many.

use std::ops::ControlFlow;

use super::element::ElementKind;
use super::{ChunkVisitor, Indexed};
use crate::cursor::{Cursor, verified};
use crate::model::{Address, Chunk};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

const STRUCTURE: Structure = Structure::FixedArray;

/// The header.
struct FixedArray {
    kind: ElementKind,
    client: u8,
    page_bits: u8,
    entries: u64,
    block: Option<Address>,
}

pub(super) fn visit(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    header: Address,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let array = read_header(walk, header)?;
    let Some(block) = array.block else {
        return Ok(ControlFlow::Continue(()));
    };
    let entry = array.kind.bytes as u64;
    let too_long = || Error::at(STRUCTURE, header, Reason::Invalid("more entries than fit"));
    let page = 1_u64.checked_shl(array.page_bits.into()).ok_or_else(too_long)?;
    let paged = array.entries > page;
    let pages = if paged { array.entries.div_ceil(page) } else { 0 };
    let prefix = 4 + 1 + 1 + u64::from(walk.widths().offset);
    let inside = if paged { Some(pages.div_ceil(8)) } else { array.entries.checked_mul(entry) };
    let length = inside.and_then(|inside| inside.checked_add(prefix + 4)).ok_or_else(too_long)?;
    let bytes = walk.read(STRUCTURE, block, length)?;
    let body = verified(&bytes, STRUCTURE, block)?;
    let mut cursor = walk.cursor(body, STRUCTURE, block);
    cursor.signature(*b"FADB")?;
    cursor.version(0..=0)?;
    if cursor.u8()? != array.client || cursor.address()? != Some(header) {
        return Err(cursor.invalid("a block of another array"));
    }
    let first = indexed.first_number();
    if !paged {
        return entries(indexed, array.kind, &mut cursor, 0..array.entries, first, visitor);
    }
    let in_use = cursor.rest();
    let page_length =
        page.checked_mul(entry).and_then(|n| n.checked_add(4)).ok_or_else(too_long)?;
    for number in first / page..pages {
        if in_use[(number / 8) as usize] & 0x80 >> (number % 8) == 0 {
            walk.pay(STRUCTURE, block, 1)?;
            continue;
        }
        let range = number * page..(number + 1).saturating_mul(page).min(array.entries);
        let begin = number.checked_mul(page_length).and_then(|n| n.checked_add(length));
        let address = begin.and_then(|begin| block.checked_add(begin)).ok_or_else(too_long)?;
        let bytes = walk.read(STRUCTURE, address, (range.end - range.start) * entry + 4)?;
        let body = verified(&bytes, STRUCTURE, address)?;
        let mut cursor = walk.cursor(body, STRUCTURE, address);
        if entries(indexed, array.kind, &mut cursor, range, first, visitor)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Visits the chunks of some entries.
pub(super) fn entries(
    indexed: &Indexed<'_>,
    kind: ElementKind,
    cursor: &mut Cursor<'_>,
    range: std::ops::Range<u64>,
    first: u64,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let passed = first.saturating_sub(range.start).min(range.end - range.start);
    cursor.skip(passed as usize * kind.bytes)?;
    for number in range.start + passed..range.end {
        let element = kind.decode(cursor, indexed.bytes)?;
        let Some((address, size, filter_mask)) = element else { continue };
        let Some(offset) = indexed.grid.offset(number) else { continue };
        if visitor(Chunk { offset, address, size, filter_mask })?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn read_header(walk: &Walk<'_>, address: Address) -> Result<FixedArray> {
    let length = 4 + 4 + u64::from(walk.widths().length) + u64::from(walk.widths().offset) + 4;
    let bytes = walk.read(STRUCTURE, address, length)?;
    let mut cursor = walk.cursor(&bytes, STRUCTURE, address);
    cursor.signature(*b"FAHD")?;
    verified(&bytes, STRUCTURE, address)?;
    cursor.version(0..=0)?;
    let client = cursor.u8()?;
    let entry = usize::from(cursor.u8()?);
    let page_bits = cursor.u8()?;
    let entries = cursor.length()?;
    let block = cursor.address()?;
    let kind = client_kind(&cursor, client, entry)?;
    Ok(FixedArray { kind, client, page_bits, entries, block })
}

/// Entries of client 0 have no filters, those of client 1 have.
pub(super) fn client_kind(cursor: &Cursor<'_>, client: u8, entry: usize) -> Result<ElementKind> {
    let kind = match client {
        0 => ElementKind::new(false, entry, cursor.widths()),
        1 => ElementKind::new(true, entry, cursor.widths()),
        _ => None,
    };
    kind.ok_or_else(|| cursor.invalid("entries that are not those of chunks"))
}
