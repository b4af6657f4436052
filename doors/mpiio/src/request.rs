//! Calls that go on while the program does.
//!
//! To the MPI they are generalized requests, which `grequest.rs` makes; here is what becomes of them. A [`Job`] is
//! looked at from inside of the MPI, whenever the program waits or tests, by the thread that does so: no thread of
//! ours ever calls MPI. Whoever looks never waits for the lock of a file, since the thread may have it already.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use striate_file::{FileError, Request};

use crate::access::{Access, Direction, Prepared, Ranks, carry_out, prepare, transfer_alone};
use crate::constants::{self as mpi, MPI_Request, MPI_Status};
use crate::errors::{Failure, Outcome};
use crate::grequest;
use crate::handle::Slot;
use crate::handlers::raise;
use crate::memory::{Buffer, UserMemory};
use crate::open::Open;
use crate::raised;
use crate::status;

/// Up to here a plain access is carried out at once: to start a thread takes longer.
const AT_ONCE: u64 = 256 << 10;

/// A call that was begun.
#[derive(Debug)]
pub(crate) struct Job {
    slot: &'static Slot,
    /// The number of the file in that slot.
    number: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Begun(Request<UserMemory>),
    Done(Outcome<u64>),
}

impl Job {
    /// Looks whether the call is done, and lets it go on. `true` when it has just become so.
    pub(crate) fn poll(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread looks.
            Err(TryLockError::WouldBlock) => return false,
        };
        if let State::Done(_) = *state {
            return false;
        }
        let Some(mut place) = self.slot.try_lock() else { return false };
        let file = place.as_deref_mut().filter(|open| open.number == self.number);
        let Some(open) = file else {
            *state = State::Done(Err(Failure::no_file()));
            return true;
        };
        Self::finish(&mut state, open)
    }

    /// Takes the result, if there is one.
    fn finish(state: &mut MutexGuard<'_, State>, open: &mut Open) -> bool {
        match &**state {
            State::Begun(request) if request.is_complete() => {}
            _ => return false,
        }
        let nothing = State::Done(Ok(0));
        if let State::Begun(request) = std::mem::replace(&mut **state, nothing) {
            let (memory, moved) = open.file.wait(request);
            **state = State::Done(ended(&memory, moved));
        }
        true
    }

    /// Whether the call is done.
    pub(crate) fn is_done(&self) -> bool {
        match self.state.try_lock() {
            Ok(state) => matches!(*state, State::Done(_)),
            Err(_) => false,
        }
    }

    /// Fills in the status of the call, which is done, and returns its code.
    ///
    /// # Safety
    ///
    /// `to` leads to a status.
    pub(crate) unsafe fn tell(&self, to: *mut MPI_Status) -> c_int {
        let done = match self.state.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        let (bytes, failure) = match &*done {
            State::Done(Ok(bytes)) => (*bytes, None),
            State::Done(Err(failure)) => (0, Some(failure.clone())),
            State::Begun(_) => (0, Some(Failure::new(mpi::ERR_INTERN, "the call is not done"))),
        };
        drop(done);
        // SAFETY: the caller's promise.
        let told = unsafe { status::set(to, bytes) };
        match told.err().or(failure) {
            None => mpi::SUCCESS,
            Some(failure) => {
                let code = raise(Some(self.slot), "a nonblocking call", &failure);
                if code != mpi::SUCCESS {
                    raised::forgive(code);
                }
                code
            }
        }
    }
}

/// What a call came to, in bytes of memory.
fn ended(memory: &UserMemory, moved: Result<u64, FileError>) -> Outcome<u64> {
    let moved = moved?;
    memory.check_conversion()?;
    Ok(memory.moved(moved))
}

/// Begins a call.
///
/// # Safety
///
/// What is given is as the function of MPI demands.
pub(crate) unsafe fn start(
    open: &mut Open,
    access: Access,
    buffer: Buffer,
    request: *mut MPI_Request,
) -> Outcome {
    let state = if access.ranks == Ranks::Together || !grequest::are_polled() {
        // Who takes part in a call of all ranks says so when they meet.
        State::Done(carry_out(open, access, buffer))
    } else {
        begin_alone(open, access, buffer)?
    };
    let job = Job { slot: open.slot()?, number: open.number, state: Mutex::new(state) };
    // SAFETY: the caller's promise.
    unsafe { grequest::start(Arc::new(job), request) }
}

fn begin_alone(open: &mut Open, access: Access, buffer: Buffer) -> Outcome<State> {
    let Prepared { mut memory, offset } = prepare(open, access, buffer)?;
    let file = &mut open.file;
    if memory.is_plain() && memory.len() <= AT_ONCE {
        let moved = transfer_alone(file, access.direction, offset, &mut memory);
        return Ok(State::Done(ended(&memory, moved)));
    }
    let request = match (access.direction, offset) {
        (Direction::Read, Some(offset)) => file.iread_at(offset, memory),
        (Direction::Read, None) => file.iread(memory),
        (Direction::Write, Some(offset)) => file.iwrite_at(offset, memory),
        (Direction::Write, None) => file.iwrite(memory),
    }?;
    Ok(State::Begun(request))
}
