//! Version 1: messages at multiples of 8 bytes, no checksum.

use super::{Continuations, USUAL_MESSAGES};
use crate::cursor::Cursor;
use crate::model::{Address, Message, MessageFlags, MessageKind, ObjectHeader};
use crate::walk::Walk;
use crate::{Result, Structure};

/// Version, reserved, messages, references, size, and what fills up to a multiple of 8.
const PREFIX: u64 = 16;
/// Kind, size, flags, reserved.
const MESSAGE_PREFIX: usize = 8;

pub(super) fn read(walk: &Walk<'_>, address: Address) -> Result<ObjectHeader> {
    let prefix = walk.bytes(Structure::ObjectHeader, address, PREFIX)?;
    let mut cursor = walk.cursor(&prefix, Structure::ObjectHeader, address);
    cursor.version(1..=1)?;
    cursor.skip(1)?;
    let count = cursor.u16()?;
    let reference_count = cursor.u32()?;
    let size = u64::from(cursor.u32()?);
    let mut header = ObjectHeader {
        version: 1,
        reference_count,
        times: None,
        attribute_order_tracked: false,
        attribute_order_indexed: false,
        attribute_phase_change: None,
        messages: walk.caches().room_for_messages(USUAL_MESSAGES),
    };
    let mut continuations = Continuations::new(address);
    let mut block = address.checked_add(PREFIX).map(|begin| (begin, size));
    let mut seen = 0;
    while let Some((begin, length)) = block {
        let bytes = walk.bytes(Structure::ObjectHeader, begin, length)?;
        let mut cursor = walk.cursor(&bytes, Structure::ObjectHeader, begin);
        // What follows the last message that is counted is room.
        while cursor.remaining() >= MESSAGE_PREFIX && seen < count {
            seen += 1;
            message(&mut cursor, &mut header, &mut continuations)?;
        }
        block = continuations.next();
    }
    Ok(header)
}

fn message(
    cursor: &mut Cursor<'_>,
    header: &mut ObjectHeader,
    continuations: &mut Continuations,
) -> Result<()> {
    let kind = MessageKind(cursor.u16()?);
    let size = usize::from(cursor.u16()?);
    let flags = MessageFlags(cursor.u8()?);
    cursor.skip(3)?;
    let at = cursor.within(Structure::Message(kind.0));
    let body = cursor.take(size)?;
    match kind {
        MessageKind::NIL => {}
        MessageKind::CONTINUATION => continuations.add(at)?,
        _ => header.messages.push(Message {
            kind,
            flags,
            creation_order: None,
            address: at.begin(),
            body: body.into(),
        }),
    }
    Ok(())
}
