//! Messages that are somewhere else: committed types, and the heaps of shared messages.
//!
//! A message with the flag [`MessageFlags::SHARED`] says where its contents are: at another object
//! (a committed type), or in a fractal heap that many objects share. Which heap that is, the table
//! of shared messages says, which the superblock extension names.

use std::borrow::Cow;
use std::sync::Arc;

use crate::cursor::{Cursor, verified};
use crate::heap::fractal::FractalHeap;
use crate::message;
use crate::model::{Address, Dataspace, Datatype, Message, MessageFlags, MessageKind};
use crate::object_header;
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

/// Bytes of an identifier in a heap of shared messages.
const HEAP_ID: usize = 8;

/// The body of a message, wherever it was.
#[derive(Debug)]
pub(crate) struct Resolved<'m> {
    pub(crate) body: Cow<'m, [u8]>,
    pub(crate) address: Address,
}

/// Where a shared message is.
enum SharedPlace {
    Committed(Address),
    Heap([u8; HEAP_ID]),
}

/// One index of shared messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedMessageIndex {
    /// A bit for each kind of message.
    kinds: u16,
    heap: Option<Address>,
}

/// The body of a message.
pub(crate) fn resolve<'m>(walk: &Walk<'_>, message: &'m Message) -> Result<Resolved<'m>> {
    if !message.flags.contains(MessageFlags::SHARED) {
        let body = Cow::Borrowed(message.body.as_slice());
        return Ok(Resolved { body, address: message.address });
    }
    let mut cursor = walk.cursor(&message.body, Structure::SharedMessage, message.address);
    match place(&mut cursor)? {
        SharedPlace::Heap(id) => in_heap(walk, message.kind, &id, message.address),
        SharedPlace::Committed(address) => at_object(walk, message.kind, address),
    }
}

/// The type that a message has, which may be a committed one.
pub(crate) fn datatype(walk: &Walk<'_>, shared: bool, cursor: &Cursor<'_>) -> Result<Datatype> {
    if !shared {
        return message::datatype::decode(&mut cursor.within(Structure::Datatype));
    }
    match place(&mut cursor.within(Structure::SharedMessage))? {
        SharedPlace::Committed(address) => committed(walk, address),
        SharedPlace::Heap(id) => {
            let found = in_heap(walk, MessageKind::DATATYPE, &id, cursor.begin())?;
            let mut cursor = walk.cursor(&found.body, Structure::Datatype, found.address);
            message::datatype::decode(&mut cursor)
        }
    }
}

/// The dataspace that a message has.
pub(crate) fn dataspace(walk: &Walk<'_>, shared: bool, cursor: &Cursor<'_>) -> Result<Dataspace> {
    if !shared {
        return message::dataspace::decode(&mut cursor.within(Structure::Dataspace));
    }
    let found = match place(&mut cursor.within(Structure::SharedMessage))? {
        SharedPlace::Committed(address) => at_object(walk, MessageKind::DATASPACE, address)?,
        SharedPlace::Heap(id) => in_heap(walk, MessageKind::DATASPACE, &id, cursor.begin())?,
    };
    let mut cursor = walk.cursor(&found.body, Structure::Dataspace, found.address);
    message::dataspace::decode(&mut cursor)
}

/// The committed type at an address.
pub(crate) fn committed(walk: &Walk<'_>, address: Address) -> Result<Datatype> {
    if let Some(kept) = walk.caches().datatype(address) {
        return Ok(kept);
    }
    let found = at_object(walk, MessageKind::DATATYPE, address)?;
    let mut cursor = walk.cursor(&found.body, Structure::Datatype, found.address);
    let mut datatype = message::datatype::decode(&mut cursor)?;
    datatype.committed = Some(address);
    walk.caches().keep_datatype(address, datatype.clone());
    Ok(datatype)
}

fn place(cursor: &mut Cursor<'_>) -> Result<SharedPlace> {
    let version = cursor.version(1..=3)?;
    let kind = cursor.u8()?;
    if version == 1 {
        // The rest of a symbol table entry: reserved, the place of a name.
        cursor.skip(6 + usize::from(cursor.widths().length))?;
    }
    if version == 3 && kind == 1 {
        let mut id = [0; HEAP_ID];
        id.copy_from_slice(cursor.take(HEAP_ID)?);
        return Ok(SharedPlace::Heap(id));
    }
    cursor.defined_address("a shared message at no address").map(SharedPlace::Committed)
}

fn at_object(walk: &Walk<'_>, kind: MessageKind, address: Address) -> Result<Resolved<'static>> {
    let header = object_header::read(walk, address)?;
    let found = header.messages.into_iter().find(|message| message.kind == kind);
    match found {
        None => {
            let reason = Reason::Invalid("an object that does not have the message that it shares");
            Err(Error::at(Structure::SharedMessage, address, reason))
        }
        Some(message) if message.flags.contains(MessageFlags::SHARED) => {
            Err(Error::at(Structure::SharedMessage, address, Reason::Cycle))
        }
        Some(message) => {
            let body = Cow::Owned(message.body.into_vec());
            Ok(Resolved { body, address: message.address })
        }
    }
}

/// A message in the heap for its kind.
pub(crate) fn in_heap(
    walk: &Walk<'_>,
    kind: MessageKind,
    id: &[u8],
    user: Address,
) -> Result<Resolved<'static>> {
    let indexes = match walk.caches().shared_messages() {
        Some(indexes) => indexes,
        None => table(walk)?,
    };
    // Old fill values share the index of new ones.
    let kind = if kind == MessageKind::FILL_VALUE_OLD { MessageKind::FILL_VALUE } else { kind };
    let kind_bit = 1_u16.checked_shl(u32::from(kind.0)).unwrap_or(0);
    let heap = indexes.iter().find(|index| index.kinds & kind_bit != 0);
    let Some(address) = heap.and_then(|index| index.heap) else {
        let reason = Reason::Invalid("the file has no heap for shared messages of this kind");
        return Err(Error::at(Structure::SharedMessage, user, reason));
    };
    let body = Cow::Owned(FractalHeap::read(walk, address)?.object(walk, id)?);
    Ok(Resolved { body, address })
}

/// The table of shared messages, which the superblock extension names.
fn table(walk: &Walk<'_>) -> Result<Arc<[SharedMessageIndex]>> {
    let mut indexes = Vec::new();
    if let Some(extension) = walk.superblock().extension {
        let header = object_header::read(walk, extension)?;
        if let Some(message) = header.message(MessageKind::SHARED_MESSAGE_TABLE) {
            let structure = Structure::Message(message.kind.0);
            let mut cursor = walk.cursor(&message.body, structure, message.address);
            cursor.version(0..=0)?;
            let address = cursor.defined_address("no table of shared messages")?;
            let count = cursor.u8()?;
            indexes = decode_table(walk, address, count)?;
        }
    }
    let indexes: Arc<[SharedMessageIndex]> = indexes.into();
    walk.caches().keep_shared_messages(Arc::clone(&indexes));
    Ok(indexes)
}

fn decode_table(walk: &Walk<'_>, address: Address, count: u8) -> Result<Vec<SharedMessageIndex>> {
    const SIGNATURE: [u8; 4] = *b"SMTB";
    // Version, kind of index, kinds of messages, least size, two cut-offs, messages, two addresses.
    let entry = 1 + 1 + 2 + 4 + 2 + 2 + 2 + 2 * u64::from(walk.widths().offset);
    let length = SIGNATURE.len() as u64 + u64::from(count) * entry + 4;
    let bytes = walk.read(Structure::SharedMessage, address, length)?;
    let body = verified(&bytes, Structure::SharedMessage, address)?;
    let mut cursor = walk.cursor(body, Structure::SharedMessage, address);
    cursor.signature(SIGNATURE)?;
    let index = |_| {
        cursor.version(0..=0)?;
        cursor.skip(1)?;
        let kinds = cursor.u16()?;
        cursor.skip(4 + 2 + 2 + 2)?;
        let _index = cursor.address()?;
        Ok(SharedMessageIndex { kinds, heap: cursor.address()? })
    };
    (0..count).map(index).collect()
}
