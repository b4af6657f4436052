//! Symbol table message: where the links of an old group are.

use crate::Result;
use crate::cursor::Cursor;
use crate::model::Address;

/// Where the links of an old group are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SymbolTable {
    /// A version-1 B-tree of symbol table nodes.
    pub(crate) tree: Address,
    /// The local heap with the names.
    pub(crate) heap: Address,
}

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<SymbolTable> {
    let tree = cursor.defined_address("a symbol table without a B-tree")?;
    let heap = cursor.defined_address("a symbol table without a heap")?;
    Ok(SymbolTable { tree, heap })
}
