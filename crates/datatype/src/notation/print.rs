//! Printing: a description as written, and the loops of a datatype in the same words.

use std::fmt::{self, Display, Formatter};

use super::Notation;
use crate::node::{Loop, Node};
use crate::{Datatype, Distribution, Order};

impl Display for Notation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Element(element) => write!(f, "{element}"),
            Self::Bytes(len) => write!(f, "bytes({len})"),
            Self::Contiguous { count, of } => write!(f, "contiguous({count} of {of})"),
            Self::Vector { count, block, stride, of } => {
                write!(f, "vector({count}, {block} of {of}, stride={stride})")
            }
            Self::Hvector { count, block, stride, of } => {
                write!(f, "hvector({count}, {block} of {of}, stride={stride})")
            }
            Self::Indexed { blocks, of } => {
                write!(f, "indexed({} of {of})", List(blocks, block))
            }
            Self::Hindexed { blocks, of } => {
                write!(f, "hindexed({} of {of})", List(blocks, block))
            }
            Self::IndexedBlock { block, displacements, of } => {
                write!(f, "indexed_block({block} of {of}, at {})", List(displacements, number))
            }
            Self::HindexedBlock { block, offsets, of } => {
                write!(f, "hindexed_block({block} of {of}, at {})", List(offsets, number))
            }
            Self::Struct { fields } => {
                f.write_str("struct(")?;
                for (i, (count, offset, of)) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{count} of {of} at {offset}")?;
                }
                f.write_str(")")
            }
            Self::Subarray { sizes, subsizes, starts, order, of } => write!(
                f,
                "subarray({} of {of}, {} at {}{})",
                List(sizes, number),
                List(subsizes, number),
                List(starts, number),
                order_suffix(*order),
            ),
            Self::Darray { rank, sizes, distributions, grid, order, of } => write!(
                f,
                "darray({} of {of}, dist={}, grid={}, rank={rank}{})",
                List(sizes, number),
                List(distributions, number),
                List(grid, number),
                order_suffix(*order),
            ),
            Self::Resized { lb, extent, of } => {
                write!(f, "resized({of}, lb={lb}, extent={extent})")
            }
            Self::Dup { of } => write!(f, "dup({of})"),
        }
    }
}

impl Display for Distribution {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(None) => f.write_str("block"),
            Self::Block(Some(length)) => write!(f, "block({length})"),
            Self::Cyclic(length) => write!(f, "cyclic({length})"),
            Self::None => f.write_str("none"),
        }
    }
}

const fn order_suffix(order: Order) -> &'static str {
    match order {
        Order::C => "",
        Order::Fortran => ", order=fortran",
    }
}

/// `[a, b, c]`, each item written by the function.
struct List<'a, T>(&'a [T], fn(&T, &mut Formatter<'_>) -> fmt::Result);

impl<T> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, item) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            (self.1)(item, f)?;
        }
        f.write_str("]")
    }
}

fn number<T: Display>(item: &T, f: &mut Formatter<'_>) -> fmt::Result {
    item.fmt(f)
}

fn block(block: &(u64, i64), f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{} at {}", block.0, block.1)
}

/// Writes the normal loops. The text parses back to an equal type, except where writing needs more
/// than the type itself: nests near the depth limit, and bounds of parts near the ends of 64 bits.
impl Display for Datatype {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Notation::from(self).fmt(f)
    }
}

impl From<&Datatype> for Notation {
    fn from(ty: &Datatype) -> Self {
        let mut of = loops(ty.root());
        if ty.first_offset() != 0 {
            of = Self::HindexedBlock { block: 1, offsets: vec![ty.first_offset()], of: of.into() };
        }
        let same_bounds = of.build().is_ok_and(|plain| plain == *ty);
        if same_bounds {
            return of;
        }
        Self::Resized { lb: ty.lower_bound(), extent: ty.extent(), of: of.into() }
    }
}

fn loops(node: &Node) -> Notation {
    match node.kind() {
        Loop::Bytes => Notation::Bytes(node.size()),
        Loop::Contig { count, child } => {
            let (count, stride) = (*count, child.true_extent());
            Notation::Hvector { count, block: 1, stride, of: loops(child).into() }
        }
        Loop::Vector { count, stride, child } => {
            let (count, stride) = (*count, *stride);
            Notation::Hvector { count, block: 1, stride, of: loops(child).into() }
        }
        Loop::BlockIndexed { offsets, child } => {
            Notation::HindexedBlock { block: 1, offsets: offsets.to_vec(), of: loops(child).into() }
        }
        Loop::Indexed { blocks, child, stride } => {
            let blocks = blocks.iter().map(|block| (block.len, block.offset)).collect();
            let mut of = loops(child);
            // Not the bytes alone make the extent as it is written: what is below may be resized.
            if !of.build().is_ok_and(|of| of.extent() == *stride) {
                of = Notation::Resized { lb: 0, extent: *stride, of: of.into() };
            }
            Notation::Hindexed { blocks, of: of.into() }
        }
        Loop::Struct { fields } => Notation::Struct {
            fields: fields.iter().map(|field| (1, field.offset, loops(&field.child))).collect(),
        },
    }
}
