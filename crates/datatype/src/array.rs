//! Parts of multidimensional arrays: `subarray` and `darray`, as MPI defines them.
//!
//! Both are nests of one repetition per dimension, the fastest varying dimension innermost, placed
//! in a type whose extent is that of the whole array.

use crate::TypeError;
use crate::datatype::{Bounds, Datatype};
use crate::normal::{self, Placed};

/// Which dimension varies fastest in memory or file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last one, as in C.
    #[default]
    C,
    /// The first one, as in Fortran.
    Fortran,
}

/// How one dimension of an array is distributed over the processes of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// One block each; of the given length, or as equal as possible (rounded up).
    Block(Option<u64>),
    /// Blocks of this length, distributed round robin.
    Cyclic(u64),
    /// Not distributed: the grid has one process along this dimension.
    None,
}

impl Datatype {
    /// The block of `subsizes` elements that starts at `starts` in an array of `sizes` elements
    /// (`MPI_Type_create_subarray`). The extent is that of the array.
    pub fn subarray(
        sizes: &[u64],
        subsizes: &[u64],
        starts: &[u64],
        order: Order,
        child: &Self,
    ) -> Result<Self, TypeError> {
        const NAME: &str = "subarray";
        same_dimensions(NAME, sizes, &[("subsizes", subsizes.len()), ("starts", starts.len())])?;
        for (dimension, ((&size, &subsize), &start)) in
            sizes.iter().zip(subsizes).zip(starts).enumerate()
        {
            if size.checked_sub(subsize).is_none_or(|room| start > room) {
                let detail = format!("{subsize} elements at {start} are not inside of {size}");
                return Err(TypeError::Dimension { constructor: NAME, dimension, detail });
            }
        }
        let mut placed = child.placed();
        let mut stride = child.extent();
        for dimension in fastest_first(sizes.len(), order) {
            placed = normal::repeated(subsizes[dimension], stride, placed)?;
            placed = placed.shift(scaled(starts[dimension], stride)?)?;
            stride = scaled(sizes[dimension], stride)?;
        }
        Self::from_parts(placed, Bounds { lb: 0, ub: stride }, child.alignment())
    }

    /// The part of an array of `sizes` elements that process `rank` of a grid holds
    /// (`MPI_Type_create_darray`). Ranks count through the grid in C order whatever the order of
    /// the array; the extent is that of the array.
    pub fn darray(
        rank: u64,
        sizes: &[u64],
        distributions: &[Distribution],
        grid: &[u64],
        order: Order,
        child: &Self,
    ) -> Result<Self, TypeError> {
        const NAME: &str = "darray";
        let lengths = [("distributions", distributions.len()), ("grid", grid.len())];
        same_dimensions(NAME, sizes, &lengths)?;
        let coordinates = grid_coordinates(rank, grid)?;
        let mut placed = child.placed();
        let mut stride = child.extent();
        for dimension in fastest_first(sizes.len(), order) {
            let share = DimensionShare {
                size: sizes[dimension],
                processes: grid[dimension],
                coordinate: coordinates[dimension],
            };
            placed = share
                .of(distributions[dimension])
                .map_err(|detail| TypeError::Dimension { constructor: NAME, dimension, detail })?
                .along(stride, placed)?;
            stride = scaled(sizes[dimension], stride)?;
        }
        Self::from_parts(placed, Bounds { lb: 0, ub: stride }, child.alignment())
    }
}

/// One process's share of one dimension, before its distribution is known.
struct DimensionShare {
    size: u64,
    processes: u64,
    coordinate: u64,
}

/// The indices of one dimension that a process holds: whole blocks at a constant distance, then
/// perhaps a shorter one.
struct Indices {
    start: u64,
    block: u64,
    blocks: u64,
    distance: u64,
    tail: u64,
}

impl DimensionShare {
    fn of(&self, distribution: Distribution) -> Result<Indices, String> {
        let Self { size, processes, coordinate } = *self;
        match distribution {
            Distribution::None if processes != 1 => {
                Err(format!("is not distributed, but the grid has {processes} processes along it"))
            }
            Distribution::None => Ok(Indices::one_block(0, size)),
            Distribution::Block(length) => {
                let length = length.unwrap_or_else(|| size.div_ceil(processes));
                if length.checked_mul(processes).is_some_and(|covered| covered < size) {
                    return Err(format!("{processes} blocks of {length} do not cover {size}"));
                }
                let start = length.saturating_mul(coordinate).min(size);
                Ok(Indices::one_block(start, length.min(size - start)))
            }
            Distribution::Cyclic(0) => Err("cyclic blocks of no length".into()),
            Distribution::Cyclic(block) => {
                let distance = block.saturating_mul(processes);
                let start = block.saturating_mul(coordinate).min(size);
                let rest = size - start;
                let (blocks, last) = (rest / distance, rest % distance);
                let (blocks, tail) = if last >= block { (blocks + 1, 0) } else { (blocks, last) };
                Ok(Indices { start, block, blocks, distance, tail })
            }
        }
    }
}

impl Indices {
    const fn one_block(start: u64, block: u64) -> Self {
        Self { start, block, blocks: 1, distance: 0, tail: 0 }
    }

    /// `child` at each of the indices, `stride` bytes apart.
    fn along(&self, stride: i64, child: Placed) -> Result<Placed, TypeError> {
        // One whole block has no distance to the next that could overflow.
        let distance = if self.blocks > 1 { scaled(self.distance, stride)? } else { 0 };
        let block = normal::repeated(self.block, stride, child.clone())?;
        let whole = normal::repeated(self.blocks, distance, block)?;
        let all = if self.tail == 0 {
            whole
        } else {
            let after =
                if self.blocks > 0 { scaled(self.blocks * self.distance, stride)? } else { 0 };
            normal::sequence(vec![
                whole,
                normal::repeated(self.tail, stride, child)?.shift(after)?,
            ])?
        };
        all.shift(scaled(self.start, stride)?)
    }
}

fn same_dimensions(
    constructor: &'static str,
    sizes: &[u64],
    others: &[(&str, usize)],
) -> Result<(), TypeError> {
    let fail = |detail: String| Err(TypeError::Dimensions { constructor, detail });
    if sizes.is_empty() {
        return fail("an array has at least one".into());
    }
    for (name, len) in others {
        if *len != sizes.len() {
            return fail(format!("{} sizes, {len} {name}", sizes.len()));
        }
    }
    Ok(())
}

fn grid_coordinates(rank: u64, grid: &[u64]) -> Result<Vec<u64>, TypeError> {
    let size = grid
        .iter()
        .try_fold(1u64, |n, &processes| n.checked_mul(processes))
        .ok_or(TypeError::overflow("process grid"))?;
    if rank >= size {
        return Err(TypeError::Rank { rank, size });
    }
    let mut rest = rank;
    let mut coordinates: Vec<u64> = grid
        .iter()
        .rev()
        .map(|&processes| {
            let coordinate = rest % processes;
            rest /= processes;
            coordinate
        })
        .collect();
    coordinates.reverse();
    Ok(coordinates)
}

fn fastest_first(dimensions: usize, order: Order) -> impl Iterator<Item = usize> {
    (0..dimensions).map(move |i| match order {
        Order::C => dimensions - 1 - i,
        Order::Fortran => i,
    })
}

fn scaled(index: u64, stride: i64) -> Result<i64, TypeError> {
    i64::try_from(index)
        .ok()
        .and_then(|index| index.checked_mul(stride))
        .ok_or(TypeError::overflow("array extent"))
}
