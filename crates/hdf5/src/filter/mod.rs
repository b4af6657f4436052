//! Filters: the bytes of one chunk, from memory to file and back.
//!
//! [`Pipeline`] is made once for a dataset, from the filters that its header names, and shared by
//! all threads. What a thread needs beside it, buffers and the state of compressors, is in a
//! [`Scratch`] of its own, which serves one chunk after the other.
//!
//! The size of a decoded chunk is known before, and with it the most bytes that each step can
//! produce: a filter writes into a buffer of that size, so stored bytes that claim more are an
//! error and never memory. A filter that has no decoder is no error until a chunk asks for it, as
//! the filter mask of a chunk may say that it was not applied.

mod bits;
mod bitshuffle;
mod blosc;
mod blosclz;
mod codecs;
mod fault;
mod fletcher32;
mod lz4;
mod lzf;
mod match_copy;
mod nbit;
mod registry;
mod scale_offset;
mod shuffle;
mod stage;
mod szip;

use codecs::Codecs;
pub use fault::{FilterError, FilterFault};
use stage::Stage;

use crate::model::Filter;

/// The filters that a mask has bits for.
pub const MAX_FILTERS: usize = 32;

/// The filters of a dataset, in the order in which a writer applies them.
#[derive(Clone, Debug)]
pub struct Pipeline {
    steps: Vec<FilterStep>,
}

/// A filter, its stage, and what an error calls it.
#[derive(Clone, Debug)]
struct FilterStep {
    id: u16,
    name: String,
    optional: bool,
    stage: Stage,
}

/// A chunk as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The filters that were not applied, bit 0 for the first of the pipeline.
    pub filter_mask: u32,
}

/// Memory of a thread that filters chunks. It grows to the size of the largest chunk and a half
/// more, three times at most.
#[derive(Debug, Default)]
pub struct Scratch {
    first: Vec<u8>,
    second: Vec<u8>,
    codecs: Codecs,
}

/// Where the bytes are between two filters.
#[derive(Clone, Copy, PartialEq)]
enum HeldIn {
    Caller,
    First,
    Second,
}

impl Pipeline {
    /// The pipeline of a dataset's filters. Filters behind the 32nd cannot be applied: they have no
    /// bit in a mask.
    pub fn new(filters: &[Filter]) -> Self {
        let step = |(at, filter): (usize, &Filter)| {
            let name = match registry::registered(filter.id) {
                Some(entry) => entry.name.to_owned(),
                None => filter.name.to_string(),
            };
            let stage = if at < MAX_FILTERS {
                Stage::new(filter.id, &filter.parameters)
            } else {
                Stage::Refused(FilterFault::Unsupported("more than 32 filters"))
            };
            FilterStep { id: filter.id, name, optional: filter.optional, stage }
        };
        Self { steps: filters.iter().enumerate().map(step).collect() }
    }

    /// Whether chunks are stored as they are in memory.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The most bytes that an encoded chunk of `bytes` bytes can have.
    pub fn bound(&self, bytes: u64) -> u64 {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.steps.iter().fold(bytes, |bytes, step| step.stage.bound(bytes)) as u64
    }

    /// The first filter that cannot be decoded, which chunks ask for unless their masks leave it
    /// out.
    pub fn check_decoding(&self) -> Result<(), FilterError> {
        self.steps.iter().try_for_each(|step| match &step.stage {
            Stage::Refused(fault) => Err(step.error(fault.clone())),
            _ => Ok(()),
        })
    }

    /// The first filter without which no chunk can be written, and which cannot be applied.
    pub fn check_encoding(&self) -> Result<(), FilterError> {
        self.steps
            .iter()
            .filter(|step| !step.optional)
            .try_for_each(|step| step.stage.check_encoding().map_err(|fault| step.error(fault)))
    }

    /// Decodes a chunk. `chunk` has the size that the chunk has in memory, and is undefined after
    /// an error.
    pub fn decode(
        &self,
        filter_mask: u32,
        stored: &[u8],
        chunk: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), FilterError> {
        // What a filter can have been given at most, and so the most that it gives back.
        let applied: Vec<(&FilterStep, usize)> = self
            .steps
            .iter()
            .enumerate()
            .filter(|(at, _)| *at >= MAX_FILTERS || filter_mask >> at & 1 == 0)
            .scan(chunk.len(), |limit, (_, step)| {
                let before = *limit;
                *limit = step.stage.bound(before);
                Some((step, before))
            })
            .collect();
        let Scratch { first, second, codecs } = scratch;
        let (mut place, mut len) = (HeldIn::Caller, stored.len());
        let mut direct = false;
        for (at, &(step, limit)) in applied.iter().enumerate().rev() {
            direct = at == 0;
            let (input, next, output): (&[u8], HeldIn, &mut [u8]) = match (place, direct) {
                (HeldIn::Caller, true) => (stored, place, &mut *chunk),
                (HeldIn::Caller, false) => (stored, HeldIn::First, grown(first, limit)),
                (HeldIn::First, true) => (first, place, &mut *chunk),
                (HeldIn::First, false) => (first, HeldIn::Second, grown(second, limit)),
                (HeldIn::Second, true) => (second, place, &mut *chunk),
                (HeldIn::Second, false) => (second, HeldIn::First, grown(first, limit)),
            };
            let input = &input[..len];
            if let Some(kept) = step.stage.decode_in_place(input) {
                len = kept.map_err(|fault| step.error(fault))?;
                direct = false;
                continue;
            }
            let decoded = step.stage.decode(input, output, codecs);
            len = decoded.map_err(|fault| step.error(fault))?;
            place = next;
        }
        if len != chunk.len() {
            let fault = FilterFault::Size { expected: chunk.len(), found: len };
            return Err(match applied.first() {
                Some((step, _)) => step.error(fault),
                None => FilterError { id: 0, name: "none".to_owned(), fault },
            });
        }
        if !direct {
            chunk.copy_from_slice(match place {
                HeldIn::Caller => &stored[..len],
                HeldIn::First => &first[..len],
                HeldIn::Second => &second[..len],
            });
        }
        Ok(())
    }

    /// Encodes a chunk. An optional filter that fails, or does not make the chunk shorter although
    /// it should, is left out of it, as the HDF5 library does.
    pub fn encode<'a>(
        &self,
        chunk: &'a [u8],
        scratch: &'a mut Scratch,
    ) -> Result<Encoded<'a>, FilterError> {
        let Scratch { first, second, codecs } = scratch;
        let (mut place, mut len) = (HeldIn::Caller, chunk.len());
        let mut filter_mask = 0;
        for (at, step) in self.steps.iter().enumerate() {
            // What is not shorter has no room.
            let room = if step.optional && step.stage.compresses() {
                len.saturating_sub(1)
            } else {
                step.stage.bound(len)
            };
            let (input, next, output): (&[u8], HeldIn, &mut [u8]) = match place {
                HeldIn::Caller => (chunk, HeldIn::First, grown(first, room)),
                HeldIn::First => (first, HeldIn::Second, grown(second, room)),
                HeldIn::Second => (second, HeldIn::First, grown(first, room)),
            };
            match step.stage.encode(&input[..len], output, codecs) {
                Ok(Some(encoded)) => (place, len) = (next, encoded),
                Ok(None) | Err(_) if step.optional && at < MAX_FILTERS => filter_mask |= 1 << at,
                Ok(None) => return Err(step.error(FilterFault::TooLong { limit: room })),
                Err(fault) => return Err(step.error(fault)),
            }
        }
        let bytes = match place {
            HeldIn::Caller => chunk,
            HeldIn::First => &first[..len],
            HeldIn::Second => &second[..len],
        };
        Ok(Encoded { bytes, filter_mask })
    }
}

impl FilterStep {
    fn error(&self, fault: FilterFault) -> FilterError {
        FilterError { id: self.id, name: self.name.clone(), fault }
    }
}

impl Scratch {
    /// Memory that grows when it is used.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The first bytes of a buffer, which is never made shorter: what is new in it costs zeroing.
fn grown(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}
