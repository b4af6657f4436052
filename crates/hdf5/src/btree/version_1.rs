//! Version-1 B-trees: nodes of keys and children, for old groups and for chunks.
//!
//! A node has one key more than children; the keys beside a child are the bounds of what is below
//! it. Levels count down to 0, so a walk is as deep as its root says.

use std::ops::ControlFlow;

use crate::cursor::Cursor;
use crate::model::Address;
use crate::walk::Walk;
use crate::{Reason, Result, Structure};

const SIGNATURE: [u8; 4] = *b"TREE";
/// More levels than any tree has: each at least doubles the entries.
const DEEPEST: u8 = 64;

/// What a tree is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeKind {
    /// The number in its nodes: 0 for groups, 1 for chunks.
    pub(crate) number: u8,
    /// Bytes of a key.
    pub(crate) key_size: usize,
}

/// An entry of a leaf: its key, and the address that it leads to.
pub(crate) struct Entry<'a> {
    pub(crate) key: Cursor<'a>,
    pub(crate) child: Address,
}

/// Visits the entries of a tree in their order. `passed` says of a key that all entries before it
/// are not wanted: a child is left out if it is true of the key behind it. The last child of a node
/// is always visited: not all writers fill in the key behind it.
pub(crate) fn visit(
    walk: &Walk<'_>,
    kind: TreeKind,
    root: Address,
    passed: &dyn Fn(Cursor<'_>) -> Result<bool>,
    visitor: &mut dyn FnMut(Entry<'_>) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    node(walk, kind, root, None, passed, visitor)
}

fn node(
    walk: &Walk<'_>,
    kind: TreeKind,
    address: Address,
    level: Option<u8>,
    passed: &dyn Fn(Cursor<'_>) -> Result<bool>,
    visitor: &mut dyn FnMut(Entry<'_>) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let pointer = usize::from(walk.widths().offset);
    let prefix = 8 + 2 * pointer;
    let bytes = walk.read(Structure::BTree1, address, prefix as u64)?;
    let mut cursor = walk.cursor(&bytes, Structure::BTree1, address);
    cursor.signature(SIGNATURE)?;
    if cursor.u8()? != kind.number {
        return Err(cursor.invalid("a node of another kind of tree"));
    }
    let found = cursor.u8()?;
    if level.is_some_and(|level| level != found) {
        return Err(cursor.invalid("a node at another level than its parent says"));
    }
    if found > DEEPEST {
        let (found, limit) = (u64::from(found), u64::from(DEEPEST));
        return Err(cursor.error(Reason::Limit { what: "levels", found, limit }));
    }
    let entries = usize::from(cursor.u16()?);
    let body = entries * (kind.key_size + pointer) + kind.key_size;
    let behind = address.checked_add(prefix as u64).ok_or_else(|| cursor.invalid("too far"))?;
    let bytes = walk.read(Structure::BTree1, behind, body as u64)?;
    let mut cursor = walk.cursor(&bytes, Structure::BTree1, behind);
    for index in 1..=entries {
        let key = cursor.part(kind.key_size)?;
        let child = cursor.defined_address("a child at no address")?;
        if index < entries && passed(cursor.clone().part(kind.key_size)?)? {
            continue;
        }
        let flow = if found == 0 {
            visitor(Entry { key, child })?
        } else {
            node(walk, kind, child, Some(found - 1), passed, visitor)?
        };
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}
