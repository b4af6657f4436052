//! Encoding of the bodies of messages, in the versions that HDF5 1.8 reads.

use super::datatype;
use super::fragment::{BlockId, Fragment};
use crate::model::{
    Address, AllocationTime, CharacterSet, Dataspace, Datatype, Fill, FillTime, FillValue, Filter,
    Name,
};
use crate::{Error, Reason, Result, Structure};

/// The longest body of a message of an object header.
pub(crate) const LONGEST: usize = 0xffff;

/// More links or attributes than a header ever has: they do not move to a heap.
pub(crate) const NEVER: u16 = 0xffff;

/// The encoding of a name: UTF-8 where it is not ASCII.
pub(crate) fn charset(name: &Name) -> CharacterSet {
    if name.as_bytes().is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 }
}

/// Dataspace, version 2. Maxima are only there where one differs from the size.
pub(crate) fn dataspace(space: &Dataspace) -> Result<Fragment> {
    let mut out = Fragment::new();
    let dimensions = space.dimensions();
    if dimensions.len() > 32 {
        let found = dimensions.len() as u64;
        let reason = Reason::Limit { what: "dimensions", found, limit: 32 };
        return Err(Error::of(Structure::Dataspace, reason));
    }
    let growing = dimensions.iter().any(|one| one.maximum != Some(one.size));
    out.u8(2);
    out.u8(dimensions.len() as u8);
    out.u8(u8::from(growing));
    out.u8(match space {
        Dataspace::Scalar => 0,
        Dataspace::Simple(_) => 1,
        Dataspace::Null => 2,
    });
    for dimension in dimensions {
        out.u64(dimension.size);
    }
    if growing {
        for dimension in dimensions {
            out.u64(dimension.maximum.unwrap_or(u64::MAX));
        }
    }
    Ok(out)
}

/// Fill value, version 3, with the value as an encoded element.
pub(crate) fn fill_value(fill: &FillValue, value: Option<&Fragment>) -> Fragment {
    let allocation = match fill.allocation {
        AllocationTime::Unspecified => 0,
        AllocationTime::Early => 1,
        AllocationTime::Late => 2,
        AllocationTime::Incremental => 3,
    };
    let time = match fill.time {
        FillTime::OnAllocation => 0,
        FillTime::Never => 1,
        FillTime::IfSet => 2,
    };
    let defined = match fill.value {
        Fill::Undefined => 0x10,
        Fill::Default => 0,
        Fill::Value(_) => 0x20,
    };
    let mut out = Fragment::new();
    out.u8(3);
    out.u8(allocation | time << 2 | defined);
    if let Some(value) = value.filter(|_| defined == 0x20) {
        out.u32(value.len() as u32);
        out.append(value);
    }
    out
}

/// Layout of data in the header, version 3.
pub(crate) fn compact_layout(data: &Fragment) -> Result<Fragment> {
    let Some(size) = u16::try_from(data.len()).ok().filter(|&size| size <= u16::MAX - 4) else {
        let found = data.len() as u64;
        let reason = Reason::Limit { what: "bytes in the header", found, limit: 0xffff - 4 };
        return Err(Error::of(Structure::Layout, reason));
    };
    let mut out = Fragment::new();
    out.u8(3);
    out.u8(0);
    out.u16(size);
    out.append(data);
    Ok(out)
}

/// Layout of data in one piece, version 3.
pub(crate) fn contiguous_layout(address: Option<Address>, size: u64) -> Fragment {
    let mut out = Fragment::new();
    out.u8(3);
    out.u8(1);
    out.address(address);
    out.u64(size);
    out
}

/// Layout of data in chunks with a version-1 B-tree, version 3.
pub(crate) fn chunked_layout(
    chunk: &[u64],
    element_size: u32,
    index: Option<(BlockId, u64)>,
) -> Result<Fragment> {
    let bytes = chunk.iter().try_fold(u64::from(element_size), |size, &one| size.checked_mul(one));
    if bytes.is_none_or(|bytes| bytes > u64::from(u32::MAX)) {
        let found = bytes.unwrap_or(u64::MAX);
        let reason = Reason::Limit { what: "bytes of a chunk", found, limit: u32::MAX.into() };
        return Err(Error::of(Structure::Layout, reason));
    }
    if chunk.contains(&0) {
        return Err(Error::of(Structure::Layout, Reason::Invalid("has chunks of no elements")));
    }
    let mut out = Fragment::new();
    out.u8(3);
    out.u8(2);
    out.u8(chunk.len() as u8 + 1);
    match index {
        Some((block, offset)) => out.reference(block, offset),
        None => out.address(None),
    }
    for &one in chunk {
        out.u32(one as u32);
    }
    out.u32(element_size);
    Ok(out)
}

/// Filter pipeline, version 2.
pub(crate) fn filter_pipeline(filters: &[Filter]) -> Result<Fragment> {
    let refuse = |what, found: usize, limit| {
        let reason = Reason::Limit { what, found: found as u64, limit };
        Error::of(Structure::FilterPipeline, reason)
    };
    if filters.len() > 32 {
        return Err(refuse("filters", filters.len(), 32));
    }
    let mut out = Fragment::new();
    out.u8(2);
    out.u8(filters.len() as u8);
    for filter in filters {
        // Only filters that are not HDF5's own have names.
        let name = if filter.id >= 256 && !filter.name.is_empty() {
            [filter.name.as_bytes(), &[0]].concat()
        } else {
            Vec::new()
        };
        let len = u16::try_from(name.len()).map_err(|_| refuse("name", name.len(), 0xffff))?;
        let parameters = filter.parameters.len();
        let count = u16::try_from(parameters).map_err(|_| refuse("values", parameters, 0xffff))?;
        out.u16(filter.id);
        if filter.id >= 256 {
            out.u16(len);
        }
        out.u16(u16::from(filter.optional));
        out.u16(count);
        out.raw(&name);
        for &value in &filter.parameters {
            out.u32(value);
        }
    }
    Ok(out)
}

/// A hard link.
pub(crate) fn link(name: &Name, order: u64, object: BlockId) -> Fragment {
    let width = width_of(name.len() as u64);
    let charset = charset(name);
    let mut out = Fragment::new();
    out.u8(1);
    // Width of the name's length, creation order is there, character set is there.
    let set = if charset == CharacterSet::Utf8 { 0x10 } else { 0 };
    out.u8(width.trailing_zeros() as u8 | 0x04 | set);
    out.u64(order);
    if charset == CharacterSet::Utf8 {
        out.u8(datatype::character_set(charset) as u8);
    }
    out.sized(name.len() as u64, width);
    out.raw(name.as_bytes());
    out.reference(object, 0);
    out
}

/// The fewest of 1, 2, 4 or 8 bytes that hold a number.
pub(crate) fn width_of(number: u64) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Link info of a group whose links are in its header, with the order of creation tracked and
/// indexed.
pub(crate) fn link_info(links: u64) -> Fragment {
    let mut out = Fragment::new();
    out.u8(0);
    out.u8(3);
    out.u64(links);
    out.address(None);
    out.address(None);
    out.address(None);
    out
}

/// Group info; a group of many links says that they stay in the header.
pub(crate) fn group_info(links: usize) -> Fragment {
    let mut out = Fragment::new();
    out.u8(0);
    if links > 8 {
        out.u8(1);
        out.u16(NEVER);
        out.u16(NEVER - 1);
    } else {
        out.u8(0);
    }
    out
}

/// An attribute, version 3.
pub(crate) fn attribute(
    name: &Name,
    datatype: &Datatype,
    space: &Dataspace,
    values: &Fragment,
) -> Result<Fragment> {
    let refuse = |reason| Error::of(Structure::Attribute, reason);
    let encoded = datatype::encode(datatype)?;
    let dataspace = dataspace(space)?;
    let limit = |what, found: usize| {
        u16::try_from(found)
            .map_err(|_| refuse(Reason::Limit { what, found: found as u64, limit: 0xffff }))
    };
    let size = space.elements().and_then(|count| count.checked_mul(datatype.size.into()));
    if size != Some(values.len() as u64) {
        return Err(refuse(Reason::Invalid("has values of another size than its type and shape")));
    }
    let mut out = Fragment::with_capacity(values.len() + 64);
    out.u8(3);
    out.u8(0);
    out.u16(limit("bytes of a name", name.len() + 1)?);
    out.u16(limit("bytes of a datatype", encoded.len())?);
    out.u16(limit("bytes of a dataspace", dataspace.len())?);
    out.u8(datatype::character_set(charset(name)) as u8);
    out.raw(name.as_bytes());
    out.u8(0);
    out.append(&encoded);
    out.append(&dataspace);
    out.append(values);
    Ok(out)
}

/// Where dense attributes are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseIndexes {
    pub(crate) heap: BlockId,
    pub(crate) names: BlockId,
    pub(crate) order: BlockId,
}

/// Attribute info, with the order of creation tracked and indexed.
pub(crate) fn attribute_info(attributes: u16, dense: Option<DenseIndexes>) -> Fragment {
    let mut out = Fragment::new();
    out.u8(0);
    out.u8(3);
    out.u16(attributes);
    out.block(dense.map(|dense| dense.heap));
    out.block(dense.map(|dense| dense.names));
    out.block(dense.map(|dense| dense.order));
    out
}
