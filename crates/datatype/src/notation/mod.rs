//! A readable notation for datatypes: what people type and what error messages show.
//!
//! [`Notation`] is a description *as written*, constructor by constructor; [`Notation::build`]
//! turns it into a [`Datatype`], which is normal. The way back writes the loops of a datatype with
//! the same constructors, so that printing and parsing round-trip.
//!
//! ```text
//! i32  f64  byte …                                     an element
//! bytes(3KiB)                                          bytes that lie together
//! contiguous(5 of f64)
//! vector(768, 3KiB, stride=7KiB)                       count, block, stride in elements (bytes)
//! vector(10, 2 of f64, stride=5)   hvector(10, 2 of f64, stride=40)
//! indexed([2 at 0, 3 at 7] of i32) hindexed([2 at 0, 3 at 28] of i32)
//! indexed_block(2 of i32, at [0, 7, 9])                hindexed_block(…)
//! struct(1 of i32 at 0, 3 of f64 at 8)
//! subarray([600,600,600] of i32, [300,300,300] at [0,300,0])
//! subarray([4,6] of f32, [2,2] at [1,1], order=fortran)
//! darray([64,64] of f64, dist=[block, cyclic(2)], grid=[2,2], rank=1)
//! resized(f32, lb=0, extent=16)    dup(i32)
//! ```
//!
//! The `h` forms count strides and displacements in bytes, as in MPI. Where `of TYPE` is left out,
//! the elements are bytes. Numbers take binary suffixes (`3KiB`, `4m`).

mod listing;
mod parse;
mod print;

pub use listing::LoopLine;
pub use parse::NotationError;

use crate::{Datatype, Distribution, Element, Order, TypeError};

/// A description as written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the constructors of Datatype")]
pub enum Notation {
    Element(Element),
    Bytes(u64),
    Contiguous {
        count: u64,
        of: Box<Self>,
    },
    Vector {
        count: u64,
        block: u64,
        stride: i64,
        of: Box<Self>,
    },
    Hvector {
        count: u64,
        block: u64,
        stride: i64,
        of: Box<Self>,
    },
    Indexed {
        blocks: Vec<(u64, i64)>,
        of: Box<Self>,
    },
    Hindexed {
        blocks: Vec<(u64, i64)>,
        of: Box<Self>,
    },
    IndexedBlock {
        block: u64,
        displacements: Vec<i64>,
        of: Box<Self>,
    },
    HindexedBlock {
        block: u64,
        offsets: Vec<i64>,
        of: Box<Self>,
    },
    Struct {
        fields: Vec<(u64, i64, Self)>,
    },
    Subarray {
        sizes: Vec<u64>,
        subsizes: Vec<u64>,
        starts: Vec<u64>,
        order: Order,
        of: Box<Self>,
    },
    Darray {
        rank: u64,
        sizes: Vec<u64>,
        distributions: Vec<Distribution>,
        grid: Vec<u64>,
        order: Order,
        of: Box<Self>,
    },
    Resized {
        lb: i64,
        extent: i64,
        of: Box<Self>,
    },
    Dup {
        of: Box<Self>,
    },
}

impl Notation {
    /// The datatype that is written here.
    pub fn build(&self) -> Result<Datatype, TypeError> {
        match self {
            Self::Element(element) => Ok(Datatype::from(*element)),
            Self::Bytes(len) => Datatype::bytes(*len),
            Self::Contiguous { count, of } => Datatype::contiguous(*count, &of.build()?),
            Self::Vector { count, block, stride, of } => {
                Datatype::vector(*count, *block, *stride, &of.build()?)
            }
            Self::Hvector { count, block, stride, of } => {
                Datatype::hvector(*count, *block, *stride, &of.build()?)
            }
            Self::Indexed { blocks, of } => Datatype::indexed(blocks, &of.build()?),
            Self::Hindexed { blocks, of } => Datatype::hindexed(blocks, &of.build()?),
            Self::IndexedBlock { block, displacements, of } => {
                Datatype::indexed_block(*block, displacements, &of.build()?)
            }
            Self::HindexedBlock { block, offsets, of } => {
                Datatype::hindexed_block(*block, offsets, &of.build()?)
            }
            Self::Struct { fields } => {
                let fields = fields
                    .iter()
                    .map(|(count, offset, of)| Ok((*count, *offset, of.build()?)))
                    .collect::<Result<Vec<_>, TypeError>>()?;
                Datatype::structure(&fields)
            }
            Self::Subarray { sizes, subsizes, starts, order, of } => {
                Datatype::subarray(sizes, subsizes, starts, *order, &of.build()?)
            }
            Self::Darray { rank, sizes, distributions, grid, order, of } => {
                Datatype::darray(*rank, sizes, distributions, grid, *order, &of.build()?)
            }
            Self::Resized { lb, extent, of } => Datatype::resized(&of.build()?, *lb, *extent),
            Self::Dup { of } => of.build(),
        }
    }
}
