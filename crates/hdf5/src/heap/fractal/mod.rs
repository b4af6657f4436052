//! [`FractalHeap`]: objects of any size by identifiers, for links, attributes and shared messages.
//!
//! Managed objects lie in direct blocks, which a doubling table of indirect blocks finds by an
//! offset in the heap's own address space. Huge objects are in the file by themselves, tiny ones in
//! their identifiers. Blocks and huge objects may have passed filters.

mod doubling_table;
mod header;
mod huge;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use self::doubling_table::{BlockPlace, DoublingTable};
use self::header::HeapHeader;
use crate::cursor::{encoded_width, verified};
use crate::filter::{Pipeline, Scratch};
use crate::model::{Address, Filter};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure, checksum};

/// Signature, version: what direct and indirect blocks begin with.
const BLOCK_PREFIX: usize = 5;

/// A fractal heap, with the blocks of it that were read.
#[derive(Debug)]
pub(crate) struct FractalHeap {
    address: Address,
    header: HeapHeader,
    table: DoublingTable,
    direct: RefCell<HashMap<Address, Rc<Vec<u8>>>>,
    indirect: RefCell<HashMap<Address, Rc<Vec<Child>>>>,
}

/// An entry of an indirect block.
#[derive(Clone, Copy, Debug)]
struct Child {
    address: Option<Address>,
    /// Of a direct block that passed filters: its size as stored, and the filters left out.
    filtered: Option<(u64, u32)>,
}

impl FractalHeap {
    pub(crate) fn read(walk: &Walk<'_>, address: Address) -> Result<Self> {
        let header = HeapHeader::read(walk, address)?;
        let table = DoublingTable::new(&header).ok_or_else(|| {
            let reason = Reason::Invalid("sizes of blocks that are no powers of two, or too large");
            Error::at(Structure::FractalHeap, address, reason)
        })?;
        let (direct, indirect) = (RefCell::default(), RefCell::default());
        Ok(Self { address, header, table, direct, indirect })
    }

    /// The object with an identifier.
    pub(crate) fn object(&self, walk: &Walk<'_>, id: &[u8]) -> Result<Vec<u8>> {
        let Some((&first, rest)) = id.split_first() else {
            return Err(self.invalid("an identifier without bytes"));
        };
        if first >> 6 != 0 {
            return Err(self.error(Reason::Version(first >> 6)));
        }
        let object = match first >> 4 & 3 {
            0 => self.managed(walk, rest)?,
            1 => huge::object(self, walk, rest)?,
            2 => self.tiny(first, rest)?,
            _ => return Err(self.invalid("an unknown kind of identifier")),
        };
        // The same object may be asked for again and again.
        walk.pay(Structure::FractalHeap, self.address, object.len() as u64)?;
        Ok(object)
    }

    fn error(&self, reason: Reason) -> Error {
        Error::at(Structure::FractalHeap, self.address, reason)
    }

    fn invalid(&self, why: &'static str) -> Error {
        self.error(Reason::Invalid(why))
    }

    fn tiny(&self, first: u8, rest: &[u8]) -> Result<Vec<u8>> {
        // Identifiers of more than 18 bytes have lengths of 12 bits.
        let (length, data) = match rest.split_first() {
            Some((&low, data)) if self.header.id_length > 18 => {
                (usize::from(first & 15) << 8 | usize::from(low), data)
            }
            _ => (usize::from(first & 15), rest),
        };
        let object = data.get(..=length);
        object
            .map(<[u8]>::to_vec)
            .ok_or_else(|| self.invalid("a tiny object beyond its identifier"))
    }

    fn managed(&self, walk: &Walk<'_>, rest: &[u8]) -> Result<Vec<u8>> {
        let mut cursor = walk.cursor(rest, Structure::FractalHeap, self.address);
        let offset = cursor.uint(self.table.offset_width)?;
        let largest = encoded_width(u64::from(self.header.maximum_managed));
        let length = cursor.uint(self.table.length_width.min(largest))?;
        let Some(mut address) = self.header.root else {
            return Err(self.invalid("an object of an empty heap"));
        };
        let (mut base, mut rows) = (0, self.header.root_rows);
        let mut filtered = self.header.root_filtered;
        let mut size = self.table.start;
        // Each step down makes the block smaller, so this ends.
        while rows > 0 {
            let place = self.table.place(offset - base);
            let Some(BlockPlace { row, column, begin, size: of_child }) = place else {
                return Err(self.invalid("an object beyond the heap"));
            };
            if row >= rows {
                return Err(self.invalid("an object beyond its block"));
            }
            let children = self.indirect(walk, address, rows)?;
            let child = children[row as usize * self.table.width as usize + column as usize];
            address = child.address.ok_or_else(|| self.invalid("an object in no block"))?;
            base += begin;
            let direct = row < self.table.direct_rows;
            rows = if direct { 0 } else { self.table.rows_of(of_child) };
            (filtered, size) = (child.filtered, of_child);
        }
        let block = self.direct(walk, address, size, filtered)?;
        let begin = usize::try_from(offset - base).ok();
        let end = usize::try_from(length).ok().zip(begin).and_then(|(n, at)| at.checked_add(n));
        let object = begin.zip(end).and_then(|(begin, end)| block.get(begin..end));
        object.map(<[u8]>::to_vec).ok_or_else(|| self.invalid("an object beyond its block"))
    }

    /// A direct block, without filters.
    fn direct(
        &self,
        walk: &Walk<'_>,
        address: Address,
        size: u64,
        filtered: Option<(u64, u32)>,
    ) -> Result<Rc<Vec<u8>>> {
        if let Some(kept) = self.direct.borrow().get(&address) {
            return Ok(Rc::clone(kept));
        }
        let mut bytes = match filtered {
            Some((stored, mask)) => self.unfilter(walk, address, stored, mask, size)?,
            None => walk.read(Structure::FractalHeap, address, size)?,
        };
        let mut cursor = walk.cursor(&bytes, Structure::FractalHeap, address);
        cursor.signature(*b"FHDB")?;
        cursor.version(0..=0)?;
        if cursor.address()? != Some(self.address) {
            return Err(self.invalid("a block of another heap"));
        }
        if self.header.direct_checksums {
            let at = BLOCK_PREFIX + usize::from(walk.widths().offset) + self.table.offset_width;
            verify_within(&mut bytes, at, address)?;
        }
        let block = Rc::new(bytes);
        self.direct.borrow_mut().insert(address, Rc::clone(&block));
        Ok(block)
    }

    /// What was stored, through the filters of the heap.
    fn unfilter(
        &self,
        walk: &Walk<'_>,
        address: Address,
        stored: u64,
        mask: u32,
        size: u64,
    ) -> Result<Vec<u8>> {
        let filters: &[Filter] = &self.header.filters;
        let bytes = walk.read(Structure::FractalHeap, address, stored)?;
        walk.pay(Structure::FractalHeap, address, size)?;
        let mut decoded = vec![0; size as usize];
        let pipeline = Pipeline::new(filters);
        let done = pipeline.decode(mask, &bytes, &mut decoded, &mut Scratch::default());
        done.map_err(|error| Error::at(Structure::FractalHeap, address, error))?;
        Ok(decoded)
    }

    /// The children of an indirect block.
    fn indirect(&self, walk: &Walk<'_>, address: Address, rows: u32) -> Result<Rc<Vec<Child>>> {
        if let Some(kept) = self.indirect.borrow().get(&address) {
            // Blocks of one address have one number of rows in sound files.
            if kept.len() as u64 == u64::from(rows) * self.table.width {
                return Ok(Rc::clone(kept));
            }
            return Err(self.invalid("a block with two numbers of rows"));
        }
        let pointer = u64::from(walk.widths().offset);
        let has_filters = !self.header.filters.is_empty();
        let of_filter = if has_filters { u64::from(walk.widths().length) + 4 } else { 0 };
        let direct = u64::from(rows.min(self.table.direct_rows)) * self.table.width;
        let all = u64::from(rows) * self.table.width;
        let prefix = BLOCK_PREFIX as u64 + pointer + self.table.offset_width as u64;
        let length = prefix + direct * (pointer + of_filter) + (all - direct) * pointer + 4;
        let bytes = walk.read(Structure::FractalHeap, address, length)?;
        let body = verified(&bytes, Structure::FractalHeap, address)?;
        let mut cursor = walk.cursor(body, Structure::FractalHeap, address);
        cursor.signature(*b"FHIB")?;
        cursor.version(0..=0)?;
        if cursor.address()? != Some(self.address) {
            return Err(self.invalid("a block of another heap"));
        }
        cursor.skip(self.table.offset_width)?;
        let mut children = Vec::with_capacity(all as usize);
        for index in 0..all {
            let address = cursor.address()?;
            let filtered = if has_filters && index < direct {
                Some((cursor.length()?, cursor.u32()?))
            } else {
                None
            };
            children.push(Child { address, filtered });
        }
        let children = Rc::new(children);
        self.indirect.borrow_mut().insert(address, Rc::clone(&children));
        Ok(children)
    }
}

/// Verifies a checksum within a block, which was made with zeros in its place.
fn verify_within(bytes: &mut [u8], at: usize, address: Address) -> Result<()> {
    let failed = |reason| Error::at(Structure::FractalHeap, address, reason);
    let available = bytes.len() as u64;
    let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) else {
        return Err(failed(Reason::Truncated { needed: at as u64 + 4, available }));
    };
    let stored = u32::from_le_bytes(std::mem::take(place));
    let computed = checksum::lookup3(bytes);
    let is_sound = stored == computed || !checksum::are_verified();
    if is_sound { Ok(()) } else { Err(failed(Reason::Checksum { stored, computed })) }
}
