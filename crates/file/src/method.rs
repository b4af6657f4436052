//! The access methods of \[CHING\], one file each, and the execution of those that need one rank
//! only.
//!
//! | method | file | what it does |
//! | --- | --- | --- |
//! | posix | `method/posix.rs` | one request per contiguous piece |
//! | sieve | `method/sieve.rs` | large requests that span the pieces; writes are read-modify-write |
//! | list | `method/list.rs` | requests that carry lists of pieces |
//! | datatype | `method/datatype.rs` | one request that carries the descriptions of both sides |
//! | two-phase | `method/two_phase.rs` | ranks exchange data, aggregators make large requests |
//!
//! An independent method has a `read`, which returns the bytes of the access before the end of the
//! file, and a `write`. [`IndependentPlan`] says which of them carries out an access and how;
//! [`read`] and [`write`] execute it.

mod datatype;
mod list;
mod posix;
mod sieve;
mod stream_buffers;
pub(crate) mod two_phase;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use striate_comm::shm::Waiter;
use striate_layout::characteristics::Method;
use striate_store::AlignedBuffer;
use striate_store::store::{Lock, LockKind, Store};

use crate::access::FileSide;
use crate::memory::{Content, ContentMut};
use crate::node_state::NodeState;
use crate::sieve_exclusion::UnlockedWrite;
use crate::{FileError, Memory, MemoryMut};
use stream_buffers::StreamBuffers;

/// How a rank carries out an access by itself.
#[derive(Clone, Debug)]
pub(crate) struct IndependentPlan {
    pub(crate) method: Method,
    /// Regions of a list request, at most.
    pub(crate) list_regions: u64,
    /// Whether the whole range is locked meanwhile.
    pub(crate) atomic: bool,
    /// Bytes of the sieve's buffer, at most.
    pub(crate) sieve_window: u64,
    /// The sieve's first window.
    pub(crate) first_window: u64,
    pub(crate) guard: WriteGuard,
    /// Whether there are more cores than ranks, so that a second thread helps.
    pub(crate) spare_core: bool,
}

/// How plain writes are kept out of the read-modify-write of a sieve in another rank.
#[derive(Clone, Debug)]
pub(crate) enum WriteGuard {
    /// There is no other rank, or none sieves.
    None,
    /// By a lock, unless this rank (of the given number) knows from the node's memory that no rank
    /// has sieved so far.
    Lock(Option<(Arc<NodeState>, usize)>),
}

/// What a plain write holds while it is under way.
pub(crate) enum HeldGuard<'a> {
    None,
    /// No rank sieves.
    Unlocked {
        _write: UnlockedWrite<'a>,
    },
    Locked {
        _lock: Box<dyn Lock + 'a>,
    },
}

impl<'a> HeldGuard<'a> {
    fn new(
        store: &'a dyn Store,
        range: Range<u64>,
        guard: &'a WriteGuard,
    ) -> Result<Self, FileError> {
        let WriteGuard::Lock(node) = guard else { return Ok(Self::None) };
        Self::take(store, range, node.as_ref().map(|(node, rank)| (&**node, *rank)))
    }

    /// Takes a lock, unless the node's memory says that no rank sieves.
    pub(crate) fn take(
        store: &'a dyn Store,
        range: Range<u64>,
        node: Option<(&'a NodeState, usize)>,
    ) -> Result<Self, FileError> {
        let unlocked = node.and_then(|(node, rank)| node.sieve_exclusion.begin_unlocked(rank));
        if let Some(write) = unlocked {
            return Ok(Self::Unlocked { _write: write });
        }
        Ok(Self::Locked { _lock: store.lock(range, LockKind::Shared)? })
    }

    pub(crate) const fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }
}

/// Runs `work`; a panic becomes an error.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(FileError::Panicked(text.unwrap_or_else(|| "no reason given".into())))
    })
}

/// The buffer of a sieve; a thread of a nonblocking call has none yet.
fn sieve_buffer<'b>(
    buffer: &'b mut Option<AlignedBuffer>,
    side: &FileSide,
    plan: &IndependentPlan,
) -> &'b mut AlignedBuffer {
    buffer.get_or_insert_with(|| {
        let span = side.range().map_or(1, |range| range.end - range.start);
        AlignedBuffer::new(span.min(plan.sieve_window) as usize)
    })
}

/// Reads an access as planned; returns the bytes of it before the end of the file.
pub(crate) fn read(
    store: &dyn Store,
    side: &FileSide,
    to: &mut MemoryMut<'_>,
    plan: &IndependentPlan,
    buffer: &mut Option<AlignedBuffer>,
) -> Result<u64, FileError> {
    let Some(range) = side.range() else { return Ok(0) };
    let lock = plan.atomic.then(|| store.lock(range, LockKind::Shared)).transpose()?;
    if let (ContentMut::Made(target), false) = (&mut to.content, plan.method == Method::Sieve) {
        let windows = StreamBuffers { store, side, spare_core: plan.spare_core, buffer };
        let bytes = windows.read(&mut **target, &|part: &FileSide, bytes: &mut [u8]| {
            read_bytes(store, part, &mut bytes.into(), plan)
        })?;
        drop(lock);
        return Ok(bytes);
    }
    let bytes = match plan.method {
        Method::Sieve => sieve::read(store, side, to, sieve_buffer(buffer, side, plan))?,
        _ => read_bytes(store, side, to, plan)?,
    };
    drop(lock);
    Ok(bytes)
}

/// Writes an access as planned.
pub(crate) fn write(
    store: &dyn Store,
    side: &FileSide,
    from: &Memory<'_>,
    plan: &IndependentPlan,
    buffer: &mut Option<AlignedBuffer>,
) -> Result<(), FileError> {
    let Some(range) = side.range() else { return Ok(()) };
    let guard = if plan.atomic {
        HeldGuard::Locked { _lock: store.lock(range, LockKind::Exclusive)? }
    } else if plan.method == Method::Sieve {
        // It locks window by window.
        HeldGuard::None
    } else {
        HeldGuard::new(store, range, &plan.guard)?
    };
    match plan.method {
        Method::Sieve => {
            if let WriteGuard::Lock(Some((node, _))) = &plan.guard {
                // A write without a lock ends even if its rank dies: there is no rank to ask for
                // its health.
                node.sieve_exclusion.begin_sieving(Waiter::HelperThread)?;
            }
            let order = sieve::WindowOrder { first: plan.first_window, locked: plan.atomic };
            sieve::write(store, side, from, sieve_buffer(buffer, side, plan), &order)?;
        }
        _ => match from.content {
            Content::Made(source) => {
                let windows = StreamBuffers { store, side, spare_core: plan.spare_core, buffer };
                windows.write(source, &|part: &FileSide, bytes: &mut [u8]| {
                    write_bytes(store, part, &(&*bytes).into(), plan)?;
                    Ok(part.len())
                })?;
            }
            Content::Bytes(_) => write_bytes(store, side, from, plan)?,
        },
    }
    drop(guard);
    Ok(())
}

/// By one of the methods that hand memory to the store as it is.
fn read_bytes(
    store: &dyn Store,
    side: &FileSide,
    to: &mut MemoryMut<'_>,
    plan: &IndependentPlan,
) -> Result<u64, FileError> {
    match plan.method {
        Method::List => list::read(store, side, to, plan.list_regions),
        Method::Datatype => datatype::read(store, side, to),
        _ => posix::read(store, side, to),
    }
}

fn write_bytes(
    store: &dyn Store,
    side: &FileSide,
    from: &Memory<'_>,
    plan: &IndependentPlan,
) -> Result<(), FileError> {
    match plan.method {
        Method::List => list::write(store, side, from, plan.list_regions),
        Method::Datatype => datatype::write(store, side, from),
        _ => posix::write(store, side, from),
    }
}
