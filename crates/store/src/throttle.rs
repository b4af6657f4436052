//! [`Throttled`]: a store with added latency and limited bandwidth.
//!
//! Latency is paid by each operation for itself; bandwidth is one resource that all requests of the
//! handle share, in both directions, as on one link.

use std::ops::Range;
use std::time::Duration;

use crate::bandwidth::Bandwidth;
use crate::error::StoreError;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// A store that sleeps.
#[derive(Debug)]
pub struct Throttled<S> {
    inner: S,
    latency: Duration,
    link: Bandwidth,
}

impl<S: Store> Throttled<S> {
    /// Slows `inner` down: `latency` for each operation, and no more than so many bytes per second
    /// (`None`: any).
    pub fn new(inner: S, latency: Duration, bytes_per_second: Option<u64>) -> Self {
        Self { inner, latency, link: Bandwidth::new(bytes_per_second) }
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn wait(&self, bytes: u64) {
        self.link.pass(bytes);
        if !self.latency.is_zero() {
            std::thread::sleep(self.latency);
        }
    }

    /// Waits as long as the bytes of a transfer that was done would have taken. Afterwards, so that
    /// a request that is refused costs no more than the latency.
    fn pay<T>(
        &self,
        done: Result<T, StoreError>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T, StoreError> {
        self.wait(done.as_ref().map_or(0, bytes));
        done
    }
}

impl<S: Store> Store for Throttled<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.wait(0);
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.wait(0);
        self.inner.set_len(len)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.wait(0);
        self.inner.preallocate(len)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.wait(0);
        self.inner.sync()
    }

    fn revalidate(&self) -> Result<(), StoreError> {
        self.inner.revalidate()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.pay(self.inner.read_at(offset, buffer), |&got| got as u64)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.pay(self.inner.write_at(offset, buffer), |()| buffer.len() as u64)
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.pay(self.inner.read_list(regions, memory), |&got| got)
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.pay(self.inner.write_list(regions, memory), |()| {
            regions.iter().map(|region| region.len as u64).sum()
        })
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        self.pay(self.inner.read_typed(request, memory), |&got| got)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        self.pay(self.inner.write_typed(request, memory), |()| request.file.len)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.wait(0);
        self.inner.lock(range, kind)
    }
}
