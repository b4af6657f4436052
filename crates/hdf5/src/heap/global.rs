//! [`Collection`]: values of variable length, by their numbers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::model::Address;
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

const SIGNATURE: [u8; 4] = *b"GCOL";

/// A global heap collection.
#[derive(Debug)]
pub(crate) struct Collection {
    bytes: Vec<u8>,
    objects: HashMap<u16, Range<usize>>,
}

impl Collection {
    /// The collection at an address, which may have been read before.
    pub(crate) fn read(walk: &Walk<'_>, address: Address) -> Result<Arc<Self>> {
        if let Some(kept) = walk.caches().collection(address) {
            return Ok(kept);
        }
        let collection = Arc::new(Self::decode(walk, address)?);
        walk.caches().keep_collection(address, Arc::clone(&collection));
        Ok(collection)
    }

    fn decode(walk: &Walk<'_>, address: Address) -> Result<Self> {
        // All parts begin at multiples of 8 bytes.
        let prefix = (8 + u64::from(walk.widths().length)).next_multiple_of(8);
        let bytes = walk.read(Structure::GlobalHeap, address, prefix)?;
        let mut cursor = walk.cursor(&bytes, Structure::GlobalHeap, address);
        cursor.signature(SIGNATURE)?;
        cursor.version(1..=1)?;
        cursor.skip(3)?;
        let size = cursor.length()?;
        let bytes = walk.read(Structure::GlobalHeap, address, size.max(prefix))?;
        let mut cursor = walk.cursor(&bytes, Structure::GlobalHeap, address);
        cursor.skip(prefix as usize)?;
        let object_prefix = (8 + usize::from(walk.widths().length)).next_multiple_of(8);
        let mut objects = HashMap::new();
        while cursor.remaining() >= object_prefix {
            let index = cursor.u16()?;
            cursor.skip(2 + 4)?;
            let size = usize::try_from(cursor.length()?).unwrap_or(usize::MAX);
            // Object 0 is what is free, up to the end.
            if index == 0 {
                break;
            }
            cursor.align(8);
            let begin = cursor.position();
            cursor.skip(size)?;
            objects.insert(index, begin..begin + size);
            cursor.align(8);
        }
        Ok(Self { bytes, objects })
    }

    /// Bytes of the collection.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// An object by its number.
    pub(crate) fn object(&self, address: Address, index: u32) -> Result<&[u8]> {
        let range = u16::try_from(index).ok().and_then(|index| self.objects.get(&index));
        let range = range.ok_or_else(|| {
            let reason = Reason::Invalid("an object that the collection does not have");
            Error::at(Structure::GlobalHeap, address, reason)
        })?;
        Ok(&self.bytes[range.clone()])
    }
}
