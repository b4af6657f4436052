//! [`Seats`]: what was made to open a file stays with the processes that opened it, for their next file.
//!
//! A communicator of our own, and the memory that its ranks share, cost more than all else of an open and depend on
//! nothing but the processes and their order. A file takes a seat, has it for itself while it is open, and leaves
//! it when it is closed. Seats are those of a group, not of a communicator: libraries such as HDF5 duplicate the
//! program's for every file.
//!
//! All ranks must take the same seat, but not all have to see the same seats free: threads may close files in another
//! order on other ranks, a close may fail on one of them, and each forgets groups when it likes. So each says what it sees
//! ([`Ballot::seen`]), and from what all have seen together each comes to the same choice ([`Ballot::choose`]).

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mpi::ffi;
use striate_file::OpenContext;

use crate::constants::{self as mpi_constants, MPI_Comm};
use crate::errors::{Outcome, check};
use crate::group::Group;

/// Seats of a group. Files beyond that are opened as if there were none.
const COUNT: usize = 4;

/// Groups that keep their seats when the program has freed their communicators. MPIs have some thousand communicators.
const KEPT: usize = 16;

/// Numbers that tell what ranks see of them.
pub(crate) const SEEN: usize = 2 * COUNT;

/// A seat as one rank sees it.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Empty,
    Taken,
    Free(OpenContext),
}

/// The same as a number.
const FREE: i64 = 0;
const TAKEN: i64 = 1;
const EMPTY: i64 = 2;

impl Place {
    const fn number(&self) -> i64 {
        match self {
            Self::Free(_) => FREE,
            Self::Taken => TAKEN,
            Self::Empty => EMPTY,
        }
    }
}

/// The seats of a group.
#[derive(Debug)]
pub(crate) struct Seats {
    /// The ranks in the world; `None` if some are not of it.
    group: Option<Box<[c_int]>>,
    /// `None` when MPI ends.
    places: Mutex<Option<[Place; COUNT]>>,
    /// Whether a thread has told what it sees, and has not chosen yet.
    is_being_chosen: AtomicBool,
}

/// What a file has: which seat it is to leave, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Seat(Option<(Weak<Seats>, usize)>);

/// What this rank sees, or all ranks together: of each seat the largest number, and the largest negative one.
pub(crate) type Seen = [i64; SEEN];

/// The choice of a seat, from what this rank sees to what all have seen.
///
/// Threads may open files at the same time, with communicators of one group. Only the first of them can choose on this
/// rank, and another may be the first on another rank: who is not sees all seats taken, so that nobody gets one.
#[derive(Debug)]
pub(crate) struct Ballot(Option<Arc<Seats>>);

impl Ballot {
    /// Of the seats of a communicator that exists.
    pub(crate) fn of(raw: MPI_Comm) -> Self {
        Self(Seats::of(raw).filter(|seats| !seats.is_being_chosen.swap(true, Ordering::Acquire)))
    }

    /// What this rank sees.
    pub(crate) fn seen(&self) -> Seen {
        let mut seen = [TAKEN; SEEN];
        if let Some(seats) = &self.0 {
            for (place, seen) in lock(&seats.places).iter().flatten().zip(&mut seen) {
                *seen = place.number();
            }
        }
        for n in 0..COUNT {
            seen[COUNT + n] = -seen[n];
        }
        seen
    }

    /// Takes a seat that all ranks have seen free, with the party in it, or else one that all have seen empty. What
    /// some have lost, the others give up.
    pub(crate) fn choose(self, seen: &Seen) -> (Seat, Option<OpenContext>) {
        let Some(seats) = &self.0 else { return (Seat::default(), None) };
        let mut guard = lock(&seats.places);
        let Some(places) = &mut *guard else { return (Seat::default(), None) };
        let (largest, least) = seen.split_at(COUNT);
        let of_all = |number| {
            let mut both = largest.iter().zip(least);
            both.position(|(&largest, &least)| largest == number && -least == number)
        };
        let mut lost = Vec::new();
        for (place, &largest) in places.iter_mut().zip(largest) {
            if largest == EMPTY && matches!(place, Place::Free(_)) {
                lost.push(std::mem::take(place));
            }
        }
        let chosen = of_all(FREE).or_else(|| of_all(EMPTY));
        let found = chosen.map(|n| std::mem::replace(&mut places[n], Place::Taken));
        drop(guard);
        let seat = Seat(chosen.map(|n| (Arc::downgrade(seats), n)));
        match found {
            Some(Place::Free(party)) => (seat, Some(party)),
            _ => (seat, None),
        }
    }
}

impl Drop for Ballot {
    fn drop(&mut self) {
        if let Some(seats) = &self.0 {
            seats.is_being_chosen.store(false, Ordering::Release);
        }
    }
}

impl Seats {
    /// Those of a communicator that exists. `None` if there can be none.
    fn of(raw: MPI_Comm) -> Option<Arc<Self>> {
        let key = *key().as_ref().ok()?;
        if let Some(found) = find(raw, key).ok()? {
            return Some(found);
        }
        freed_at_the_end()?;
        let seats = Self::of_group(in_world(raw).ok()?);
        let value = Arc::into_raw(Arc::clone(&seats)).cast_mut().cast::<c_void>();
        // SAFETY: the key is ours, and so is the value, which from here on belongs to the attribute.
        if check(unsafe { ffi::PMPI_Comm_set_attr(raw, key, value) }).is_err() {
            // SAFETY: made above, and not taken by the MPI.
            drop(unsafe { Arc::from_raw(value.cast::<Self>()) });
            return None;
        }
        Some(seats)
    }

    /// Those of a group, which are made if there are none.
    fn of_group(group: Option<Box<[c_int]>>) -> Arc<Self> {
        let mut all = lock(&ALL);
        let same = |seats: &&Arc<Self>| group.is_some() && seats.group == group;
        if let Some(found) = all.iter().find(same) {
            return Arc::clone(found);
        }
        let (places, is_being_chosen) =
            (Mutex::new(Some(Default::default())), AtomicBool::new(false));
        let seats = Arc::new(Self { group, places, is_being_chosen });
        all.push(Arc::clone(&seats));
        let forgotten = forget(&mut all);
        // Dropped when the lock is free: that calls MPI.
        drop(all);
        drop(forgotten);
        seats
    }

    /// Frees what nobody has taken, for good.
    fn close(&self) {
        // Dropped when the lock is free: that calls MPI.
        let left = lock(&self.places).take();
        drop(left);
    }
}

impl Seat {
    /// Leaves the seat, with the party for the next file if it can have one.
    pub(crate) fn leave(mut self, party: Option<OpenContext>) {
        self.put(party);
    }

    fn put(&mut self, party: Option<OpenContext>) {
        // Without the communicator, nobody asks for it any more.
        let Some((seats, n)) = self.0.take() else { return };
        let Some(seats) = seats.upgrade() else { return };
        if let Some(places) = &mut *lock(&seats.places) {
            places[n] = party.map_or(Place::Empty, Place::Free);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.put(None);
    }
}

/// The seats of all groups, the newest last.
static ALL: Mutex<Vec<Arc<Seats>>> = Mutex::new(Vec::new());

/// Takes out those that no communicator leads to: all that no other can lead to again, and of the others all but the newest.
fn forget(all: &mut Vec<Arc<Seats>>) -> Vec<Arc<Seats>> {
    let idle = |seats: &Arc<Seats>| Arc::strong_count(seats) == 1;
    let surplus = all.iter().filter(|seats| idle(seats)).count().saturating_sub(KEPT);
    let mut older = 0..surplus;
    all.extract_if(.., |seats| idle(seats) && (seats.group.is_none() || older.next().is_some()))
        .collect()
}

/// The ranks of a communicator as they are in the world; `None` if some are not of it, or if there is no world.
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

/// Sees to it that what is left is freed before MPI ends. The communicators of the program live as long, or longer;
/// but the attributes of this one are the first thing that MPI ends with.
fn freed_at_the_end() -> Option<()> {
    static DONE: OnceLock<Outcome> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let key = make_key(end)?;
        let itself = mpi_constants::comm_self();
        // SAFETY: the communicator of this process alone always exists; nobody looks at the value.
        check(unsafe { ffi::PMPI_Comm_set_attr(itself, key, std::ptr::null_mut()) })
    });
    done.is_ok().then_some(())
}

type Delete = unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int;

/// A key of attributes that duplicates do not take along.
fn make_key(delete: Delete) -> Outcome<c_int> {
    let mut key = 0;
    // SAFETY: both functions are as MPI says, and are there as long as the process.
    check(unsafe {
        ffi::PMPI_Comm_create_keyval(Some(copy), Some(delete), &raw mut key, std::ptr::null_mut())
    })?;
    Ok(key)
}

fn find(raw: MPI_Comm, key: c_int) -> Outcome<Option<Arc<Seats>>> {
    let (mut value, mut is_there) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: the value of our key is an address, which is stored where the third argument says.
    check(unsafe {
        ffi::PMPI_Comm_get_attr(raw, key, (&raw mut value).cast(), &raw mut is_there)
    })?;
    if is_there == 0 || value.is_null() {
        return Ok(None);
    }
    let value = value.cast::<Seats>();
    // SAFETY: the value is the reference that `of` made; it is dropped when the communicator is freed, which the program
    // does not do while it opens a file with it.
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
    drop(unsafe { Arc::from_raw(value.cast::<Seats>()) });
    mpi_constants::SUCCESS
}

/// Called when MPI ends, before anything else does.
unsafe extern "C" fn end(_: MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    let all = std::mem::take(&mut *lock(&ALL));
    for seats in &all {
        seats.close();
    }
    mpi_constants::SUCCESS
}
