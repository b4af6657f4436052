//! [`RemoteLock`]: a range of a file that is locked at the metadata server, and the thread that
//! renews its lease.
//!
//! A lock lives as long as its connection and its lease, whichever ends first: a client that dies
//! leaves no lock, even if the network does not report its end. The leases of all locks of a client
//! are renewed by one thread, which runs while there are locks and a little longer, since locks
//! mostly come one after the other.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use striate_wire::limits::MAX_WAIT_MS;
use striate_wire::{FailureCode, FileInfo, Reply, Request};

use super::attempts::Attempts;
use super::client::{Client, unexpected};
use super::error::{CallError, ServerError};
use super::pool::PooledLink;
use crate::error::{Cause, Operation, StoreError};
use crate::range_table::check_range;
use crate::store::{Lock, LockKind};

/// How long a lock holds without a word from its client.
const LEASE: Duration = Duration::from_secs(30);

/// Renewals in the time of a lease, so that one that comes late does no harm.
const RENEWALS: u32 = 3;

/// How long the thread waits for the next lock when there is none.
const LINGER: Duration = Duration::from_secs(10);

/// How long a release or renewal may take: the caller waits for it, or other clients do.
const RELEASE: Duration = Duration::from_secs(5);

/// A locked range, released when this is dropped.
#[derive(Debug)]
pub struct RemoteLock {
    /// Nothing if the range is empty.
    held: Option<(Arc<LeasedLock>, Arc<Renewal>)>,
}

#[derive(Debug)]
struct LeasedLock {
    lock: u64,
    lease: Duration,
    /// Until the lock is released or lost.
    link: Mutex<Option<PooledLink>>,
    lost: AtomicBool,
}

impl Lock for RemoteLock {}

impl RemoteLock {
    /// Whether the server has been found not to hold the lock for this client any more.
    pub fn is_lost(&self) -> bool {
        self.held.as_ref().is_some_and(|(held, _)| held.lost.load(Ordering::Acquire))
    }
}

impl Drop for RemoteLock {
    fn drop(&mut self) {
        if let Some((held, renewal)) = self.held.take() {
            renewal.leave(&held);
            held.release();
        }
    }
}

impl LeasedLock {
    /// The next renewal.
    fn due(&self) -> Instant {
        Instant::now() + self.lease / RENEWALS
    }

    fn link(&self) -> MutexGuard<'_, Option<PooledLink>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the lease; `false` if there is none any more.
    fn renew(&self) -> bool {
        let mut held = self.link();
        let Some(link) = held.as_mut() else { return false };
        let request = Request::Renew { lock: self.lock, lease_ms: self.lease.as_millis() as u32 };
        let renewed = link.call(&request).is_ok_and(|reply| reply == Reply::Done);
        if !renewed {
            self.lost.store(true, Ordering::Release);
            link.spoil();
            *held = None;
        }
        renewed
    }

    fn release(&self) {
        let Some(mut link) = self.link().take() else { return };
        // Whatever goes wrong, the link is closed then, and the lock ends with it.
        if link.call(&Request::Unlock { lock: self.lock }).is_err() {
            link.spoil();
        }
    }
}

/// The locks of a client whose leases are renewed.
#[derive(Debug)]
pub(super) struct Renewal {
    state: Mutex<RenewalState>,
    wake: Condvar,
}

#[derive(Debug)]
struct RenewalState {
    held: Vec<(Instant, Arc<LeasedLock>)>,
    /// When the thread will look again, if there is one.
    wakes: Option<Instant>,
}

impl Renewal {
    pub(super) fn new() -> Arc<Self> {
        let state = Mutex::new(RenewalState { held: Vec::new(), wakes: None });
        Arc::new(Self { state, wake: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, RenewalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the lease of a lock from now on.
    fn enter(self: &Arc<Self>, held: &Arc<LeasedLock>) -> std::io::Result<()> {
        let mut state = self.state();
        let due = held.due();
        match state.wakes {
            None => {
                let renewal = Arc::clone(self);
                let named = thread::Builder::new().name("striate-leases".into());
                named.spawn(move || renewal.run())?;
                state.wakes = Some(due);
            }
            Some(wakes) if due < wakes => self.wake.notify_one(),
            Some(_) => {}
        }
        state.held.push((due, Arc::clone(held)));
        Ok(())
    }

    fn leave(&self, held: &Arc<LeasedLock>) {
        self.state().held.retain(|(_, other)| !Arc::ptr_eq(held, other));
    }

    /// The thread: renews what is due, waits for the next, ends when there has been none for a
    /// while.
    fn run(&self) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let position = state.held.iter().position(|(due, _)| *due <= now);
            if let Some(position) = position {
                let (_, held) = state.held.swap_remove(position);
                drop(state);
                let renewed = held.renew();
                state = self.state();
                // One that is released just now comes back in vain: it will have no link.
                if renewed {
                    state.held.push((held.due(), held));
                }
                continue;
            }
            let next = state.held.iter().map(|(due, _)| *due).min();
            let idle = next.is_none();
            let until = next.unwrap_or(now + LINGER);
            state.wakes = Some(until);
            (state, _) =
                self.wake.wait_timeout(state, until - now).unwrap_or_else(PoisonError::into_inner);
            if idle && state.held.is_empty() {
                state.wakes = None;
                return;
            }
        }
    }
}

/// Locks.
impl Client {
    /// Locks a range of a file against other clients, and other locks of this one. If other locks
    /// hold it, it is waited for, for as long as `wait`.
    pub fn lock(
        &self,
        file: &FileInfo,
        range: Range<u64>,
        kind: LockKind,
        wait: Duration,
    ) -> Result<RemoteLock, StoreError> {
        let url = || self.url(&file.path).to_string();
        let place =
            |error: StoreError| error.at(range.start, range.end.saturating_sub(range.start));
        check_range(&range)
            .map_err(|what| place(StoreError::malformed(Operation::Lock, url(), what)))?;
        if range.is_empty() {
            return Ok(RemoteLock { held: None });
        }
        let wait = wait.min(Duration::from_millis(MAX_WAIT_MS.into()));
        let request = Request::Lock {
            file: file.file,
            start: range.start,
            end: range.end,
            exclusive: kind == LockKind::Exclusive,
            wait_ms: wait.as_millis() as u32,
            lease_ms: LEASE.as_millis() as u32,
        };
        let held = self.acquire(&request, wait).map_err(|error| {
            place(match error.failure() {
                Some(failure) if failure.code == FailureCode::LockTimeout => {
                    StoreError::new(Operation::Lock, url(), Cause::TimedOut(wait))
                }
                _ => StoreError::server(Operation::Lock, url(), error),
            })
        })?;
        let lock = RemoteLock { held: Some((Arc::clone(&held), Arc::clone(self.renewal()))) };
        let entered = self.renewal().enter(&held);
        entered.map_err(|error| place(StoreError::system(Operation::Lock, url(), error)))?;
        Ok(lock)
    }

    /// As [`Client::on_all`] does it, but for the link, which stays with the lock.
    fn acquire(&self, request: &Request, wait: Duration) -> Result<Arc<LeasedLock>, ServerError> {
        let address = self.address();
        let mut attempts = Attempts::new(self.options());
        loop {
            let taken = match attempts.made() {
                1 => self.pool().take(address, attempts.patience()),
                _ => self.pool().connect(address, attempts.patience()),
            };
            let sent = taken.is_ok();
            let locked = taken.and_then(|mut link| {
                link.set_patience(self.options().patience.saturating_add(wait))?;
                let reply = link.call(request)?;
                link.set_patience(self.options().patience.min(RELEASE))?;
                Ok((link, reply))
            });
            let again = |error: &CallError| error.is_refusal() || (!sent && error.is_passing());
            match locked {
                Ok((link, Reply::Locked { lock, lease_ms })) => {
                    let lease = Duration::from_millis(lease_ms.into());
                    let (link, lost) = (Mutex::new(Some(link)), AtomicBool::new(false));
                    return Ok(Arc::new(LeasedLock { lock, lease, link, lost }));
                }
                Ok((mut link, other)) => {
                    link.spoil();
                    return Err(unexpected(address, &other, "a lock"));
                }
                Err(error) if again(&error) && attempts.again() => {}
                Err(error) => return Err(ServerError::new(address, error, attempts.made())),
            }
        }
    }
}
