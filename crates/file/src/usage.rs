//! [`Usage`]: how a rank's calls were carried out, and where the time went, for summaries.
//!
//! Calls are always counted. Clocks are read only after [`crate::File::measure_time`], by a wrapper
//! of the store: reading a clock costs as much as everything else that this crate does for a small
//! request.

use std::ops::{AddAssign, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use striate_layout::characteristics::Method;
use striate_store::StoreError;
use striate_store::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// How calls of a rank were carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    calls: [u64; Method::ALL.len()],
    /// Time in requests to the store, those of helper threads included; zero if it was not
    /// measured.
    pub io: Duration,
    /// Time in collective calls outside of the store: synchronisation and exchange. Of nonblocking
    /// calls only the time in the store is known.
    pub exchange: Duration,
}

#[inline]
fn index(method: Method) -> usize {
    Method::ALL.iter().position(|one| *one == method).unwrap_or(0)
}

impl Usage {
    /// Calls that were carried out by a method.
    pub fn calls(&self, method: Method) -> u64 {
        self.calls[index(method)]
    }

    #[inline]
    pub(crate) fn count(&mut self, method: Method) {
        self.calls[index(method)] += 1;
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        for (calls, more) in self.calls.iter_mut().zip(other.calls) {
            *calls += more;
        }
        self.io += other.io;
        self.exchange += other.exchange;
    }
}

/// Time that a store has taken so far.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.0.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}

/// A store whose requests are timed.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) clock: Arc<Clock>,
}

impl Store for Timed {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.clock.time(|| self.inner.set_len(len))
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.clock.time(|| self.inner.preallocate(len))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.clock.time(|| self.inner.sync())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.clock.time(|| self.inner.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.clock.time(|| self.inner.write_at(offset, buffer))
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.clock.time(|| self.inner.read_list(regions, memory))
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.clock.time(|| self.inner.write_list(regions, memory))
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        self.clock.time(|| self.inner.read_typed(request, memory))
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        self.clock.time(|| self.inner.write_typed(request, memory))
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.clock.time(|| self.inner.lock(range, kind))
    }
}
