//! [`ElementKind`]: how arrays and version-2 B-trees store where a chunk is.

use crate::Result;
use crate::cursor::{Cursor, Widths};
use crate::model::Address;

/// An entry of an index: an address, and with filters a size and a mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementKind {
    /// Bytes of the size of a chunk; `None` without filters.
    size_width: Option<usize>,
    /// Bytes of an entry.
    pub(super) bytes: usize,
}

impl ElementKind {
    /// `None` if there is no such entry. The width of the size is what is left: it depends on the
    /// version of the layout message.
    pub(super) fn new(filtered: bool, bytes: usize, widths: Widths) -> Option<Self> {
        let rest = bytes.checked_sub(usize::from(widths.offset))?;
        let size_width = if filtered { Some(rest.checked_sub(4)?) } else { None };
        match size_width {
            None if rest != 0 => None,
            Some(width) if !(1..=8).contains(&width) => None,
            _ => Some(Self { size_width, bytes }),
        }
    }

    /// Address, size and filter mask; `None` of a chunk that is not stored.
    pub(super) fn decode(
        self,
        cursor: &mut Cursor<'_>,
        chunk_bytes: u64,
    ) -> Result<Option<(Address, u64, u32)>> {
        let address = cursor.address()?;
        let (size, mask) = match self.size_width {
            Some(width) => (cursor.uint(width)?, cursor.u32()?),
            None => (chunk_bytes, 0),
        };
        Ok(address.map(|address| (address, size, mask)))
    }
}
