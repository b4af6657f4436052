//! [`FilePlan`]: a netCDF-4 file that is being written: its definitions, where its data are, and
//! what each commit writes.
//!
//! A commit writes all metadata anew, beside those that the file has, and then the superblock,
//! which makes the new ones the file's. At every moment the file is the state of the last commit or
//! of the one before. The space of metadata that no superblock refers to any more is used again by
//! the commit after the next, so that two copies alternate. The same holds for chunks that are
//! stored elsewhere when they are written again ([`ReleasedSpace`]).

use super::arenas::Arenas;
use super::chunk_tree::StoredChunk;
use super::free_list::FreeList;
use super::netcdf::{self, FileDefinition, Storage, VariableDefinition};
use super::placement::{ChunkBox, Chunks, Placement};
use super::released_space::ReleasedSpace;
use super::space::{DataAlignment, Space};
use super::superblock::{SUPERBLOCK_SIZE, superblock};
use crate::model::Address;
use crate::{Error, Reason, Result, Structure};

/// How a file is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Alignment of contiguous variables and of every chunk.
    pub alignment: DataAlignment,
    /// When a variable without filters grows along its first dimension, it gets room for as much
    /// again as it has, but not for more than this many bytes. More room means fewer boxes, hence
    /// shorter descriptions of accesses.
    pub growth_reserve: u64,
}

/// A file that is being written.
#[derive(Clone, Debug)]
pub struct FilePlan {
    definition: FileDefinition,
    options: PlanOptions,
    placements: Vec<Placement>,
    space: Space,
    /// Metadata that a superblock in the file may refer to; the newest last.
    live: Vec<MetadataSlot>,
    /// Space of metadata that no superblock refers to.
    spare: Vec<MetadataSlot>,
    released: ReleasedSpace,
    /// Whether the file is not yet in the state of the plan.
    changed: bool,
    /// Chunks that have got a place, if somebody wants to know ([`FilePlan::logged_chunks`]).
    chunk_log: Option<Vec<(usize, Vec<u64>)>>,
}

/// Space for all metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MetadataSlot {
    address: u64,
    capacity: u64,
}

/// What brings a file from one state to the next. Data must be written before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// To be done in this order.
    pub steps: Vec<CommitStep>,
    /// Where the file ends then.
    pub end: Address,
}

/// A step of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitStep {
    /// Write metadata.
    Write {
        /// Where.
        address: Address,
        /// What.
        bytes: Vec<u8>,
    },
    /// Make the file at least that long: one that is shorter than its superblock says is damaged
    /// for all readers.
    Extend {
        /// Bytes.
        length: u64,
    },
    /// All that was written, data and metadata, by all ranks, must be on storage before the next
    /// step.
    Sync,
}

impl FilePlan {
    /// A new file. Metadata come first, then the data of variables in their order.
    pub fn create(definition: FileDefinition, options: PlanOptions) -> Result<Self> {
        netcdf::check_definition(&definition)?;
        // Lengths do not depend on addresses: the first placement tells how much room metadata
        // need, the second one is behind them.
        let mut plan = Self {
            definition,
            options,
            placements: Vec::new(),
            space: Space::new(SUPERBLOCK_SIZE, options.alignment),
            live: Vec::new(),
            spare: Vec::new(),
            released: ReleasedSpace::new(0),
            changed: true,
            chunk_log: None,
        };
        plan.place()?;
        let (image, _) = netcdf::build(&plan.definition, &plan.placements)?;
        plan.space = Space::new(SUPERBLOCK_SIZE, options.alignment);
        plan.placements.clear();
        let capacity = image.len();
        let address = plan.space.metadata(capacity)?;
        plan.spare.push(MetadataSlot { address, capacity });
        plan.place()?;
        Ok(plan)
    }

    /// A file that exists, to be written further: what was read of it, with the placement of each
    /// variable, and its length. Its metadata stay as they are, unused after the next commit.
    pub fn resume(
        definition: FileDefinition,
        placements: Vec<Placement>,
        end: Address,
        options: PlanOptions,
    ) -> Result<Self> {
        netcdf::check_definition(&definition)?;
        if placements.len() != definition.variables.len() {
            let reason = Reason::Invalid("has another number of placements than of variables");
            return Err(Error::of(Structure::File, reason));
        }
        let space = Space::new(end.0, options.alignment);
        let (live, spare) = (Vec::new(), Vec::new());
        let (released, changed) = (ReleasedSpace::new(end.0), false);
        let mut plan = Self {
            definition,
            options,
            placements,
            space,
            live,
            spare,
            released,
            changed,
            chunk_log: None,
        };
        plan.place()?;
        Ok(plan)
    }

    /// A file that is only read: what was read of it, with the placement of each variable. It may
    /// have what no commit could write.
    pub fn read_only(definition: FileDefinition, placements: Vec<Placement>, end: Address) -> Self {
        let options = PlanOptions::default();
        let space = Space::new(end.0, options.alignment);
        let (live, spare) = (Vec::new(), Vec::new());
        let (released, changed) = (ReleasedSpace::new(end.0), false);
        let chunk_log = None;
        Self { definition, options, placements, space, live, spare, released, changed, chunk_log }
    }

    /// The definitions.
    pub const fn definition(&self) -> &FileDefinition {
        &self.definition
    }

    /// Where the elements of a variable are.
    pub fn placement(&self, variable: usize) -> Option<&Placement> {
        self.placements.get(variable)
    }

    /// The first byte behind all that has a place.
    pub const fn end(&self) -> Address {
        Address(self.space.end())
    }

    /// Replaces the definitions. Variables that exist keep their numbers, shapes, types and data;
    /// names, attributes, and values in the header may change, dimensions grow, and new groups,
    /// dimensions, types and variables follow the old ones.
    pub fn redefine(&mut self, definition: FileDefinition) -> Result<()> {
        netcdf::check_definition(&definition)?;
        let refuse = |why| Err(Error::of(Structure::File, Reason::Invalid(why)));
        if definition.variables.len() < self.definition.variables.len()
            || definition.dimensions.len() < self.definition.dimensions.len()
        {
            return refuse("lost dimensions or variables");
        }
        for (old, new) in self.definition.dimensions.iter().zip(&definition.dimensions) {
            let kept = old.unlimited == new.unlimited
                && if old.unlimited { new.length >= old.length } else { new.length == old.length };
            if !kept {
                return refuse("has a dimension that became shorter, or another one");
            }
        }
        for (old, new) in self.definition.variables.iter().zip(&definition.variables) {
            if !keeps_data(old, new) {
                return refuse("has a variable whose data would have to be rewritten");
            }
        }
        // Nothing changes if the new definitions cannot be written.
        let mut next = self.clone();
        next.definition = definition;
        next.place()?;
        netcdf::build(&next.definition, &next.placements)?;
        next.changed = true;
        *self = next;
        Ok(())
    }

    /// Sets the length of an unlimited dimension, which does not become shorter, and places the new
    /// chunks of variables without filters.
    pub fn grow(&mut self, dimension: usize, length: u64) -> Result<()> {
        let known = self.definition.dimensions.get_mut(dimension);
        let Some(known) = known.filter(|known| known.unlimited && known.length <= length) else {
            let reason = Reason::Invalid("is no dimension that can get this length");
            return Err(Error::of(Structure::Dataspace, reason));
        };
        let before = std::mem::replace(&mut known.length, length);
        if before == length {
            return Ok(());
        }
        self.changed = true;
        for number in 0..self.placements.len() {
            if self.definition.variables[number].dimensions.contains(&dimension)
                && let Err(error) = self.cover(number)
            {
                // Chunks that have a place already are not in the file as long as they are beyond.
                self.definition.dimensions[dimension].length = before;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Space for filtered chunks or heap collections: at the end of the file, or where it is free.
    pub fn allocate(&mut self, bytes: u64) -> Result<Address> {
        self.changed = true;
        self.space.reused_data(bytes).map(Address)
    }

    /// Gives back space from [`FilePlan::allocate`] that no chunk got.
    pub fn free(&mut self, address: Address, bytes: u64) {
        self.space.free().add(address.0, bytes);
    }

    /// What a block of data of that many bytes is aligned to.
    pub fn boundary(&self, bytes: u64) -> u64 {
        self.space.boundary(bytes)
    }

    /// Where ranks can take space without telling each other, from now on until
    /// [`FilePlan::end_arenas`]; meanwhile nothing else may get space. An arena has room for a
    /// block of `at_least` bytes.
    pub fn arenas(&self, at_least: u64, ranks: u64) -> Result<Arenas> {
        let (base, bytes) = self.space.arenas(at_least)?;
        Ok(Arenas { base, bytes, ranks })
    }

    /// Free space that a rank may take meanwhile without telling the others: shares do not overlap.
    pub fn free_share(&self, rank: u64, ranks: u64) -> Vec<(u64, u64)> {
        self.space.free_blocks().share(rank, ranks)
    }

    /// Ranks have taken of their shares: nothing is free but what is freed from now on.
    pub fn end_shares(&mut self) {
        *self.space.free() = FreeList::default();
    }

    /// The number of arenas that each rank has claimed becomes known: the end is behind the last
    /// one, and the others are free. What ranks have not used of theirs is freed with
    /// [`FilePlan::free`].
    pub fn end_arenas(&mut self, arenas: &Arenas, claimed: &[u64]) -> Result<()> {
        let most = claimed.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return Ok(());
        }
        let before = self.space.end();
        let mut end = arenas.base;
        let mut unclaimed = Vec::new();
        for (rank, &claimed) in claimed.iter().enumerate() {
            if claimed > 0 {
                end = end.max(arenas.arena(rank as u64, claimed - 1)? + arenas.bytes);
            }
        }
        for (rank, &claimed) in claimed.iter().enumerate() {
            for number in claimed..most {
                let begin = arenas.arena(rank as u64, number)?;
                if begin < end {
                    unclaimed.push(begin);
                }
            }
        }
        self.changed = true;
        self.space.extend_to(end);
        self.space.free().add(before, arenas.base - before);
        for begin in unclaimed {
            self.space.free().add(begin, arenas.bytes);
        }
        Ok(())
    }

    /// What is free at the end belongs to the file no more, down to `low`. A state on storage must
    /// end before that: a file that is shorter than its superblock says is damaged.
    pub fn trim(&mut self, low: Address) {
        self.space.trim(low.0);
    }

    /// Where a chunk of a variable without filters is, or all of a contiguous variable (`place` is
    /// empty). What has no place, in a file of others, gets one; it has to be written whole.
    pub fn claim(&mut self, variable: usize, place: &[u64]) -> Result<Address> {
        let missing = Error::of(Structure::Chunk, Reason::Invalid("is none of the variable"));
        let filtered =
            self.definition.variables.get(variable).is_some_and(VariableDefinition::is_filtered);
        let chunks = match self.placements.get_mut(variable) {
            Some(Placement::Chunked(chunks)) => chunks,
            Some(Placement::Contiguous { address: Some(address), .. }) if place.is_empty() => {
                return Ok(*address);
            }
            Some(Placement::Contiguous { address, size: size @ 1.. }) if place.is_empty() => {
                let new = Address(self.space.data(*size)?);
                *address = Some(new);
                self.changed = true;
                return Ok(new);
            }
            _ => return Err(missing),
        };
        if let Some(stored) = chunks.chunk(place) {
            return Ok(stored.address);
        }
        if filtered || place.len() != chunks.shape().len() {
            return Err(missing);
        }
        let address = Address(self.space.data(chunks.chunk_bytes())?);
        let size = chunks.chunk_bytes() as u32;
        chunks.set(place, StoredChunk { address, size, filter_mask: 0 });
        self.log_chunk(variable, place);
        self.changed = true;
        Ok(address)
    }

    /// Sets where a filtered chunk is. The space of the one before is used again as soon as no
    /// state on storage refers to it.
    pub fn set_chunk(&mut self, variable: usize, place: &[u64], stored: StoredChunk) {
        self.changed = true;
        let Some(Placement::Chunked(chunks)) = self.placements.get_mut(variable) else { return };
        if let Some(old) = chunks.set(place, stored) {
            self.released.release(old, self.space.free());
        }
        self.released.new_chunk(stored.address);
        self.log_chunk(variable, place);
    }

    fn log_chunk(&mut self, variable: usize, place: &[u64]) {
        if let Some(log) = &mut self.chunk_log {
            log.push((variable, place.to_vec()));
        }
    }

    /// The chunks that have got another place, or one at all, since the last call, except for those
    /// in boxes: their variables and places in the grid. The first call begins to note them.
    pub fn logged_chunks(&mut self) -> Vec<(usize, Vec<u64>)> {
        self.chunk_log.replace(Vec::new()).unwrap_or_default()
    }

    /// Somebody else, who writes this file, has placed a chunk: it is read from there from now on.
    /// No commit may follow.
    pub fn learn_chunk(&mut self, variable: usize, place: &[u64], stored: StoredChunk) {
        if let Some(Placement::Chunked(chunks)) = self.placements.get_mut(variable)
            && chunks.shape().len() == place.len()
        {
            chunks.set(place, stored);
        }
    }

    /// Somebody else, who writes this file, has all chunks of a variable in these boxes. No commit
    /// may follow.
    pub fn learn_boxes(&mut self, variable: usize, boxes: &[ChunkBox]) {
        if let Some(Placement::Chunked(chunks)) = self.placements.get_mut(variable) {
            chunks.set_boxes(boxes);
        }
    }

    /// Somebody else, who writes this file, has made an unlimited dimension longer; where the new
    /// chunks are is learned apart. No commit may follow.
    pub fn learn_length(&mut self, dimension: usize, length: u64) {
        if let Some(known) = self.definition.dimensions.get_mut(dimension)
            && known.unlimited
        {
            known.length = known.length.max(length);
        }
    }

    /// What brings the file into the state of this plan. [`FilePlan::committed`] must follow when
    /// all steps are done; if they fail, the next commit starts from what is in the file. If only
    /// data in place were written since the last commit, they have to reach storage, and that is
    /// all.
    pub fn commit(&mut self) -> Result<Commit> {
        if !self.changed {
            return Ok(Commit { steps: vec![CommitStep::Sync], end: self.end() });
        }
        let (image, root) = netcdf::build(&self.definition, &self.placements)?;
        let slot = self.slot(image.len())?;
        self.live.push(slot);
        let bytes = image.link(slot.address);
        let root = Address(image.address(root, slot.address));
        self.released.begin_commit();
        let end = self.end();
        let steps = vec![
            CommitStep::Write { address: Address(slot.address), bytes },
            CommitStep::Extend { length: end.0 },
            CommitStep::Sync,
            CommitStep::Write { address: Address(0), bytes: superblock(end, root) },
            CommitStep::Sync,
        ];
        Ok(Commit { steps, end })
    }

    /// The states that may be on storage: the one of the last call of [`FilePlan::committed`], and
    /// all after it.
    pub const fn states(&self) -> usize {
        self.live.len()
    }

    /// The steps of the last commit are done: what was there before is not needed any more.
    pub fn committed(&mut self) {
        let old = self.live.len().saturating_sub(1);
        self.spare.extend(self.live.drain(..old));
        self.released.commit_done(self.space.free());
        self.changed = false;
    }

    /// Space for metadata: the smallest that is free and large enough, or new space. New space is
    /// half as large again as it must be, so that the sum of all is proportional to the last. What
    /// has become too small is free for others.
    fn slot(&mut self, bytes: u64) -> Result<MetadataSlot> {
        let fitting = self.spare.iter().enumerate().filter(|(_, slot)| slot.capacity >= bytes);
        if let Some((at, _)) = fitting.min_by_key(|(_, slot)| (slot.capacity, slot.address)) {
            return Ok(self.spare.swap_remove(at));
        }
        for small in self.spare.drain(..) {
            self.space.free().add(small.address, small.capacity);
        }
        let capacity = bytes.saturating_add(bytes / 2).next_multiple_of(8);
        let address = self.space.metadata(capacity)?;
        Ok(MetadataSlot { address, capacity })
    }

    /// Gives variables and chunks that have no place one.
    fn place(&mut self) -> Result<()> {
        for number in 0..self.definition.variables.len() {
            if number == self.placements.len() {
                let placement = self.placement_of(number)?;
                self.placements.push(placement);
            }
            self.cover(number)?;
        }
        Ok(())
    }

    fn placement_of(&mut self, number: usize) -> Result<Placement> {
        let variable = &self.definition.variables[number];
        Ok(match &variable.storage {
            Storage::Compact(_) => Placement::Compact,
            Storage::Contiguous => {
                let far = Reason::Invalid("is beyond the largest file");
                let size = self.definition.bytes(variable);
                let size = size.ok_or_else(|| Error::of(Structure::Data, far))?;
                let address = match size {
                    0 => None,
                    size => Some(Address(self.space.data(size)?)),
                };
                Placement::Contiguous { address, size }
            }
            Storage::Chunked(chunk) => {
                let indexed = variable.is_indexed();
                Placement::Chunked(Chunks::new(chunk, variable.datatype.size, indexed))
            }
        })
    }

    fn cover(&mut self, number: usize) -> Result<()> {
        let sizes = self.definition.dataspace(&self.definition.variables[number]).sizes();
        if let Placement::Chunked(chunks) = &mut self.placements[number] {
            chunks.cover(&sizes, &mut self.space, self.options.growth_reserve)?;
        }
        Ok(())
    }
}

/// Whether the data of a variable stay as they are.
fn keeps_data(old: &VariableDefinition, new: &VariableDefinition) -> bool {
    let storage = match (&old.storage, &new.storage) {
        (Storage::Compact(_), Storage::Compact(_)) => true,
        (old, new) => old == new,
    };
    storage
        && old.datatype == new.datatype
        && old.dimensions == new.dimensions
        && old.filters == new.filters
}
