//! [`RangeTable`]: byte-range locks among the threads of one process.
//!
//! Not first come, first served: a user that asks for a second range while other users queue for
//! the first could then be in a cycle of waits. A range that fits is granted at once.

use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Cause, Malformed, Operation, StoreError};
use crate::placement::check_extent;
use crate::store::{Lock, LockKind};

/// How long a lock among threads is waited for.
const LIMIT: Duration = Duration::from_secs(600);

/// Checks a range that shall be locked.
pub(crate) fn check_range(range: &Range<u64>) -> Result<(), Malformed> {
    let &Range { start, end } = range;
    let len = end.checked_sub(start).ok_or(Malformed::BackwardRange { start, end })?;
    check_extent(start, len)
}

/// The lock of an empty range: nothing is held.
#[derive(Debug)]
pub(crate) struct EmptyLock;

impl Lock for EmptyLock {}

/// The lock of an object that only threads of this process share.
#[derive(Debug)]
struct RangeGuard<'t> {
    table: &'t RangeTable,
    id: u64,
}

impl Lock for RangeGuard<'_> {}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.table.leave(self.id, |_| {});
    }
}

/// The ranges that are held now.
#[derive(Debug, Default)]
pub(crate) struct RangeTable {
    held: Mutex<RangeEntries>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct RangeEntries {
    last: u64,
    entries: Vec<RangeEntry>,
}

#[derive(Debug)]
struct RangeEntry {
    id: u64,
    range: Range<u64>,
    kind: LockKind,
}

impl RangeEntry {
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }

    fn excludes(&self, range: &Range<u64>, kind: LockKind) -> bool {
        let exclusive = self.kind == LockKind::Exclusive || kind == LockKind::Exclusive;
        exclusive && self.overlaps(range)
    }
}

impl RangeTable {
    /// Locks a range of `object`, all handles of which share this table.
    pub(crate) fn lock(
        &self,
        object: &str,
        range: Range<u64>,
        kind: LockKind,
    ) -> Result<Box<dyn Lock + '_>, StoreError> {
        let (start, len) = (range.start, range.end.saturating_sub(range.start));
        let fail = |cause| StoreError::new(Operation::Lock, object, cause).at(start, len);
        check_range(&range).map_err(|what| fail(Cause::Malformed(what)))?;
        if range.is_empty() {
            return Ok(Box::new(EmptyLock));
        }
        let id = self.enter(range, kind, LIMIT).ok_or_else(|| fail(Cause::TimedOut(LIMIT)))?;
        Ok(Box::new(RangeGuard { table: self, id }))
    }

    /// Enters a range that is not empty, when no other range excludes it; `None` when `limit` has
    /// passed before.
    pub(crate) fn enter(&self, range: Range<u64>, kind: LockKind, limit: Duration) -> Option<u64> {
        let start = Instant::now();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.entries.iter().any(|entry| entry.excludes(&range, kind)) {
            let left = limit.checked_sub(start.elapsed())?;
            let waited = self.released.wait_timeout(held, left);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        held.last += 1;
        let id = held.last;
        held.entries.push(RangeEntry { id, range, kind });
        Some(id)
    }

    /// Leaves a range. Before another range can enter, `release` gets the parts of it that no other
    /// one shares.
    pub(crate) fn leave(&self, id: u64, mut release: impl FnMut(Range<u64>)) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = held.entries.iter().position(|entry| entry.id == id) else { return };
        let RangeEntry { range, .. } = held.entries.swap_remove(at);
        let mut others: Vec<_> =
            held.entries.iter().filter(|e| e.overlaps(&range)).map(|e| e.range.clone()).collect();
        others.sort_unstable_by_key(|other| other.start);
        let mut from = range.start;
        for other in others {
            if from < other.start {
                release(from..other.start);
            }
            from = from.max(other.end);
        }
        if from < range.end {
            release(from..range.end);
        }
        drop(held);
        self.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn exclusive_excludes_and_shared_shares() {
        let table = RangeTable::default();
        let a = table.enter(0..10, LockKind::Shared, NOW).unwrap();
        let b = table.enter(5..15, LockKind::Shared, NOW).unwrap();
        assert!(table.enter(9..11, LockKind::Exclusive, NOW).is_none());
        let c = table.enter(15..20, LockKind::Exclusive, NOW).unwrap();
        assert!(table.enter(19..21, LockKind::Shared, NOW).is_none());
        for id in [a, b, c] {
            table.leave(id, |_| {});
        }
        assert!(table.enter(0..100, LockKind::Exclusive, NOW).is_some());
    }

    #[test]
    fn only_what_nobody_shares_is_released() {
        let table = RangeTable::default();
        let a = table.enter(0..100, LockKind::Shared, NOW).unwrap();
        let b = table.enter(10..20, LockKind::Shared, NOW).unwrap();
        table.enter(15..30, LockKind::Shared, NOW).unwrap();
        let mut released = Vec::new();
        table.leave(a, |range| released.push(range));
        assert_eq!(released, [0..10, 30..100]);
        released.clear();
        table.leave(b, |range| released.push(range));
        assert_eq!(released, std::slice::from_ref(&(10..15)));
    }
}
