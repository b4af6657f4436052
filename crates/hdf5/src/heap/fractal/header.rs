//! The header of a fractal heap.

use crate::cursor::verified;
use crate::message::filter_pipeline;
use crate::model::{Address, Filter};
use crate::walk::Walk;
use crate::{Result, Structure};

const SIGNATURE: [u8; 4] = *b"FRHP";
/// Signature, version, length of identifiers, length of filters.
const BEGINNING: u64 = 4 + 1 + 2 + 2;

/// What the header of a heap says.
#[derive(Debug)]
pub(super) struct HeapHeader {
    pub(super) id_length: u16,
    pub(super) filters: Vec<Filter>,
    pub(super) direct_checksums: bool,
    /// The largest managed object.
    pub(super) maximum_managed: u32,
    /// The B-tree of huge objects.
    pub(super) huge_tree: Option<Address>,
    /// Columns of the doubling table.
    pub(super) width: u16,
    /// Bytes of the blocks of the first row.
    pub(super) start: u64,
    /// Bytes of the largest direct block.
    pub(super) maximum_direct: u64,
    /// Bits of offsets in the heap.
    pub(super) bits: u16,
    pub(super) root: Option<Address>,
    /// Rows of the root block; 0 if it is a direct one.
    pub(super) root_rows: u32,
    /// Of a direct root block that passed filters: its size as stored, and the filters left out.
    pub(super) root_filtered: Option<(u64, u32)>,
}

impl HeapHeader {
    pub(super) fn read(walk: &Walk<'_>, address: Address) -> Result<Self> {
        let beginning = walk.read(Structure::FractalHeap, address, BEGINNING)?;
        let mut cursor = walk.cursor(&beginning, Structure::FractalHeap, address);
        cursor.signature(SIGNATURE)?;
        cursor.skip(1 + 2)?;
        let filter_length = cursor.u16()?;
        let (offset, length) = (u64::from(walk.widths().offset), u64::from(walk.widths().length));
        let of_filters = if filter_length > 0 { length + 4 + u64::from(filter_length) } else { 0 };
        let all = BEGINNING + 1 + 4 + 12 * length + 3 * offset + 4 * 2 + of_filters + 4;
        let bytes = walk.read(Structure::FractalHeap, address, all)?;
        let body = verified(&bytes, Structure::FractalHeap, address)?;
        let mut cursor = walk.cursor(body, Structure::FractalHeap, address);
        cursor.skip(4)?;
        cursor.version(0..=0)?;
        let id_length = cursor.u16()?;
        cursor.skip(2)?;
        let flags = cursor.u8()?;
        let maximum_managed = cursor.u32()?;
        let _next_huge = cursor.length()?;
        let huge_tree = cursor.address()?;
        let _free = cursor.length()?;
        let _free_space = cursor.address()?;
        // Space, allocated space, place of the iterator, counts and sizes of objects.
        cursor.skip(8 * length as usize)?;
        let width = cursor.u16()?;
        let (start, maximum_direct) = (cursor.length()?, cursor.length()?);
        let bits = cursor.u16()?;
        let _start_rows = cursor.u16()?;
        let root = cursor.address()?;
        let root_rows = u32::from(cursor.u16()?);
        let (mut filters, mut root_filtered) = (Vec::new(), None);
        if filter_length > 0 {
            root_filtered = Some((cursor.length()?, cursor.u32()?));
            let mut pipeline = cursor.within(Structure::FilterPipeline);
            filters = filter_pipeline::decode(&mut pipeline)?;
        }
        Ok(Self {
            id_length,
            filters,
            direct_checksums: flags & 2 != 0,
            maximum_managed,
            huge_tree,
            width,
            start,
            maximum_direct,
            bits,
            root,
            root_rows,
            root_filtered,
        })
    }
}
