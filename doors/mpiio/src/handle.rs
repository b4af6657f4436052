//! Handles: an `MPI_File` of this library is the address of a [`FileSlot`], of which there is a
//! fixed number.
//!
//! So a comparison decides whether a handle is one of this library, without access to foreign
//! memory; a handle that was closed still leads to a slot, an empty one; and the index of a slot is
//! the Fortran handle of a file. Slots are taken in turn, so that a closed slot is not reused soon.
//!
//! The lock of a slot is that of its file: a call holds it, and no other lock, from its beginning
//! to its end.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use striate_process::lock::{Lock, Locked};

use crate::constants::{self as mpi, MPI_File};
use crate::open::Open;
use crate::thread_level::BelowThreadMultiple;

/// Files that can be open at a time.
const COUNT: usize = 1 << 16;

/// Where Fortran's numbers of our files begin: far above those of the MPI's own.
const FIRST: c_int = 1 << 30;

/// The place of an open file, on a cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
pub(crate) struct FileSlot {
    open: Lock<Option<Box<Open>>, BelowThreadMultiple>,
}

static SLOTS: [FileSlot; COUNT] = [const { FileSlot { open: Lock::new(None) } }; COUNT];

/// What a handle is.
#[derive(Debug)]
pub(crate) enum HandleKind {
    /// One of ours, open or closed.
    Ours(&'static FileSlot),
    /// `MPI_FILE_NULL`.
    Null,
    /// One of the MPI's own.
    Foreign,
}

/// What a handle is.
#[inline]
pub(crate) fn find(handle: MPI_File) -> HandleKind {
    let distance = (handle as usize).wrapping_sub(SLOTS.as_ptr() as usize);
    if distance < size_of_val(&SLOTS) && distance.is_multiple_of(size_of::<FileSlot>()) {
        return HandleKind::Ours(&SLOTS[distance / size_of::<FileSlot>()]);
    }
    if handle == mpi::file_null() || handle.is_null() {
        HandleKind::Null
    } else {
        HandleKind::Foreign
    }
}

impl FileSlot {
    /// Puts an open file into an empty slot; gives it back if there is none.
    pub(crate) fn claim(mut open: Box<Open>) -> Result<&'static Self, Box<Open>> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        for _ in 0..COUNT {
            let slot = &SLOTS[NEXT.fetch_add(1, Ordering::Relaxed) % COUNT];
            if let Some(mut place) = slot.try_lock()
                && place.is_none()
            {
                open.slot = Some(slot);
                *place = Some(open);
                return Ok(slot);
            }
        }
        Err(open)
    }

    /// The handle.
    pub(crate) fn handle(&'static self) -> MPI_File {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The file, for as long as a call needs it. `None` if it is closed.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, Option<Box<Open>>, BelowThreadMultiple> {
        self.open.lock()
    }

    /// The file, unless a call has it.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, Option<Box<Open>>, BelowThreadMultiple>> {
        self.open.try_lock()
    }

    /// What Fortran calls it.
    pub(crate) fn number(&'static self) -> c_int {
        let distance = std::ptr::from_ref(self) as usize - SLOTS.as_ptr() as usize;
        FIRST + (distance / size_of::<Self>()) as c_int
    }
}

/// The slot that Fortran knows by this number; `None` if it is not one of ours.
pub(crate) fn by_number(number: c_int) -> Option<&'static FileSlot> {
    usize::try_from(number.checked_sub(FIRST)?).ok().and_then(|index| SLOTS.get(index))
}
