//! Caches of datatypes by their ids: those that a server has, and those that a client knows the
//! server to have.
//!
//! A description travels once and is named from then on. Both memories are bounded; when the server
//! has forgotten one that the client thought it knew, it says so (`UnknownType`), and the client
//! sends it again. So neither needs to know the other's limits.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use striate_datatype::Datatype;

use crate::failure::{Failure, FailureCode};
use crate::id::TypeId;

/// Bytes that an entry counts besides its datatype: its place in the cache.
const ENTRY: usize = 128;

/// The datatypes that clients sent to a server; those not used for longest are dropped first.
#[derive(Debug)]
pub struct Descriptions {
    limit: usize,
    remembered: Mutex<CachedType>,
}

#[derive(Debug)]
struct CachedType {
    types: LruCache<TypeId, (Arc<Datatype>, usize)>,
    bytes: usize,
}

impl Descriptions {
    /// Remembers descriptions that take `limit` bytes of memory at most. Their encodings are
    /// shorter, often much.
    pub fn new(limit: usize) -> Self {
        let remembered = CachedType { types: LruCache::unbounded(), bytes: 0 };
        Self { limit, remembered: Mutex::new(remembered) }
    }

    /// Remembers a datatype, if these bytes are one and have this id.
    pub fn define(&self, id: TypeId, encoding: &[u8]) -> Result<(), Failure> {
        let found = TypeId::of(encoding);
        if found != id {
            return Err(Failure::new(
                FailureCode::Malformed,
                format!("cannot define datatype {id}: the description sent with it has id {found}"),
            ));
        }
        if self.get(&id).is_some() {
            return Ok(());
        }
        // Outside of the lock: a long description takes its time.
        let datatype = Datatype::decode(encoding).map_err(|error| {
            Failure::new(FailureCode::Malformed, format!("cannot define datatype {id}: {error}"))
        })?;
        let cost =
            usize::try_from(datatype.memory_len()).unwrap_or(usize::MAX).saturating_add(ENTRY);
        if cost > self.limit {
            return Err(Failure::new(
                FailureCode::Busy,
                format!(
                    "cannot define datatype {id}: its description takes {cost} bytes of memory, and \
                     this server remembers {}",
                    self.limit
                ),
            ));
        }
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.types.put(id, (Arc::new(datatype), cost)).is_none() {
            remembered.bytes += cost;
        }
        while remembered.bytes > self.limit
            && let Some((_, (_, freed))) = remembered.types.pop_lru()
        {
            remembered.bytes -= freed;
        }
        Ok(())
    }

    /// The datatype with this id, if it is remembered.
    pub fn get(&self, id: &TypeId) -> Option<Arc<Datatype>> {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.types.get(id).map(|(datatype, _)| Arc::clone(datatype))
    }
}

/// The datatypes that were sent to the server of a connection.
#[derive(Debug)]
pub struct SentTypes(LruCache<TypeId, ()>);

impl SentTypes {
    /// Nothing was sent yet; keeps at most `limit` ids.
    pub fn new(limit: NonZeroUsize) -> Self {
        Self(LruCache::new(limit))
    }

    /// Whether this type must be sent to the server before it is named. If so, the caller sends it:
    /// from now on it counts as sent.
    pub fn must_tell(&mut self, id: TypeId) -> bool {
        self.0.put(id, ()).is_none()
    }

    /// The server does not know this type (any more).
    pub fn forget(&mut self, id: &TypeId) {
        self.0.pop(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(notation: &str) -> (TypeId, Vec<u8>) {
        let encoding = notation.parse::<Datatype>().unwrap().encode();
        (TypeId::of(&encoding), encoding)
    }

    #[test]
    fn a_description_is_remembered_by_its_content() {
        let descriptions = Descriptions::new(1 << 20);
        let (id, bytes) = encoding("vector(3, 2 of i32, stride=5)");
        assert!(descriptions.get(&id).is_none());
        descriptions.define(id, &bytes).unwrap();
        descriptions.define(id, &bytes).unwrap();
        assert_eq!(descriptions.get(&id).unwrap().encode(), bytes);
        let memory = descriptions.get(&id).unwrap().memory_len() as usize;
        assert_eq!(descriptions.remembered.lock().unwrap().bytes, memory + ENTRY);

        let (other, _) = encoding("i32");
        let failure = descriptions.define(other, &bytes).unwrap_err();
        assert_eq!(failure.code, FailureCode::Malformed);
        let junk = b"\xD1 no datatype";
        let failure = descriptions.define(TypeId::of(junk), junk).unwrap_err();
        assert_eq!(failure.code, FailureCode::Malformed);
        assert!(descriptions.get(&TypeId::of(junk)).is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten() {
        let types: Vec<_> = (1..=4).map(|n| encoding(&format!("bytes({n})"))).collect();
        let memory = Datatype::decode(&types[0].1).unwrap().memory_len() as usize;
        let each = memory + ENTRY;
        let descriptions = Descriptions::new(3 * each);
        for (id, bytes) in &types[..3] {
            descriptions.define(*id, bytes).unwrap();
        }
        descriptions.get(&types[0].0).unwrap();
        descriptions.define(types[3].0, &types[3].1).unwrap();
        let kept: Vec<bool> = types.iter().map(|(id, _)| descriptions.get(id).is_some()).collect();
        assert_eq!(kept, [true, false, true, true]);

        let failure = Descriptions::new(each - 1).define(types[0].0, &types[0].1).unwrap_err();
        assert_eq!(failure.code, FailureCode::Busy);
    }

    #[test]
    fn memory_counts_and_not_the_length_on_the_wire() {
        let limit = 4 << 20;
        let descriptions = Descriptions::new(limit);
        let byte: Datatype = "bytes(1)".parse().unwrap();
        for first in 1..20i64 {
            let blocks: Vec<_> = (0..20_000).map(|i| (1 + i as u64 % 3, 5 * i + first)).collect();
            let datatype = Datatype::hindexed(&blocks, &byte).unwrap();
            let encoding = datatype.encode();
            assert!(3 * (encoding.len() as u64) < datatype.memory_len());
            descriptions.define(TypeId::of(&encoding), &encoding).unwrap();
            let remembered = descriptions.remembered.lock().unwrap();
            let kept = remembered.types.iter();
            let memory: u64 = kept.map(|(_, (datatype, _))| datatype.memory_len()).sum();
            assert!(memory as usize <= limit, "{memory}");
        }
    }

    #[test]
    fn a_server_is_told_once() {
        let mut known = SentTypes::new(NonZeroUsize::new(2).unwrap());
        let [a, b, c] = [[1; 16], [2; 16], [3; 16]].map(TypeId);
        assert!(known.must_tell(a));
        assert!(!known.must_tell(a));
        known.forget(&a);
        assert!(known.must_tell(a));
        assert!(known.must_tell(b));
        assert!(known.must_tell(c));
        assert!(known.must_tell(a), "forgotten at the limit");
    }
}
