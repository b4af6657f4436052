//! [`TypeMap`]: the model that datatypes are compared with, and random descriptions to try.
//!
//! MPI defines a datatype by its type map: the offsets of its elements in stream order. Here they
//! are those of its bytes, in a plain list, which is slow and obviously right.

use proptest::prelude::*;
use striate_datatype::notation::Notation;
use striate_datatype::{Distribution, Element, Order, Run};

/// A type as MPI's text defines it, byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMap {
    /// Of its bytes, in stream order.
    pub offsets: Vec<i64>,
    /// The lower bound.
    pub lb: i64,
    /// The upper bound.
    pub ub: i64,
    align: i64,
}

impl TypeMap {
    /// From the lower to the upper bound.
    pub fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// `count` copies: the offsets of the stream.
    pub fn copies(&self, count: u64) -> Vec<i64> {
        (0..count as i64)
            .flat_map(|i| self.offsets.iter().map(move |o| o + i * self.extent()))
            .collect()
    }

    /// Places copies of children: (offset, child) in stream order.
    fn place(parts: &[(i64, &TypeMap)]) -> TypeMap {
        let offsets: Vec<i64> =
            parts.iter().flat_map(|(at, map)| map.offsets.iter().map(move |o| o + at)).collect();
        let filled = || parts.iter().filter(|(_, map)| !map.offsets.is_empty());
        TypeMap {
            lb: filled().map(|(at, map)| at + map.lb).min().unwrap_or(0),
            ub: filled().map(|(at, map)| at + map.ub).max().unwrap_or(0),
            align: filled().map(|(_, map)| map.align).max().unwrap_or(1),
            offsets,
        }
    }

    fn blocks(blocks: impl IntoIterator<Item = (u64, i64)>, of: &TypeMap) -> TypeMap {
        let parts: Vec<_> = blocks
            .into_iter()
            .flat_map(|(len, at)| (0..len as i64).map(move |i| (at + i * of.extent(), of)))
            .collect();
        Self::place(&parts)
    }

    /// Indices of an array that are taken, per dimension; the slowest dimension outermost.
    fn array(sizes: &[u64], taken: &[Vec<u64>], order: Order, of: &TypeMap) -> TypeMap {
        let dims: Vec<usize> = match order {
            Order::C => (0..sizes.len()).collect(),
            Order::Fortran => (0..sizes.len()).rev().collect(),
        };
        let mut linear = vec![0i64];
        for &d in &dims {
            linear = linear
                .iter()
                .flat_map(|base| taken[d].iter().map(move |i| base * sizes[d] as i64 + *i as i64))
                .collect();
        }
        let parts: Vec<_> = linear.iter().map(|i| (i * of.extent(), of)).collect();
        let total: u64 = sizes.iter().product();
        TypeMap { lb: 0, ub: total as i64 * of.extent(), ..Self::place(&parts) }
    }

    /// What a description means.
    pub fn of(notation: &Notation) -> TypeMap {
        match notation {
            Notation::Element(element) => {
                let size = element.size() as i64;
                TypeMap { offsets: (0..size).collect(), lb: 0, ub: size, align: size }
            }
            Notation::Bytes(len) => {
                TypeMap { offsets: (0..*len as i64).collect(), lb: 0, ub: *len as i64, align: 1 }
            }
            Notation::Contiguous { count, of } => Self::blocks([(*count, 0)], &Self::of(of)),
            Notation::Vector { count, block, stride, of } => {
                let of = Self::of(of);
                let stride = stride * of.extent();
                Self::blocks((0..*count as i64).map(|i| (*block, i * stride)), &of)
            }
            Notation::Hvector { count, block, stride, of } => {
                Self::blocks((0..*count as i64).map(|i| (*block, i * stride)), &Self::of(of))
            }
            Notation::Indexed { blocks, of } => {
                let of = Self::of(of);
                Self::blocks(blocks.iter().map(|(len, at)| (*len, at * of.extent())), &of)
            }
            Notation::Hindexed { blocks, of } => {
                Self::blocks(blocks.iter().copied(), &Self::of(of))
            }
            Notation::IndexedBlock { block, displacements, of } => {
                let of = Self::of(of);
                Self::blocks(displacements.iter().map(|at| (*block, at * of.extent())), &of)
            }
            Notation::HindexedBlock { block, offsets, of } => {
                Self::blocks(offsets.iter().map(|at| (*block, *at)), &Self::of(of))
            }
            Notation::Struct { fields } => {
                let maps: Vec<_> = fields.iter().map(|(_, _, of)| Self::of(of)).collect();
                let parts: Vec<_> = fields
                    .iter()
                    .zip(&maps)
                    .flat_map(|((count, at, _), map)| {
                        (0..*count as i64).map(move |i| (at + i * map.extent(), map))
                    })
                    .collect();
                let mut map = Self::place(&parts);
                let filled: Vec<_> =
                    parts.iter().map(|part| part.1).filter(|t| !t.offsets.is_empty()).collect();
                let same =
                    |a: &TypeMap, b: &TypeMap| (&a.offsets, a.lb, a.ub) == (&b.offsets, b.lb, b.ub);
                let one_type = filled.windows(2).all(|pair| same(pair[0], pair[1]));
                while !one_type && map.extent().rem_euclid(map.align) != 0 {
                    map.ub += 1;
                }
                map
            }
            Notation::Subarray { sizes, subsizes, starts, order, of } => {
                let taken: Vec<Vec<u64>> =
                    starts.iter().zip(subsizes).map(|(s, n)| (*s..s + n).collect()).collect();
                Self::array(sizes, &taken, *order, &Self::of(of))
            }
            Notation::Darray { rank, sizes, distributions, grid, order, of } => {
                let mut rest = *rank;
                let mut coordinates = vec![0; grid.len()];
                for d in (0..grid.len()).rev() {
                    coordinates[d] = rest % grid[d];
                    rest /= grid[d];
                }
                let taken: Vec<Vec<u64>> = (0..sizes.len())
                    .map(|d| {
                        let owner = |i: u64| match distributions[d] {
                            Distribution::None => 0,
                            Distribution::Block(length) => {
                                i / length.unwrap_or(sizes[d].div_ceil(grid[d])).max(1)
                            }
                            Distribution::Cyclic(k) => i / k % grid[d],
                        };
                        (0..sizes[d]).filter(|i| owner(*i) == coordinates[d]).collect()
                    })
                    .collect();
                Self::array(sizes, &taken, *order, &Self::of(of))
            }
            Notation::Resized { lb, extent, of } => {
                TypeMap { lb: *lb, ub: lb + extent, ..Self::of(of) }
            }
            Notation::Dup { of } => Self::of(of),
        }
    }
}

/// The runs of a list of offsets, neighbours coalesced.
pub fn runs(offsets: &[i64]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &offset in offsets {
        match runs.last_mut() {
            Some(run) if run.end() == offset => run.len += 1,
            _ => runs.push(Run { offset, len: 1 }),
        }
    }
    runs
}

/// Any description, nested to depth 4, with the corner cases that hurt: zero counts and lengths,
/// negative and overlapping displacements, extents smaller and larger than the bytes.
pub fn any_notation() -> impl Strategy<Value = Notation> {
    leaf().prop_recursive(4, 64, 3, |inner| any_loop(inner, -9..9))
}

/// Descriptions that are often valid as file views: ascending displacements, ample extents.
pub fn any_view() -> impl Strategy<Value = Notation> {
    leaf().prop_recursive(4, 64, 3, |inner| any_loop(inner, 0..12))
}

fn leaf() -> impl Strategy<Value = Notation> {
    prop_oneof![
        (0..Element::ALL.len()).prop_map(|i| Notation::Element(Element::ALL[i])),
        (0u64..9).prop_map(Notation::Bytes),
    ]
}

fn any_loop(
    inner: impl Strategy<Value = Notation> + Clone + 'static,
    at: std::ops::Range<i64>,
) -> impl Strategy<Value = Notation> {
    let of = move || inner.clone().prop_map(Box::new);
    let wide = at.start * 4..at.end * 4;
    let ascending = at.start >= 0;
    let in_order = move |mut list: Vec<(u64, i64)>| {
        if ascending {
            list.sort_by_key(|block| block.1);
        }
        list
    };
    let step = at;
    prop_oneof![
        (0u64..4, of()).prop_map(|(count, of)| Notation::Contiguous { count, of }),
        (0u64..4, 0u64..4, step.clone(), of())
            .prop_map(|(count, block, stride, of)| Notation::Vector { count, block, stride, of }),
        (0u64..5, 0u64..4, wide.clone(), of())
            .prop_map(|(count, block, stride, of)| Notation::Hvector { count, block, stride, of }),
        (prop::collection::vec((0u64..4, step.clone()), 0..5), of())
            .prop_map(move |(blocks, of)| Notation::Indexed { blocks: in_order(blocks), of }),
        (prop::collection::vec((0u64..4, wide.clone()), 0..5), of())
            .prop_map(move |(blocks, of)| Notation::Hindexed { blocks: in_order(blocks), of }),
        (0u64..3, prop::collection::vec(step.clone(), 0..6), of()).prop_map(
            |(block, displacements, of)| Notation::IndexedBlock { block, displacements, of }
        ),
        (0u64..3, prop::collection::vec(wide.clone(), 0..6), of())
            .prop_map(|(block, offsets, of)| Notation::HindexedBlock { block, offsets, of }),
        prop::collection::vec((0u64..3, wide.clone(), of().prop_map(|of| *of)), 0..4)
            .prop_map(|fields| Notation::Struct { fields }),
        (any_subarray(), any_order(), of()).prop_map(|(dims, order, of)| Notation::Subarray {
            sizes: dims.iter().map(|d| d.0).collect(),
            subsizes: dims.iter().map(|d| d.1).collect(),
            starts: dims.iter().map(|d| d.2).collect(),
            order,
            of,
        }),
        (any_grid(), any::<u64>(), any_order(), of()).prop_map(|(dims, rank, order, of)| {
            let grid: Vec<u64> = dims.iter().map(|d| d.2).collect();
            Notation::Darray {
                rank: rank % grid.iter().product::<u64>(),
                sizes: dims.iter().map(|d| d.0).collect(),
                distributions: dims.iter().map(|d| d.1).collect(),
                grid,
                order,
                of,
            }
        }),
        (wide, -8i64..40, of()).prop_map(|(lb, extent, of)| Notation::Resized { lb, extent, of }),
        of().prop_map(|of| Notation::Dup { of }),
    ]
}

fn any_order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::C), Just(Order::Fortran)]
}

fn any_subarray() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let dimension = (1u64..5)
        .prop_flat_map(|size| (Just(size), 0..=size))
        .prop_flat_map(|(size, sub)| (Just(size), Just(sub), 0..=size - sub));
    prop::collection::vec(dimension, 1..4)
}

fn any_grid() -> impl Strategy<Value = Vec<(u64, Distribution, u64)>> {
    let dimension = (1u64..7, 1u64..4).prop_flat_map(|(size, processes)| {
        let longer = size.div_ceil(processes)..size + 2;
        prop_oneof![
            Just((size, Distribution::Block(None), processes)),
            longer.prop_map(move |n| (size, Distribution::Block(Some(n)), processes)),
            (1u64..4).prop_map(move |k| (size, Distribution::Cyclic(k), processes)),
            Just((size, Distribution::None, 1)),
        ]
    });
    prop::collection::vec(dimension, 1..4)
}
