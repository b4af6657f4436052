//! The links of a group: in a symbol table (old), in messages (compact) or in a heap (dense).

use std::ops::ControlFlow;

use crate::btree::version_1::{self, Entry, TreeKind};
use crate::btree::version_2::BTree2;
use crate::checksum::lookup3;
use crate::cursor::Cursor;
use crate::heap::fractal::FractalHeap;
use crate::heap::local::LocalHeap;
use crate::message;
use crate::message::link_info::LinkInfo;
use crate::message::symbol_table::SymbolTable;
use crate::model::{Address, CharacterSet, Link, LinkTarget, MessageKind, Object, ObjectKind};
use crate::shared;
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

/// Records of links by the hashes of their names: a hash, then an identifier.
const LINKS_BY_NAME: u8 = 5;
const HASH: usize = 4;

/// All links of a group: in the order of creation if that is tracked, else by name.
pub(crate) fn links(walk: &Walk<'_>, group: &Object) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    let tracked = match place(walk, group)? {
        LinkStorage::SymbolTable(table) => {
            symbols(walk, table, &mut |link| {
                links.push(link);
                Ok(ControlFlow::Continue(()))
            })?;
            false
        }
        LinkStorage::New(info) => {
            compact(walk, group, &mut links)?;
            if let Some((heap, index)) = info.heap.zip(info.name_index) {
                dense(walk, heap, index, None, &mut |link| {
                    links.push(link);
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            info.order_tracked
        }
    };
    if tracked && links.iter().all(|link| link.creation_order.is_some()) {
        links.sort_by_key(|link| link.creation_order);
    } else {
        links.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(links)
}

/// About how many links a group has: what it says itself. An old group does not say it.
pub(crate) fn count(walk: &Walk<'_>, group: &Object) -> Result<u64> {
    let LinkStorage::New(info) = place(walk, group)? else { return Ok(0) };
    let messages = group.header.messages.iter();
    let compact = messages.filter(|message| message.kind == MessageKind::LINK).count() as u64;
    let dense = match info.name_index {
        Some(index) => BTree2::read(walk, index)?.records,
        None => 0,
    };
    Ok(compact.saturating_add(dense))
}

/// The link of a group with a name.
pub(crate) fn link(walk: &Walk<'_>, group: &Object, name: &[u8]) -> Result<Option<Link>> {
    let mut found = None;
    match place(walk, group)? {
        LinkStorage::SymbolTable(table) => symbols(walk, table, &mut |link| {
            if link.name.as_bytes() != name {
                return Ok(ControlFlow::Continue(()));
            }
            found = Some(link);
            Ok(ControlFlow::Break(()))
        })?,
        LinkStorage::New(info) => {
            let mut links = Vec::new();
            compact(walk, group, &mut links)?;
            found = links.into_iter().find(|link| link.name.as_bytes() == name);
            if found.is_none()
                && let Some((heap, index)) = info.heap.zip(info.name_index)
            {
                dense(walk, heap, index, Some(lookup3(name)), &mut |link| {
                    if link.name.as_bytes() != name {
                        return Ok(ControlFlow::Continue(()));
                    }
                    found = Some(link);
                    Ok(ControlFlow::Break(()))
                })?;
            }
        }
    }
    Ok(found)
}

/// Where links are.
enum LinkStorage {
    SymbolTable(SymbolTable),
    New(LinkInfo),
}

fn place(walk: &Walk<'_>, group: &Object) -> Result<LinkStorage> {
    if group.kind != ObjectKind::Group {
        let reason = Reason::Invalid("the object is not a group");
        return Err(Error::at(Structure::Group, group.address, reason));
    }
    if let Some(message) = group.header.message(MessageKind::SYMBOL_TABLE) {
        let structure = Structure::Message(message.kind.0);
        let mut cursor = walk.cursor(&message.body, structure, message.address);
        return message::symbol_table::decode(&mut cursor).map(LinkStorage::SymbolTable);
    }
    let Some(message) = group.header.message(MessageKind::LINK_INFO) else {
        let info = LinkInfo { order_tracked: false, heap: None, name_index: None };
        return Ok(LinkStorage::New(info));
    };
    let structure = Structure::Message(message.kind.0);
    let mut cursor = walk.cursor(&message.body, structure, message.address);
    message::link_info::decode(&mut cursor).map(LinkStorage::New)
}

fn compact(walk: &Walk<'_>, group: &Object, links: &mut Vec<Link>) -> Result<()> {
    for message in &group.header.messages {
        if message.kind == MessageKind::LINK {
            let resolved = shared::resolve(walk, message)?;
            let mut cursor = walk.cursor(&resolved.body, Structure::Link, resolved.address);
            links.push(message::link::decode(&mut cursor)?);
        }
    }
    Ok(())
}

type LinkVisitor<'v> = dyn FnMut(Link) -> Result<ControlFlow<()>> + 'v;

/// Links in a heap: all, or those whose names have a hash.
fn dense(
    walk: &Walk<'_>,
    heap: Address,
    index: Address,
    hash: Option<u32>,
    visitor: &mut LinkVisitor<'_>,
) -> Result<()> {
    let heap = FractalHeap::read(walk, heap)?;
    let tree = BTree2::read(walk, index)?;
    tree.expect(&[LINKS_BY_NAME])?;
    let id_length = usize::from(tree.record_size).saturating_sub(HASH);
    let passed = |mut record: Cursor<'_>| match hash {
        Some(hash) => Ok(record.u32()? < hash),
        None => Ok(false),
    };
    let _: ControlFlow<()> = tree.visit(walk, &passed, &mut |mut record| {
        let of_record = record.u32()?;
        if hash.is_some_and(|hash| hash != of_record) {
            return Ok(ControlFlow::Break(()));
        }
        let message = heap.object(walk, record.take(id_length)?)?;
        let mut cursor = walk.cursor(&message, Structure::Link, record.begin());
        visitor(message::link::decode(&mut cursor)?)
    })?;
    Ok(())
}

/// Links of an old group.
fn symbols(walk: &Walk<'_>, table: SymbolTable, visitor: &mut LinkVisitor<'_>) -> Result<()> {
    let heap = LocalHeap::read(walk, table.heap)?;
    let kind = TreeKind { number: 0, key_size: usize::from(walk.widths().length) };
    let _: ControlFlow<()> =
        version_1::visit(walk, kind, table.tree, &|_| Ok(false), &mut |entry: Entry<'_>| {
            symbol_table_node(walk, entry.child, &heap, visitor)
        })?;
    Ok(())
}

fn symbol_table_node(
    walk: &Walk<'_>,
    address: Address,
    heap: &LocalHeap,
    visitor: &mut LinkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    const PREFIX: u64 = 8;
    let bytes = walk.read(Structure::SymbolTableNode, address, PREFIX)?;
    let mut cursor = walk.cursor(&bytes, Structure::SymbolTableNode, address);
    cursor.signature(*b"SNOD")?;
    cursor.version(1..=1)?;
    cursor.skip(1)?;
    let count = u64::from(cursor.u16()?);
    let entry = u64::from(walk.widths().length) + u64::from(walk.widths().offset) + 4 + 4 + 16;
    let bytes = walk.read(Structure::SymbolTableNode, address, PREFIX + count * entry)?;
    let mut cursor = walk.cursor(&bytes, Structure::SymbolTableNode, address);
    cursor.skip(PREFIX as usize)?;
    for _ in 0..count {
        let link = symbol(&mut cursor.part(entry as usize)?, heap)?;
        // The same name may be in thousands of entries.
        walk.pay(Structure::SymbolTableNode, address, link.name.len() as u64)?;
        if visitor(link)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn symbol(entry: &mut Cursor<'_>, heap: &LocalHeap) -> Result<Link> {
    const SOFT: u32 = 2;
    // As wide as a length, whatever the specification says.
    let name = entry.length()?;
    let header = entry.address()?;
    let kind = entry.u32()?;
    entry.skip(4)?;
    let target = if kind == SOFT {
        LinkTarget::Soft(heap.name(u64::from(entry.u32()?))?)
    } else {
        LinkTarget::Hard(header.ok_or_else(|| entry.invalid("an entry at no address"))?)
    };
    let name = heap.name(name)?;
    Ok(Link { name, charset: CharacterSet::Ascii, creation_order: None, target })
}
