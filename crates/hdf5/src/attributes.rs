//! The attributes of an object: in messages, or in a heap.

use std::ops::ControlFlow;

use crate::btree::version_2::BTree2;
use crate::heap::fractal::FractalHeap;
use crate::message;
use crate::message::attribute::EncodedAttribute;
use crate::model::{Address, Attribute, MessageFlags, MessageKind, Name, Object};
use crate::shared;
use crate::walk::Walk;
use crate::{Reason, Result, Structure};

/// Records of attributes by the hashes of their names.
const ATTRIBUTES_BY_NAME: u8 = 8;
/// Bytes of an identifier in such a record.
const HEAP_ID: usize = 8;

/// All attributes of an object: in the order of creation if that is tracked, else by name.
pub(crate) fn attributes(walk: &Walk<'_>, object: &Object) -> Result<Vec<Attribute>> {
    let (mut attributes, order) = in_stored_order(walk, object)?;
    if order == AttributeOrder::Untracked {
        attributes.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(attributes)
}

/// Whether an object says in which order its attributes were created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributeOrder {
    Tracked,
    Untracked,
}

/// All attributes of an object: in the order of creation if that is tracked, else as they are
/// stored, which is what the library calls the order of creation then.
pub(crate) fn in_stored_order(
    walk: &Walk<'_>,
    object: &Object,
) -> Result<(Vec<Attribute>, AttributeOrder)> {
    in_stored_order_without(walk, object, &|_| false)
}

/// The same without those in messages whose names are not wanted, which are not decoded.
pub(crate) fn in_stored_order_without(
    walk: &Walk<'_>,
    object: &Object,
    unwanted: &dyn Fn(&[u8]) -> bool,
) -> Result<(Vec<Attribute>, AttributeOrder)> {
    let messages = object.header.messages.iter();
    let messages = messages.filter(|message| message.kind == MessageKind::ATTRIBUTE);
    let mut attributes = Vec::with_capacity(messages.clone().count());
    for message in messages {
        let resolved = shared::resolve(walk, message)?;
        let mut cursor = walk.cursor(&resolved.body, Structure::Attribute, resolved.address);
        let parts = message::attribute::decode(&mut cursor)?;
        if !unwanted(parts.name) {
            let mut attribute = decode(walk, parts)?;
            attribute.creation_order = message.creation_order;
            attributes.push(attribute);
        }
    }
    let mut tracked = object.header.attribute_order_tracked;
    if let Some(message) = object.header.message(MessageKind::ATTRIBUTE_INFO) {
        let structure = Structure::Message(message.kind.0);
        let mut cursor = walk.cursor(&message.body, structure, message.address);
        let info = message::attribute_info::decode(&mut cursor)?;
        tracked |= info.order_tracked;
        if let Some((heap, index)) = info.heap.zip(info.name_index) {
            dense(walk, heap, index, &mut attributes)?;
        }
    }
    // Records of an index have the order in which they were added, whether it is tracked or not.
    attributes.sort_by_key(|attribute| attribute.creation_order);
    if tracked {
        return Ok((attributes, AttributeOrder::Tracked));
    }
    for attribute in &mut attributes {
        attribute.creation_order = None;
    }
    Ok((attributes, AttributeOrder::Untracked))
}

fn dense(
    walk: &Walk<'_>,
    heap: Address,
    index: Address,
    attributes: &mut Vec<Attribute>,
) -> Result<()> {
    let heap = FractalHeap::read(walk, heap)?;
    let tree = BTree2::read(walk, index)?;
    tree.expect(&[ATTRIBUTES_BY_NAME])?;
    let _: ControlFlow<()> = tree.visit(walk, &|_| Ok(false), &mut |mut record| {
        let id = record.take(HEAP_ID)?;
        let flags = MessageFlags(record.u8()?);
        let order = record.u32()?;
        let body = if flags.contains(MessageFlags::SHARED) {
            shared::in_heap(walk, MessageKind::ATTRIBUTE, id, record.begin())?.body
        } else {
            heap.object(walk, id)?.into()
        };
        let mut cursor = walk.cursor(&body, Structure::Attribute, record.begin());
        let mut attribute = decode(walk, message::attribute::decode(&mut cursor)?)?;
        attribute.creation_order = u16::try_from(order).ok();
        attributes.push(attribute);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

/// Whether an object has a message with an attribute of that name, which is not shared.
pub(crate) fn has_message(walk: &Walk<'_>, object: &Object, name: &[u8]) -> bool {
    object.header.messages.iter().any(|message| {
        let mut cursor = walk.cursor(&message.body, Structure::Attribute, message.address);
        message.kind == MessageKind::ATTRIBUTE
            && !message.flags.contains(MessageFlags::SHARED)
            && message::attribute::decode(&mut cursor).is_ok_and(|parts| parts.name == name)
    })
}

/// An attribute from the parts of its message; its type and dataspace may be somewhere else.
fn decode(walk: &Walk<'_>, parts: EncodedAttribute<'_>) -> Result<Attribute> {
    let datatype = shared::datatype(walk, parts.datatype.shared, &parts.datatype.cursor)?;
    let dataspace = shared::dataspace(walk, parts.dataspace.shared, &parts.dataspace.cursor)?;
    let size = dataspace.elements().and_then(|count| count.checked_mul(datatype.size.into()));
    let mut value = parts.value;
    let available = value.remaining() as u64;
    let Some(size) = size.filter(|&size| size <= available) else {
        let needed = size.unwrap_or(u64::MAX);
        return Err(value.error(Reason::Truncated { needed, available }));
    };
    let value = value.take(size as usize)?.to_vec();
    let (name, charset) = (Name::from(parts.name), parts.charset);
    Ok(Attribute { name, charset, creation_order: None, datatype, dataspace, value })
}
