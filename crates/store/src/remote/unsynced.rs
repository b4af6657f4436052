//! [`Unsynced`]: what servers acknowledged of a file and have not made durable, by one handle.
//!
//! A server that is started anew after a crash may have lost what it acknowledged and did not
//! sync. It says so by another start ([`StartId`]). Then what the handle still has is written
//! again, in the order in which it was written; of the rest a sync says that it may be lost.
//!
//! Bytes are kept up to a limit for all files of a client. Past it, the bytes of that server are
//! dropped and only counted until the next sync: so a long write costs the copy of its beginning
//! at most, and what is kept is always all that there is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use striate_wire::{Request, StartId, TypeId};

/// What a kept request takes besides its bytes, about.
const OVERHEAD: usize = 256;

/// Bytes that a client may keep, for all its files.
#[derive(Debug)]
pub(super) struct Budget(AtomicUsize);

impl Budget {
    pub(super) const fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of a write under way that are kept in case that it is acknowledged, or of one that was.
#[derive(Debug)]
pub(super) struct Kept {
    budget: Arc<Budget>,
    taken: usize,
    /// As they were sent.
    pub(super) frames: Vec<Vec<u8>>,
}

impl Kept {
    /// Begins to keep, unless there is no room.
    fn begin(budget: &Arc<Budget>) -> Option<Self> {
        let taken = OVERHEAD;
        let budget = Arc::clone(budget);
        budget.take(taken).then(|| Self { budget, taken, frames: Vec::new() })
    }

    /// Room for a frame of so many bytes, if there is that.
    pub(super) fn frame(&mut self, len: usize) -> Option<&mut Vec<u8>> {
        if !self.budget.take(len) {
            return None;
        }
        self.taken += len;
        self.frames.push(Vec::with_capacity(len));
        self.frames.last_mut()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

/// A request with the description that it needs and the bytes that it sent.
pub(super) type KeptRequest = (Request, Option<(TypeId, Vec<u8>)>, Kept);

/// A request that was acknowledged.
#[derive(Debug)]
pub(super) struct Acknowledged {
    pub(super) request: Request,
    /// The description that it needs.
    pub(super) encoding: Option<(TypeId, Vec<u8>)>,
    pub(super) kept: Kept,
    pub(super) start: StartId,
    sequence: u64,
}

/// Requests of which only this is known.
#[derive(Clone, Copy, Debug)]
struct CountedWrites {
    bytes: u64,
    start: StartId,
    /// Whether another start acknowledged a part.
    mixed: bool,
    last: u64,
}

/// What one server acknowledged.
#[derive(Debug, Default)]
struct Journal {
    kept: Vec<Acknowledged>,
    /// If there is this, nothing is kept.
    counted: Option<CountedWrites>,
    sequence: u64,
}

impl Journal {
    fn is_of(&self, start: StartId) -> bool {
        self.kept.iter().all(|one| one.start == start)
            && self.counted.is_none_or(|counted| counted.start == start && !counted.mixed)
    }

    fn count(&mut self, bytes: u64, start: StartId, sequence: u64) {
        let new = CountedWrites { bytes, start, mixed: false, last: sequence };
        let counted = self.counted.get_or_insert(CountedWrites { bytes: 0, ..new });
        counted.bytes += bytes;
        counted.mixed |= counted.start != start;
        counted.last = sequence;
    }
}

/// What a sync of a server means for what was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// All is durable.
    Durable,
    /// Something may be lost, and can be written again.
    WriteAgain,
    /// So many bytes may be lost.
    Lost(u64),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Unsynced {
    /// Held shared while requests change the file, exclusively while kept ones are written again:
    /// they must not come after newer ones.
    pub(super) order: RwLock<()>,
    budget: Arc<Budget>,
    servers: Vec<Mutex<Journal>>,
}

impl Unsynced {
    /// Nothing yet, on so many servers.
    pub(super) fn new(servers: usize, budget: &Arc<Budget>) -> Self {
        let servers = (0..servers).map(|_| Mutex::default()).collect();
        Self { order: RwLock::default(), budget: Arc::clone(budget), servers }
    }

    fn journal(&self, server: u32) -> MutexGuard<'_, Journal> {
        self.servers[server as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to keep a request, if that is of use.
    pub(super) fn keep(&self, server: u32) -> Option<Kept> {
        if self.journal(server).counted.is_some() {
            return None;
        }
        Kept::begin(&self.budget)
    }

    /// Notes that a start of a server acknowledged a request that changed so many bytes.
    pub(super) fn acknowledged(
        &self,
        server: u32,
        start: StartId,
        bytes: u64,
        kept: Option<KeptRequest>,
    ) {
        let mut journal = self.journal(server);
        journal.sequence += 1;
        let sequence = journal.sequence;
        match kept {
            Some((request, encoding, kept)) if journal.counted.is_none() => {
                journal.kept.push(Acknowledged { request, encoding, kept, start, sequence });
            }
            _ => {
                for one in std::mem::take(&mut journal.kept) {
                    let bytes = one.kept.frames.iter().map(|frame| frame.len() as u64).sum();
                    journal.count(bytes, one.start, one.sequence);
                }
                journal.count(bytes, start, sequence);
            }
        }
    }

    /// Whether something must be written again before anything else is asked of this start of a
    /// server.
    pub(super) fn must_write_again(&self, server: u32, start: StartId) -> bool {
        let journal = self.journal(server);
        !journal.kept.is_empty() && !journal.is_of(start)
    }

    /// All that was acknowledged so far has no later number.
    pub(super) fn mark(&self, server: u32) -> u64 {
        self.journal(server).sequence
    }

    /// A start of a server has synced what was acknowledged up to a mark. What may be lost for
    /// good is forgotten: it is said once.
    pub(super) fn settle(&self, server: u32, mark: u64, start: StartId) -> Settled {
        let mut journal = self.journal(server);
        if !journal.is_of(start) {
            return match journal.counted.take() {
                None => Settled::WriteAgain,
                Some(counted) => Settled::Lost(counted.bytes),
            };
        }
        journal.kept.retain(|one| one.sequence > mark);
        if journal.counted.is_some_and(|counted| counted.last <= mark) {
            journal.counted = None;
        }
        Settled::Durable
    }

    /// Writes all that is kept for a server again by `write`, which returns the start that
    /// acknowledged it. While that runs, `order` must be held.
    pub(super) fn write_again<E>(
        &self,
        server: u32,
        mut write: impl FnMut(&Acknowledged) -> Result<StartId, E>,
    ) -> Result<(), E> {
        let mut journal = self.journal(server);
        for one in &mut journal.kept {
            one.start = write(one)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: StartId = StartId(1);
    const NEW: StartId = StartId(2);

    fn unsynced(bytes: usize) -> Unsynced {
        Unsynced::new(2, &Arc::new(Budget::new(bytes)))
    }

    fn write(unsynced: &Unsynced, start: StartId, bytes: &[u8]) {
        let kept = unsynced.keep(0).and_then(|mut kept| {
            kept.frame(bytes.len())?.extend_from_slice(bytes);
            Some((Request::Ping, None, kept))
        });
        unsynced.acknowledged(0, start, bytes.len() as u64, kept);
    }

    fn left(unsynced: &Unsynced) -> usize {
        unsynced.budget.0.load(Ordering::Relaxed)
    }

    #[test]
    fn what_the_same_start_synced_is_forgotten() {
        let unsynced = unsynced(10_000);
        write(&unsynced, OLD, b"abc");
        let mark = unsynced.mark(0);
        write(&unsynced, OLD, b"def");
        assert_eq!(unsynced.settle(0, mark, OLD), Settled::Durable);
        // What came after the mark is not durable yet.
        assert!(unsynced.must_write_again(0, NEW) && !unsynced.must_write_again(0, OLD));
        assert_eq!(unsynced.settle(0, unsynced.mark(0), OLD), Settled::Durable);
        assert!(!unsynced.must_write_again(0, NEW));
        assert_eq!(left(&unsynced), 10_000);
    }

    #[test]
    fn what_another_start_has_is_written_again_in_order() {
        let unsynced = unsynced(10_000);
        write(&unsynced, OLD, b"abc");
        write(&unsynced, NEW, b"def");
        assert_eq!(unsynced.settle(0, unsynced.mark(0), NEW), Settled::WriteAgain);
        let mut again = Vec::new();
        unsynced
            .write_again(0, |one| {
                again.extend_from_slice(&one.kept.frames.concat());
                Ok::<_, ()>(NEW)
            })
            .unwrap();
        assert_eq!(again, b"abcdef");
        assert_eq!(unsynced.settle(0, unsynced.mark(0), NEW), Settled::Durable);
        assert_eq!(unsynced.settle(1, unsynced.mark(1), NEW), Settled::Durable);
    }

    #[test]
    fn what_is_not_kept_is_lost_once() {
        let unsynced = unsynced(2 * OVERHEAD + 5);
        write(&unsynced, OLD, b"abc");
        write(&unsynced, OLD, b"def");
        assert_eq!(left(&unsynced), 2 * OVERHEAD + 5, "nothing is kept in part");
        write(&unsynced, OLD, b"g");
        assert!(!unsynced.must_write_again(0, NEW));
        assert_eq!(unsynced.settle(0, unsynced.mark(0), NEW), Settled::Lost(7));
        assert_eq!(unsynced.settle(0, unsynced.mark(0), NEW), Settled::Durable);
        write(&unsynced, NEW, b"h");
        assert!(unsynced.must_write_again(0, OLD), "after that, there is room again");
    }

    #[test]
    fn what_two_starts_acknowledged_is_lost_whichever_syncs() {
        let unsynced = unsynced(0);
        write(&unsynced, OLD, b"abc");
        write(&unsynced, NEW, b"abc");
        assert_eq!(unsynced.settle(0, unsynced.mark(0), NEW), Settled::Lost(6));
        write(&unsynced, NEW, b"abc");
        assert_eq!(unsynced.settle(0, unsynced.mark(0), NEW), Settled::Durable);
    }
}
