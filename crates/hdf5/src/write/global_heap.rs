//! [`HeapBuilder`]: global heap collections, which hold strings and other values of variable
//! length.

use super::fragment::{BlockId, Fragment};
use super::image::Image;

/// A collection is not smaller than this.
const SMALLEST: usize = 4096;

/// A collection takes no further object when it has grown to this.
const LARGE: usize = 64 * 1024;

/// Bytes before the objects, and before the bytes of an object.
const HEAD: usize = 16;

/// The objects of a collection are numbered from 1, with 16 bits.
const MOST_OBJECTS: u16 = 0xffff;

/// Collections that are being filled.
#[derive(Debug, Default)]
pub(crate) struct HeapBuilder {
    open: Option<OpenCollection>,
}

#[derive(Debug)]
struct OpenCollection {
    block: BlockId,
    objects: Fragment,
    last: u16,
}

impl HeapBuilder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds an object; returns the collection and its number there.
    pub(crate) fn insert(&mut self, image: &mut Image, object: &Fragment) -> (BlockId, u32) {
        let full = self.open.as_ref().is_some_and(|collection| {
            collection.last == MOST_OBJECTS
                || collection.objects.len() + object.len() + 2 * HEAD > LARGE
        });
        if full {
            self.finish(image);
        }
        let collection = self.open.get_or_insert_with(|| OpenCollection {
            block: image.reserve(),
            objects: Fragment::new(),
            last: 0,
        });
        collection.last += 1;
        let out = &mut collection.objects;
        out.u16(collection.last);
        // References are not counted: a value has one owner.
        out.u16(0);
        out.u32(0);
        out.u64(object.len() as u64);
        out.append(object);
        out.pad(8);
        (collection.block, collection.last.into())
    }

    /// Closes the last collection.
    pub(crate) fn finish(&mut self, image: &mut Image) {
        let Some(collection) = self.open.take() else { return };
        let used = HEAD + collection.objects.len();
        let size = used.max(SMALLEST);
        let mut out = Fragment::with_capacity(size);
        out.raw(b"GCOL");
        out.u8(1);
        out.zeros(3);
        out.u64(size as u64);
        out.append(&collection.objects);
        let free = size - used;
        if free >= HEAD {
            // Object 0 is the free room, including its own head.
            out.zeros(8);
            out.u64(free as u64);
        }
        out.zeros(size - out.len());
        image.set(collection.block, out);
    }
}
