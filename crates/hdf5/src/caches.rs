//! [`Caches`]: what operations decode again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::heap::global::Collection;
use crate::model::{Address, Datatype, Message};
use crate::shared::SharedMessageIndex;

/// The most committed types that are kept.
const TYPES: usize = 1024;
/// The most bytes of global heap collections that are kept, if there is more than one.
const HEAP_BYTES: usize = 16 << 20;

/// The most messages for which room is kept.
const MOST_ROOM: usize = 1024;

/// Decoded structures that are kept with a file.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    types: Mutex<HashMap<Address, Datatype>>,
    collections: Mutex<Collections>,
    shared_messages: Mutex<Option<Arc<[SharedMessageIndex]>>>,
    /// Room for the messages of a header: too large for the short cuts of allocators, and asked for
    /// once per object.
    room: Mutex<Vec<Message>>,
}

#[derive(Debug, Default)]
struct Collections {
    by_address: HashMap<Address, Arc<Collection>>,
    bytes: usize,
}

impl Caches {
    pub(crate) fn datatype(&self, address: Address) -> Option<Datatype> {
        self.types.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    pub(crate) fn keep_datatype(&self, address: Address, datatype: Datatype) {
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if types.len() >= TYPES {
            types.clear();
        }
        types.insert(address, datatype);
    }

    pub(crate) fn collection(&self, address: Address) -> Option<Arc<Collection>> {
        let kept = self.collections.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_address.get(&address).cloned()
    }

    pub(crate) fn keep_collection(&self, address: Address, collection: Arc<Collection>) {
        let mut kept = self.collections.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes + collection.len() > HEAP_BYTES {
            *kept = Collections::default();
        }
        kept.bytes += collection.len();
        kept.by_address.insert(address, collection);
    }

    /// Room for so many messages.
    pub(crate) fn room_for_messages(&self, count: usize) -> Vec<Message> {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = std::mem::take(&mut *room);
        room.reserve(count);
        room
    }

    /// Takes room back.
    pub(crate) fn keep_room(&self, mut messages: Vec<Message>) {
        messages.clear();
        if messages.capacity() <= MOST_ROOM {
            *self.room.lock().unwrap_or_else(PoisonError::into_inner) = messages;
        }
    }

    pub(crate) fn shared_messages(&self) -> Option<Arc<[SharedMessageIndex]>> {
        self.shared_messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep_shared_messages(&self, indexes: Arc<[SharedMessageIndex]>) {
        *self.shared_messages.lock().unwrap_or_else(PoisonError::into_inner) = Some(indexes);
    }
}
