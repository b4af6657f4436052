//! [`ContextCache`]: open contexts, cached for the next file that the same processes open.
//!
//! A private communicator and the memory that its ranks share cost more than the rest of an open,
//! and depend only on the processes and their order. A file takes a context from the cache, uses it
//! exclusively while it is open, and returns it when it is closed ([`CacheLease`]). Caches are
//! those of a group, not of a communicator: libraries such as HDF5 duplicate the program's for
//! every file.
//!
//! All ranks must use the same entry, but the caches of two ranks may differ: threads may close
//! files in another order on other ranks, a close may fail on one of them, and each rank evicts
//! groups by itself. So each rank proposes the states of its entries ([`EntryProposal::states`]),
//! and from the states of all ranks each makes the same choice ([`EntryProposal::choose`]).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mpi::ffi;
use striate_file::OpenContext;

use crate::constants::{self as mpi_constants, MPI_Comm};
use crate::errors::{Outcome, check};
use crate::group::Group;

/// Entries of a group. Files beyond that are opened without the cache.
const COUNT: usize = 4;

/// Groups that keep their cache when the program has freed their communicators. MPIs have some
/// thousand communicators.
const KEPT: usize = 16;

/// Numbers by which ranks exchange the states of their entries.
pub(crate) const STATES: usize = 2 * COUNT;

/// An entry of this rank's cache.
#[derive(Debug, Default)]
enum CacheEntry {
    #[default]
    Empty,
    Taken,
    Free(OpenContext),
}

/// The state of an entry as a number.
const FREE: i64 = 0;
const TAKEN: i64 = 1;
const EMPTY: i64 = 2;

impl CacheEntry {
    const fn state(&self) -> i64 {
        match self {
            Self::Free(_) => FREE,
            Self::Taken => TAKEN,
            Self::Empty => EMPTY,
        }
    }
}

/// The cache of a group.
#[derive(Debug)]
pub(crate) struct ContextCache {
    /// The ranks in `MPI_COMM_WORLD`; `None` if some are not in it.
    group: Option<Box<[c_int]>>,
    /// `None` when MPI ends.
    entries: Mutex<Option<[CacheEntry; COUNT]>>,
    /// Whether a thread has proposed states and has not chosen yet.
    is_being_chosen: AtomicBool,
}

/// The entry that the context of an open file goes back to, if it has one.
#[derive(Debug, Default)]
pub(crate) struct CacheLease(Option<(Weak<ContextCache>, usize)>);

/// States of entries, of this rank or of all ranks: of each entry the largest number, and the
/// largest negated one.
pub(crate) type EntryStates = [i64; STATES];

/// The choice of an entry by all ranks, which begins with the states that this rank proposes.
///
/// Threads may open files at the same time, with communicators of one group. Only the first of them
/// can choose on this rank, and another may be the first on another rank: a thread that is not the
/// first proposes that all entries are taken, so that no thread gets one.
#[derive(Debug)]
pub(crate) struct EntryProposal(Option<Arc<ContextCache>>);

impl EntryProposal {
    /// For a communicator that exists.
    pub(crate) fn of(raw: MPI_Comm) -> Self {
        Self(
            ContextCache::of(raw)
                .filter(|cache| !cache.is_being_chosen.swap(true, Ordering::Acquire)),
        )
    }

    /// The states of this rank's entries.
    pub(crate) fn states(&self) -> EntryStates {
        let mut states = [TAKEN; STATES];
        if let Some(cache) = &self.0 {
            for (entry, state) in lock(&cache.entries).iter().flatten().zip(&mut states) {
                *state = entry.state();
            }
        }
        for n in 0..COUNT {
            states[COUNT + n] = -states[n];
        }
        states
    }

    /// Takes an entry that is free on all ranks, with the context in it, or else one that is empty
    /// on all. A context that some ranks do not have any more is dropped by the others.
    pub(crate) fn choose(self, of_all_ranks: &EntryStates) -> (CacheLease, Option<OpenContext>) {
        let Some(cache) = &self.0 else { return (CacheLease::default(), None) };
        let mut guard = lock(&cache.entries);
        let Some(entries) = &mut *guard else { return (CacheLease::default(), None) };
        let (largest, least) = of_all_ranks.split_at(COUNT);
        let of_all = |number| {
            let mut both = largest.iter().zip(least);
            both.position(|(&largest, &least)| largest == number && -least == number)
        };
        let mut lost = Vec::new();
        for (entry, &largest) in entries.iter_mut().zip(largest) {
            if largest == EMPTY && matches!(entry, CacheEntry::Free(_)) {
                lost.push(std::mem::take(entry));
            }
        }
        let chosen = of_all(FREE).or_else(|| of_all(EMPTY));
        let found = chosen.map(|n| std::mem::replace(&mut entries[n], CacheEntry::Taken));
        drop(guard);
        let lease = CacheLease(chosen.map(|n| (Arc::downgrade(cache), n)));
        match found {
            Some(CacheEntry::Free(context)) => (lease, Some(context)),
            _ => (lease, None),
        }
    }
}

impl Drop for EntryProposal {
    fn drop(&mut self) {
        if let Some(cache) = &self.0 {
            cache.is_being_chosen.store(false, Ordering::Release);
        }
    }
}

impl ContextCache {
    /// Those of a communicator that exists. `None` if there can be none.
    fn of(raw: MPI_Comm) -> Option<Arc<Self>> {
        let key = *key().as_ref().ok()?;
        if let Some(found) = find(raw, key).ok()? {
            return Some(found);
        }
        freed_at_the_end()?;
        let cache = Self::of_group(in_world(raw).ok()?);
        let value = Arc::into_raw(Arc::clone(&cache)).cast_mut().cast::<c_void>();
        // SAFETY: the key is ours, and so is the value, which from here on belongs to the
        // attribute.
        if check(unsafe { ffi::PMPI_Comm_set_attr(raw, key, value) }).is_err() {
            // SAFETY: made above, and not taken by the MPI.
            drop(unsafe { Arc::from_raw(value.cast::<Self>()) });
            return None;
        }
        Some(cache)
    }

    /// Those of a group, which are made if there are none.
    fn of_group(group: Option<Box<[c_int]>>) -> Arc<Self> {
        let mut all = lock(&ALL);
        let same = |cache: &&Arc<Self>| group.is_some() && cache.group == group;
        if let Some(found) = all.iter().find(same) {
            return Arc::clone(found);
        }
        let (entries, is_being_chosen) =
            (Mutex::new(Some(Default::default())), AtomicBool::new(false));
        let cache = Arc::new(Self { group, entries, is_being_chosen });
        all.push(Arc::clone(&cache));
        let forgotten = forget(&mut all);
        // Dropped when the lock is free: that calls MPI.
        drop(all);
        drop(forgotten);
        cache
    }

    /// Frees all contexts that no file has, for good.
    fn close(&self) {
        // Dropped when the lock is free: that calls MPI.
        let left = lock(&self.entries).take();
        drop(left);
    }
}

impl CacheLease {
    /// Gives the entry back, with the context for the next file if there is one.
    pub(crate) fn give_back(mut self, context: Option<OpenContext>) {
        self.put(context);
    }

    fn put(&mut self, context: Option<OpenContext>) {
        // Without the communicator, no open asks for it any more.
        let Some((cache, n)) = self.0.take() else { return };
        let Some(cache) = cache.upgrade() else { return };
        if let Some(entries) = &mut *lock(&cache.entries) {
            entries[n] = context.map_or(CacheEntry::Empty, CacheEntry::Free);
        }
    }
}

impl Drop for CacheLease {
    fn drop(&mut self) {
        self.put(None);
    }
}

/// The caches of all groups, the newest last.
static ALL: Mutex<Vec<Arc<ContextCache>>> = Mutex::new(Vec::new());

/// Takes out those that no communicator leads to: all that no other can lead to again, and of the
/// others all but the newest.
fn forget(all: &mut Vec<Arc<ContextCache>>) -> Vec<Arc<ContextCache>> {
    let idle = |cache: &Arc<ContextCache>| Arc::strong_count(cache) == 1;
    let surplus = all.iter().filter(|cache| idle(cache)).count().saturating_sub(KEPT);
    let mut older = 0..surplus;
    all.extract_if(.., |cache| idle(cache) && (cache.group.is_none() || older.next().is_some()))
        .collect()
}

/// The ranks of a communicator in `MPI_COMM_WORLD`; `None` if some are not in it, or if there is
/// none (sessions).
fn in_world(raw: MPI_Comm) -> Outcome<Option<Box<[c_int]>>> {
    let mut is_there = 0;
    // SAFETY: the address is that of a number.
    check(unsafe { ffi::MPI_Initialized(&raw mut is_there) })?;
    if is_there == 0 {
        return Ok(None);
    }
    let (group, world) = (Group::of(raw)?, Group::of(mpi_constants::comm_world())?);
    let in_world = group.translated(&world)?;
    Ok((!in_world.contains(&mpi_constants::UNDEFINED)).then_some(in_world))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of the attribute.
fn key() -> &'static Outcome<c_int> {
    static KEY: OnceLock<Outcome<c_int>> = OnceLock::new();
    KEY.get_or_init(|| make_key(delete))
}

/// Makes sure that what is left is freed before MPI ends. The communicators of the program live as
/// long, or longer; but the attributes of this one are the first thing that MPI ends with.
fn freed_at_the_end() -> Option<()> {
    static DONE: OnceLock<Outcome> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let key = make_key(end)?;
        let itself = mpi_constants::comm_self();
        // SAFETY: the communicator of this process alone always exists; the value is not used.
        check(unsafe { ffi::PMPI_Comm_set_attr(itself, key, std::ptr::null_mut()) })
    });
    done.is_ok().then_some(())
}

type Delete = unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int;

/// A key of attributes that duplicates do not take along.
fn make_key(delete: Delete) -> Outcome<c_int> {
    let mut key = 0;
    // SAFETY: both functions have the signatures that MPI requires, and exist as long as the
    // process.
    check(unsafe {
        ffi::PMPI_Comm_create_keyval(Some(copy), Some(delete), &raw mut key, std::ptr::null_mut())
    })?;
    Ok(key)
}

fn find(raw: MPI_Comm, key: c_int) -> Outcome<Option<Arc<ContextCache>>> {
    let (mut value, mut is_there) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: the value of our key is an address, which is stored where the third argument says.
    check(unsafe {
        ffi::PMPI_Comm_get_attr(raw, key, (&raw mut value).cast(), &raw mut is_there)
    })?;
    if is_there == 0 || value.is_null() {
        return Ok(None);
    }
    let value = value.cast::<ContextCache>();
    // SAFETY: the value is the reference that `of` made; it is dropped when the communicator is
    // freed, which the program does not do while it opens a file with it.
    Ok(Some(unsafe {
        Arc::increment_strong_count(value);
        Arc::from_raw(value)
    }))
}

/// Called when a communicator is duplicated.
unsafe extern "C" fn copy(
    _: MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: MPI calls this with an address for the answer.
    unsafe { is_copied.write(0) };
    mpi_constants::SUCCESS
}

/// Called when a communicator is freed.
unsafe extern "C" fn delete(_: MPI_Comm, _: c_int, value: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: the value is the reference that `of` made; MPI gives it back once.
    drop(unsafe { Arc::from_raw(value.cast::<ContextCache>()) });
    mpi_constants::SUCCESS
}

/// Called when MPI ends, before anything else does.
unsafe extern "C" fn end(_: MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    let all = std::mem::take(&mut *lock(&ALL));
    for cache in &all {
        cache.close();
    }
    mpi_constants::SUCCESS
}
