//! [`Placement`]: where the elements of a variable are.
//!
//! Chunks that are stored as they are (without filters) lie in boxes: a box is a part of the grid
//! of chunks, whose chunks follow each other in row-major order at equal distances. So the address
//! of a chunk is computed. Growth adds boxes and moves nothing. Filtered chunks, those of values of
//! variable length, and those of files of others, are in a table.

use std::collections::BTreeMap;

use super::chunk_tree::StoredChunk;
use super::space::Space;
use crate::Result;
use crate::model::Address;

/// Boxes of one chunk that a file that exists gets at most: each makes descriptions of accesses
/// longer.
const MOST_SINGLE_BOXES: usize = 64;

/// Where the elements of a variable are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the header: there is nothing to write.
    Compact,
    /// In one piece.
    Contiguous {
        /// Where; `None` if nothing was ever written.
        address: Option<Address>,
        /// Bytes.
        size: u64,
    },
    /// In chunks.
    Chunked(Chunks),
}

/// The chunks of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The shape of a chunk in elements.
    shape: Vec<u64>,
    /// Bytes of a chunk without filters.
    bytes: u64,
    /// Whether chunks get their places one by one, when they are written.
    indexed: bool,
    /// The part of the grid that the boxes cover together with the table, in chunks.
    covered: Vec<u64>,
    boxes: Vec<ChunkBox>,
    table: BTreeMap<Vec<u64>, StoredChunk>,
}

/// A part of the grid of chunks whose chunks lie one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkBox {
    /// The first chunk's place in the grid.
    pub origin: Vec<u64>,
    /// Chunks in each dimension.
    pub shape: Vec<u64>,
    /// Where the first chunk begins.
    pub address: Address,
    /// From the beginning of a chunk to that of the next.
    pub stride: u64,
}

impl ChunkBox {
    /// How many chunks there are.
    pub fn count(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Where a chunk begins, by its place in the grid; `None` if it is not in the box.
    pub fn address_of(&self, place: &[u64]) -> Option<Address> {
        let mut number = 0;
        for ((&at, &origin), &len) in place.iter().zip(&self.origin).zip(&self.shape) {
            let within = at.checked_sub(origin).filter(|&within| within < len)?;
            number = number * len + within;
        }
        Some(Address(self.address.0 + number * self.stride))
    }

    /// The first byte behind the box, with the gap behind its last chunk.
    fn end(&self) -> u64 {
        self.address.0 + self.count() * self.stride
    }
}

impl Chunks {
    /// No chunks yet. `shape` has no zeros.
    pub(crate) fn new(shape: &[u64], element_size: u32, indexed: bool) -> Self {
        let bytes = shape.iter().fold(u64::from(element_size), |all, &one| all.saturating_mul(one));
        let covered = vec![0; shape.len()];
        Self {
            shape: shape.to_vec(),
            bytes,
            indexed,
            covered,
            boxes: Vec::new(),
            table: BTreeMap::new(),
        }
    }

    /// The chunks of a file that exists: of an array of these sizes, by their places in the grid.
    /// Whole rows of chunks at equal distances become boxes again, the others are in the table.
    pub fn existing(
        shape: &[u64],
        element_size: u32,
        indexed: bool,
        sizes: &[u64],
        chunks: impl IntoIterator<Item = (Vec<u64>, StoredChunk)>,
    ) -> Self {
        let mut all = Self::new(shape, element_size, indexed);
        all.covered = all.grid(sizes);
        all.table = chunks.into_iter().collect();
        if !indexed && !shape.is_empty() {
            all.find_boxes();
        }
        all
    }

    /// Moves rows of chunks from the table to boxes. Of a dataset that is mostly missing, only the
    /// rows with chunks are looked at.
    fn find_boxes(&mut self) {
        let Some((&rows, others)) = self.covered.split_first() else { return };
        let row_len = others.iter().try_fold(1_u64, |all, &one| all.checked_mul(one));
        let Some(row_len) = row_len else { return };
        let mut place = vec![0; self.covered.len()];
        let mut next = self.table.keys().next().and_then(|place| place.first().copied());
        while let Some(row) = next.filter(|&row| row < rows) {
            place.fill(0);
            place[0] = row;
            let end = [vec![row + 1], vec![0; place.len() - 1]].concat();
            let in_row: Vec<StoredChunk> =
                self.table.range(place.clone()..end.clone()).map(|(_, &stored)| stored).collect();
            let behind = self.table.range(end..).next();
            next = behind.and_then(|(place, _)| place.first().copied());
            if in_row.len() as u64 != row_len || !self.is_plain(&in_row) {
                continue;
            }
            let address = in_row[0].address;
            let stride = match in_row.get(1) {
                Some(second) => second.address.0 - address.0,
                None => self.stride_to(address, row),
            };
            let mut box_shape = self.covered.clone();
            box_shape[0] = 1;
            let new = ChunkBox { origin: place.clone(), shape: box_shape, address, stride };
            match self.boxes.last_mut().filter(|last| joins(last, &new)) {
                Some(last) => last.shape[0] += 1,
                None => self.boxes.push(new),
            }
        }
        // A box of one chunk says no more than the table.
        self.boxes.retain(|one| one.count() > 1);
        self.separate_boxes();
        let rows: Vec<(u64, u64)> =
            self.boxes.iter().map(|one| (one.origin[0], one.origin[0] + one.shape[0])).collect();
        self.table.retain(|place, _| {
            let before = rows.partition_point(|(begin, _)| *begin <= place[0]);
            before.checked_sub(1).is_none_or(|last| rows[last].1 <= place[0])
        });
        self.box_the_last();
    }

    /// Drops boxes with chunks of others between their own: the bytes of an access must ascend from
    /// box to box.
    fn separate_boxes(&mut self) {
        let bytes = self.bytes;
        let mut by_address: Vec<ChunkBox> = std::mem::take(&mut self.boxes);
        by_address.sort_by_key(|one| one.address);
        let mut kept: Vec<ChunkBox> = Vec::new();
        for one in by_address {
            let last_byte = |of: &ChunkBox| of.end() - of.stride + bytes;
            if kept.last().is_none_or(|last| last_byte(last) <= one.address.0) {
                kept.push(one);
            } else if kept.last().is_some_and(|last| last.count() < one.count()) {
                kept.pop();
                kept.push(one);
            }
        }
        // Chunks of a table may be between those of a box as well.
        let mut rows: Vec<(u64, u64)> =
            kept.iter().map(|one| (one.origin[0], one.origin[0] + one.shape[0])).collect();
        rows.sort_unstable();
        let is_boxed = |place: &[u64]| {
            let before = rows.partition_point(|(begin, _)| *begin <= place[0]);
            before.checked_sub(1).is_some_and(|last| place[0] < rows[last].1)
        };
        let others = self.table.iter().filter(|(place, _)| !is_boxed(place));
        let mut others: Vec<Address> = others.map(|(_, stored)| stored.address).collect();
        others.sort_unstable();
        let is_alone = |one: &ChunkBox| {
            let first = others.partition_point(|address| *address < one.address);
            let end = Address(one.end() - one.stride + bytes);
            others.get(first).is_none_or(|address| *address >= end)
        };
        kept.retain(is_alone);
        kept.sort_by(|a, b| a.origin.cmp(&b.origin));
        self.boxes = kept;
    }

    /// Turns a few chunks that are left in the table into boxes of one chunk each, if then all are
    /// in boxes: that makes every address a computed one.
    fn box_the_last(&mut self) {
        let all = self.covered.iter().try_fold(1_u64, |all, &one| all.checked_mul(one));
        let stored = self.boxes.iter().map(ChunkBox::count).sum::<u64>() + self.table.len() as u64;
        let left: Vec<StoredChunk> = self.table.values().copied().collect();
        if all != Some(stored)
            || left.len() > MOST_SINGLE_BOXES
            || !left.iter().all(|one| self.is_plain(&[*one]))
        {
            return;
        }
        for (origin, stored) in std::mem::take(&mut self.table) {
            let (shape, address) = (vec![1; origin.len()], stored.address);
            self.boxes.push(ChunkBox { origin, shape, address, stride: self.bytes });
        }
    }

    /// The stride of a row of one chunk: the distance from the row before, if that can be one. A
    /// box of one chunk, which has no stride yet, gets it.
    fn stride_to(&mut self, address: Address, row: u64) -> u64 {
        let bytes = self.bytes;
        let last = self.boxes.last_mut().filter(|last| last.origin[0] + last.shape[0] == row);
        let Some(last) = last else { return bytes };
        let distance = address.0.checked_sub(last.address.0).filter(|&distance| distance >= bytes);
        if let Some(distance) = distance.filter(|_| last.count() == 1) {
            last.stride = distance;
        }
        last.stride
    }

    /// Whether chunks are as they would be written: at equal distances, without filters.
    fn is_plain(&self, chunks: &[StoredChunk]) -> bool {
        let whole =
            chunks.iter().all(|one| u64::from(one.size) == self.bytes && one.filter_mask == 0);
        let distances = || {
            let pairs = chunks.windows(2);
            pairs.map(|pair| pair[1].address.0.checked_sub(pair[0].address.0))
        };
        let first = distances().next().flatten().unwrap_or(self.bytes);
        whole && first >= self.bytes && distances().all(|distance| distance == Some(first))
    }

    /// The shape of a chunk in elements.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Bytes of a chunk without filters.
    pub const fn chunk_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the boxes hold every chunk, so that all addresses are computed.
    pub fn is_computed(&self) -> bool {
        !self.indexed && self.table.is_empty() && {
            let covered = self.covered.iter().try_fold(1_u64, |all, &one| all.checked_mul(one));
            let in_boxes = self.boxes.iter().map(ChunkBox::count).sum::<u64>();
            covered.is_none_or(|covered| covered <= in_boxes)
        }
    }

    /// The boxes, oldest first.
    pub fn boxes(&self) -> &[ChunkBox] {
        &self.boxes
    }

    /// Chunks in each dimension of an array.
    pub fn grid(&self, sizes: &[u64]) -> Vec<u64> {
        sizes.iter().zip(&self.shape).map(|(&size, &chunk)| size.div_ceil(chunk)).collect()
    }

    /// The chunk at a place of the grid; `None` if it has no place in the file.
    pub fn chunk(&self, place: &[u64]) -> Option<StoredChunk> {
        if let Some(&stored) = self.table.get(place) {
            return Some(stored);
        }
        // The newest box is the one that a writer asks for.
        let mut boxes = self.boxes.iter().rev();
        let address = boxes.find_map(|one| one.address_of(place))?;
        Some(StoredChunk { address, size: self.bytes as u32, filter_mask: 0 })
    }

    /// Sets where a chunk is, and returns where it was if that was in the table.
    pub(crate) fn set(&mut self, place: &[u64], stored: StoredChunk) -> Option<StoredChunk> {
        self.table.insert(place.to_vec(), stored)
    }

    /// Sets the boxes, which hold all chunks. Boxes of another number of dimensions are left out.
    pub(crate) fn set_boxes(&mut self, boxes: &[ChunkBox]) {
        let rank = self.shape.len();
        let fits = |one: &&ChunkBox| one.origin.len() == rank && one.shape.len() == rank;
        self.table.clear();
        self.boxes = boxes.iter().filter(fits).cloned().collect();
        for one in &self.boxes {
            let ends = one.origin.iter().zip(&one.shape);
            for (covered, (origin, len)) in self.covered.iter_mut().zip(ends) {
                *covered = (*covered).max(origin.saturating_add(*len));
            }
        }
    }

    /// Gives chunks of an array of these sizes a place, if all of them are computed. Others get one
    /// when they are written.
    pub(crate) fn cover(&mut self, sizes: &[u64], space: &mut Space, ahead: u64) -> Result<()> {
        let grid = self.grid(sizes);
        if !self.is_computed() || grid.contains(&0) {
            return Ok(());
        }
        let wanted = self.with_reserve(&grid, ahead);
        for dimension in 0..wanted.len() {
            if wanted[dimension] <= self.covered[dimension] {
                continue;
            }
            // What is new along this dimension: all that is covered of the other ones.
            let mut new = ChunkBox {
                origin: vec![0; wanted.len()],
                shape: self.covered.clone(),
                address: Address(0),
                stride: space.stride(self.bytes)?,
            };
            new.origin[dimension] = self.covered[dimension];
            new.shape[dimension] = wanted[dimension] - self.covered[dimension];
            if new.shape.contains(&0) {
                self.covered[dimension] = wanted[dimension];
                continue;
            }
            new.address = Address(space.chunks(self.bytes, &new.shape)?);
            self.covered[dimension] = wanted[dimension];
            match self.boxes.last_mut().filter(|last| joins(last, &new)) {
                Some(last) => last.shape[0] += new.shape[0],
                None => self.boxes.push(new),
            }
        }
        Ok(())
    }

    /// The grid to cover, with room for growth along the first dimension.
    fn with_reserve(&self, grid: &[u64], ahead: u64) -> Vec<u64> {
        let mut wanted: Vec<u64> =
            grid.iter().zip(&self.covered).map(|(&new, &old)| new.max(old)).collect();
        let (Some(&new), Some(&old)) = (wanted.first(), self.covered.first()) else {
            return wanted;
        };
        let row = wanted[1..].iter().try_fold(self.bytes.max(1), |all, &one| all.checked_mul(one));
        if let Some(row) = row.filter(|_| old > 0 && new > old) {
            // As much again as there is, within the limit.
            wanted[0] = new.max(old.saturating_add(old.min(ahead / row)));
        }
        wanted
    }

    /// Calls for every chunk of an array of these sizes that has a place, in row-major order.
    pub(crate) fn for_each(&self, sizes: &[u64], mut call: impl FnMut(&[u64], StoredChunk)) {
        let grid = self.grid(sizes);
        if grid.contains(&0) {
            return;
        }
        if self.boxes.is_empty() {
            for (place, &stored) in &self.table {
                if place.iter().zip(&grid).all(|(at, len)| at < len) {
                    call(place, stored);
                }
            }
            return;
        }
        let boxed = self.boxes.iter().fold(0, |all: u64, one| all.saturating_add(one.count()));
        let stored = boxed.saturating_add(self.table.len() as u64);
        let all = grid.iter().try_fold(1_u64, |all, &one| all.checked_mul(one));
        if all.is_none_or(|all| all / 2 > stored) {
            return self.for_each_of_few(&grid, call);
        }
        let mut place = vec![0; grid.len()];
        let mut recent = 0;
        loop {
            let stored = self.table.get(&place).copied().or_else(|| {
                if self.boxes[recent].address_of(&place).is_none() {
                    recent = self.boxes.iter().position(|one| one.address_of(&place).is_some())?;
                }
                let address = self.boxes[recent].address_of(&place)?;
                Some(StoredChunk { address, size: self.bytes as u32, filter_mask: 0 })
            });
            if let Some(stored) = stored {
                call(&place, stored);
            }
            if !advance(&mut place, &grid) {
                return;
            }
        }
    }

    /// The same for a grid of which most chunks are missing.
    fn for_each_of_few(&self, grid: &[u64], mut call: impl FnMut(&[u64], StoredChunk)) {
        let mut chunks = BTreeMap::new();
        for one in &self.boxes {
            let mut within = vec![0; one.shape.len()];
            loop {
                let place: Vec<u64> = one.origin.iter().zip(&within).map(|(a, b)| a + b).collect();
                if let Some(address) = one.address_of(&place) {
                    let size = self.bytes as u32;
                    chunks.insert(place, StoredChunk { address, size, filter_mask: 0 });
                }
                if !advance(&mut within, &one.shape) {
                    break;
                }
            }
        }
        chunks.extend(self.table.iter().map(|(place, &stored)| (place.clone(), stored)));
        for (place, stored) in chunks {
            if place.iter().zip(grid).all(|(at, len)| at < len) {
                call(&place, stored);
            }
        }
    }
}

/// Moves to the next place of a grid in row-major order; `false` behind the last one.
fn advance(place: &mut [u64], grid: &[u64]) -> bool {
    let Some(dimension) = (0..grid.len()).rev().find(|&at| place[at] + 1 < grid[at]) else {
        return false;
    };
    place[dimension] += 1;
    place[dimension + 1..].fill(0);
    true
}

/// Whether a box continues another one along the first dimension.
fn joins(last: &ChunkBox, new: &ChunkBox) -> bool {
    last.end() == new.address.0
        && last.stride == new.stride
        && last.origin[1..] == new.origin[1..]
        && last.shape[1..] == new.shape[1..]
        && last.origin[0] + last.shape[0] == new.origin[0]
}
