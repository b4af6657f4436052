//! [`Caches`]: what operations decode again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::heap::global::Collection;
use crate::model::{Address, Datatype};
use crate::shared::SharedMessageIndex;

/// The most committed types that are kept.
const TYPES: usize = 1024;
/// The most bytes of global heap collections that are kept, if there is more than one.
const HEAP_BYTES: usize = 16 << 20;

/// Decoded structures that are kept with a file.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    types: Mutex<HashMap<Address, Datatype>>,
    collections: Mutex<Collections>,
    shared_messages: Mutex<Option<Arc<[SharedMessageIndex]>>>,
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

    pub(crate) fn shared_messages(&self) -> Option<Arc<[SharedMessageIndex]>> {
        self.shared_messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep_shared_messages(&self, indexes: Arc<[SharedMessageIndex]>) {
        *self.shared_messages.lock().unwrap_or_else(PoisonError::into_inner) = Some(indexes);
    }
}
