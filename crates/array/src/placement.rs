//! Placements of several accesses or regions in the file, as one description each.

use std::ops::Range;

use striate_datatype::{Datatype, TypeError};
use striate_file::Placement;

/// No bytes.
pub(crate) fn empty() -> Result<Placement, TypeError> {
    Ok(Placement { displacement: 0, datatype: Datatype::bytes(1)?, start: 0, len: 0 })
}

/// From the first to the last byte of a placement.
pub(crate) fn span(placement: &Placement) -> Range<u64> {
    let datatype = &placement.datatype;
    let low = placement.displacement.saturating_add_signed(datatype.true_lower_bound());
    let high = placement.displacement.saturating_add_signed(datatype.true_upper_bound());
    low..high
}

/// Several placements, in ascending order, as one.
pub(crate) fn concatenated(placements: &[&Placement]) -> Result<Placement, TypeError> {
    let far = |_| TypeError::Overflow { what: "an offset in the file" };
    let fields = placements.iter().map(|placement| {
        let offset = i64::try_from(placement.displacement).map_err(far)?;
        Ok((1, offset, placement.datatype.clone()))
    });
    let fields: Vec<_> = fields.collect::<Result<_, TypeError>>()?;
    Ok(whole(Datatype::structure(&fields)?))
}

/// Contiguous regions (offset, length), in ascending order.
pub(crate) fn regions(regions: impl Iterator<Item = (u64, u64)>) -> Result<Placement, TypeError> {
    let blocks: Vec<(u64, i64)> = regions.map(|(offset, len)| (len, offset as i64)).collect();
    Ok(whole(Datatype::hindexed(&blocks, &Datatype::bytes(1)?)?))
}

/// One copy of a type whose offsets are those of the file.
pub(crate) fn whole(datatype: Datatype) -> Placement {
    let len = datatype.size();
    Placement { displacement: 0, datatype, start: 0, len }
}
