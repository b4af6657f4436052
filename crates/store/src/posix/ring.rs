//! [`Ring`]: many transfers in one system call, by `io_uring`.
//!
//! One ring per handle, made when first needed. It is never waited for: a thread that finds it
//! busy, or finds that the system does not allow rings, transfers in the plain way. Whatever a
//! batch leaves undone (short or interrupted transfers) is continued in the plain way too, so there
//! is one loop that knows about the end of the file.
//!
//! # Soundness
//!
//! The kernel accesses memory from the moment an entry is submitted until its completion is seen.
//! [`run`] does not return, nor can it panic, before every entry that the kernel has taken is
//! completed; entries that it has not taken are dropped with the ring.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use nix::libc;

use super::list::{FailedTransfer, List};
use super::system::{System, SystemCall};
use crate::store::Region;

/// Transfers in flight at once.
const DEPTH: usize = 128;

/// Most bytes of one transfer: its length has 32 bits.
const MOST_BYTES: usize = 1 << 30;

/// How often a submission is tried again when the system lacks means for it.
const MOST_REFUSALS: u32 = 1000;

/// A ring that is made when it is needed.
#[derive(Debug, Default)]
pub(super) struct Ring {
    slot: Mutex<Option<Slot>>,
    refused: AtomicBool,
}

struct Slot {
    ring: IoUring,
    /// A forked child shares the queues with its parent and must not touch them.
    process: u32,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("process", &self.process).finish_non_exhaustive()
    }
}

/// One entry of a batch.
struct Submission<'g> {
    group: &'g [Region],
    /// Where its vectors begin, how many they are, how many bytes they have.
    vectors: (usize, usize, usize),
    result: Option<i32>,
}

impl Ring {
    /// Whether there is a ring or one can be made.
    pub(super) fn is_available(&self, system: &System) -> bool {
        match self.slot.try_lock() {
            Ok(mut slot) => self.ensure(system, &mut slot).is_some(),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    fn ensure<'s>(&self, system: &System, slot: &'s mut Option<Slot>) -> Option<&'s mut Slot> {
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let process = std::process::id();
        if slot.is_none() {
            let made = system
                .permitted(SystemCall::RingSetup, 0, 0)
                .and_then(|_| IoUring::new(DEPTH as u32));
            match made {
                Ok(ring) => *slot = Some(Slot { ring, process }),
                // Not known, not allowed, or no descriptors left: asked for once.
                Err(_) => self.refused.store(true, Ordering::Relaxed),
            }
        }
        slot.as_mut().filter(|slot| slot.process == process)
    }

    /// Transfers groups of a list; returns the bytes. `None` if there is no ring, or another thread
    /// uses it.
    pub(super) fn transfer_all<'g>(
        &self,
        system: &System,
        list: &List<'_>,
        mut groups: impl Iterator<Item = &'g [Region]>,
    ) -> Option<Result<u64, FailedTransfer>> {
        let mut slot = self.slot.try_lock().ok()?;
        self.ensure(system, &mut slot)?;
        let mut vectors = Vec::new();
        let mut entries = Vec::with_capacity(DEPTH);
        let mut total = 0;
        loop {
            entries.clear();
            vectors.clear();
            for group in groups.by_ref().take(DEPTH) {
                entries.push(prepare(system, list, group, &mut vectors));
            }
            if entries.is_empty() {
                return Some(Ok(total));
            }
            if let Some(Slot { ring, .. }) = slot.as_mut()
                && run(ring, system, list.call, &mut entries, &vectors).is_err()
            {
                *slot = None;
                self.refused.store(true, Ordering::Relaxed);
            }
            match finish(system, list, &entries, &mut vectors) {
                Ok(moved) => total += moved,
                Err(failed) => return Some(Err(failed)),
            }
        }
    }
}

/// The entry for a group. One that the faults do not permit has its result already.
fn prepare<'g>(
    system: &System,
    list: &List<'_>,
    group: &'g [Region],
    vectors: &mut Vec<libc::iovec>,
) -> Submission<'g> {
    let first = vectors.len();
    let all: usize = group.iter().map(|region| region.len).sum();
    let offset = group.first().map_or(0, |region| region.offset);
    let mut result = (all == 0).then_some(0);
    let mut len = 0;
    if all > 0 {
        match system.permitted(list.call, offset, all.min(MOST_BYTES)) {
            Ok(permitted) => len = permitted,
            Err(error) => result = Some(-error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
    list.vectors(group, 0, len, vectors);
    Submission { group, vectors: (first, vectors.len() - first, len), result }
}

/// Submits the entries that have no result and waits for all of them. After an error some have
/// none, and the ring must not be used again.
fn run(
    ring: &mut IoUring,
    system: &System,
    call: SystemCall,
    entries: &mut [Submission<'_>],
    vectors: &[libc::iovec],
) -> Result<(), ()> {
    let fd = types::Fd(system.file.as_raw_fd());
    let mut pushed = 0;
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.result.is_none()) {
        let (first, count, len) = entry.vectors;
        let offset = entry.group.first().map_or(0, |region| region.offset);
        let vectors = &vectors[first..first + count];
        let write = call == SystemCall::Write;
        let submission = match vectors {
            [one] if write => {
                opcode::Write::new(fd, one.iov_base.cast(), len as u32).offset(offset).build()
            }
            [one] => opcode::Read::new(fd, one.iov_base.cast(), len as u32).offset(offset).build(),
            _ if write => {
                opcode::Writev::new(fd, vectors.as_ptr(), count as u32).offset(offset).build()
            }
            _ => opcode::Readv::new(fd, vectors.as_ptr(), count as u32).offset(offset).build(),
        };
        // SAFETY: the vectors and the memory that they point to stay borrowed until this function
        // returns, and it does not before the entry is completed.
        if unsafe { ring.submission().push(&submission.user_data(index as u64)) }.is_err() {
            break;
        }
        pushed += 1;
    }
    let mut completed = 0;
    let mut broken = false;
    let mut refusals = 0;
    while completed < pushed {
        if let Err(error) = ring.submit_and_wait(pushed - completed) {
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN | libc::EBUSY) if refusals < MOST_REFUSALS => {
                    refusals += 1;
                    std::thread::yield_now();
                }
                _ => broken = true,
            }
        }
        for completion in ring.completion() {
            completed += 1;
            if let Some(entry) = entries.get_mut(completion.user_data() as usize) {
                entry.result = Some(completion.result());
            }
        }
        if broken {
            // What was not taken never will be; what was taken ends by itself.
            if completed + ring.submission().len() >= pushed {
                return Err(());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    Ok(())
}

/// Continues what a batch left undone; returns the bytes of all its entries.
fn finish(
    system: &System,
    list: &List<'_>,
    entries: &[Submission<'_>],
    vectors: &mut Vec<libc::iovec>,
) -> Result<u64, FailedTransfer> {
    let mut total = 0;
    for entry in entries {
        let all: usize = entry.group.iter().map(|region| region.len).sum();
        let done = match entry.result {
            Some(n) if n >= 0 => n as usize,
            None => 0,
            Some(n) if n == -libc::EINTR || n == -libc::EAGAIN => 0,
            Some(errno) => {
                let offset = entry.group.first().map_or(0, |region| region.offset);
                let source = io::Error::from_raw_os_error(-errno);
                return Err(FailedTransfer { source, offset, len: all as u64 });
            }
        };
        let read = entry.result.is_some_and(|n| n >= 0) && list.call == SystemCall::Read;
        let ended = read && system.met_end(done);
        total += if done == all || ended {
            done as u64
        } else {
            list.transfer(system, entry.group, done, vectors)? as u64
        };
    }
    Ok(total)
}
