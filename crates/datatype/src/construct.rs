//! MPI's constructors of derived datatypes: bounds by MPI's rules, loops by the normal form.
//!
//! Counts and block lengths are unsigned: what is a run-time error in MPI does not compile (callers
//! with signed arguments get [`TypeError::Negative`] from their conversion). Everything else is
//! checked: all offsets, sizes and extents of a type are within 64 bits.

use crate::datatype::{Bounds, Datatype};
use crate::normal::{self, Placed};
use crate::{Element, TypeError};

impl Datatype {
    /// `len` contiguous bytes.
    pub fn bytes(len: u64) -> Result<Self, TypeError> {
        let placed = Placed::bytes(len)?;
        Self::from_parts(placed, Bounds { lb: 0, ub: len as i64 }, 1)
    }

    /// The element type `element`.
    pub fn element(element: Element) -> Self {
        Self::from(element)
    }

    /// `count` copies, each at the extent of the one before (`MPI_Type_contiguous`).
    pub fn contiguous(count: u64, child: &Self) -> Result<Self, TypeError> {
        Self::hvector(count, 1, child.extent(), child)
    }

    /// `count` blocks of `block` children, their starts `stride` extents apart (`MPI_Type_vector`).
    pub fn vector(count: u64, block: u64, stride: i64, child: &Self) -> Result<Self, TypeError> {
        let stride = if count > 1 { in_bytes(stride, child)? } else { 0 };
        Self::hvector(count, block, stride, child)
    }

    /// As [`Datatype::vector`], the stride in bytes (`MPI_Type_create_hvector`).
    pub fn hvector(count: u64, block: u64, stride: i64, child: &Self) -> Result<Self, TypeError> {
        let bounds = if block == 0 || child.size() == 0 {
            Bounds::ZERO
        } else {
            child.bounds().repeat(block, child.extent())?.repeat(count, stride)?
        };
        let inner = normal::repeated(block, child.extent(), child.placed())?;
        Self::from_parts(normal::repeated(count, stride, inner)?, bounds, child.alignment())
    }

    /// Blocks of (length, displacement), both in children (`MPI_Type_indexed`).
    pub fn indexed(blocks: &[(u64, i64)], child: &Self) -> Result<Self, TypeError> {
        let blocks = blocks
            .iter()
            .map(|&(len, displacement)| Ok((len, in_bytes(displacement, child)?)))
            .collect::<Result<Vec<_>, TypeError>>()?;
        Self::hindexed(&blocks, child)
    }

    /// Blocks of (length in children, displacement in bytes) (`MPI_Type_create_hindexed`).
    pub fn hindexed(blocks: &[(u64, i64)], child: &Self) -> Result<Self, TypeError> {
        let bounds = union(blocks.iter().map(|&(len, offset)| (len, offset, child)))?;
        let list = blocks.iter().map(|&(len, offset)| (offset, len)).collect();
        let placed = normal::indexed(list, child.extent(), &child.placed())?;
        Self::from_parts(placed, bounds, child.alignment())
    }

    /// Blocks of one length at displacements counted in children (`MPI_Type_create_indexed_block`).
    pub fn indexed_block(
        block: u64,
        displacements: &[i64],
        child: &Self,
    ) -> Result<Self, TypeError> {
        let offsets = displacements
            .iter()
            .map(|&displacement| in_bytes(displacement, child))
            .collect::<Result<Vec<_>, _>>()?;
        Self::hindexed_block(block, &offsets, child)
    }

    /// Blocks of one length at displacements in bytes (`MPI_Type_create_hindexed_block`).
    pub fn hindexed_block(block: u64, offsets: &[i64], child: &Self) -> Result<Self, TypeError> {
        let bounds = union(offsets.iter().map(|&offset| (block, offset, child)))?;
        let inner = normal::repeated(block, child.extent(), child.placed())?;
        Self::from_parts(normal::scattered(offsets, &inner)?, bounds, child.alignment())
    }

    /// Fields of (count, displacement in bytes, type) (`MPI_Type_create_struct`).
    ///
    /// The extent is padded to the strictest alignment of the elements within, as a C compiler pads
    /// a struct. Fields that are all of one type are blocks of that type instead, whose extent is
    /// not padded: this is MPICH's reading of the standard.
    pub fn structure(fields: &[(u64, i64, Self)]) -> Result<Self, TypeError> {
        let mut bounds =
            union(fields.iter().map(|(count, offset, child)| (*count, *offset, child)))?;
        let filled = || {
            fields.iter().filter(|field| field.0 > 0 && field.2.size() > 0).map(|field| &field.2)
        };
        let align = filled().map(Self::alignment).fold(1, u32::max);
        let one_type = filled().zip(filled().skip(1)).all(|(a, b)| a == b);
        let slack = bounds.extent()?.rem_euclid(i64::from(align));
        if slack != 0 && !one_type {
            let padded = bounds.ub.checked_add(i64::from(align) - slack);
            bounds.ub = padded.ok_or(TypeError::overflow("extent"))?;
        }
        let parts = fields
            .iter()
            .map(|(count, offset, child)| {
                normal::repeated(*count, child.extent(), child.placed())?.shift(*offset)
            })
            .collect::<Result<_, _>>()?;
        Self::from_parts(normal::sequence(parts)?, bounds, align)
    }

    /// The same bytes with other bounds (`MPI_Type_create_resized`). Bounds are not sticky: a type
    /// built from this one sees an extent and nothing else.
    pub fn resized(child: &Self, lb: i64, extent: i64) -> Result<Self, TypeError> {
        let ub = lb.checked_add(extent).ok_or(TypeError::overflow("extent"))?;
        Self::from_parts(child.placed(), Bounds { lb, ub }, child.alignment())
    }

    /// The same type (`MPI_Type_dup`).
    #[must_use]
    pub fn dup(&self) -> Self {
        self.clone()
    }

    /// The same type, its bytes and bounds `by` bytes further on.
    pub fn displaced(&self, by: i64) -> Result<Self, TypeError> {
        Self::from_parts(self.placed().shift(by)?, self.bounds().shift(by)?, self.alignment())
    }
}

/// A displacement counted in children.
fn in_bytes(displacement: i64, child: &Datatype) -> Result<i64, TypeError> {
    displacement.checked_mul(child.extent()).ok_or(TypeError::overflow("displacement"))
}

/// Bounds over blocks of (length, offset, child). As in both MPIs, blocks without data do not
/// count, whatever bounds their type has been given.
fn union<'a>(blocks: impl Iterator<Item = (u64, i64, &'a Datatype)>) -> Result<Bounds, TypeError> {
    let mut all: Option<Bounds> = None;
    for (len, offset, child) in blocks.filter(|block| block.0 > 0 && block.2.size() > 0) {
        let bounds = child.bounds().repeat(len, child.extent())?.shift(offset)?;
        all = Some(all.map_or(bounds, |union| union.union(bounds)));
    }
    Ok(all.unwrap_or(Bounds::ZERO))
}
