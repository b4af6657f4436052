//! [`LockTable`]: locks of byte ranges of a file.
//!
//! RADOS locks whole objects by name; our contract is about bytes. So the ranges that are held are
//! a table in an attribute of the head object, changed by an operation that asserts what the table
//! was. Each handle that holds ranges also holds a shared lock of RADOS, the lease, by which others
//! see that it is alive: a thread renews it. A range whose handle has no lease any more is dropped
//! by the next client that wants it; the time is that of the engine, so the clocks of clients do
//! not matter.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::attributes::LOCKS;
use super::error::RadosError;
use super::head::{FileId, Head};
use super::library::cluster::PoolHandle;
use super::library::operation::{ReadOperation, WriteOperation};
use crate::error::{Cause, Operation, StoreError};
use crate::range_table::{EmptyLock, check_range};
use crate::store::{Lock, LockKind};

/// The lock of RADOS that handles with ranges hold.
const LEASE_LOCK: &CStr = c"striate.lease";

/// How long a lease holds without renewal, and how often it is renewed in that time.
const LEASE: Duration = Duration::from_secs(30);
const RENEWALS: u32 = 3;

/// How long a lease is kept when no range is held: locks mostly come one after the other.
const LINGER: Duration = Duration::from_secs(5);

/// How long a range is waited for.
const LIMIT: Duration = Duration::from_secs(600);

/// The first and the longest pause before a range is asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Ranges of one file that can be held at a time: the table is an attribute, which has a limit.
const MOST_RANGES: usize = 800;

/// The ranges that a handle of a file holds.
#[derive(Debug)]
pub(super) struct LockTable {
    lease: Arc<Lease>,
}

impl Drop for LockTable {
    fn drop(&mut self) {
        // No lock is left, as it would borrow this.
        self.lease.state().closed = true;
        self.lease.wake.notify_one();
    }
}

impl Default for LockTable {
    fn default() -> Self {
        let state = Mutex::new(LeaseState::default());
        Self { lease: Arc::new(Lease { holder: FileId::random(), state, wake: Condvar::new() }) }
    }
}

/// A range in the table of the head object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HeldRange {
    /// The handle, by which its lease is found.
    holder: String,
    number: u64,
    range: Range<u64>,
    kind: LockKind,
}

impl HeldRange {
    fn excludes(&self, other: &Self) -> bool {
        let exclusive = self.kind == LockKind::Exclusive || other.kind == LockKind::Exclusive;
        exclusive && self.range.start < other.range.end && other.range.start < self.range.end
    }
}

/// The table as text: a number that grows with each change, then a line for each range.
fn encode(version: u64, held: &[HeldRange]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{version}\n");
    for HeldRange { holder, number, range, kind } in held {
        let kind = if *kind == LockKind::Exclusive { 'x' } else { 's' };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{kind} {} {} {number} {holder}", range.start, range.end);
    }
    text
}

fn decode(text: &[u8]) -> Option<(u64, Vec<HeldRange>)> {
    if text.is_empty() {
        return Some((0, Vec::new()));
    }
    let mut lines = std::str::from_utf8(text).ok()?.lines();
    let version = lines.next()?.parse().ok()?;
    let range = |line: &str| {
        let mut words = line.split(' ');
        let kind = match words.next()? {
            "x" => LockKind::Exclusive,
            "s" => LockKind::Shared,
            _ => return None,
        };
        let range = words.next()?.parse().ok()?..words.next()?.parse().ok()?;
        let (number, holder) = (words.next()?.parse().ok()?, words.next()?.to_owned());
        Some(HeldRange { holder, number, range, kind })
    };
    Some((version, lines.map(range).collect::<Option<_>>()?))
}

/// The table as it was read.
struct ReadTable {
    text: Vec<u8>,
    version: u64,
    held: Vec<HeldRange>,
}

fn read_table(head: &Head) -> Result<ReadTable, RadosError> {
    let operation = ReadOperation::new(&head.pool).attributes().run(&head.pool, head.object());
    let attributes = operation.map_err(|errno| head.failed_on_head(errno))?.into_attributes();
    let named = attributes.into_iter().find(|(name, _)| name.as_bytes() == LOCKS.to_bytes());
    let text = named.map(|(_, value)| value).unwrap_or_default();
    let (version, held) = decode(&text).ok_or_else(|| RadosError::Damaged {
        object: head.object().to_owned(),
        what: format!("attribute {} is no table of locks", LOCKS.to_string_lossy()),
    })?;
    Ok(ReadTable { text, version, held })
}

/// Replaces the table, unless another client came before; whether it did not.
fn replace_table(head: &Head, before: &ReadTable, held: &[HeldRange]) -> Result<bool, RadosError> {
    let text = encode(before.version.wrapping_add(1), held);
    let operation = WriteOperation::new(&head.pool).assert_exists();
    let operation = operation.expect(LOCKS, &before.text).set(LOCKS, text.as_bytes());
    match operation.run(&head.pool, head.object()) {
        Ok(()) => Ok(true),
        Err(Errno::ECANCELED) => Ok(false),
        Err(errno) => Err(head.failed_on_head(errno)),
    }
}

impl LockTable {
    /// Locks a range that no other one excludes; waits for that.
    pub(super) fn lock<'h>(
        &'h self,
        name: &str,
        head: &'h Head,
        range: Range<u64>,
        kind: LockKind,
    ) -> Result<Box<dyn Lock + 'h>, StoreError> {
        let (start, len) = (range.start, range.end.saturating_sub(range.start));
        let fail = |cause| StoreError::new(Operation::Lock, name, cause).at(start, len);
        check_range(&range).map_err(|what| fail(Cause::Malformed(what)))?;
        if range.is_empty() {
            return Ok(Box::new(EmptyLock));
        }
        let number = self.lease.enter(head).map_err(|error| fail(Cause::Rados(error)))?;
        let wanted = HeldRange { holder: self.lease.holder.0.clone(), number, range, kind };
        let entered = enter(head, &wanted);
        // Dropped in case of an error, which gives the lease back.
        let lock = RadosLock { lease: &self.lease, head, held: wanted };
        match entered {
            Ok(true) => Ok(Box::new(lock)),
            Ok(false) => Err(fail(Cause::TimedOut(LIMIT))),
            Err(error) => Err(fail(Cause::Rados(error))),
        }
    }
}

/// Enters a range into the table, when no other one excludes it; `false` at the limit.
fn enter(head: &Head, wanted: &HeldRange) -> Result<bool, RadosError> {
    let begin = Instant::now();
    let mut pause = PAUSES.0;
    while begin.elapsed() < LIMIT {
        let table = read_table(head)?;
        let excluded = |held: &[HeldRange]| held.iter().any(|other| other.excludes(wanted));
        let mut held = table.held.clone();
        if excluded(&held) || held.len() >= MOST_RANGES {
            let alive = head.pool.holders(head.object(), LEASE_LOCK);
            let alive = alive.map_err(|errno| head.failed(errno))?;
            held.retain(|other| alive.contains(&other.holder));
        }
        if excluded(&held) || held.len() >= MOST_RANGES {
            thread::sleep(pause);
            pause = (2 * pause).min(PAUSES.1);
            continue;
        }
        held.push(wanted.clone());
        if replace_table(head, &table, &held)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A locked range, released when this is dropped.
#[derive(Debug)]
struct RadosLock<'h> {
    lease: &'h Arc<Lease>,
    head: &'h Head,
    held: HeldRange,
}

impl Lock for RadosLock<'_> {}

impl Drop for RadosLock<'_> {
    fn drop(&mut self) {
        // If the range cannot be released, it ends with the lease, which ends by itself then.
        let released = self.release();
        self.lease.leave(released.is_err());
    }
}

impl RadosLock<'_> {
    fn release(&self) -> Result<(), RadosError> {
        loop {
            let table = read_table(self.head)?;
            let mut held = table.held.clone();
            held.retain(|other| {
                (&other.holder, other.number) != (&self.held.holder, self.held.number)
            });
            // Without a change, it was not entered, or was taken for that of a dead client.
            if held.len() == table.held.len() || replace_table(self.head, &table, &held)? {
                return Ok(());
            }
        }
    }
}

/// What shows that a handle is alive, while it holds ranges.
#[derive(Debug)]
struct Lease {
    holder: FileId,
    state: Mutex<LeaseState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct LeaseState {
    /// Ranges that are held or waited for.
    ranges: usize,
    last: u64,
    /// Whether the thread runs.
    is_renewed: bool,
    /// When it was needed last.
    used: Option<Instant>,
    /// Not to be renewed: ranges could not be released, and end with it.
    abandoned: bool,
    /// No range will come.
    closed: bool,
}

impl Lease {
    fn state(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that there is a lease; returns the number of a new range.
    fn enter(self: &Arc<Self>, head: &Head) -> Result<u64, RadosError> {
        let mut state = self.state();
        if !state.is_renewed {
            renew(&head.pool, head.object(), &self.holder).map_err(|errno| head.failed(errno))?;
            let (lease, pool) = (Arc::clone(self), Arc::clone(&head.pool));
            let object = head.object().to_owned();
            let named = thread::Builder::new().name("striate-leases".into());
            named.spawn(move || lease.run(&pool, &object)).map_err(RadosError::System)?;
            state.is_renewed = true;
        }
        state.ranges += 1;
        state.last += 1;
        Ok(state.last)
    }

    fn leave(&self, abandon: bool) {
        let mut state = self.state();
        state.ranges -= 1;
        state.used = Some(Instant::now());
        state.abandoned |= abandon;
        self.wake.notify_one();
    }

    /// The thread: renews the lease while ranges are held and a little longer.
    fn run(&self, pool: &PoolHandle, object: &str) {
        let mut renewed = Instant::now();
        let mut state = self.state();
        loop {
            let idle = state.ranges == 0 && state.used.is_some_and(|used| used.elapsed() > LINGER);
            if state.abandoned || state.closed || idle {
                break;
            }
            if renewed.elapsed() >= LEASE / RENEWALS {
                drop(state);
                // If it fails, the next attempt comes in a second; the lease ends in the worst
                // case.
                if renew(pool, object, &self.holder).is_ok() {
                    renewed = Instant::now();
                }
                state = self.state();
            }
            let wait = Duration::from_secs(1);
            (state, _) =
                self.wake.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_renewed = false;
        if !state.abandoned {
            let _ = pool.release(object, LEASE_LOCK, &self.holder.0);
        }
        state.abandoned = false;
    }
}

fn renew(pool: &PoolHandle, object: &str, holder: &FileId) -> Result<(), Errno> {
    pool.lease_shared(object, LEASE_LOCK, &holder.0, LEASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_they_were_written() {
        let range = |number, kind| HeldRange { holder: "ab".into(), number, range: 3..9, kind };
        let held = [range(1, LockKind::Shared), range(2, LockKind::Exclusive)];
        assert_eq!(decode(encode(7, &held).as_bytes()), Some((7, held.to_vec())));
        assert_eq!(decode(b""), Some((0, Vec::new())));
        for wrong in ["x", "1\ny 1 2 3 a", "1\nx 1 2 3", "1\nx 1 b 3 a", "1\n\n"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_full_table_fits_in_an_attribute() {
        let holder = FileId::random().0;
        let one = HeldRange {
            holder,
            number: u64::MAX,
            range: u64::MAX - 1..u64::MAX,
            kind: LockKind::Shared,
        };
        assert!(encode(u64::MAX, &vec![one; MOST_RANGES]).len() < 96 << 10);
    }

    #[test]
    fn shared_ranges_exclude_exclusive_ones() {
        let range = |range, kind| HeldRange { holder: String::new(), number: 0, range, kind };
        let shared = range(0..10, LockKind::Shared);
        assert!(!shared.excludes(&range(5..6, LockKind::Shared)));
        assert!(shared.excludes(&range(5..6, LockKind::Exclusive)));
        assert!(!shared.excludes(&range(10..11, LockKind::Exclusive)));
    }
}
