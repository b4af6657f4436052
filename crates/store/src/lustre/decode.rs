//! Layouts from the bytes of `lustre.lov`.
//!
//! The bytes come from a file system, but are not trusted: every offset is checked, and allocations
//! are bounded by the number of bytes.

use thiserror::Error;

use super::layout::{
    ByteOrder, Component, Composite, EVERY_TARGET, LayoutForm, LustreLayout, MAGIC_COMPOSITE,
    MAGIC_EXTENDING, MAGIC_FOREIGN, MAGIC_SPECIFIC, MAGIC_V1, MAGIC_V3, OBJECT_BYTES, ObjectId,
    PlainLayout, PoolName, StripeObject, V1_BYTES, V3_BYTES,
};

/// The longest value of an extended attribute (`XATTR_SIZE_MAX`).
pub(super) const LONGEST: usize = 1 << 16;
/// Bytes of `lov_comp_md_v1` without entries.
const COMPOSITE_BYTES: usize = 32;
/// Bytes of `lov_comp_md_entry_v1`.
const ENTRY_BYTES: usize = 48;

/// Bytes that are not a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// They end too early.
    #[error("the layout has {has} bytes where {needed} are needed")]
    Truncated {
        /// Bytes that are needed.
        needed: usize,
        /// Bytes that there are.
        has: usize,
    },
    /// They are more than a layout can have.
    #[error("the layout has {has} bytes, and can have {LONGEST} at most")]
    TooLong {
        /// Bytes that there are.
        has: usize,
    },
    /// They are something else.
    #[error("{magic:#010x} is not the magic number of a known layout")]
    Unknown {
        /// The first number.
        magic: u32,
    },
    /// Components are said to share bytes.
    #[error("the components of the layout take more bytes than it has")]
    Overlap,
}

impl LustreLayout {
    /// The layout that `bytes` say, in either byte order.
    pub fn decode(bytes: &[u8]) -> Result<Self, LayoutError> {
        if bytes.len() > LONGEST {
            return Err(LayoutError::TooLong { has: bytes.len() });
        }
        let blob = Blob { bytes, order: ByteOrder::Little };
        // Every magic number is 0x0BDn0BD0; read in the wrong order, it does not end so.
        let order =
            if blob.u32(0)? & 0xFFFF == 0x0BD0 { ByteOrder::Little } else { ByteOrder::Big };
        let blob = Blob { order, ..blob };
        match blob.u32(0)? {
            MAGIC_COMPOSITE | MAGIC_EXTENDING => composite(&blob).map(Self::Composite),
            MAGIC_FOREIGN => Ok(Self::Foreign),
            _ => plain(&blob).map(Self::Plain),
        }
    }
}

/// Bytes with an order.
struct Blob<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl Blob<'_> {
    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], LayoutError> {
        let part = self.part(at, N)?;
        // Of N bytes.
        Ok(part.bytes.try_into().unwrap_or([0; N]))
    }

    fn u16(&self, at: usize) -> Result<u16, LayoutError> {
        let bytes = self.array(at)?;
        Ok(match self.order {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    fn u32(&self, at: usize) -> Result<u32, LayoutError> {
        let bytes = self.array(at)?;
        Ok(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    fn u64(&self, at: usize) -> Result<u64, LayoutError> {
        let bytes = self.array(at)?;
        Ok(match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }

    fn object_id(&self, at: usize) -> Result<ObjectId, LayoutError> {
        Ok(ObjectId { first: self.u64(at)?, second: self.u64(at + 8)? })
    }

    fn part(&self, at: usize, len: usize) -> Result<Self, LayoutError> {
        let needed = at.saturating_add(len);
        let bytes = self.bytes.get(at..needed);
        let truncated = LayoutError::Truncated { needed, has: self.bytes.len() };
        Ok(Self { bytes: bytes.ok_or(truncated)?, order: self.order })
    }
}

fn plain(blob: &Blob<'_>) -> Result<PlainLayout, LayoutError> {
    let (form, header): (fn(PoolName) -> LayoutForm, usize) = match blob.u32(0)? {
        MAGIC_V1 => (|_| LayoutForm::V1, V1_BYTES),
        MAGIC_V3 => (LayoutForm::V3, V3_BYTES),
        MAGIC_SPECIFIC => (LayoutForm::Specific, V3_BYTES),
        magic => return Err(LayoutError::Unknown { magic }),
    };
    blob.part(0, header)?;
    let pool =
        if header == V3_BYTES { PoolName(blob.array(V1_BYTES)?) } else { PoolName::default() };
    let count = blob.u16(28)?;
    Ok(PlainLayout {
        form: form(pool),
        pattern: blob.u32(4)?,
        owner: blob.object_id(8)?,
        unit: blob.u32(24)?,
        count,
        start: blob.u16(30)?,
        objects: objects(blob, header, count)?,
    })
}

/// The objects that follow a header. Defaults of directories, components that were never written
/// and files that were moved to an archive have a count, and none of them.
fn objects(blob: &Blob<'_>, header: usize, count: u16) -> Result<Vec<StripeObject>, LayoutError> {
    if blob.bytes.len() == header || count >= EVERY_TARGET {
        return Ok(Vec::new());
    }
    let objects = blob.part(header, usize::from(count) * OBJECT_BYTES)?;
    let starts = (0..objects.bytes.len()).step_by(OBJECT_BYTES);
    let object = |at| {
        let id = objects.object_id(at)?;
        let (generation, target) = (objects.u32(at + 16)?, objects.u32(at + 20)?);
        Ok(StripeObject { id, generation, target })
    };
    starts.map(object).collect()
}

fn composite(blob: &Blob<'_>) -> Result<Composite, LayoutError> {
    let size = blob.u32(4)? as usize;
    let blob = blob.part(0, size)?;
    let entries = usize::from(blob.u16(14)?);
    let table = blob.part(COMPOSITE_BYTES, entries * ENTRY_BYTES)?;
    let mut left = size - COMPOSITE_BYTES - table.bytes.len();
    let mut components = Vec::with_capacity(entries);
    for at in (0..table.bytes.len()).step_by(ENTRY_BYTES) {
        let len = table.u32(at + 28)? as usize;
        let part = blob.part(table.u32(at + 24)? as usize, len)?;
        // Otherwise a few bytes could stand for the objects of very many components.
        left = left.checked_sub(len).ok_or(LayoutError::Overlap)?;
        let foreign = part.u32(0)? == MAGIC_FOREIGN;
        components.push(Component {
            id: table.u32(at)?,
            flags: table.u32(at + 4)?,
            start: table.u64(at + 8)?,
            end: table.u64(at + 16)?,
            generation: table.u32(at + 32)?,
            layout: if foreign { None } else { Some(plain(&part)?) },
        });
    }
    Ok(Composite {
        generation: blob.u32(8)?,
        flags: blob.u16(12)?,
        mirrors: u32::from(blob.u16(16)?) + 1,
        components,
    })
}
