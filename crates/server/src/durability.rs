//! [`Durability`]: which start of the server acknowledges writes, and which objects are durable.
//!
//! A write is durable if the start that acknowledged it also acknowledges a sync after it. So the
//! id of the start changes whenever something that was acknowledged may be lost: at every start
//! of the process but one that follows an orderly stop, at which all objects were synced; and after
//! a sync that failed, since the system forgets what it could not write and reports that once.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use striate_wire::StartId;

/// Objects that are remembered; clean ones beyond that are forgotten, which costs a sync at most.
const REMEMBERED: usize = 1 << 16;

/// Locks that syncs of objects share.
const LOCKS: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Durability {
    start: AtomicU64,
    objects: Mutex<HashMap<u64, ObjectWrites>>,
    /// Held during a sync until a failure of it is noted: the system reports that to one of those
    /// who sync at the same time.
    syncing: [Mutex<()>; LOCKS],
}

/// Changes of an object by this process.
#[derive(Clone, Copy, Debug, Default)]
struct ObjectWrites {
    made: u64,
    /// How many had been made when the last sync began that succeeded.
    synced: Option<u64>,
}

impl ObjectWrites {
    fn is_clean(self) -> bool {
        self.synced == Some(self.made)
    }
}

impl Durability {
    /// A new start, which acknowledged nothing so far.
    pub(crate) fn new() -> Self {
        let start = AtomicU64::new(random());
        Self {
            start,
            objects: Mutex::default(),
            syncing: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// Goes on as an earlier start, which made all durable that it acknowledged.
    pub(crate) fn resume(&self, start: StartId) {
        self.start.store(start.0, Ordering::SeqCst);
    }

    /// The present start. What is acknowledged in its name must be done after this was asked.
    pub(crate) fn start(&self) -> StartId {
        StartId(self.start.load(Ordering::SeqCst))
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<u64, ObjectWrites>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an object was changed, after it was and before that is acknowledged.
    pub(crate) fn changed(&self, object: u64) {
        let mut objects = self.objects();
        if objects.len() >= REMEMBERED && !objects.contains_key(&object) {
            objects.retain(|_, writes| !writes.is_clean());
        }
        objects.entry(object).or_default().made += 1;
    }

    /// Forgets an object that was removed.
    pub(crate) fn removed(&self, object: u64) {
        self.objects().remove(&object);
    }

    /// Objects that were changed and not synced.
    pub(crate) fn unsynced(&self) -> Vec<u64> {
        let objects = self.objects();
        objects.iter().filter(|(_, writes)| !writes.is_clean()).map(|(id, _)| *id).collect()
    }

    /// Makes an object durable by `sync`, unless it is; returns the start whose acknowledged
    /// writes are durable then. If `sync` fails, a new start begins.
    pub(crate) fn sync(
        &self,
        object: u64,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<StartId> {
        let syncing = &self.syncing[(object % LOCKS as u64) as usize];
        let _alone = syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.objects().get(&object).copied().unwrap_or_default();
        if !before.is_clean() {
            if let Err(error) = sync() {
                self.start.store(random(), Ordering::SeqCst);
                tracing::error!(
                    object = format_args!("{object:016x}"),
                    %error,
                    "a sync failed: clients are told that what they wrote before may be lost"
                );
                return Err(error);
            }
            let mut objects = self.objects();
            if objects.len() < REMEMBERED || objects.contains_key(&object) {
                objects.entry(object).or_default().synced = Some(before.made);
            }
        }
        Ok(self.start())
    }
}

/// Two starts have the same number with a chance of 1 to 2⁶⁴.
fn random() -> u64 {
    let mut bytes = [0; 8];
    if getrandom::fill(&mut bytes).is_err() {
        // Without randomness, the time differs between starts.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        return now.map_or(0, |now| now.as_nanos() as u64);
    }
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_object_is_synced_as_often_as_needed() {
        let (durability, syncs) = (Durability::new(), Cell::new(0));
        let sync = || {
            syncs.set(syncs.get() + 1);
            Ok(())
        };
        // What an earlier process wrote to it is not known.
        durability.sync(5, sync).unwrap();
        durability.sync(5, sync).unwrap();
        assert_eq!(syncs.get(), 1);
        durability.changed(5);
        assert_eq!(durability.unsynced(), [5]);
        durability.sync(5, sync).unwrap();
        durability.sync(5, sync).unwrap();
        assert_eq!((syncs.get(), durability.unsynced().len()), (2, 0));
        // A change during a sync is not covered by it.
        durability.changed(5);
        let during = || {
            durability.changed(5);
            sync()
        };
        durability.sync(5, during).unwrap();
        assert_eq!(durability.unsynced(), [5]);
        durability.sync(5, sync).unwrap();
        assert_eq!((syncs.get(), durability.unsynced().len()), (4, 0));
    }

    #[test]
    fn a_failed_sync_begins_a_new_start() {
        let durability = Durability::new();
        durability.changed(5);
        let before = durability.start();
        durability.sync(5, || Err(io::ErrorKind::Other.into())).unwrap_err();
        assert_ne!(durability.start(), before);
        assert_eq!(durability.unsynced(), [5]);
        // The system says success to the next.
        assert_ne!(durability.sync(5, || Ok(())).unwrap(), before);
        assert_ne!(durability.start(), Durability::new().start());
    }

    #[test]
    fn clean_objects_are_forgotten() {
        let durability = Durability::new();
        for object in 0..2 * REMEMBERED as u64 {
            durability.changed(object);
            durability.sync(object, || Ok(())).unwrap();
        }
        assert!(durability.objects().len() <= REMEMBERED);
    }
}
