//! Version 2: messages without gaps, a checksum for each block.

use super::{Continuations, USUAL_MESSAGES};
use crate::cursor::{Cursor, verified};
use crate::model::{
    Address, AttributePhaseChange, Message, MessageFlags, MessageKind, ObjectHeader, Times,
};
use crate::walk::Walk;
use crate::{Result, Structure};

pub(super) const SIGNATURE: [u8; 4] = *b"OHDR";
const CONTINUATION: [u8; 4] = *b"OCHK";
/// Signature, version, flags, times, phase change, size.
const LONGEST_PREFIX: usize = 4 + 1 + 1 + 16 + 4 + 8;
const CHECKSUM: u64 = 4;

/// Bits of the flags.
const SIZE_WIDTH: u8 = 0x03;
const ORDER_TRACKED: u8 = 0x04;
const ORDER_INDEXED: u8 = 0x08;
const PHASE_CHANGE: u8 = 0x10;
const TIMES: u8 = 0x20;

pub(super) fn read(walk: &Walk<'_>, address: Address) -> Result<ObjectHeader> {
    let mut buffer = [0; LONGEST_PREFIX];
    let prefix = walk.read_into(Structure::ObjectHeader, address, &mut buffer)?;
    let mut cursor = walk.cursor(prefix, Structure::ObjectHeader, address);
    cursor.signature(SIGNATURE)?;
    cursor.version(2..=2)?;
    let flags = cursor.u8()?;
    let times = if flags & TIMES != 0 {
        let (access, modification) = (cursor.u32()?, cursor.u32()?);
        Some(Times { access, modification, change: cursor.u32()?, birth: cursor.u32()? })
    } else {
        None
    };
    let attribute_phase_change = if flags & PHASE_CHANGE != 0 {
        let (maximum_compact, minimum_dense) = (cursor.u16()?, cursor.u16()?);
        Some(AttributePhaseChange { maximum_compact, minimum_dense })
    } else {
        None
    };
    let size = cursor.uint(1 << (flags & SIZE_WIDTH))?;
    let begin = cursor.position();
    let mut header = ObjectHeader {
        version: 2,
        reference_count: 1,
        times,
        attribute_order_tracked: flags & ORDER_TRACKED != 0,
        attribute_order_indexed: flags & ORDER_INDEXED != 0,
        attribute_phase_change,
        messages: walk.caches().room_for_messages(USUAL_MESSAGES),
    };
    let mut continuations = Continuations::new(address);
    let length = size.saturating_add(begin as u64 + CHECKSUM);
    let bytes = walk.bytes(Structure::ObjectHeader, address, length)?;
    block(walk, &bytes, address, begin, &mut header, &mut continuations)?;
    while let Some((address, length)) = continuations.next() {
        let bytes = walk.bytes(Structure::ObjectHeader, address, length)?;
        walk.cursor(&bytes, Structure::ObjectHeader, address).signature(CONTINUATION)?;
        block(walk, &bytes, address, CONTINUATION.len(), &mut header, &mut continuations)?;
    }
    Ok(header)
}

/// The messages of a block, which begin behind so many bytes.
fn block(
    walk: &Walk<'_>,
    bytes: &[u8],
    address: Address,
    begin: usize,
    header: &mut ObjectHeader,
    continuations: &mut Continuations,
) -> Result<()> {
    let body = verified(bytes, Structure::ObjectHeader, address)?;
    let mut cursor = walk.cursor(body, Structure::ObjectHeader, address);
    cursor.skip(begin)?;
    let prefix = if header.attribute_order_tracked { 6 } else { 4 };
    // What is too short for a message is a gap.
    while cursor.remaining() >= prefix {
        message(&mut cursor, header, continuations)?;
    }
    Ok(())
}

fn message(
    cursor: &mut Cursor<'_>,
    header: &mut ObjectHeader,
    continuations: &mut Continuations,
) -> Result<()> {
    let kind = MessageKind(u16::from(cursor.u8()?));
    let size = usize::from(cursor.u16()?);
    let flags = MessageFlags(cursor.u8()?);
    let creation_order = if header.attribute_order_tracked { Some(cursor.u16()?) } else { None };
    let at = cursor.within(Structure::Message(kind.0));
    let body = cursor.take(size)?;
    match kind {
        MessageKind::NIL => {}
        MessageKind::CONTINUATION => continuations.add(at)?,
        _ => header.messages.push(Message {
            kind,
            flags,
            creation_order,
            address: at.begin(),
            body: body.into(),
        }),
    }
    Ok(())
}
