//! Strings and other values of variable length, in calls.
//!
//! In the file such a value is a descriptor of 16 bytes, which refers to an object in a heap
//! collection. A collective write ([`Dataset::store_heap_values`]) has two steps:
//!
//! 1. Every rank encodes collections of its values, at most [`ROUND`] bytes at a time. All ranks
//!    learn the lengths, give the collections addresses in the same order, and write their own.
//! 2. The descriptors are elements of a fixed size, which take the path of all others.
//!
//! A collection is never written again, and the space of one whose values were replaced stays
//! unused. So a state of the file keeps its values if its descriptors do not change: chunks of
//! descriptors are written elsewhere each time, whether they have filters or not. Only contiguous
//! variables are changed in place. Before that, the collections become part of a committed state,
//! for a descriptor that refers beyond the end of the file could not be read.
//!
//! Independent writes wait in memory ([`HeapWrite`]) until the ranks meet: no rank can know which
//! space others take. The rank itself reads what it wrote. They wait on if storing them fails.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use striate_comm::CommExt;
use striate_file::File;
use striate_hdf5::model::{Address, Class, Datatype};
use striate_hdf5::write::{DESCRIPTOR, Elements, HeapedElements, Placement as VariablePlacement};
use striate_hdf5::{File as Hdf5File, Source};

use super::{CHUNK_CACHE, Netcdf4State, growth, hdf5_error};
use crate::access::Access;
use crate::file_state::{Durability, FileState};
use crate::format::{Type, Values};
use crate::memory::Source as MemorySource;
use crate::partition::Hyperslab;
use crate::slab::Direction;
use crate::stream::WriteStream;
use crate::value::Raw;
use crate::{ArrayError, Dataset, Slab, VariableId};

/// Bytes of collections that a rank has in memory at a time; more if one value is longer.
const ROUND: u64 = 16 << 20;

/// Bytes that are read of the heaps at once, and how many of those pieces are kept.
const READ_AHEAD: u64 = 1 << 20;
const PIECES: usize = 16;

/// A write of values of variable length.
#[derive(Clone, Debug)]
pub(crate) struct HeapWrite {
    pub(crate) call: &'static str,
    pub(crate) variable: VariableId,
    pub(crate) hyperslab: Hyperslab,
    /// Lengths of unlimited dimensions that it needs.
    pub(crate) growth: Vec<(u32, u64)>,
    /// In the byte order of the machine.
    pub(crate) elements: Elements,
}

impl HeapWrite {
    /// Ranges of its elements, in bytes, each of at most [`ROUND`] bytes of heap.
    fn blocks(&self, size: usize) -> Vec<Range<usize>> {
        let mut blocks = Vec::new();
        let (mut start, mut bytes) = (0, 0_u64);
        for at in (0..self.elements.len()).step_by(size) {
            let more = self.elements.heap_bytes(at..at + size);
            if bytes > 0 && bytes.saturating_add(more) > ROUND {
                blocks.push(start..at);
                (start, bytes) = (at, 0);
            }
            bytes = bytes.saturating_add(more);
        }
        if start < self.elements.len() {
            blocks.push(start..self.elements.len());
        }
        blocks
    }
}

impl Netcdf4State {
    pub(super) fn datatype(&self, variable: usize) -> &Datatype {
        &self.plan.definition().variables[self.numbers[variable]].datatype
    }

    /// Whether elements are those of a variable's type.
    pub(crate) fn fits(&self, variable: usize, elements: &Elements) -> bool {
        elements.fits(self.datatype(variable))
    }

    /// Whether the elements of a variable are changed where they are.
    fn is_in_place(&self, variable: usize) -> bool {
        matches!(self.placement(variable), Some(VariablePlacement::Contiguous { .. }))
    }
}

impl Dataset {
    /// Writes the collections of values of all ranks; what is left to write are their descriptors.
    /// Independent writes go before them. Collective; ranks may have different writes, or none.
    pub(crate) fn store_heap_values(
        &mut self,
        all: &[HeapWrite],
    ) -> Result<Vec<Access<WriteStream<'static>>>, ArrayError> {
        let mut placed = Vec::new();
        let stored = self.store_collections(all, &mut placed);
        if let (Err(_), Some(netcdf4)) = (&stored, &mut self.state.netcdf4) {
            // No descriptor refers to them.
            for (address, len) in placed {
                netcdf4.plan.free(address, len);
            }
        }
        stored
    }

    /// Notes the places of the collections of all ranks in `placed`.
    fn store_collections(
        &mut self,
        all: &[HeapWrite],
        placed: &mut Vec<(Address, u64)>,
    ) -> Result<Vec<Access<WriteStream<'static>>>, ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(Vec::new()) };
        let mut blocks: Vec<(usize, Range<usize>)> = Vec::new();
        let mut in_place = false;
        for (number, write) in all.iter().enumerate() {
            let variable = write.variable.index();
            let size = (netcdf4.datatype(variable).size as usize).max(1);
            blocks.extend(write.blocks(size).into_iter().map(|block| (number, block)));
            in_place |= netcdf4.is_in_place(variable);
        }
        let own = [blocks.len() as u64, u64::from(in_place), u64::from(self.has_arenas())];
        let ((), [rounds, in_place, arenas]) = self.state.agree_with_max(Ok(()), own)?;
        if arenas > 0 && rounds > 0 {
            self.settle()?;
        }
        let mut descriptors: Vec<Vec<u8>> = all.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds as usize {
            let encoded = match blocks.get(round) {
                None => Ok(None),
                Some((number, block)) => self.encode(&all[*number], block.clone()).map(Some),
            };
            if let Some(bytes) = self.store_round(encoded, placed)?
                && let Some((number, _)) = blocks.get(round)
            {
                descriptors[*number].extend(bytes);
            }
        }
        if in_place > 0 {
            // What was never synced has no state that a power cut could spoil.
            let was_unfinished = self.state.unfinished;
            let durability =
                if was_unfinished { Durability::Buffered } else { Durability::Durable };
            self.state.finish(durability)?;
            self.state.unfinished = was_unfinished;
        }
        let accesses = all.iter().zip(descriptors).map(|(write, bytes)| {
            let memory = MemorySource::new(Raw::slice(&bytes));
            let access = self.accessed(write.variable)?.put(
                write.call,
                &Slab::from(&write.hyperslab),
                memory,
            )?;
            Ok(access.try_map_memory(WriteStream::into_owned)?)
        });
        let accesses: Result<Vec<_>, ArrayError> = accesses.collect();
        self.state.agree(accesses)
    }

    fn encode(&self, write: &HeapWrite, range: Range<usize>) -> Result<HeapedElements, ArrayError> {
        let mut part = write.elements.part(range);
        if let Some(netcdf4) = &self.state.netcdf4 {
            let ordered = part.to_native(netcdf4.datatype(write.variable.index()));
            ordered.map_err(|error| hdf5_error(&self.state.file, error))?;
        }
        Ok(HeapedElements::new(&part))
    }

    /// Gives the collections of all ranks their places and writes those of this one; returns the
    /// bytes of its elements. Collective.
    fn store_round(
        &mut self,
        encoded: Result<Option<HeapedElements>, ArrayError>,
        placed: &mut Vec<(Address, u64)>,
    ) -> Result<Option<Vec<u8>>, ArrayError> {
        let encoded = self.state.agree(encoded)?;
        let comm = Arc::clone(&self.state.comm);
        let lengths = comm.allgather_u64(encoded.as_ref().map_or(0, HeapedElements::heap_len))?;
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(None) };
        let mut addresses: Vec<(Address, u64)> = Vec::with_capacity(lengths.len());
        for len in lengths {
            let address = match len {
                0 => Ok(Address(0)),
                len => netcdf4.plan.allocate(len),
            };
            let address = address.map_err(|error| hdf5_error(&self.state.file, error))?;
            addresses.push((address, len));
        }
        placed.extend(addresses.iter().filter(|(_, len)| *len > 0));
        let mut descriptors = None;
        let written = match (encoded, addresses.get(comm.rank())) {
            (Some(encoded), Some((address, len))) => {
                let (bytes, collections) = encoded.link(address.0);
                descriptors = Some(bytes);
                match len {
                    0 => Ok(()),
                    _ => self.state.file.write_at(address.0, collections.as_slice()).map(|_| ()),
                }
            }
            _ => Ok(()),
        };
        self.state.agree(written.map_err(ArrayError::from))?;
        Ok(descriptors)
    }

    /// Keeps independent writes until the next collective call.
    pub(crate) fn defer_heap_values(&mut self, writes: Vec<HeapWrite>) -> Result<(), ArrayError> {
        let limit = self.options.chunk_cache.unwrap_or(CHUNK_CACHE);
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        let bytes = |write: &HeapWrite| {
            let all = write.elements.heap_bytes(0..write.elements.len());
            all.saturating_add(write.elements.len() as u64)
        };
        let mut waiting: u64 = netcdf4.deferred_values.iter().map(bytes).sum();
        for write in writes {
            if !write.growth.is_empty() {
                return Err(growth::independent(&self.state, write.variable.index()));
            }
            waiting = waiting.saturating_add(bytes(&write));
            if waiting > limit {
                let variable = write.variable.index();
                return Err(ArrayError::Access {
                    call: write.call,
                    variable: self.state.header.variables[variable].name.clone(),
                    reason: format!(
                        "more than {limit} bytes of independent writes of values of variable \
                         length wait for all ranks: call sync, write collectively, or set \
                         nc_chunk_cache"
                    ),
                });
            }
            netcdf4.deferred_values.push(write);
        }
        Ok(())
    }

    /// How many independent writes of values of variable length of this rank wait.
    pub(crate) fn waiting_heap_values(&self) -> u64 {
        self.state.netcdf4.as_ref().map_or(0, |it| it.deferred_values.len() as u64)
    }

    /// Carries out the independent writes of values of variable length of all ranks. Collective.
    pub(crate) fn flush_heap_values(&mut self) -> Result<(), ArrayError> {
        if !self.has_heap_values() || !self.state.mode.is_writable() {
            return Ok(());
        }
        let own = [self.waiting_heap_values()];
        let ((), [waiting]) = self.state.agree_with_max(Ok(()), own)?;
        if waiting > 0 { self.store_waiting_heap_values() } else { Ok(()) }
    }

    /// The same, if it is known that some rank has such writes. After an error they wait on.
    /// Collective.
    pub(crate) fn store_waiting_heap_values(&mut self) -> Result<(), ArrayError> {
        let Some(netcdf4) = &mut self.state.netcdf4 else { return Ok(()) };
        let waiting = std::mem::take(&mut netcdf4.deferred_values);
        let accesses = self.store_heap_values(&waiting);
        let stored = self.put_collective(accesses);
        // A rank may not know that another one has failed to write.
        let stored = self.state.agree(stored);
        if let (Err(_), Some(netcdf4)) = (&stored, &mut self.state.netcdf4) {
            netcdf4.deferred_values = waiting;
        }
        stored
    }

    /// Whether any variable has values of variable length.
    fn has_heap_values(&self) -> bool {
        let header = &self.state.header;
        self.state.netcdf4.is_some()
            && header.variables.iter().any(|one| header.has_variable_length(one.external))
    }

    /// The values of elements of which `bytes` are the descriptors.
    pub(crate) fn load_heap_values(
        &mut self,
        variable: usize,
        bytes: &[u8],
    ) -> Result<Elements, ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(Elements::fixed(bytes)) };
        let datatype = netcdf4.datatype(variable).clone();
        let read = read_elements(&mut self.state.file, &datatype, bytes)
            .and_then(|mut elements| elements.to_native(&datatype).map(|()| elements));
        let mut elements = read.map_err(|error| hdf5_error(&self.state.file, error))?;
        if let Some(fill) = string_fill(&self.state, variable) {
            for at in (0..elements.len()).step_by(DESCRIPTOR) {
                if elements.heap_value(at).is_none() {
                    elements.replace(at, &fill);
                }
            }
        }
        Ok(elements)
    }

    /// Applies independent writes of this rank that wait to elements that were read.
    pub(crate) fn overlay_heap_values(
        &self,
        variable: VariableId,
        slab: &Slab,
        elements: &mut Elements,
    ) -> Result<(), ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return Ok(()) };
        let waiting = netcdf4.deferred_values.iter().filter(|write| write.variable == variable);
        let size = (netcdf4.datatype(variable.index()).size as usize).max(1);
        let accessed = self.accessed(variable)?;
        for write in waiting {
            let read = accessed.checked("reading", Direction::Read, slab)?.hyperslab;
            for number in 0..write.elements.len() / size {
                let index = index_of(&write.hyperslab, number as u64);
                if let Some(place) = number_of(&read, &index) {
                    let one = write.elements.part(number * size..(number + 1) * size);
                    elements.replace(place as usize * size, &one);
                }
            }
        }
        Ok(())
    }
}

/// The index of an element of a hyperslab by its number.
fn index_of(hyperslab: &Hyperslab, number: u64) -> Vec<u64> {
    let mut rest = number;
    let mut index = hyperslab.start.clone();
    for dimension in (0..index.len()).rev() {
        let count = hyperslab.count[dimension].max(1);
        index[dimension] += rest % count * hyperslab.stride[dimension];
        rest /= count;
    }
    index
}

/// The number of the element with an index in a hyperslab, if it has it.
fn number_of(hyperslab: &Hyperslab, index: &[u64]) -> Option<u64> {
    let mut number = 0;
    for (dimension, &at) in index.iter().enumerate() {
        let stride = hyperslab.stride[dimension];
        let distance = at.checked_sub(hyperslab.start[dimension])?;
        let along = distance / stride;
        if !distance.is_multiple_of(stride) || along >= hyperslab.count[dimension] {
            return None;
        }
        number = number * hyperslab.count[dimension] + along;
    }
    Some(number)
}

/// What strings are that nobody wrote, if the variable says so and it is not the empty string.
fn string_fill(state: &FileState, variable: usize) -> Option<Elements> {
    let of = &state.header.variables[variable];
    if !state.filled[variable] || of.external != Type::String {
        return None;
    }
    let given = of.attributes.iter().find(|attribute| attribute.name == "_FillValue")?;
    match &given.values {
        Values::Stored(stored) if stored.elements.len() == DESCRIPTOR => {
            Some(stored.elements.clone())
        }
        _ => None,
    }
}

/// Takes values out of the heaps of a file. Elements are taken in the order of their collections,
/// so that each collection is read once.
fn read_elements(
    file: &mut File,
    datatype: &Datatype,
    bytes: &[u8],
) -> striate_hdf5::Result<Elements> {
    if bytes.is_empty() || bytes.iter().all(|&byte| byte == 0) {
        return Ok(Elements::fixed(bytes));
    }
    let length = file.size().map_err(|error| {
        let error = io::Error::other(error);
        striate_hdf5::Error::of(striate_hdf5::Structure::File, error)
    })?;
    let kept = RefCell::new(VecDeque::new());
    let opened = Hdf5File::open(HeapSource { length, file: RefCell::new(file), kept })?;
    let size = (datatype.size as usize).max(1);
    let first = first_descriptor(datatype).unwrap_or(0);
    let address = |element: &[u8]| {
        let address = element.get(first + 4..first + 12).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(address.unwrap_or_default())
    };
    let elements: Vec<&[u8]> = bytes.chunks_exact(size).collect();
    if elements.iter().map(|element| address(element)).is_sorted() {
        return opened.elements(datatype, bytes);
    }
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by_key(|&number| address(elements[number]));
    let sorted: Vec<u8> = order.iter().flat_map(|&number| elements[number]).copied().collect();
    let sorted = opened.elements(datatype, &sorted)?;
    let mut places = vec![0; order.len()];
    for (place, &number) in order.iter().enumerate() {
        places[number] = place * size;
    }
    let mut all = Elements::new();
    for place in places {
        all.append(sorted.part(place..place + size));
    }
    Ok(all)
}

/// Where the first descriptor of an element is.
fn first_descriptor(datatype: &Datatype) -> Option<usize> {
    match &datatype.class {
        Class::Sequence { .. } | Class::VariableString { .. } => Some(0),
        Class::Array { base, .. } => first_descriptor(base),
        Class::Compound { members } => members
            .iter()
            .find_map(|member| Some(member.offset as usize + first_descriptor(&member.datatype)?)),
        _ => None,
    }
}

/// A file whose heaps are read: collections that lie together come with one read.
struct HeapSource<'f> {
    length: u64,
    file: RefCell<&'f mut File>,
    /// Pieces of the file by their numbers, the newest last.
    kept: RefCell<VecDeque<(u64, Vec<u8>)>>,
}

impl HeapSource<'_> {
    fn read_exactly(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let got = self.file.borrow_mut().read_at(offset, &mut *buffer).map_err(io::Error::other)?;
        let is_whole = got == buffer.len() as u64;
        if is_whole { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Calls with a piece of the file.
    fn with_piece(&self, number: u64, copy: impl FnOnce(&[u8])) -> io::Result<()> {
        let mut kept = self.kept.borrow_mut();
        if let Some(at) = kept.iter().position(|(one, _)| *one == number) {
            copy(&kept[at].1);
            return Ok(());
        }
        let offset = number * READ_AHEAD;
        let mut bytes = vec![0; READ_AHEAD.min(self.length.saturating_sub(offset)) as usize];
        self.read_exactly(offset, &mut bytes)?;
        copy(&bytes);
        if kept.len() == PIECES {
            kept.pop_front();
        }
        kept.push_back((number, bytes));
        Ok(())
    }
}

impl Source for HeapSource<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.len() as u64 >= READ_AHEAD {
            return self.read_exactly(offset, buffer);
        }
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let within = (at % READ_AHEAD) as usize;
            let mut copied = 0;
            self.with_piece(at / READ_AHEAD, |piece| {
                let rest = piece.get(within..).unwrap_or_default();
                copied = rest.len().min(buffer.len() - done);
                buffer[done..done + copied].copy_from_slice(&rest[..copied]);
            })?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += copied;
        }
        Ok(())
    }
}
