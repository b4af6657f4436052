//! Version-2 B-trees: records in all nodes, counts with the pointers, checksums.
//!
//! The widths of the counts follow from how many records nodes of each depth can have, which
//! follows from the sizes of nodes and records.

use std::ops::ControlFlow;

use crate::cursor::{Cursor, encoded_width, verified};
use crate::model::Address;
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

/// More levels than any tree has: each at least doubles the records.
const DEEPEST: u16 = 64;
/// Signature, version, type; a checksum at the end.
const NODE_OVERHEAD: u64 = 6 + 4;

/// A version-2 B-tree.
#[derive(Debug)]
pub(crate) struct BTree2 {
    address: Address,
    /// What its records are.
    pub(crate) kind: u8,
    /// Bytes of a record.
    pub(crate) record_size: u16,
    /// How many records it says that it has.
    pub(crate) records: u64,
    depth: u16,
    root: Option<(Address, u16)>,
    levels: Vec<Level>,
}

/// What nodes of a depth can have; 0 are the leaves.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Records of a node.
    most: u64,
    /// Records of a node and all below.
    most_below: u64,
    /// Bytes of a count of those; a leaf has none.
    width_below: usize,
}

/// How a walk treats a record.
type RecordVisitor<'v> = dyn FnMut(Cursor<'_>) -> Result<ControlFlow<()>> + 'v;
/// Whether a record is before those that are wanted.
type Passed<'p> = dyn Fn(Cursor<'_>) -> Result<bool> + 'p;

impl BTree2 {
    pub(crate) fn read(walk: &Walk<'_>, address: Address) -> Result<Self> {
        let widths = walk.widths();
        let length = 4 + 12 + u64::from(widths.offset) + 2 + u64::from(widths.length) + 4;
        let bytes = walk.bytes(Structure::BTree2, address, length)?;
        let mut cursor = walk.cursor(&bytes, Structure::BTree2, address);
        cursor.signature(*b"BTHD")?;
        verified(&bytes, Structure::BTree2, address)?;
        cursor.version(0..=0)?;
        let kind = cursor.u8()?;
        let node_size = cursor.u32()?;
        let record_size = cursor.u16()?;
        let depth = cursor.u16()?;
        cursor.skip(2)?;
        let root = cursor.address()?;
        let root_records = cursor.u16()?;
        let records = cursor.length()?;
        if depth > DEEPEST {
            let (found, limit) = (u64::from(depth), u64::from(DEEPEST));
            return Err(cursor.error(Reason::Limit { what: "levels", found, limit }));
        }
        if record_size == 0 {
            return Err(cursor.invalid("records of 0 bytes"));
        }
        let levels = levels(node_size, record_size, depth, widths.offset);
        let levels = levels.ok_or_else(|| cursor.invalid("nodes that hold no record"))?;
        let root = root.map(|root| (root, root_records));
        Ok(Self { address, kind, record_size, records, depth, root, levels })
    }

    /// An error if the records are of another kind.
    pub(crate) fn expect(&self, kinds: &[u8]) -> Result<()> {
        if kinds.contains(&self.kind) {
            return Ok(());
        }
        let reason = Reason::Invalid("a tree of another kind of records");
        Err(Error::at(Structure::BTree2, self.address, reason))
    }

    /// Visits the records in their order, without those that are passed.
    pub(crate) fn visit(
        &self,
        walk: &Walk<'_>,
        passed: &Passed<'_>,
        visitor: &mut RecordVisitor<'_>,
    ) -> Result<ControlFlow<()>> {
        match self.root {
            Some((root, records)) => self.node(walk, root, records, self.depth, passed, visitor),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn node(
        &self,
        walk: &Walk<'_>,
        address: Address,
        records: u16,
        depth: u16,
        passed: &Passed<'_>,
        visitor: &mut RecordVisitor<'_>,
    ) -> Result<ControlFlow<()>> {
        let level = self.levels[usize::from(depth)];
        let failed = |reason| Error::at(Structure::BTree2, address, reason);
        let count = u64::from(records);
        if count > level.most {
            let what = "records of a node";
            return Err(failed(Reason::Limit { what, found: count, limit: level.most }));
        }
        let (record_size, pointer) = (u64::from(self.record_size), self.pointer(walk, depth));
        let children = if depth == 0 { 0 } else { (count + 1) * pointer };
        let length = NODE_OVERHEAD + count * record_size + children;
        let bytes = walk.bytes(Structure::BTree2, address, length)?;
        let body = verified(&bytes, Structure::BTree2, address)?;
        let mut cursor = walk.cursor(body, Structure::BTree2, address);
        cursor.signature(if depth == 0 { *b"BTLF" } else { *b"BTIN" })?;
        cursor.version(0..=0)?;
        if cursor.u8()? != self.kind {
            return Err(cursor.invalid("a node of another kind of tree"));
        }
        let mut pointers = cursor.clone();
        pointers.skip(usize::from(records) * usize::from(self.record_size))?;
        for index in 0..=records {
            let record = if index < records {
                Some(cursor.part(usize::from(self.record_size))?)
            } else {
                None
            };
            let record_passed = match &record {
                Some(record) => passed(record.clone())?,
                None => false,
            };
            if depth > 0 {
                let child = pointers.defined_address("a child at no address")?;
                let child_records = pointers.uint(encoded_width(self.levels[0].most))? as u16;
                pointers.skip(self.levels[usize::from(depth) - 1].width_below)?;
                if !record_passed {
                    let flow = self.node(walk, child, child_records, depth - 1, passed, visitor)?;
                    if flow.is_break() {
                        return Ok(flow);
                    }
                }
            }
            if let Some(record) = record
                && !record_passed
                && visitor(record)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Bytes of a pointer in a node at a depth.
    fn pointer(&self, walk: &Walk<'_>, depth: u16) -> u64 {
        if depth == 0 {
            return 0;
        }
        let below = self.levels[usize::from(depth) - 1].width_below;
        u64::from(walk.widths().offset) + (encoded_width(self.levels[0].most) + below) as u64
    }
}

/// What nodes can have; `None` if that is nothing.
fn levels(node_size: u32, record_size: u16, depth: u16, offset: u8) -> Option<Vec<Level>> {
    let (node_size, record_size) = (u64::from(node_size), u64::from(record_size));
    let leaf = node_size.checked_sub(NODE_OVERHEAD)? / record_size;
    if leaf == 0 {
        return None;
    }
    let count_width = encoded_width(leaf) as u64;
    let mut levels = vec![Level { most: leaf, most_below: leaf, width_below: 0 }];
    for level in 0..usize::from(depth) {
        let below = levels[level];
        let pointer = u64::from(offset) + count_width + below.width_below as u64;
        let most = node_size.checked_sub(NODE_OVERHEAD + pointer)? / (record_size + pointer);
        if most == 0 {
            return None;
        }
        let most_below = (most + 1).saturating_mul(below.most_below).saturating_add(most);
        levels.push(Level { most, most_below, width_below: encoded_width(most_below) });
    }
    Some(levels)
}
