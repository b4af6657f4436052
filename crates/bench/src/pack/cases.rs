//! The types that `bench pack` copies, each once small enough for the cache and once not.

use striate_datatype::notation::Notation;
use striate_datatype::{Datatype, Distribution, Element, Order};

use crate::workload::Flash;

/// How much a case copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// About 1 MiB: stays in a core's caches.
    Cache,
    /// About 64 MiB.
    Large,
}

impl Size {
    /// As a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Large => "large",
        }
    }

    const fn bytes(self) -> u64 {
        match self {
            Self::Cache => 1 << 20,
            Self::Large => 64 << 20,
        }
    }
}

/// What kind of type a case is; the goals differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// One regular loop over blocks of so many bytes.
    Vector {
        /// Bytes of a block.
        block: u64,
    },
    /// Loops within loops.
    Nested,
    /// A list.
    Irregular,
}

impl Family {
    /// The required ratio to the faster MPI.
    pub const fn goal_over_mpi(self) -> f64 {
        match self {
            Self::Vector { .. } => 1.0,
            Self::Nested | Self::Irregular => 1.5,
        }
    }
}

/// A type to pack and unpack.
#[derive(Clone, Debug)]
pub struct PackCase {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub size: Size,
    /// Its kind.
    pub family: Family,
    /// The type as a program would write it.
    pub notation: Notation,
    bytes: u64,
}

impl PackCase {
    fn new(name: &'static str, size: Size, family: Family, notation: Notation) -> Self {
        let bytes = notation.build().as_ref().map_or(0, Datatype::size);
        Self { name, size, family, notation, bytes }
    }

    /// Bytes that one copy moves.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All cases.
    pub fn all() -> Vec<Self> {
        [Size::Cache, Size::Large].into_iter().flat_map(Self::of_size).collect()
    }

    /// The names of all cases.
    pub fn names() -> Vec<&'static str> {
        Self::of_size(Size::Cache).iter().map(|case| case.name).collect()
    }

    fn of_size(size: Size) -> Vec<Self> {
        let vector = |name, block| {
            Self::new(name, size, Family::Vector { block }, vector(size.bytes() / block, block))
        };
        let (cube, field, matrix) = match size {
            Size::Cache => (126, [64, 64, 32], 704),
            Size::Large => (510, [256, 256, 128], 5760),
        };
        vec![
            vector("vector-8", 8),
            vector("vector-64", 64),
            vector("vector-512", 512),
            vector("vector-4096", 4096),
            Self::new("subarray-3d", size, Family::Nested, block_of(cube)),
            Self::new("subarray-ghost", size, Family::Nested, without_guards(&field)),
            Self::new("subarray-halo", size, Family::Nested, halo(size.bytes())),
            Self::new("darray-cyclic", size, Family::Nested, block_cyclic(matrix)),
            Self::new("indexed", size, Family::Irregular, irregular(size.bytes())),
            Self::new("flash", size, Family::Nested, flash(size.bytes())),
        ]
    }
}

fn f64s() -> Notation {
    Notation::Element(Element::F64)
}

/// Every other block.
fn vector(count: u64, block: u64) -> Notation {
    let doubles = block / 8;
    Notation::Vector { count, block: doubles, stride: 2 * doubles as i64, of: f64s().into() }
}

/// One process's part of a cube of integers dealt to 2 × 2 × 2 processes: the 3-D block of
/// \[CHING\].
fn block_of(edge: u64) -> Notation {
    Notation::Subarray {
        sizes: vec![edge; 3],
        subsizes: vec![edge / 2; 3],
        starts: vec![0, edge / 2, 0],
        order: Order::C,
        of: Box::new(Notation::Element(Element::I32)),
    }
}

/// A field without its two layers of guard cells.
fn without_guards(field: &[u64]) -> Notation {
    const GUARD: u64 = 2;
    Notation::Subarray {
        sizes: field.iter().map(|n| n + 2 * GUARD).collect(),
        subsizes: field.to_vec(),
        starts: vec![GUARD; field.len()],
        order: Order::C,
        of: f64s().into(),
    }
}

/// The face of a field that a neighbour wants: two cells deep in the dimension that varies fastest.
fn halo(bytes: u64) -> Notation {
    const DEPTH: u64 = 2;
    /// Cells in that dimension.
    const ROW: u64 = 32;
    let wide = (bytes / (8 * DEPTH)).isqrt();
    Notation::Subarray {
        sizes: vec![wide, wide, ROW],
        subsizes: vec![wide, wide, DEPTH],
        starts: vec![0, 0, ROW - 2 * DEPTH],
        order: Order::C,
        of: f64s().into(),
    }
}

/// One process's part of a square matrix in blocks of 32 × 32, dealt to 2 × 2 processes.
fn block_cyclic(edge: u64) -> Notation {
    Notation::Darray {
        rank: 1,
        sizes: vec![edge, edge],
        distributions: vec![Distribution::Cyclic(32); 2],
        grid: vec![2, 2],
        order: Order::C,
        of: f64s().into(),
    }
}

/// Blocks of 1 to 16 doubles with gaps of 1 to 16, from a fixed seed.
fn irregular(bytes: u64) -> Notation {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 16 + 1
    };
    let (mut blocks, mut left, mut at) = (Vec::new(), bytes / 8, 0);
    while left > 0 {
        let len = draw().min(left);
        blocks.push((len, at));
        at += (len + draw()) as i64;
        left -= len;
    }
    Notation::Indexed { blocks, of: f64s().into() }
}

/// As many of FLASH's blocks as give so many bytes.
fn flash(bytes: u64) -> Notation {
    let paper = Flash::default();
    let block = paper.variables * paper.variable.size() * paper.cells.pow(3);
    Flash { blocks: bytes / block, ..paper }.memory_notation()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_about_their_size() {
        for case in PackCase::all() {
            let part = case.bytes() as f64 / case.size.bytes() as f64;
            assert!((0.9..=1.1).contains(&part), "{} {part}", case.name);
        }
    }
}
