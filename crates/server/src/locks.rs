//! [`Locks`]: byte-range locks of files among clients.
//!
//! A lock ends when it is released, when the connection that took it ends, or when its lease runs
//! out, whichever comes first: a client that dies or hangs does not stop other clients for long. A
//! lease that ran out is noticed by a request that waits for the range, and by one that renews or
//! releases the lock; nothing else depends on it.
//!
//! Not first come, first served: a client that asks for a second range while other clients queue
//! for the first could then be in a cycle of waits. A request that fits is granted at once.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use striate_wire::{Failure, FailureCode};

use crate::statistics::Statistics;

/// How often a waiting request checks whether its client still waits for it.
const LOOK: Duration = Duration::from_millis(100);

/// The locks that are held now.
#[derive(Debug)]
pub(crate) struct Locks {
    table: Mutex<Table>,
    released: Condvar,
    most: usize,
    statistics: Arc<Statistics>,
}

#[derive(Debug, Default)]
struct Table {
    /// The number that was given last, to a lock or a holder.
    last: u64,
    files: HashMap<u64, Vec<HeldLock>>,
    /// The file that each lock is on.
    places: HashMap<u64, u64>,
}

/// What a client wants to lock.
#[derive(Clone, Debug)]
pub(crate) struct LockRequest {
    pub(crate) file: u64,
    pub(crate) range: Range<u64>,
    pub(crate) exclusive: bool,
    pub(crate) lease: Duration,
}

#[derive(Debug)]
struct HeldLock {
    lock: u64,
    holder: u64,
    range: Range<u64>,
    exclusive: bool,
    until: Instant,
}

impl HeldLock {
    fn excludes(&self, wanted: &LockRequest) -> bool {
        let (start, end) = (wanted.range.start, wanted.range.end);
        let overlap = self.range.start.max(start) < self.range.end.min(end);
        overlap && (self.exclusive || wanted.exclusive)
    }
}

impl Locks {
    /// At most `most` locks at a time.
    pub(crate) fn new(most: usize, statistics: Arc<Statistics>) -> Self {
        Self { table: Mutex::default(), released: Condvar::new(), most, statistics }
    }

    /// For a connection: it holds what it locks.
    pub(crate) fn holder(&self) -> Holder<'_> {
        Holder { locks: self, number: self.table().number(), used: false }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the locks of a file that are `meant`, and returns how many those were.
    fn take_out(&self, table: &mut Table, file: u64, meant: impl Fn(&HeldLock) -> bool) -> u64 {
        let Some(held) = table.files.get_mut(&file) else { return 0 };
        let mut count = 0;
        held.retain(|held| {
            let out = meant(held);
            if out {
                table.places.remove(&held.lock);
                count += 1;
            }
            !out
        });
        if held.is_empty() {
            table.files.remove(&file);
        }
        self.statistics.locks.subtract(count);
        count
    }

    /// Takes out the locks of a file whose leases ran out.
    fn expire(&self, table: &mut Table, file: u64, now: Instant) {
        let lost = self.take_out(table, file, |held| held.until <= now);
        self.statistics.locks_lost.add(lost);
    }

    /// Locks if no other lock excludes it; else returns when the first lease in the way runs out.
    fn attempt(
        &self,
        table: &mut Table,
        holder: u64,
        wanted: &LockRequest,
        now: Instant,
    ) -> Result<Result<u64, Instant>, Failure> {
        self.expire(table, wanted.file, now);
        let held = table.files.get(&wanted.file).map_or(&[][..], Vec::as_slice);
        let in_the_way = held.iter().filter(|held| held.excludes(wanted));
        if let Some(until) = in_the_way.map(|held| held.until).min() {
            return Ok(Err(until));
        }
        if table.places.len() >= self.most {
            let files: Vec<u64> = table.files.keys().copied().collect();
            for file in files {
                self.expire(table, file, now);
            }
            if table.places.len() >= self.most {
                let text =
                    format!("cannot lock file {}: all {} locks are taken", wanted.file, self.most);
                return Err(Failure::new(FailureCode::Busy, text));
            }
        }
        let lock = table.number();
        let LockRequest { file, range, exclusive, lease } = wanted.clone();
        let held = HeldLock { lock, holder, range, exclusive, until: now + lease };
        table.files.entry(file).or_default().push(held);
        table.places.insert(lock, file);
        self.statistics.locks.add(1);
        Ok(Ok(lock))
    }
}

impl Table {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// A connection as the holder of locks. Dropped, it releases them all.
#[derive(Debug)]
pub(crate) struct Holder<'l> {
    locks: &'l Locks,
    number: u64,
    /// Whether it ever held one.
    used: bool,
}

impl Holder<'_> {
    /// Locks a range, and waits for other locks if need be, but not beyond `wait`. The wait checks
    /// now and then whether it is `still_wanted`.
    pub(crate) fn lock(
        &mut self,
        wanted: &LockRequest,
        wait: Duration,
        still_wanted: impl Fn() -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let give_up = Instant::now() + wait;
        loop {
            let mut table = self.locks.table();
            let now = Instant::now();
            let until = match self.locks.attempt(&mut table, self.number, wanted, now)? {
                Ok(lock) => {
                    self.used = true;
                    return Ok(lock);
                }
                Err(until) => until,
            };
            if now >= give_up {
                let Range { start, end } = wanted.range;
                let text = format!(
                    "cannot lock bytes {start} to {end} of file {}: other locks still hold some of them \
                     after {} ms",
                    wanted.file,
                    wait.as_millis()
                );
                return Err(Failure::new(FailureCode::LockTimeout, text));
            }
            let nap = until.min(give_up).min(now + LOOK) - now;
            drop(self.locks.released.wait_timeout(table, nap));
            still_wanted()?;
        }
    }

    /// Holds a lock for `lease` from now on.
    pub(crate) fn renew(&self, lock: u64, lease: Duration) -> Result<(), Failure> {
        let mut table = self.locks.table();
        let now = Instant::now();
        let held = self.find(&mut table, lock, now).ok_or_else(|| lost("renew", lock))?;
        held.until = now + lease;
        Ok(())
    }

    /// Releases a lock.
    pub(crate) fn unlock(&self, lock: u64) -> Result<(), Failure> {
        let mut table = self.locks.table();
        self.find(&mut table, lock, Instant::now()).ok_or_else(|| lost("release", lock))?;
        let file = table.places[&lock];
        self.locks.take_out(&mut table, file, |held| held.lock == lock);
        drop(table);
        self.locks.released.notify_all();
        Ok(())
    }

    /// A lock of this holder whose lease has not run out.
    fn find<'t>(&self, table: &'t mut Table, lock: u64, now: Instant) -> Option<&'t mut HeldLock> {
        let file = *table.places.get(&lock)?;
        self.locks.expire(table, file, now);
        let held = table.files.get_mut(&file)?.iter_mut().find(|held| held.lock == lock)?;
        (held.holder == self.number).then_some(held)
    }
}

fn lost(attempt: &str, lock: u64) -> Failure {
    let text = format!(
        "cannot {attempt} lock {lock}: this connection does not hold it, or its lease ran out"
    );
    Failure::new(FailureCode::LockLost, text)
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        if !self.used {
            return;
        }
        let mut table = self.locks.table();
        let files: Vec<u64> = table.files.keys().copied().collect();
        for file in files {
            self.locks.take_out(&mut table, file, |held| held.holder == self.number);
        }
        drop(table);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const NOW: Duration = Duration::ZERO;

    fn wanted(range: Range<u64>, exclusive: bool) -> LockRequest {
        LockRequest { file: 7, range, exclusive, lease: LONG }
    }

    fn locks(most: usize) -> Locks {
        Locks::new(most, Arc::default())
    }

    fn code(result: Result<u64, Failure>) -> FailureCode {
        result.unwrap_err().code
    }

    #[test]
    fn exclusive_excludes_and_shared_shares() {
        let locks = locks(10);
        let (mut a, mut b) = (locks.holder(), locks.holder());
        let first = a.lock(&wanted(0..10, false), NOW, || Ok(())).unwrap();
        b.lock(&wanted(5..15, false), NOW, || Ok(())).unwrap();
        let result = b.lock(&wanted(3..5, true), NOW, || Ok(()));
        assert_eq!(code(result), FailureCode::LockTimeout);
        b.lock(&wanted(15..20, true), NOW, || Ok(())).unwrap();
        b.lock(&LockRequest { file: 8, ..wanted(0..10, true) }, NOW, || Ok(())).unwrap();
        b.lock(&wanted(9..9, true), NOW, || Ok(())).unwrap();

        assert_eq!(b.unlock(first).unwrap_err().code, FailureCode::LockLost, "not the holder");
        a.unlock(first).unwrap();
        assert_eq!(a.unlock(first).unwrap_err().code, FailureCode::LockLost);
        a.lock(&wanted(0..5, true), NOW, || Ok(())).unwrap();
        drop((a, b));
        assert_eq!(locks.statistics.locks.get(), 0);
        let table = locks.table();
        assert!(table.files.is_empty() && table.places.is_empty());
    }

    #[test]
    fn a_lease_runs_out_unless_it_is_renewed() {
        let locks = locks(1);
        let (mut a, mut b) = (locks.holder(), locks.holder());
        let short = LockRequest { lease: Duration::from_millis(300), ..wanted(0..10, true) };
        let lock = a.lock(&short, NOW, || Ok(())).unwrap();
        a.renew(lock, LONG).unwrap();
        let wait = Duration::from_millis(350);
        assert_eq!(code(b.lock(&short, wait, || Ok(()))), FailureCode::LockTimeout);
        let elsewhere = LockRequest { file: 1, ..short.clone() };
        assert_eq!(code(b.lock(&elsewhere, NOW, || Ok(()))), FailureCode::Busy);
        a.renew(lock, NOW).unwrap();
        // It counts no more, even where no request was for the range.
        b.lock(&elsewhere, NOW, || Ok(())).unwrap();
        std::thread::sleep(elsewhere.lease);
        b.lock(&short, LONG, || Ok(())).unwrap();
        assert_eq!(a.renew(lock, LONG).unwrap_err().code, FailureCode::LockLost);
        assert_eq!(locks.statistics.locks_lost.get(), 2);
    }

    #[test]
    fn a_wait_ends_with_the_holder_or_when_the_client_is_gone() {
        let locks = locks(10);
        let mut a = locks.holder();
        a.lock(&wanted(0..10, true), NOW, || Ok(())).unwrap();
        let gone = || Err(Failure::new(FailureCode::Draining, "gone"));
        let result = locks.holder().lock(&wanted(0..1, true), LONG, gone);
        assert_eq!(code(result), FailureCode::Draining);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| locks.holder().lock(&wanted(0..1, true), LONG, || Ok(())));
            std::thread::sleep(Duration::from_millis(20));
            drop(a);
            waits.join().unwrap().unwrap();
        });
    }
}
