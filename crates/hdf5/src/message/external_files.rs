//! External files message: parts of a dataset in other files, their names in a local heap.

use crate::Result;
use crate::cursor::Cursor;
use crate::model::Address;

/// Parts of a dataset in other files.
#[derive(Clone, Debug)]
pub(crate) struct ExternalFiles {
    /// The local heap with the names.
    pub(crate) heap: Address,
    pub(crate) slots: Vec<Slot>,
}

/// One part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Where the name is in the heap.
    pub(crate) name: u64,
    pub(crate) offset: u64,
    /// `None` if there is no limit.
    pub(crate) size: Option<u64>,
}

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<ExternalFiles> {
    cursor.version(1..=1)?;
    cursor.skip(3)?;
    let _allocated = cursor.u16()?;
    let used = cursor.u16()?;
    let heap = cursor.defined_address("external files without a heap")?;
    let slot = |_| {
        let (name, offset, size) = (cursor.length()?, cursor.length()?, cursor.maximum()?);
        Ok(Slot { name, offset, size })
    };
    let slots = (0..used).map(slot).collect::<Result<_>>()?;
    Ok(ExternalFiles { heap, slots })
}
