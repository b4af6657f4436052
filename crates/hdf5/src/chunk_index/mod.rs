//! Chunk indexes: how the chunks of a dataset are found, one file per kind of index.
//!
//! All indexes are walked in one way: from a chunk on, in the order of the index, until the visitor
//! has enough. So a walk can be cut into bounded parts, and a look-up is a walk that ends at once.

mod btree_1;
mod btree_2;
mod element;
mod extensible_array;
mod fixed_array;
mod grid;
mod implicit;

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

use self::grid::Grid;
use crate::dataset::Dataset;
use crate::model::{Chunk, ChunkIndex, Layout};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

/// What a walk does with a chunk.
type ChunkVisitor<'v> = dyn FnMut(Chunk) -> Result<ControlFlow<()>> + 'v;

/// What every index needs to know of its dataset.
struct Indexed<'d> {
    grid: Grid,
    /// Bytes of a chunk without filters.
    bytes: u64,
    /// The array coordinates from which on chunks are wanted.
    from: Bound<&'d [u64]>,
}

/// Visits the chunks that are stored, from one on.
pub(crate) fn visit(
    walk: &Walk<'_>,
    dataset: &Dataset,
    from: Bound<&[u64]>,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<()> {
    let failed = |why| Error::at(Structure::Layout, dataset.address, Reason::Invalid(why));
    let Layout::Chunked(layout) = &dataset.layout else {
        return Err(failed("the dataset has no chunks"));
    };
    let bytes = layout.bytes().ok_or_else(|| failed("chunks of more than 64 bits"))?;
    let grid = Grid::new(&dataset.dataspace, &layout.chunk);
    let grid = grid.ok_or_else(|| failed("more chunks than 64 bits can count"))?;
    let indexed = Indexed { grid, bytes, from };
    let flow = match layout.index {
        ChunkIndex::BTree1 { root: Some(root) } => btree_1::visit(walk, &indexed, root, visitor)?,
        ChunkIndex::BTree2 { header: Some(header), .. } => {
            btree_2::visit(walk, &indexed, header, visitor)?
        }
        ChunkIndex::Single { address: Some(address), filter } => {
            let (size, filter_mask) =
                filter.map_or((bytes, 0), |filter| (filter.size, filter.mask));
            let offset = vec![0; layout.chunk.len()];
            if indexed.wanted(&offset) {
                visitor(Chunk { offset, address, size, filter_mask })?
            } else {
                ControlFlow::Continue(())
            }
        }
        ChunkIndex::Implicit { address: Some(address) } => {
            implicit::visit(walk, &indexed, address, visitor)?
        }
        ChunkIndex::FixedArray { header: Some(header), .. } => {
            fixed_array::visit(walk, &indexed, header, visitor)?
        }
        ChunkIndex::ExtensibleArray { header: Some(header), .. } => {
            extensible_array::visit(walk, &indexed, header, visitor)?
        }
        // Nothing was written yet.
        _ => ControlFlow::Continue(()),
    };
    // Whether the visitor had enough is the visitor's to know.
    let _ = flow;
    Ok(())
}

impl Indexed<'_> {
    /// Whether a chunk is among those that are wanted, in the order of coordinates.
    fn wanted(&self, offset: &[u64]) -> bool {
        match self.from {
            Bound::Unbounded => true,
            Bound::Included(from) => offset.cmp(from) != Ordering::Less,
            Bound::Excluded(from) => offset.cmp(from) == Ordering::Greater,
        }
    }

    /// Whether all chunks before one are not wanted.
    fn all_before_passed(&self, offset: &[u64]) -> bool {
        match self.from {
            Bound::Unbounded => false,
            Bound::Included(from) | Bound::Excluded(from) => offset.cmp(from) != Ordering::Greater,
        }
    }

    /// The first number that is wanted, of an index that counts chunks.
    fn first_number(&self) -> u64 {
        match self.from {
            Bound::Unbounded => 0,
            Bound::Included(from) => self.grid.number(from).unwrap_or(u64::MAX),
            Bound::Excluded(from) => {
                self.grid.number(from).map_or(u64::MAX, |number| number.saturating_add(1))
            }
        }
    }
}
