//! [`Contents`]: the elements of variables, from the text to their places in a netCDF-4 file.
//!
//! The text has them in row-major order. A contiguous variable is written in batches. Of a chunked
//! one, some chunks of a row of chunks are in memory at a time; if they are not all of the row, the
//! row is read again from the text for the next ones, since a reader is only a place in the text.

use std::sync::atomic::AtomicBool;

use striate_array::cdl::parse::{CdlDocument, CdlVariable, VariableReader};
use striate_hdf5::filter::{Pipeline, Scratch};
use striate_hdf5::model::{Address, ByteOrder};
use striate_hdf5::write::netcdf::Storage;
use striate_hdf5::write::{Elements, FilePlan, HeapedElements, Placement, StoredChunk};
use striate_store::Store;

use super::{cannot, go_on, in_text};
use crate::CommandError;

/// Bytes of elements that are converted at a time.
const BATCH: u64 = 1 << 20;

/// Bytes of chunks that are in memory at a time; one chunk is in any case.
const CHUNKS: u64 = 8 << 20;

/// A file that is being written.
pub(super) struct Contents<'c, 't> {
    pub(super) document: &'c CdlDocument<'t>,
    pub(super) from: &'c str,
    pub(super) plan: FilePlan,
    pub(super) store: &'c dyn Store,
    pub(super) stop: &'c AtomicBool,
}

/// A variable in chunks.
struct ChunkedVariable {
    number: usize,
    /// Lengths of the dimensions, and of a chunk.
    lengths: Vec<u64>,
    chunk: Vec<u64>,
    grid: Vec<u64>,
    /// Bytes of an element.
    element: usize,
    pipeline: Pipeline,
}

/// Some chunks of a row, in memory.
struct ChunkGroup {
    /// The first of the row, by its number in the row, and how many.
    first: u64,
    count: u64,
    bytes: Vec<u8>,
}

impl<'c, 't> Contents<'c, 't> {
    /// Writes the elements of a variable.
    pub(super) fn put(&mut self, number: usize) -> Result<(), CommandError> {
        let document = self.document;
        let Some(variable) = document.variables.get(number) else { return Ok(()) };
        let order = variable.settings.order.unwrap_or(ByteOrder::Little);
        let reader = document.elements(variable, order).map_err(|error| self.in_text(error))?;
        match self.plan.placement(number) {
            Some(&Placement::Contiguous { address: Some(Address(address)), .. }) => {
                self.put_contiguous(variable, reader, address)
            }
            Some(Placement::Chunked(_)) => self.put_chunked(number, variable, reader),
            // In the header, or nothing at all.
            _ => Ok(()),
        }
    }

    fn in_text(&self, error: striate_array::cdl::parse::CdlSyntaxError) -> CommandError {
        in_text(self.from, error)
    }

    fn failed(&self, error: striate_hdf5::Error) -> CommandError {
        CommandError::failed(cannot(self.from), error, "")
    }

    fn put_contiguous(
        &mut self,
        variable: &CdlVariable,
        mut reader: VariableReader<'c, 't>,
        address: u64,
    ) -> Result<(), CommandError> {
        let element = u64::from(self.document.size(variable.of)).max(1);
        let at_once = (BATCH / element).max(1);
        let mut done = 0;
        while done < reader.total() {
            go_on(self.stop)?;
            let count = at_once.min(reader.total() - done);
            let mut elements = Elements::new();
            reader.read(count, &mut elements).map_err(|error| self.in_text(error))?;
            let bytes = self.stored(&elements)?;
            self.store.write_at(address + done * element, &bytes)?;
            done += count;
        }
        Ok(())
    }

    /// Elements as they are stored; what they have in heaps is written.
    fn stored(&mut self, elements: &Elements) -> Result<Vec<u8>, CommandError> {
        if elements.is_fixed() {
            return Ok(elements.as_bytes().to_vec());
        }
        let heaped = HeapedElements::new(elements);
        let address = self.plan.allocate(heaped.heap_len());
        let address = address.map_err(|error| self.failed(error))?;
        let (bytes, heap) = heaped.link(address.0);
        self.store.write_at(address.0, &heap)?;
        Ok(bytes)
    }

    fn put_chunked(
        &mut self,
        number: usize,
        variable: &CdlVariable,
        mut reader: VariableReader<'c, 't>,
    ) -> Result<(), CommandError> {
        let Some(definition) = self.plan.definition().variables.get(number) else { return Ok(()) };
        let Storage::Chunked(chunk) = definition.storage.clone() else { return Ok(()) };
        let lengths = self.document.lengths(variable);
        let chunked = ChunkedVariable {
            number,
            grid: lengths.iter().zip(&chunk).map(|(&len, &edge)| len.div_ceil(edge)).collect(),
            element: definition.datatype.size as usize,
            pipeline: Pipeline::new(&definition.filters),
            lengths,
            chunk,
        };
        if reader.total() == 0 {
            return Ok(());
        }
        let in_row: u64 = chunked.grid.iter().skip(1).product();
        let at_once = (CHUNKS / (chunked.chunk_bytes() as u64).max(1)).clamp(1, in_row.max(1));
        // Beyond the edges of the array; a descriptor of zeros is that of nothing.
        let fill = match reader.fill() {
            fill if fill.is_fixed() => fill.as_bytes().to_vec(),
            fill => vec![0; fill.len()],
        };
        let mut scratch = Scratch::new();
        for row in 0..chunked.grid.first().copied().unwrap_or(0) {
            let beginning = reader.clone();
            let mut first = 0;
            while first < in_row {
                go_on(self.stop)?;
                reader = beginning.clone();
                let count = at_once.min(in_row - first);
                let bytes = fill.repeat(chunked.chunk_elements() * count as usize);
                let mut group = ChunkGroup { first, count, bytes };
                self.gather(&chunked, row, &mut reader, &mut group)?;
                self.write_group(&chunked, row, &group, &mut scratch)?;
                first += count;
            }
        }
        Ok(())
    }

    /// Reads a row of chunks from the text, and keeps what is in the chunks of a group.
    fn gather(
        &mut self,
        chunked: &ChunkedVariable,
        row: u64,
        reader: &mut VariableReader<'c, 't>,
        group: &mut ChunkGroup,
    ) -> Result<(), CommandError> {
        let (begin, end) = chunked.rows(row);
        let mut index = vec![0; chunked.lengths.len()];
        if let Some(first) = index.first_mut() {
            *first = begin;
        }
        // Pieces that lie together in a chunk, and their elements.
        let mut pieces: Vec<(usize, u64)> = Vec::new();
        let mut elements = Elements::new();
        while index.first().is_some_and(|&first| first < end) {
            let count = chunked.piece(&index);
            let mut others = Elements::new();
            let place = chunked.place_in(group, &index);
            let kept = if place.is_some() { &mut elements } else { &mut others };
            reader.read(count, kept).map_err(|error| self.in_text(error))?;
            pieces.extend(place.map(|place| (place, count)));
            if elements.len() as u64 >= BATCH {
                go_on(self.stop)?;
                self.scatter(chunked, &mut pieces, &mut elements, group)?;
            }
            chunked.advance(&mut index, count);
        }
        self.scatter(chunked, &mut pieces, &mut elements, group)
    }

    /// Copies pieces to their places in chunks.
    fn scatter(
        &mut self,
        chunked: &ChunkedVariable,
        pieces: &mut Vec<(usize, u64)>,
        elements: &mut Elements,
        group: &mut ChunkGroup,
    ) -> Result<(), CommandError> {
        let bytes = self.stored(elements)?;
        let mut rest = bytes.as_slice();
        for (place, count) in pieces.drain(..) {
            let len = count as usize * chunked.element;
            let (piece, behind) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            if let Some(target) = group.bytes.get_mut(place..place + piece.len()) {
                target.copy_from_slice(piece);
            }
            rest = behind;
        }
        *elements = Elements::new();
        Ok(())
    }

    /// Writes the chunks of a group.
    fn write_group(
        &mut self,
        chunked: &ChunkedVariable,
        row: u64,
        group: &ChunkGroup,
        scratch: &mut Scratch,
    ) -> Result<(), CommandError> {
        let numbers = group.first..group.first + group.count;
        for (number, bytes) in numbers.zip(group.bytes.chunks_exact(chunked.chunk_bytes())) {
            let place = chunked.chunk_place(row, number);
            if chunked.pipeline.is_empty() {
                let claimed = self.plan.claim(chunked.number, &place);
                let Address(address) = claimed.map_err(|error| self.failed(error))?;
                self.store.write_at(address, bytes)?;
                continue;
            }
            let encoded = chunked.pipeline.encode(bytes, scratch);
            let encoded =
                encoded.map_err(|error| CommandError::failed(cannot(self.from), error, ""))?;
            let address = self.plan.allocate(encoded.bytes.len() as u64);
            let address = address.map_err(|error| self.failed(error))?;
            self.store.write_at(address.0, encoded.bytes)?;
            let (size, filter_mask) = (encoded.bytes.len() as u32, encoded.filter_mask);
            self.plan.set_chunk(chunked.number, &place, StoredChunk { address, size, filter_mask });
        }
        Ok(())
    }
}

impl ChunkedVariable {
    fn chunk_elements(&self) -> usize {
        self.chunk.iter().product::<u64>() as usize
    }

    fn chunk_bytes(&self) -> usize {
        self.chunk_elements() * self.element
    }

    /// The indices along the first dimension of a row of chunks.
    fn rows(&self, row: u64) -> (u64, u64) {
        let (length, edge) = (self.lengths.first(), self.chunk.first());
        let edge = edge.copied().unwrap_or(1);
        let begin = row * edge;
        (begin, (begin + edge).min(length.copied().unwrap_or(0)))
    }

    /// Elements from an index on that lie together in a chunk and in the array.
    fn piece(&self, index: &[u64]) -> u64 {
        match (index.last(), self.chunk.last(), self.lengths.last()) {
            (Some(&at), Some(&edge), Some(&length)) => (edge - at % edge).min(length - at),
            _ => 1,
        }
    }

    /// The byte of a group at which an element is; `None` if it is in none of its chunks.
    fn place_in(&self, group: &ChunkGroup, index: &[u64]) -> Option<usize> {
        let mut number = 0;
        let mut within = 0;
        for (position, (&at, &edge)) in index.iter().zip(&self.chunk).enumerate() {
            if position > 0 {
                number = number * self.grid.get(position)? + at / edge;
            }
            within = within * edge + at % edge;
        }
        let number = number.checked_sub(group.first).filter(|&number| number < group.count)?;
        Some(number as usize * self.chunk_bytes() + within as usize * self.element)
    }

    /// The place in the grid of a chunk of a row.
    fn chunk_place(&self, row: u64, mut number: u64) -> Vec<u64> {
        let mut place = vec![row; self.grid.len()];
        for (at, &len) in place.iter_mut().zip(&self.grid).skip(1).rev() {
            *at = number % len;
            number /= len;
        }
        place
    }

    /// Moves an index on by elements of the last dimension, in row-major order.
    fn advance(&self, index: &mut [u64], count: u64) {
        let mut carry = count;
        for (position, (at, &length)) in index.iter_mut().zip(&self.lengths).enumerate().rev() {
            *at += carry;
            if *at < length || position == 0 {
                return;
            }
            *at = 0;
            carry = 1;
        }
    }
}
