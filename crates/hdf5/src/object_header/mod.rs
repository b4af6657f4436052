//! Object headers: all messages of an object, in versions 1 and 2.
//!
//! A header is a chain of blocks: the first is at the object's address, others are named by
//! continuation messages. Bodies of messages are kept as they are stored; [`crate::message`]
//! decodes those that are asked for.

mod version_1;
mod version_2;

use std::collections::{HashSet, VecDeque};

use crate::cursor::Cursor;
use crate::model::{Address, Message, MessageFlags, MessageKind, Object, ObjectHeader, ObjectKind};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

/// For so many messages there is room from the beginning: most objects have fewer.
const USUAL_MESSAGES: usize = 16;

/// Reads the header at an address.
pub(crate) fn read(walk: &Walk<'_>, address: Address) -> Result<ObjectHeader> {
    let mut beginning = [0; 4];
    let is_version_2 = walk.read_into(Structure::ObjectHeader, address, &mut beginning)?
        == version_2::SIGNATURE.as_slice();
    let mut header = if is_version_2 {
        version_2::read(walk, address)?
    } else {
        version_1::read(walk, address)?
    };
    let counted = header.messages.iter().find(|one| one.kind == MessageKind::REFERENCE_COUNT);
    if let Some(message) = counted {
        let mut cursor =
            walk.cursor(&message.body, Structure::Message(message.kind.0), message.address);
        cursor.version(0..=0)?;
        header.reference_count = cursor.u32()?;
    }
    Ok(header)
}

/// Reads an object, and says what it is.
pub(crate) fn object(walk: &Walk<'_>, address: Address) -> Result<Object> {
    let header = read(walk, address)?;
    for message in &header.messages {
        let unknown = message.kind > MessageKind::HIGHEST;
        if unknown && message.flags.contains(MessageFlags::FAIL_IF_UNKNOWN) {
            let what =
                format!("message {}, without which the object cannot be read,", message.kind);
            return Err(Error::at(Structure::ObjectHeader, address, Reason::Unsupported(what)));
        }
    }
    let has = |kind| header.message(kind).is_some();
    let kind = if has(MessageKind::LAYOUT) {
        ObjectKind::Dataset
    } else if has(MessageKind::SYMBOL_TABLE)
        || has(MessageKind::LINK_INFO)
        || has(MessageKind::LINK)
        || has(MessageKind::GROUP_INFO)
    {
        ObjectKind::Group
    } else if has(MessageKind::DATATYPE) {
        ObjectKind::Datatype
    } else {
        let reason = Reason::Invalid("neither a group nor a dataset nor a committed type");
        return Err(Error::at(Structure::ObjectHeader, address, reason));
    };
    Ok(Object { address, kind, header })
}

impl ObjectHeader {
    /// The first message of a kind.
    pub fn message(&self, kind: MessageKind) -> Option<&Message> {
        self.messages.iter().find(|message| message.kind == kind)
    }
}

/// Blocks that are still to be read.
struct Continuations {
    header: Address,
    waiting: VecDeque<(Address, u64)>,
    seen: HashSet<Address>,
}

impl Continuations {
    fn new(header: Address) -> Self {
        Self { header, waiting: VecDeque::new(), seen: HashSet::new() }
    }

    /// Takes note of a continuation message.
    fn add(&mut self, mut message: Cursor<'_>) -> Result<()> {
        let address = message.defined_address("a continuation at no address")?;
        let length = message.length()?;
        if address == self.header || !self.seen.insert(address) {
            return Err(message.error(Reason::Cycle));
        }
        self.waiting.push_back((address, length));
        Ok(())
    }

    fn next(&mut self) -> Option<(Address, u64)> {
        self.waiting.pop_front()
    }
}
