//! [`DenseAttributes`]: attributes in a fractal heap, for objects with one of 64 KiB or more.
//!
//! An object header cannot hold such an attribute, and an object has all of its attributes either
//! in the header or in a heap. All of them are *huge* objects of the heap, that is, blocks of their
//! own: no managed block has to be built, and a library that adds attributes builds them itself.

use super::fragment::{BlockId, Fragment};
use super::image::Image;
use super::message::DenseIndexes;
use crate::checksum::lookup3;
use crate::model::Name;

/// Bytes of a heap identifier: its kind and 7 bytes of a number.
const ID: u16 = 8;

/// The parameters of the library for heaps of attributes.
const LARGEST_MANAGED: u32 = 4096;
const TABLE_WIDTH: u16 = 4;
const FIRST_BLOCK: u64 = 1024;
const LARGEST_DIRECT: u64 = 64 * 1024;
const HEAP_BITS: u16 = 40;

/// Nodes of B-trees are at least that large.
const SMALLEST_NODE: usize = 512;

/// All attributes of an object.
#[derive(Debug)]
pub(crate) struct DenseAttributes {
    attributes: Vec<(Name, Fragment)>,
}

impl DenseAttributes {
    /// Names and bodies in the order of creation; 65,534 at most.
    pub(crate) fn new(attributes: Vec<(Name, Fragment)>) -> Self {
        Self { attributes }
    }

    /// Adds heap and indexes to an image.
    pub(crate) fn build(self, image: &mut Image) -> DenseIndexes {
        let count = self.attributes.len();
        let size: usize = self.attributes.iter().map(|(_, body)| body.len()).sum();
        let mut names: Vec<(u32, Name, usize)> = (self.attributes.iter().enumerate())
            .map(|(order, (name, _))| (lookup3(name.as_bytes()), name.clone(), order))
            .collect();
        names.sort();

        let mut huge = Fragment::new();
        for ((_, body), number) in self.attributes.into_iter().zip(1..) {
            let len = body.len() as u64;
            let block = image.add(body);
            huge.reference(block, 0);
            huge.u64(len);
            huge.u64(number);
        }
        let huge = tree(image, 1, 24, count, &huge);
        let heap = image.add(heap_header(huge, count as u64, size as u64));

        let mut by_name = Fragment::new();
        for (hash, _, order) in names {
            indexed(&mut by_name, order as u32);
            by_name.u32(hash);
        }
        let mut by_order = Fragment::new();
        for order in 0..count {
            indexed(&mut by_order, order as u32);
        }
        let names = tree(image, 8, 17, count, &by_name);
        let order = tree(image, 9, 13, count, &by_order);
        DenseIndexes { heap, names, order }
    }
}

/// What both indexes have of an attribute: heap identifier, flags, order.
fn indexed(out: &mut Fragment, order: u32) {
    // Huge object, by number.
    out.u8(0x10);
    out.sized(u64::from(order) + 1, usize::from(ID) - 1);
    out.u8(0);
    out.u32(order);
}

fn heap_header(huge: BlockId, count: u64, size: u64) -> Fragment {
    let mut out = Fragment::new();
    out.raw(b"FRHP");
    out.u8(0);
    out.u16(ID);
    // No filters; direct blocks that are added have checksums.
    out.u16(0);
    out.u8(0x02);
    out.u32(LARGEST_MANAGED);
    out.u64(count);
    out.block(Some(huge));
    // No managed objects: free bytes, free-space manager, managed and allocated bytes, place of
    // the next block, objects.
    out.u64(0);
    out.address(None);
    out.zeros(4 * 8);
    out.u64(size);
    out.u64(count);
    // No tiny objects.
    out.u64(0);
    out.u64(0);
    out.u16(TABLE_WIDTH);
    out.u64(FIRST_BLOCK);
    out.u64(LARGEST_DIRECT);
    out.u16(HEAP_BITS);
    out.u16(1);
    out.address(None);
    out.u16(0);
    out.seal(0);
    out
}

/// A version-2 B-tree of one leaf.
fn tree(image: &mut Image, kind: u8, record: u16, count: usize, records: &Fragment) -> BlockId {
    let needed = records.len() + 10;
    let node = needed.next_power_of_two().max(SMALLEST_NODE);
    let mut leaf = Fragment::with_capacity(node);
    leaf.raw(b"BTLF");
    leaf.u8(0);
    leaf.u8(kind);
    leaf.append(records);
    leaf.seal(0);
    leaf.zeros(node - leaf.len());
    let leaf = image.add(leaf);

    let mut out = Fragment::new();
    out.raw(b"BTHD");
    out.u8(0);
    out.u8(kind);
    out.u32(node as u32);
    out.u16(record);
    // Depth, and the percentages at which the library splits and merges nodes.
    out.u16(0);
    out.u8(100);
    out.u8(40);
    out.block(Some(leaf));
    out.u16(count as u16);
    out.u64(count as u64);
    out.seal(0);
    image.add(out)
}
