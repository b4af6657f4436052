//! The elements of a dataset: chunks found and decoded, boxes of elements read.
//!
//! Elements come as they are stored, in the type of the dataset; [`crate::value`] converts them.
//! What nobody wrote is the fill value.

mod boxes;

use std::ops::{Bound, ControlFlow};

use self::boxes::{Frame, copy, runs};
use crate::dataset::Dataset;
use crate::file::File;
use crate::filter::{Pipeline, Scratch};
use crate::model::{Address, Chunk, ChunkedLayout, Layout};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Source, Structure, chunk_index};

/// Boxes of at most so many chunks are read by looking up each of them; for larger ones the index
/// is walked.
const LOOKED_UP: u64 = 32;
/// Chunks that an index gives at a time while a box is read.
const BATCH: usize = 4096;
/// Chunks of up to so many bytes are decoded from a file of any length.
const ALWAYS_DECODED: u64 = 256 << 20;
/// How many times the length of the file larger ones may have: more than filters compress, but for
/// chunks of equal elements.
const MOST_EXPANDED: u64 = 1024;

impl<S: Source> File<S> {
    /// The stored chunks of a dataset from one on, in the order of the index, and at most so many:
    /// the last one's coordinates are where the next call goes on.
    pub fn chunks(
        &self,
        dataset: &Dataset,
        from: Bound<&[u64]>,
        most: usize,
    ) -> Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        if most == 0 {
            return Ok(chunks);
        }
        chunk_index::visit(&self.walk(), dataset, from, &mut |chunk| {
            chunks.push(chunk);
            Ok(if chunks.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(chunks)
    }

    /// The chunk whose first element has these coordinates, if it is stored.
    pub fn chunk(&self, dataset: &Dataset, offset: &[u64]) -> Result<Option<Chunk>> {
        let found = self.chunks(dataset, Bound::Included(offset), 1)?.pop();
        Ok(found.filter(|chunk| chunk.offset == offset))
    }

    /// The elements of a chunk, all of them, also those beyond the dataset.
    pub fn read_chunk(&self, dataset: &Dataset, chunk: &Chunk) -> Result<Vec<u8>> {
        let Layout::Chunked(layout) = &dataset.layout else {
            return Err(unreadable(dataset, Reason::Invalid("the dataset has no chunks")));
        };
        let mut decoder = ChunkDecoder::new(dataset, layout);
        decoder.decode(&self.walk(), chunk)?;
        Ok(decoder.elements)
    }

    /// All elements of a dataset.
    ///
    /// The buffer has [`Dataset::bytes`] bytes.
    pub fn read(&self, dataset: &Dataset, buffer: &mut [u8]) -> Result<()> {
        let sizes = dataset.dataspace.sizes();
        self.read_box(dataset, &vec![0; sizes.len()], &sizes, buffer)
    }

    /// The elements of a box: from some coordinates on, so many along each dimension.
    ///
    /// The buffer has as many bytes as the box, whose last dimension is the fastest.
    pub fn read_box(
        &self,
        dataset: &Dataset,
        start: &[u64],
        count: &[u64],
        buffer: &mut [u8],
    ) -> Result<()> {
        let invalid = |why| unreadable(dataset, Reason::Invalid(why));
        let sizes = dataset.dataspace.sizes();
        let element = u64::from(dataset.datatype.size);
        let inside = start.len() == sizes.len()
            && count.len() == sizes.len()
            && (start.iter().zip(count).zip(&sizes)).all(|((&start, &count), &size)| {
                start.checked_add(count).is_some_and(|end| end <= size)
            });
        if !inside {
            return Err(invalid("the box is not within the dataset"));
        }
        // A null dataspace has no elements, though no dimension says so.
        let bytes = match dataset.dataspace.elements() {
            Some(0) => 0,
            _ => {
                count.iter().try_fold(element, |bytes, &n| bytes.checked_mul(n)).unwrap_or(u64::MAX)
            }
        };
        if bytes != buffer.len() as u64 {
            return Err(invalid("the buffer is not as long as the box"));
        }
        if buffer.is_empty() {
            return Ok(());
        }
        let walk = self.walk();
        let whole = Frame { start: vec![0; sizes.len()], shape: sizes };
        let wanted = Frame { start: start.to_vec(), shape: count.to_vec() };
        match &dataset.layout {
            Layout::Compact { data } => {
                if dataset.bytes().is_none_or(|bytes| bytes > data.len() as u64) {
                    return Err(invalid("fewer bytes than elements"));
                }
                copy(data, &whole, buffer, &wanted, element as usize);
                Ok(())
            }
            Layout::Contiguous { address: None, .. } => {
                fill(dataset, buffer);
                Ok(())
            }
            Layout::Contiguous { address: Some(address), .. } => {
                contiguous(&walk, dataset, *address, &whole, &wanted, buffer)
            }
            Layout::Chunked(layout) => {
                fill(dataset, buffer);
                self.chunked(dataset, layout, &wanted, buffer)
            }
            Layout::Virtual { .. } => {
                let what = "a virtual dataset, whose elements are in other datasets,";
                Err(unreadable(dataset, Reason::Unsupported(what.into())))
            }
            Layout::External { files } => {
                let names: Vec<String> =
                    files.iter().map(|file| format!("\"{}\"", file.name)).collect();
                let what = format!("a dataset whose elements are in {}", names.join(", "));
                Err(unreadable(dataset, Reason::Unsupported(what)))
            }
        }
    }

    fn chunked(
        &self,
        dataset: &Dataset,
        layout: &ChunkedLayout,
        wanted: &Frame,
        buffer: &mut [u8],
    ) -> Result<()> {
        let mut decoder = ChunkDecoder::new(dataset, layout);
        let first: Vec<u64> = wanted
            .start
            .iter()
            .zip(&layout.chunk)
            .map(|(start, chunk)| start - start % chunk)
            .collect();
        let last: Vec<u64> = (wanted.start.iter().zip(&wanted.shape).zip(&layout.chunk))
            .map(|((start, count), chunk)| (start + count - 1) - (start + count - 1) % chunk)
            .collect();
        let steps = first.iter().zip(&last).zip(&layout.chunk);
        let counts: Vec<u64> = steps.map(|((from, to), chunk)| (to - from) / chunk + 1).collect();
        let many = counts.iter().try_fold(1_u64, |all, &count| all.checked_mul(count));
        if many.is_some_and(|many| many <= LOOKED_UP) {
            return boxes::each(&counts, &mut |steps| {
                let offset: Vec<u64> = (first.iter().zip(steps).zip(&layout.chunk))
                    .map(|((first, step), chunk)| first + step * chunk)
                    .collect();
                match self.chunk(dataset, &offset)? {
                    Some(chunk) => self.place(&mut decoder, &chunk, wanted, buffer),
                    None => Ok(()),
                }
            });
        }
        let mut from = None;
        loop {
            let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let batch = self.chunks(dataset, bound, BATCH)?;
            for chunk in &batch {
                self.place(&mut decoder, chunk, wanted, buffer)?;
            }
            match batch.last() {
                Some(chunk) if batch.len() == BATCH => from = Some(chunk.offset.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Decodes a chunk and copies what is wanted of it.
    fn place(
        &self,
        decoder: &mut ChunkDecoder<'_>,
        chunk: &Chunk,
        wanted: &Frame,
        buffer: &mut [u8],
    ) -> Result<()> {
        let frame = Frame { start: chunk.offset.clone(), shape: decoder.layout.chunk.clone() };
        if !frame.meets(wanted) {
            return Ok(());
        }
        let element = decoder.layout.element_size as usize;
        let elements = decoder.decode(&self.walk(), chunk)?;
        copy(elements, &frame, buffer, wanted, element);
        Ok(())
    }
}

fn unreadable(dataset: &Dataset, reason: Reason) -> Error {
    Error::at(Structure::Data, dataset.address, reason)
}

/// Fills a buffer with elements that nobody wrote.
fn fill(dataset: &Dataset, buffer: &mut [u8]) {
    let element = dataset.fill_element();
    buffer.chunks_exact_mut(element.len()).for_each(|one| one.copy_from_slice(&element));
}

fn contiguous(
    walk: &Walk<'_>,
    dataset: &Dataset,
    address: Address,
    whole: &Frame,
    wanted: &Frame,
    buffer: &mut [u8],
) -> Result<()> {
    let element = dataset.datatype.size as usize;
    let too_far = || unreadable(dataset, Reason::Invalid("elements beyond 64 bits"));
    runs(whole, wanted, wanted, &mut |from, to, count| {
        let begin = (from as u64).checked_mul(element as u64);
        let at = begin.and_then(|begin| address.checked_add(begin)).ok_or_else(too_far)?;
        walk.data(Structure::Data, at, &mut buffer[to * element..(to + count) * element])
    })
}

/// Decodes chunks of a dataset, one after the other, in buffers that it keeps.
struct ChunkDecoder<'d> {
    dataset: &'d Dataset,
    layout: &'d ChunkedLayout,
    pipeline: Pipeline,
    scratch: Scratch,
    stored: Vec<u8>,
    elements: Vec<u8>,
}

impl<'d> ChunkDecoder<'d> {
    fn new(dataset: &'d Dataset, layout: &'d ChunkedLayout) -> Self {
        let pipeline = Pipeline::new(&dataset.filters);
        let (stored, elements) = (Vec::new(), Vec::new());
        Self { dataset, layout, pipeline, scratch: Scratch::default(), stored, elements }
    }

    /// Leaves the elements of a chunk in its buffer.
    fn decode(&mut self, walk: &Walk<'_>, chunk: &Chunk) -> Result<&[u8]> {
        let failed = |reason| Error::at(Structure::Chunk, chunk.address, reason);
        let expected = self.layout.bytes().unwrap_or(u64::MAX);
        let limit = walk.length().saturating_mul(MOST_EXPANDED).max(ALWAYS_DECODED);
        if expected > limit {
            let what = "bytes of a chunk";
            return Err(failed(Reason::Limit { what, found: expected, limit }));
        }
        let available = walk.available(chunk.address);
        if chunk.size > available {
            return Err(failed(Reason::Truncated { needed: chunk.size, available }));
        }
        self.stored.resize(chunk.size as usize, 0);
        walk.data(Structure::Chunk, chunk.address, &mut self.stored)?;
        if self.is_plain(chunk) {
            std::mem::swap(&mut self.stored, &mut self.elements);
            let available = self.elements.len() as u64;
            if available != expected {
                return Err(failed(Reason::Truncated { needed: expected, available }));
            }
            return Ok(&self.elements);
        }
        self.elements.resize(expected as usize, 0);
        let Self { pipeline, scratch, stored, elements, .. } = self;
        let decoded = pipeline.decode(chunk.filter_mask, stored, elements, scratch);
        decoded.map_err(|error| failed(Reason::Filter(error)))?;
        Ok(elements)
    }

    /// Whether a chunk has passed no filters: those that reach beyond the dataset may not have.
    fn is_plain(&self, chunk: &Chunk) -> bool {
        let sizes = self.dataset.dataspace.sizes();
        let partial = (chunk.offset.iter().zip(&self.layout.chunk).zip(&sizes))
            .any(|((offset, chunk), size)| offset.saturating_add(*chunk) > *size);
        self.pipeline.is_empty() || (partial && self.layout.partial_chunks_unfiltered)
    }
}
