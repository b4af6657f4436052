//! Injected faults: [`FaultPlan`] says which and when, [`Faulty`] is a store with them.
//!
//! A plan is written as text, in tests and on command lines: faults, separated by commas, each a
//! name, `@`, the number of the operation it hits (from 1 on; `3+`: that and all later ones), and,
//! where it is to hit only one kind, `:` and the operation. `torn-write@7`, `error@3:read`,
//! `delay=20ms@1+`.
//!
//! | name | what happens |
//! | --- | --- |
//! | `error` | fails (EIO), nothing is done |
//! | `out-of-space` | fails (ENOSPC), nothing is done |
//! | `delay` | is done late, by 10 ms by default |
//! | `torn-write` | the first half of the bytes is written, then it fails (EIO) |
//! | `short-read`, `short-write` | is transferred in two parts; callers must not notice |
//! | `interrupted` | is interrupted before it begins (EINTR); callers must not notice |
//!
//! A plan counts the operations of a store as [`Faulty`], and the system calls of a file as the
//! [`crate::posix::SystemFaults`] of a [`crate::PosixFile`]: there it sits below the loops that
//! continue transfers, which is where short transfers and interruptions mean something. Around a
//! store `interrupted` does nothing.

mod plan;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use nix::libc;

use crate::error::{Operation, StoreError};
use crate::placement::check_extent;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};
pub(crate) use plan::parse_time;
pub use plan::{Fault, FaultError, FaultKind, FaultPlan};

/// A store with faults.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    plan: Arc<FaultPlan>,
}

/// How far a request goes before something happens to it.
enum FaultEffect {
    /// All the way.
    Whole,
    /// Half of it, then the rest.
    Halves,
    /// Half of it, then an error.
    Torn,
}

impl<S: Store> Faulty<S> {
    /// Gives `inner` the faults of the plan. Stores that share a plan share its count.
    pub fn new(inner: S, plan: impl Into<Arc<FaultPlan>>) -> Self {
        Self { inner, plan: plan.into() }
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn error(&self, operation: Operation, errno: i32, offset: u64, len: u64) -> StoreError {
        let source = io::Error::from_raw_os_error(errno);
        StoreError::system(operation, self.inner.name(), source).at(offset, len)
    }

    fn effect(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
    ) -> Result<FaultEffect, StoreError> {
        match self.plan.next(operation) {
            None | Some(FaultKind::Interrupted) => Ok(FaultEffect::Whole),
            Some(FaultKind::Error) => Err(self.error(operation, libc::EIO, offset, len)),
            Some(FaultKind::OutOfSpace) => Err(self.error(operation, libc::ENOSPC, offset, len)),
            Some(FaultKind::Delay(by)) => {
                std::thread::sleep(by);
                Ok(FaultEffect::Whole)
            }
            Some(FaultKind::ShortRead | FaultKind::ShortWrite) => Ok(FaultEffect::Halves),
            Some(FaultKind::TornWrite) => Ok(FaultEffect::Torn),
        }
    }

    fn simple<T>(
        &self,
        operation: Operation,
        len: u64,
        work: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.effect(operation, 0, len)?;
        work()
    }

    /// Takes the course of a read of `len` bytes, given a way to read a part. What is malformed
    /// goes whole, to be refused whole.
    fn read(
        &self,
        offset: u64,
        len: u64,
        sound: impl FnOnce() -> bool,
        mut part: impl FnMut(Range<u64>) -> Result<u64, StoreError>,
    ) -> Result<u64, StoreError> {
        match self.effect(Operation::Read, offset, len)? {
            FaultEffect::Halves if sound() => Ok(part(0..len / 2)? + part(len / 2..len)?),
            _ => part(0..len),
        }
    }

    /// Takes the course of a write of `len` bytes, given a way to write a part.
    fn write(
        &self,
        offset: u64,
        len: u64,
        sound: impl FnOnce() -> bool,
        mut part: impl FnMut(Range<u64>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self.effect(Operation::Write, offset, len)? {
            FaultEffect::Whole => part(0..len),
            _ if !sound() => part(0..len),
            FaultEffect::Halves => {
                part(0..len / 2)?;
                part(len / 2..len)
            }
            FaultEffect::Torn => {
                part(0..len / 2)?;
                Err(self.error(Operation::Write, libc::EIO, offset, len))
            }
        }
    }
}

/// The bytes `range` of a list's stream, as a list.
fn part_of_list(regions: &[Region], range: &Range<u64>) -> Vec<Region> {
    let mut position = 0;
    let mut part = Vec::with_capacity(regions.len());
    for region in regions {
        let len = region.len as u64;
        let from = range.start.saturating_sub(position).min(len);
        let to = range.end.saturating_sub(position).min(len);
        // Whole regions go as they are, so that malformed ones stay so.
        if from == 0 && to == len {
            part.push(*region);
        } else if from < to {
            part.push(Region {
                memory: region.memory.saturating_add(from as usize),
                offset: region.offset.saturating_add(from),
                len: (to - from) as usize,
            });
        }
        position = position.saturating_add(len);
    }
    part
}

fn part_of_typed(request: &TypedRequest, range: &Range<u64>) -> TypedRequest {
    let mut part = request.clone();
    part.file.start = part.file.start.saturating_add(range.start);
    part.memory.start = part.memory.start.saturating_add(range.start);
    part.file.len = range.end - range.start;
    part
}

fn bytes_of(regions: &[Region]) -> u64 {
    regions.iter().fold(0u64, |sum, region| sum.saturating_add(region.len as u64))
}

impl<S: Store> Store for Faulty<S> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.simple(Operation::Len, 0, || self.inner.len())
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.simple(Operation::SetLen, len, || self.inner.set_len(len))
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.simple(Operation::Preallocate, len, || self.inner.preallocate(len))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.simple(Operation::Sync, 0, || self.inner.sync())
    }

    fn revalidate(&self) -> Result<(), StoreError> {
        self.inner.revalidate()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let len = buffer.len() as u64;
        let got = self.read(
            offset,
            len,
            || check_extent(offset, len).is_ok(),
            |range| {
                let (from, to) = (range.start as usize, range.end as usize);
                Ok(self.inner.read_at(offset.saturating_add(range.start), &mut buffer[from..to])?
                    as u64)
            },
        )?;
        Ok(got as usize)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let len = buffer.len() as u64;
        self.write(
            offset,
            len,
            || check_extent(offset, len).is_ok(),
            |range| {
                let part = &buffer[range.start as usize..range.end as usize];
                self.inner.write_at(offset.saturating_add(range.start), part)
            },
        )
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        let all = bytes_of(regions);
        let sound = {
            let memory = memory.len();
            move || Region::check_all(regions, memory).is_ok()
        };
        self.read(Region::hull(regions).0, all, sound, |range| {
            if range == (0..all) {
                return self.inner.read_list(regions, memory);
            }
            self.inner.read_list(&part_of_list(regions, &range), memory)
        })
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        let all = bytes_of(regions);
        let sound = {
            let memory = memory.len();
            move || Region::check_all(regions, memory).is_ok()
        };
        self.write(Region::hull(regions).0, all, sound, |range| {
            if range == (0..all) {
                return self.inner.write_list(regions, memory);
            }
            self.inner.write_list(&part_of_list(regions, &range), memory)
        })
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        let memory_len = memory.len();
        let sound = || request.regions(memory_len).is_ok();
        self.read(request.first_offset(), request.file.len, sound, |range| {
            self.inner.read_typed(&part_of_typed(request, &range), memory)
        })
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        let memory_len = memory.len();
        let sound = || request.regions(memory_len).is_ok();
        self.write(request.first_offset(), request.file.len, sound, |range| {
            self.inner.write_typed(&part_of_typed(request, &range), memory)
        })
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.effect(Operation::Lock, range.start, range.end.saturating_sub(range.start))?;
        self.inner.lock(range, kind)
    }
}
