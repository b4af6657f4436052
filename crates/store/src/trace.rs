//! [`Traced`]: a store that records its requests, with their times.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{ErrorKind, Operation, StoreError};
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// How a transfer was described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestForm {
    /// By an offset and a length; also operations other than transfers.
    Contiguous,
    /// By so many regions.
    List(usize),
    /// By datatypes.
    Typed,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What was asked for.
    pub operation: Operation,
    /// How it was described.
    pub form: RequestForm,
    /// Lowest offset of the request.
    pub offset: u64,
    /// Bytes that were asked for; for cuts and reservations the length.
    pub len: u64,
    /// When, since the trace began.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// The bytes that were transferred, or what went wrong.
    pub outcome: Result<u64, ErrorKind>,
}

/// A store that remembers or reports what it was asked for.
pub struct Traced<S> {
    inner: S,
    begin: Instant,
    sink: Sink,
}

type Callback = Box<dyn Fn(&Event) + Send + Sync>;

enum Sink {
    Buffer { capacity: usize, buffer: Mutex<EventBuffer> },
    Callback(Callback),
}

#[derive(Default)]
struct EventBuffer {
    events: VecDeque<Event>,
    lost: u64,
}

impl<S: fmt::Debug> fmt::Debug for Traced<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S: Store> Traced<S> {
    /// Keeps the last `capacity` events.
    pub fn new(inner: S, capacity: usize) -> Self {
        let sink = Sink::Buffer { capacity, buffer: Mutex::default() };
        Self { inner, begin: Instant::now(), sink }
    }

    /// Hands each event to `callback`, in the thread that made the request.
    pub fn with_callback(inner: S, callback: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { inner, begin: Instant::now(), sink: Sink::Callback(Box::new(callback)) }
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Takes the buffered events, in the order in which they ended, and the number of older
    /// ones that were dropped.
    pub fn take(&self) -> (Vec<Event>, u64) {
        match &self.sink {
            Sink::Callback(_) => (Vec::new(), 0),
            Sink::Buffer { buffer, .. } => {
                let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
                let buffer = std::mem::take(&mut *buffer);
                (buffer.events.into(), buffer.lost)
            }
        }
    }

    /// Does `work` and records it; `bytes` are those of its result.
    fn record<T>(
        &self,
        (operation, form, offset, len): (Operation, RequestForm, u64, u64),
        bytes: impl FnOnce(&T) -> u64,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let before = Instant::now();
        let done = work();
        let event = Event {
            operation,
            form,
            offset,
            len,
            start: before.duration_since(self.begin),
            duration: before.elapsed(),
            outcome: done.as_ref().map(bytes).map_err(StoreError::kind),
        };
        match &self.sink {
            Sink::Callback(callback) => callback(&event),
            Sink::Buffer { capacity, buffer } => {
                let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
                if buffer.events.len() >= *capacity {
                    buffer.events.pop_front();
                    buffer.lost += 1;
                }
                if *capacity > 0 {
                    buffer.events.push_back(event);
                }
            }
        }
        done
    }
}

fn of_list(operation: Operation, regions: &[Region]) -> (Operation, RequestForm, u64, u64) {
    let len = regions.iter().fold(0u64, |sum, region| sum.saturating_add(region.len as u64));
    (operation, RequestForm::List(regions.len()), Region::hull(regions).0, len)
}

fn of_typed(operation: Operation, request: &TypedRequest) -> (Operation, RequestForm, u64, u64) {
    (operation, RequestForm::Typed, request.first_offset(), request.file.len)
}

fn plain(operation: Operation, offset: u64, len: u64) -> (Operation, RequestForm, u64, u64) {
    (operation, RequestForm::Contiguous, offset, len)
}

impl<S: Store> Store for Traced<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.record(plain(Operation::Len, 0, 0), |_| 0, || self.inner.len())
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.record(plain(Operation::SetLen, 0, len), |()| 0, || self.inner.set_len(len))
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.record(plain(Operation::Preallocate, 0, len), |()| 0, || self.inner.preallocate(len))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.record(plain(Operation::Sync, 0, 0), |()| 0, || self.inner.sync())
    }

    fn revalidate(&self) -> Result<(), StoreError> {
        self.inner.revalidate()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let what = plain(Operation::Read, offset, buffer.len() as u64);
        self.record(what, |&got| got as u64, || self.inner.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let what = plain(Operation::Write, offset, buffer.len() as u64);
        self.record(what, |()| what.3, || self.inner.write_at(offset, buffer))
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        let what = of_list(Operation::Read, regions);
        self.record(what, |&got| got, || self.inner.read_list(regions, memory))
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        let what = of_list(Operation::Write, regions);
        self.record(what, |()| what.3, || self.inner.write_list(regions, memory))
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        let what = of_typed(Operation::Read, request);
        self.record(what, |&got| got, || self.inner.read_typed(request, memory))
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        let what = of_typed(Operation::Write, request);
        self.record(what, |()| what.3, || self.inner.write_typed(request, memory))
    }

    /// The duration is that of the wait, not of the lock.
    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        let len = range.end.saturating_sub(range.start);
        self.record(
            plain(Operation::Lock, range.start, len),
            |_| 0,
            || self.inner.lock(range.clone(), kind),
        )
    }
}
