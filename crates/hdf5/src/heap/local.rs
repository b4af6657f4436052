//! [`LocalHeap`]: the names of an old group, by their offsets.

use crate::cursor::until_zero;
use crate::model::{Address, Name};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

const SIGNATURE: [u8; 4] = *b"HEAP";

/// A local heap.
#[derive(Debug)]
pub(crate) struct LocalHeap {
    address: Address,
    data: Vec<u8>,
}

impl LocalHeap {
    pub(crate) fn read(walk: &Walk<'_>, address: Address) -> Result<Self> {
        let widths = walk.widths();
        let length = 8 + 2 * u64::from(widths.length) + u64::from(widths.offset);
        let bytes = walk.read(Structure::LocalHeap, address, length)?;
        let mut cursor = walk.cursor(&bytes, Structure::LocalHeap, address);
        cursor.signature(SIGNATURE)?;
        cursor.version(0..=0)?;
        cursor.skip(3)?;
        let size = cursor.length()?;
        let _free = cursor.length()?;
        let data = cursor.defined_address("a heap without data")?;
        Ok(Self { address, data: walk.read(Structure::LocalHeap, data, size)? })
    }

    /// The name at an offset.
    pub(crate) fn name(&self, offset: u64) -> Result<Name> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.data.get(offset..));
        match rest {
            Some(rest) if rest.contains(&0) => Ok(Name::from(until_zero(rest))),
            _ => {
                let reason = Reason::Invalid("a name is not within the heap");
                Err(Error::at(Structure::LocalHeap, self.address, reason))
            }
        }
    }
}
