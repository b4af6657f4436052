//! [`SharedPlacements`]: where the elements of netCDF-4 partitions are that came into being after
//! the last commit.
//!
//! Only the group of a partition computes that, because it depends on how well chunks are
//! compressed. A rank of another group that accesses the partition by itself has to know it, too,
//! and can ask nobody. So a collective call that gave chunks a place, or let a dimension grow, ends
//! with a message of each group to all ranks: some 50 bytes for each encoded chunk, and for the
//! boxes of a variable that grew what is new. A commit makes all of it known by the file.

use std::collections::BTreeMap;

use striate_hdf5::model::Address;
use striate_hdf5::write::{ChunkBox, StoredChunk};

use super::commit::lengths_in;
use super::{IndependentHandle, Partitioned};
use crate::netcdf4::{Reader, Words, garbled};
use crate::{ArrayError, Dataset};

/// As many changes of one chunk after another are kept in any case.
const FEWEST_KEPT: usize = 4096;

/// Chunks and boxes of one partition, since the last commit.
#[derive(Debug, Default)]
pub(super) struct SharedPlacements {
    /// Chunks by variable and place in the grid, in the order in which they were placed.
    chunks: Vec<((usize, Vec<u64>), StoredChunk)>,
    /// So many may be kept before those that were placed again are removed.
    limit: usize,
    /// How often chunks were removed.
    removals: u64,
    /// The boxes of variables that grew.
    boxes: BTreeMap<usize, Vec<ChunkBox>>,
    /// How often boxes have changed.
    growths: u64,
}

/// What a handle knows of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownPlacements {
    chunks: usize,
    removals: u64,
    growths: u64,
}

impl SharedPlacements {
    fn add_chunk(&mut self, variable: usize, place: Vec<u64>, stored: StoredChunk) {
        self.chunks.push(((variable, place), stored));
        if self.chunks.len() > self.limit.max(FEWEST_KEPT) {
            let newest: BTreeMap<_, _> = self.chunks.drain(..).collect();
            self.chunks = newest.into_iter().collect();
            self.limit = 2 * self.chunks.len();
            self.removals += 1;
        }
    }

    /// Replaces the boxes of a variable from one on.
    fn set_boxes(&mut self, variable: usize, kept: usize, new: Vec<ChunkBox>) {
        let boxes = self.boxes.entry(variable).or_default();
        boxes.truncate(kept);
        boxes.extend(new);
        self.growths += 1;
    }

    /// The message about a variable: how many of its boxes stay, and those that follow.
    fn new_boxes<'b>(&self, variable: usize, now: &'b [ChunkBox]) -> (usize, &'b [ChunkBox]) {
        let known = self.boxes.get(&variable).map_or(&[][..], Vec::as_slice);
        let kept = known.iter().zip(now).take_while(|(known, now)| known == now).count();
        (kept, &now[kept..])
    }

    /// What there is to know.
    const fn version(&self) -> KnownPlacements {
        let Self { removals, growths, .. } = *self;
        KnownPlacements { chunks: self.chunks.len(), removals, growths }
    }
}

/// The kinds of entries of a message.
const CHUNK: u64 = 0;
const BOXES: u64 = 1;

fn encode_chunk(words: &mut Words, partition: usize, key: &(usize, Vec<u64>), of: StoredChunk) {
    words.number(CHUNK);
    words.number(partition as u64);
    words.key(key.0, &key.1);
    words.number(of.address.0);
    words.number(u64::from(of.size));
    words.number(u64::from(of.filter_mask));
}

fn encode_boxes(
    words: &mut Words,
    partition: usize,
    variable: usize,
    kept: usize,
    of: &[ChunkBox],
) {
    words.number(BOXES);
    words.number(partition as u64);
    words.number(variable as u64);
    words.number(kept as u64);
    words.number(of.len() as u64);
    for one in of {
        words.key(0, &one.origin);
        one.shape.iter().for_each(|&len| words.number(len));
        words.number(one.address.0);
        words.number(one.stride);
    }
}

/// Adds an entry of a message to what is known of its partition.
fn decode_entry(reader: &mut Reader<'_>, all: &mut [SharedPlacements]) -> Option<()> {
    let kind = reader.number()?;
    let known = all.get_mut(usize::try_from(reader.number()?).ok()?)?;
    if kind == CHUNK {
        let (variable, place) = reader.key()?;
        let address = Address(reader.number()?);
        let size = u32::try_from(reader.number()?).ok()?;
        let filter_mask = u32::try_from(reader.number()?).ok()?;
        known.add_chunk(variable, place, StoredChunk { address, size, filter_mask });
        return Some(());
    }
    let variable = reader.number()? as usize;
    let kept = reader.number()? as usize;
    let count = reader.number()?;
    let mut new = Vec::new();
    for _ in 0..count {
        let (_, origin) = reader.key()?;
        let shape = reader.numbers(origin.len())?;
        let address = Address(reader.number()?);
        new.push(ChunkBox { origin, shape, address, stride: reader.number()? });
    }
    known.set_boxes(variable, kept, new);
    Some(())
}

impl Partitioned {
    /// Notes that chunks of partitions may have got places. All ranks call it.
    pub(super) const fn places_have_changed(&mut self) {
        self.changes += 1;
        self.has_unshared_places = true;
    }

    /// What the partitions of this rank's group have placed; only the first rank of the group says
    /// it.
    fn own_placements(&mut self) -> Vec<u8> {
        let is_first = self.is_first();
        let mut words = Words::default();
        for part in &mut self.own {
            let Some(netcdf4) = &mut part.data.state.netcdf4 else { continue };
            let moved = netcdf4.moved_chunks();
            if !is_first {
                continue;
            }
            for (key, stored) in &moved {
                encode_chunk(&mut words, part.index, key, *stored);
            }
            let header = &part.data.state.header;
            for (variable, of) in header.variables.iter().enumerate() {
                let mut dimensions = of.dimensions.iter();
                if !dimensions.any(|&id| header.dimensions[id as usize].is_unlimited()) {
                    continue;
                }
                if let Some(now) = netcdf4.boxes(variable)
                    && let (kept, new @ [_, ..]) =
                        self.shared_places[part.index].new_boxes(variable, now)
                {
                    encode_boxes(&mut words, part.index, variable, kept, new);
                }
            }
        }
        words.0
    }

    /// After a commit the files say where everything is.
    pub(super) fn places_are_committed(&mut self) {
        for part in &mut self.own {
            if let Some(netcdf4) = &mut part.data.state.netcdf4 {
                netcdf4.moved_chunks();
            }
        }
        self.shared_places.clear();
        self.shared_places.resize_with(self.files.len(), SharedPlacements::default);
        self.has_unshared_places = false;
    }

    /// Tells a handle of a partition of another group what it does not know.
    pub(super) fn update_handle(&mut self, k: usize) {
        let (Some(shared), Some(handle)) =
            (self.shared_places.get(k), self.independent.get_mut(&k))
        else {
            return;
        };
        let now = shared.version();
        let IndependentHandle { data, known, .. } = handle;
        let Some(netcdf4) = &mut data.state.netcdf4 else { return };
        let dimensions = (0..).zip(&self.logical.dimensions);
        let unlimited = dimensions.filter(|(_, dimension)| dimension.is_unlimited());
        let lengths: Vec<_> = unlimited.map(|(id, dimension)| (id, dimension.len)).collect();
        for (id, len) in lengths_in(&data.state.header, &self.logical, &lengths) {
            let own = &mut data.state.header.dimensions[id as usize].len;
            *own = len.max(*own);
            netcdf4.learn_length(id, len);
        }
        if *known == now {
            return;
        }
        let new = if known.removals == now.removals { known.chunks } else { 0 };
        for (key, stored) in &shared.chunks[new..] {
            netcdf4.learn_chunk(key, *stored);
        }
        if known.growths != now.growths {
            for (&variable, boxes) in &shared.boxes {
                netcdf4.learn_boxes(variable, boxes);
            }
        }
        *known = now;
    }
}

impl Dataset {
    /// Tells all ranks which places elements of netCDF-4 partitions have got. Collective.
    pub(crate) fn share_places(&mut self) -> Result<(), ArrayError> {
        let Some(partitioned) = &mut self.partitioned else { return Ok(()) };
        if !partitioned.has_unshared_places {
            return Ok(());
        }
        let own = partitioned.own_placements();
        for message in self.state.comm.allgather(&own)? {
            let mut reader = Reader(&message);
            while !reader.0.is_empty() {
                let entry = decode_entry(&mut reader, &mut partitioned.shared_places);
                entry.ok_or_else(garbled)?;
            }
        }
        partitioned.has_unshared_places = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(address: u64) -> StoredChunk {
        StoredChunk { address: Address(address), size: 7, filter_mask: 1 }
    }

    fn one_box(row: u64, address: u64) -> ChunkBox {
        ChunkBox { origin: vec![row, 0], shape: vec![1, 3], address: Address(address), stride: 80 }
    }

    #[test]
    fn messages_bring_chunks_and_boxes() {
        let mut all: Vec<SharedPlacements> =
            vec![SharedPlacements::default(), SharedPlacements::default()];
        let mut words = Words::default();
        encode_chunk(&mut words, 1, &(4, vec![2, 3]), stored(900));
        encode_boxes(&mut words, 0, 2, 0, &[one_box(0, 10), one_box(1, 500)]);
        encode_boxes(&mut words, 0, 2, 1, &[one_box(2, 700)]);
        let mut reader = Reader(&words.0);
        while !reader.0.is_empty() {
            decode_entry(&mut reader, &mut all).unwrap();
        }
        assert_eq!(all[1].chunks, [((4, vec![2, 3]), stored(900))]);
        assert_eq!(all[0].boxes[&2], [one_box(0, 10), one_box(2, 700)]);
        let now = [one_box(0, 10), one_box(2, 700), one_box(3, 1000)];
        assert_eq!(all[0].new_boxes(2, &now), (2, &now[2..]));
        // Of a partition that does not exist, and cut messages.
        for cut in 1..words.0.len().min(80) {
            let mut reader = Reader(&words.0[..cut]);
            assert!(decode_entry(&mut reader, &mut all).is_none() || cut >= 72, "{cut}");
        }
        assert!(decode_entry(&mut Reader(&words.0), &mut all[..1]).is_none());
    }

    #[test]
    fn chunks_that_are_placed_again_and_again_take_bounded_memory() {
        let mut known = SharedPlacements::default();
        for number in 0..100_000 {
            known.add_chunk(0, vec![number % 10], stored(number));
            assert!(known.chunks.len() <= FEWEST_KEPT);
        }
        assert!(known.version().removals > 0);
        let newest: BTreeMap<_, _> = known.chunks.iter().cloned().collect();
        assert_eq!(newest.len(), 10);
        assert!(newest.iter().all(|((_, place), of)| *of == stored(99_990 + place[0])));
    }
}
