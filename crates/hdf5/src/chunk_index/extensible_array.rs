//! Extensible array: entries in blocks that become longer, for datasets that grow along one
//! dimension.
//!
//! The index block has the first entries, the addresses of the first data blocks, and those of
//! secondary blocks, which have the addresses of all other data blocks. Secondary block number n
//! stands for 2^(n/2) data blocks of 2^((n+1)/2) times the smallest number of entries; for the
//! first few the index block itself has the addresses.

use std::ops::ControlFlow;

use super::element::ElementKind;
use super::fixed_array::{client_kind, entries};
use super::{ChunkVisitor, Indexed};
use crate::cursor::verified;
use crate::model::Address;
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

const STRUCTURE: Structure = Structure::ExtensibleArray;

/// The header, and what follows from it.
struct ExtensibleArray {
    header: Address,
    client: u8,
    kind: ElementKind,
    /// Bytes of an entry's number.
    number_width: u64,
    index_elements: u64,
    minimum_elements: u64,
    minimum_pointers: u64,
    /// Entries of a page of a data block.
    page: u64,
    /// How many secondary blocks there can be.
    secondary_blocks: u32,
    index_block: Option<Address>,
}

/// What a secondary block stands for.
#[derive(Clone, Copy)]
struct Secondary {
    /// The number of its first entry.
    first: u128,
    /// Data blocks.
    blocks: u64,
    /// Entries of each.
    elements: u64,
}

/// Which pages of a data block are in use: one bit each, highest first.
#[derive(Clone, Copy)]
struct PageBits<'a> {
    bits: &'a [u8],
    first: u64,
}

impl PageBits<'_> {
    fn is_set(self, page: u64) -> bool {
        let bit = self.first + page;
        self.bits.get((bit / 8) as usize).is_some_and(|byte| byte & 0x80 >> (bit % 8) != 0)
    }
}

pub(super) fn visit(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    header: Address,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let array = ExtensibleArray::read(walk, header)?;
    let Some(index_block) = array.index_block else {
        return Ok(ControlFlow::Continue(()));
    };
    let offset = u64::from(walk.widths().offset);
    // The index block stands for the first secondary blocks itself.
    let own = 2 * array.minimum_pointers.ilog2();
    let own_pointers = 2 * (array.minimum_pointers - 1);
    let secondary_pointers = array.secondary_blocks.saturating_sub(own);
    let pointers = own_pointers + u64::from(secondary_pointers);
    let inside = array.index_elements * array.kind.bytes as u64 + pointers * offset;
    let bytes = walk.read(STRUCTURE, index_block, ExtensibleArray::prefix(walk) + inside + 4)?;
    let body = verified(&bytes, STRUCTURE, index_block)?;
    let mut cursor = walk.cursor(body, STRUCTURE, index_block);
    array.begin(&mut cursor, *b"EAIB")?;
    let first = indexed.first_number();
    let of_elements = array.index_elements as usize * array.kind.bytes;
    let mut elements = cursor.part(of_elements)?;
    let range = 0..array.index_elements;
    if entries(indexed, array.kind, &mut elements, range, first, visitor)?.is_break() {
        return Ok(ControlFlow::Break(()));
    }
    let mut own_blocks = cursor.part((own_pointers * offset) as usize)?;
    let mut begin = u128::from(array.index_elements);
    for number in 0..array.secondary_blocks {
        let block = array.secondary(number, begin);
        begin += u128::from(block.blocks) * u128::from(block.elements);
        let flow = if number < own {
            data_blocks(walk, indexed, &array, block, &mut own_blocks, None, visitor)?
        } else {
            match cursor.address()? {
                Some(address) if begin > u128::from(first) => {
                    secondary_block(walk, indexed, &array, block, address, visitor)?
                }
                _ => ControlFlow::Continue(()),
            }
        };
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

impl ExtensibleArray {
    fn read(walk: &Walk<'_>, header: Address) -> Result<Self> {
        let (offset, length) = (u64::from(walk.widths().offset), u64::from(walk.widths().length));
        let bytes = walk.read(STRUCTURE, header, 4 + 8 + 6 * length + offset + 4)?;
        let mut cursor = walk.cursor(&bytes, STRUCTURE, header);
        cursor.signature(*b"EAHD")?;
        verified(&bytes, STRUCTURE, header)?;
        cursor.version(0..=0)?;
        let client = cursor.u8()?;
        let entry = usize::from(cursor.u8()?);
        let maximum_bits = u32::from(cursor.u8()?);
        let index_elements = u64::from(cursor.u8()?);
        let minimum_elements = u64::from(cursor.u8()?);
        let minimum_pointers = u64::from(cursor.u8()?);
        let page_bits = u32::from(cursor.u8()?);
        cursor.skip(6 * length as usize)?;
        let index_block = cursor.address()?;
        let kind = client_kind(&cursor, client, entry)?;
        if !minimum_elements.is_power_of_two()
            || !minimum_pointers.is_power_of_two()
            || maximum_bits > 64
            || maximum_bits < minimum_elements.ilog2()
            || page_bits > 32
        {
            return Err(cursor.invalid("impossible sizes of blocks"));
        }
        Ok(Self {
            header,
            client,
            kind,
            number_width: u64::from(maximum_bits).div_ceil(8),
            index_elements,
            minimum_elements,
            minimum_pointers,
            page: 1 << page_bits,
            secondary_blocks: 1 + maximum_bits - minimum_elements.ilog2(),
            index_block,
        })
    }

    /// Bytes before the contents of a block: signature, version, client, the header's address.
    fn prefix(walk: &Walk<'_>) -> u64 {
        4 + 1 + 1 + u64::from(walk.widths().offset)
    }

    fn begin(&self, cursor: &mut crate::cursor::Cursor<'_>, signature: [u8; 4]) -> Result<()> {
        cursor.signature(signature)?;
        cursor.version(0..=0)?;
        if cursor.u8()? != self.client || cursor.address()? != Some(self.header) {
            return Err(cursor.invalid("a block of another array"));
        }
        Ok(())
    }

    fn secondary(&self, number: u32, first: u128) -> Secondary {
        let blocks = 1 << (number / 2);
        Secondary { first, blocks, elements: self.minimum_elements << number.div_ceil(2) }
    }

    fn too_long(&self) -> Error {
        Error::at(STRUCTURE, self.header, Reason::Invalid("more entries than fit"))
    }

    /// Pages of a data block; 0 if it has none.
    const fn pages(&self, elements: u64) -> u64 {
        if elements > self.page { elements / self.page } else { 0 }
    }
}

fn secondary_block(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    array: &ExtensibleArray,
    block: Secondary,
    address: Address,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    // Which pages of the data blocks are in use.
    let in_use_bytes = array.pages(block.elements).div_ceil(8);
    let in_use = block.blocks.checked_mul(in_use_bytes);
    let pointers = block.blocks.checked_mul(u64::from(walk.widths().offset));
    let inside = in_use.zip(pointers).and_then(|(one, other)| one.checked_add(other));
    let beginning = ExtensibleArray::prefix(walk) + array.number_width;
    let length = inside.and_then(|inside| inside.checked_add(beginning + 4));
    let bytes = walk.read(STRUCTURE, address, length.ok_or_else(|| array.too_long())?)?;
    let body = verified(&bytes, STRUCTURE, address)?;
    let mut cursor = walk.cursor(body, STRUCTURE, address);
    array.begin(&mut cursor, *b"EASB")?;
    cursor.skip(array.number_width as usize)?;
    let in_use = cursor.take((block.blocks * in_use_bytes) as usize)?;
    data_blocks(walk, indexed, array, block, &mut cursor, Some(in_use), visitor)
}

fn data_blocks(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    array: &ExtensibleArray,
    block: Secondary,
    addresses: &mut crate::cursor::Cursor<'_>,
    in_use: Option<&[u8]>,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let first = indexed.first_number();
    let pages = array.pages(block.elements);
    for number in 0..block.blocks {
        let address = addresses.address()?;
        let begin = block.first + u128::from(number) * u128::from(block.elements);
        let end = begin + u128::from(block.elements);
        let Some(address) = address.filter(|_| end > u128::from(first)) else { continue };
        let (Ok(begin), Ok(end)) = (u64::try_from(begin), u64::try_from(end)) else {
            return Err(array.too_long());
        };
        // The bits of all data blocks are packed, though there is room for whole bytes of each.
        let in_use = match (pages, in_use) {
            (0, _) => None,
            (_, Some(bits)) => Some(PageBits { bits, first: number * pages }),
            (_, None) => {
                let reason = Reason::Invalid("a data block of pages that nothing tells of");
                return Err(Error::at(STRUCTURE, address, reason));
            }
        };
        if data_block(walk, indexed, array, begin..end, address, in_use, visitor)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn data_block(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    array: &ExtensibleArray,
    range: std::ops::Range<u64>,
    address: Address,
    pages: Option<PageBits<'_>>,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let (entry, first) = (array.kind.bytes as u64, indexed.first_number());
    let beginning = ExtensibleArray::prefix(walk) + array.number_width;
    let elements = range.end - range.start;
    let inside = if pages.is_some() { Some(0) } else { elements.checked_mul(entry) };
    let length = inside.and_then(|inside| inside.checked_add(beginning + 4));
    let length = length.ok_or_else(|| array.too_long())?;
    let bytes = walk.read(STRUCTURE, address, length)?;
    let body = verified(&bytes, STRUCTURE, address)?;
    let mut cursor = walk.cursor(body, STRUCTURE, address);
    array.begin(&mut cursor, *b"EADB")?;
    cursor.skip(array.number_width as usize)?;
    let Some(in_use) = pages else {
        return entries(indexed, array.kind, &mut cursor, range, first, visitor);
    };
    let page_length = array.page * entry + 4;
    for page in 0..elements / array.page {
        let numbers = range.start + page * array.page..range.start + (page + 1) * array.page;
        if !in_use.is_set(page) || numbers.end <= first {
            walk.pay(STRUCTURE, address, 1)?;
            continue;
        }
        let begin = page.checked_mul(page_length).and_then(|begin| begin.checked_add(length));
        let at = begin.and_then(|begin| address.checked_add(begin));
        let at = at.ok_or_else(|| array.too_long())?;
        let bytes = walk.read(STRUCTURE, at, page_length)?;
        let body = verified(&bytes, STRUCTURE, at)?;
        let mut cursor = walk.cursor(body, STRUCTURE, at);
        if entries(indexed, array.kind, &mut cursor, numbers, first, visitor)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
