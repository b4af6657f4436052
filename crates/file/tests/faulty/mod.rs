//! A store that misbehaves while it is armed, and a communicator that loses touch.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

pub mod comm;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use striate_store::{
    Capabilities, FaultPlan, Faulty, Lock, LockKind, MemoryStore, Region, Store, StoreError,
    TypedRequest,
};

/// A handle of an object that has faults, or panics at its n-th request, while it is armed.
#[derive(Debug)]
pub struct FaultyStore {
    sound: MemoryStore,
    faulty: Faulty<MemoryStore>,
    armed: AtomicBool,
    panic_at: u64,
    requests: AtomicU64,
    failures: AtomicU64,
}

impl FaultyStore {
    pub fn new(object: &MemoryStore, faults: &str) -> Arc<Self> {
        Self::with(object, faults, u64::MAX)
    }

    pub fn panicking(object: &MemoryStore, at: u64) -> Arc<Self> {
        Self::with(object, "", at)
    }

    fn with(object: &MemoryStore, faults: &str, panic_at: u64) -> Arc<Self> {
        let plan: FaultPlan = faults.parse().unwrap();
        Arc::new(Self {
            sound: object.clone(),
            faulty: Faulty::new(object.clone(), plan),
            armed: AtomicBool::new(false),
            panic_at,
            requests: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        })
    }

    pub fn arm(&self, armed: bool) {
        self.armed.store(armed, Ordering::SeqCst);
    }

    /// Requests that have failed or panicked.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::SeqCst)
    }

    fn store(&self) -> &dyn Store {
        if !self.armed.load(Ordering::SeqCst) {
            return &self.sound;
        }
        if self.requests.fetch_add(1, Ordering::SeqCst) + 1 == self.panic_at {
            self.failures.fetch_add(1, Ordering::SeqCst);
            panic!("the store has lost its mind");
        }
        &self.faulty
    }

    fn noted<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if done.is_err() {
            self.failures.fetch_add(1, Ordering::SeqCst);
        }
        done
    }
}

impl Store for FaultyStore {
    fn capabilities(&self) -> Capabilities {
        self.sound.capabilities()
    }

    fn name(&self) -> String {
        self.sound.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.noted(self.faulty_len())
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.noted(self.store().set_len(len))
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.noted(self.store().preallocate(len))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.noted(self.store().sync())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        self.noted(self.store().read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        self.noted(self.store().write_at(offset, buffer))
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.noted(self.store().read_list(regions, memory))
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.noted(self.store().write_list(regions, memory))
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        self.noted(self.store().read_typed(request, memory))
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        self.noted(self.store().write_typed(request, memory))
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.noted(self.store().lock(range, kind))
    }
}

impl FaultyStore {
    /// Lengths never panic: they are asked for between calls, too.
    fn faulty_len(&self) -> Result<u64, StoreError> {
        if self.armed.load(Ordering::SeqCst) { self.faulty.len() } else { self.sound.len() }
    }
}
