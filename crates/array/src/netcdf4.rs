//! netCDF-4 files in the array room: [`Netcdf4State`], what a file has beyond its definitions.
//!
//! Definitions are those of all formats ([`crate::format::Header`]). [`striate_hdf5`] lays them
//! out: its `FilePlan` says where the elements of each variable are and what a commit writes. All
//! ranks have the same plan, because they make the same calls, so no metadata travel. This module
//! connects the plan to accesses:
//!
//! * a contiguous variable has an offset, as in a classic file;
//! * chunks without filters lie in boxes, and an access to them becomes a datatype
//!   ([`chunked_slab`]), which the file room carries out like any other;
//! * chunks with filters are encoded and decoded as a whole ([`stored_chunks`]), by threads where
//!   cores are free: each has an owner among the ranks, which gets the elements of the others;
//! * unlimited dimensions grow when all ranks write ([`growth`]);
//! * of files that exist one rank reads the metadata for all ([`metadata`], [`open`]);
//! * [`commit`] makes a state of the plan the state of the file.

mod chunk_cache;
mod chunked_slab;
mod commit;
mod definition;
mod growth;
mod heap_values;
mod learned_placements;
mod metadata;
mod open;
mod replaced_attributes;
mod stored_chunks;
mod user_types;

use std::sync::Arc;

use chunk_cache::ChunkCache;
use chunked_slab::ChunkedSlab;
use stored_chunks::DeferredChunks;
use striate_datatype::{Datatype, TypeError};
use striate_file::Placement;
use striate_hdf5::filter::Pipeline;
use striate_hdf5::netcdf::VariableDefinition;
use striate_hdf5::write::{Chunks, FilePlan, Placement as VariablePlacement};

use crate::access::Access;
use crate::partition::Hyperslab;
use crate::placement;
use crate::slab::contiguous_placement;
use crate::stream::{ReadStream, StreamOrder, WriteStream};
use crate::{ArrayError, Options};

/// Bytes of decoded chunks that are kept.
pub(crate) const CHUNK_CACHE: u64 = 64 << 20;

pub(crate) use commit::{PreparedCommit, SUPERBLOCK, complete, finish, is_due, prepare};
pub(crate) use definition::{
    attribute_values, check_layouts, define, definition_lines, write_attributes,
};
pub(crate) use heap_values::HeapWrite;
pub(crate) use open::{
    OpenedNetcdf4, Superblock, decode_metadata, header_of_local_file, is_hdf5, read_metadata,
};
pub(crate) use replaced_attributes::replace_attributes;
pub(crate) use stored_chunks::{Reader, Words, free_spilled, garbled, read_spilled, spill_bytes};
pub(crate) use user_types::fits;

/// A file that is netCDF-4, in data mode.
#[derive(Debug)]
pub(crate) struct Netcdf4State {
    plan: FilePlan,
    /// The number of each variable in the plan, which may have more.
    numbers: Vec<usize>,
    /// The filters of each variable.
    pipelines: Vec<Pipeline>,
    /// An element of each variable that was never written, as in the file.
    fills: Vec<Vec<u8>>,
    /// The unlimited dimensions that variables have.
    unlimited: Vec<u32>,
    cache: ChunkCache,
    /// Independent writes to stored chunks, until all ranks meet.
    deferred: DeferredChunks,
    /// Independent writes of values of variable length, until then too.
    deferred_values: Vec<HeapWrite>,
    /// Where each byte of an element of a variable is in memory, if not where it is in the file.
    byte_positions: Vec<Option<Arc<[u32]>>>,
    /// How many threads of this rank filter chunks.
    filter_threads: usize,
    /// Whether other handles write the file meanwhile, so that chunks without filters, which they
    /// replace in place, are read each time.
    others_write: bool,
    /// Why the file can only be read.
    read_only: Option<String>,
    /// What is in the file and not in the dataset: path and reason.
    hidden: Vec<(String, String)>,
}

impl Netcdf4State {
    fn new(plan: FilePlan, numbers: Vec<usize>, fills: Vec<Vec<u8>>, options: &Options) -> Self {
        let definition = plan.definition();
        let filters = |&number: &usize| Pipeline::new(&definition.variables[number].filters);
        let pipelines = numbers.iter().map(filters).collect();
        let positions = |&number: &usize| {
            let variable: &VariableDefinition = &definition.variables[number];
            user_types::byte_positions(&variable.datatype)
        };
        let byte_positions = numbers.iter().map(positions).collect();
        let used = |number: usize| {
            definition.variables.iter().any(|variable| variable.dimensions.contains(&number))
        };
        let unlimited = definition.dimensions.iter().enumerate();
        let unlimited = unlimited
            .filter(|(number, dimension)| dimension.unlimited && used(*number))
            .map(|(number, _)| number as u32)
            .collect();
        Self {
            plan,
            numbers,
            pipelines,
            fills,
            unlimited,
            cache: ChunkCache::new(options.chunk_cache.unwrap_or(CHUNK_CACHE)),
            deferred: DeferredChunks::default(),
            deferred_values: Vec::new(),
            byte_positions,
            filter_threads: 1,
            others_write: false,
            read_only: None,
            hidden: Vec::new(),
        }
    }

    /// The same for another handle of the file, by which one rank accesses it.
    pub(crate) fn replica(&self, options: &Options) -> Self {
        let mut replica =
            Self::new(self.plan.clone(), self.numbers.clone(), self.fills.clone(), options);
        replica.read_only.clone_from(&self.read_only);
        replica.others_write = true;
        replica
    }

    /// Other handles write the file, too.
    pub(crate) const fn share_with_writers(&mut self) {
        self.others_write = true;
    }

    /// Whether decoded chunks of a variable are kept for other reads.
    fn keeps_chunks(&self, variable: usize) -> bool {
        !self.others_write || self.pipelines.get(variable).is_some_and(|of| !of.is_empty())
    }

    /// Reorders the variables: the first one becomes the one that was number `order[0]`, and so on;
    /// those that are not in the order are not shown any more.
    pub(crate) fn reorder(&mut self, order: &[usize]) {
        self.numbers = order.iter().map(|&variable| self.numbers[variable]).collect();
        self.pipelines = order.iter().map(|&variable| self.pipelines[variable].clone()).collect();
        self.fills = order.iter().map(|&variable| self.fills[variable].clone()).collect();
    }

    fn placement(&self, variable: usize) -> Option<&VariablePlacement> {
        self.plan.placement(*self.numbers.get(variable)?)
    }

    fn chunks(&self, variable: usize) -> Option<&Chunks> {
        match self.placement(variable) {
            Some(VariablePlacement::Chunked(chunks)) => Some(chunks),
            _ => None,
        }
    }

    /// Whether the placement of an access is found when it is carried out: it may change with the
    /// lengths of dimensions.
    pub(crate) fn is_placed_later(&self, variable: usize) -> bool {
        self.chunks(variable).is_some() || self.has_index(variable)
    }

    /// Whether elements of a variable are not where a formula says, and are accessed chunk by
    /// chunk: those with filters, and some of files of others. A variable in its header, or
    /// without a place yet, counts as one chunk.
    pub(crate) fn has_index(&self, variable: usize) -> bool {
        match self.placement(variable) {
            Some(VariablePlacement::Chunked(chunks)) => !chunks.is_computed(),
            Some(VariablePlacement::Contiguous { address, size }) => address.is_none() && *size > 0,
            Some(VariablePlacement::Compact) => true,
            None => false,
        }
    }

    /// Where each byte of an element of a variable is in memory, if not where it is in the file.
    pub(crate) fn byte_positions(&self, variable: usize) -> Option<Arc<[u32]>> {
        self.byte_positions.get(variable).cloned().flatten()
    }

    /// Why a variable cannot be written.
    pub(crate) fn refusal(&self, variable: usize) -> Option<&str> {
        match self.placement(variable) {
            _ if self.read_only.is_some() => self.read_only.as_deref(),
            Some(VariablePlacement::Compact) => {
                Some("its elements are in the header of the file, where they are not replaced")
            }
            _ => None,
        }
    }

    /// The contiguous variables that have no place yet, as in files of others before anything was
    /// written.
    fn unplaced(&self) -> Vec<usize> {
        let is_unplaced = |variable: &usize| {
            matches!(
                self.placement(*variable),
                Some(VariablePlacement::Contiguous { address: None, size }) if *size > 0
            )
        };
        (0..self.numbers.len()).filter(is_unplaced).collect()
    }

    /// What is in the file and not in the dataset: path and reason.
    pub(crate) fn hidden(&self) -> &[(String, String)] {
        &self.hidden
    }

    /// Whether any variable has chunks that are read and written one by one.
    pub(crate) fn has_stored_chunks(&self) -> bool {
        (0..self.pipelines.len()).any(|variable| self.has_index(variable))
    }

    /// Whether a collective write has something to agree on beyond the write itself.
    pub(crate) fn writes_need_agreement(&self) -> bool {
        // Variables without a place count as stored chunks.
        !self.unlimited.is_empty() || self.has_stored_chunks()
    }

    /// Finds the placement of an access to chunks without filters, and the order of its elements.
    /// Accesses to other chunks stay without.
    pub(crate) fn place<M: Reorder>(
        &self,
        access: &mut Access<M>,
        size: u64,
    ) -> Result<(), ArrayError> {
        let Some(hyperslab) = &access.hyperslab else { return Ok(()) };
        if self.has_index(access.variable) {
            return Ok(());
        }
        if let Some(VariablePlacement::Contiguous { address: Some(address), .. }) =
            self.placement(access.variable)
        {
            // It got its place with this call.
            let shape = self.variable_shape(access.variable);
            access.placement = contiguous_placement(&shape, size, address.0, hyperslab)?;
            access.hyperslab = None;
            return Ok(());
        }
        let slab = self.slab(access.variable, hyperslab, size)?;
        access.placement = placement::whole(slab.file);
        access.memory.set_order(StreamOrder::new(slab.stream)?);
        access.hyperslab = None;
        Ok(())
    }

    fn variable_shape(&self, variable: usize) -> Vec<u64> {
        let definition = self.plan.definition();
        definition.dataspace(&definition.variables[self.numbers[variable]]).sizes()
    }

    /// The placement of a hyperslab of a variable in chunks without filters.
    fn placement_of(
        &self,
        variable: usize,
        hyperslab: &Hyperslab,
        size: u64,
    ) -> Result<Placement, TypeError> {
        Ok(placement::whole(self.slab(variable, hyperslab, size)?.file))
    }

    /// A hyperslab in all boxes of a variable, in the order of the file.
    fn slab(
        &self,
        variable: usize,
        hyperslab: &Hyperslab,
        size: u64,
    ) -> Result<ChunkedSlab, TypeError> {
        let mut parts = Vec::new();
        if let Some(chunks) = self.chunks(variable).filter(|_| !hyperslab.count.contains(&0)) {
            let mut boxes: Vec<_> = chunks.boxes().iter().collect();
            boxes.sort_unstable_by_key(|one| one.address);
            for one in boxes {
                parts.extend(ChunkedSlab::new(hyperslab, chunks.shape(), size, one)?);
            }
        }
        if let [_] = parts.as_slice()
            && let Some(one) = parts.pop()
        {
            return Ok(one);
        }
        let fields = |of: fn(&ChunkedSlab) -> &Datatype| -> Vec<_> {
            parts.iter().map(|part| (1, 0, of(part).clone())).collect()
        };
        Ok(ChunkedSlab {
            file: Datatype::structure(&fields(|part| &part.file))?,
            stream: Datatype::structure(&fields(|part| &part.stream))?,
        })
    }
}

/// Memory whose elements can be taken in another order.
pub(crate) trait Reorder {
    /// Sets the order of the elements in the file.
    fn set_order(&mut self, order: Option<Box<StreamOrder>>);
}

impl Reorder for WriteStream<'_> {
    fn set_order(&mut self, order: Option<Box<StreamOrder>>) {
        WriteStream::set_order(self, order);
    }
}

impl Reorder for ReadStream<'_> {
    fn set_order(&mut self, order: Option<Box<StreamOrder>>) {
        ReadStream::set_order(self, order);
    }
}

/// An error of the format in a file.
pub(crate) fn hdf5_error(file: &striate_file::File, source: striate_hdf5::Error) -> ArrayError {
    ArrayError::Hdf5 { file: file.name(), source: Box::new(source) }
}
