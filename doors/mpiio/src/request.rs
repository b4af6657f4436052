//! Nonblocking calls.
//!
//! To the MPI they are generalized requests, which `grequest.rs` makes; a [`Job`] is the call
//! itself. It is polled from inside of the MPI, whenever the program waits or tests, by the thread
//! that does so: no thread of the door ever calls MPI. A poll never waits for the lock of a file,
//! since its thread may hold it already.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, TryLockError};

use striate_file::Request;

use crate::access::{
    Access, Coordination, Direction, FilePosition, Prepared, carry_out, check, prepare,
};
use crate::call_record;
use crate::constants::{self as mpi, MPI_Request, MPI_Status};
use crate::errhandlers::raise;
use crate::errors::{Failure, Outcome};
use crate::grequest;
use crate::grequest_errors;
use crate::handle::FileSlot;
use crate::memory::{Buffer, UserMemory};
use crate::open::{CallDetails, Open};
use crate::status;

/// A call that was begun.
#[derive(Debug)]
pub(crate) struct Job {
    slot: &'static FileSlot,
    /// The number of the file in that slot.
    number: u64,
    /// Whether it is collective: such a call makes progress only when it is polled.
    collective: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Begun(Request<UserMemory>),
    /// This rank takes part in a collective call with nothing but an error.
    Declined(Request<()>, Failure),
    Done(Outcome<u64>),
}

impl State {
    fn is_complete(&self) -> bool {
        match self {
            Self::Begun(request) => request.is_complete(),
            Self::Declined(request, _) => request.is_complete(),
            Self::Done(_) => true,
        }
    }
}

impl Job {
    /// Lets the call make progress. `true` when it has just become complete.
    pub(crate) fn poll(&self) -> bool {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread polls it.
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
        let recorded = call_record::RecordedCall::begin(call_record::Function::MpiCompletion);
        if self.collective {
            open.file.progress();
        }
        if !state.is_complete() {
            return false;
        }
        let done = match std::mem::replace(&mut *state, State::Done(Ok(0))) {
            State::Begun(request) => {
                let (mut memory, moved) = open.file.wait(request);
                moved.map_err(Failure::from).and_then(|moved| memory.complete(moved))
            }
            State::Declined(request, failure) => {
                let ((), _) = open.file.wait(request);
                Err(failure)
            }
            State::Done(done) => done,
        };
        let outcome = done.as_ref().copied().map_err(Failure::class);
        recorded.end(&open.name, &CallDetails::default().done(self.number, outcome));
        *state = State::Done(done);
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
            _ => (0, Some(Failure::new(mpi::ERR_INTERN, "the call is not done"))),
        };
        drop(done);
        // SAFETY: the caller's promise.
        let told = unsafe { status::set(to, bytes) };
        match told.err().or(failure) {
            None => mpi::SUCCESS,
            Some(failure) => {
                let code = raise(Some(self.slot), "a nonblocking call", &failure);
                if code != mpi::SUCCESS {
                    grequest_errors::suppress(code);
                }
                code
            }
        }
    }
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
    let collective = access.coordination == Coordination::Collective;
    let state = if !grequest::are_polled() {
        State::Done(carry_out(open, access, buffer))
    } else if collective {
        begin_collective(open, access, buffer)
    } else {
        begin_alone(open, access, buffer)?
    };
    let state = Mutex::new(state);
    let job = Job { slot: open.slot()?, number: open.number, collective, state };
    // SAFETY: the caller's promise.
    unsafe { grequest::start(Arc::new(job), request) }
}

fn begin_alone(open: &mut Open, access: Access, buffer: Buffer) -> Outcome<State> {
    let Prepared { memory, offset } = prepare(open, access, buffer)?;
    open.tally.add(access, memory.len());
    let file = &mut open.file;
    let request = match (access.direction, offset) {
        (Direction::Read, Some(offset)) => file.iread_at(offset, memory),
        (Direction::Read, None) => file.iread(memory),
        (Direction::Write, Some(offset)) => file.iwrite_at(offset, memory),
        (Direction::Write, None) => file.iwrite(memory),
    }?;
    Ok(State::Begun(request))
}

/// A collective call. One with wrong arguments is begun all the same, and fails when the program
/// waits for it: the other ranks have to learn of the error, which they would not if this call
/// returned it.
fn begin_collective(open: &mut Open, access: Access, buffer: Buffer) -> State {
    let (memory, etypes) = match check(open, access, buffer) {
        Ok(checked) => checked,
        Err(failure) => return State::Declined(open.file.idecline(failure.to_error()), failure),
    };
    open.tally.add(access, memory.len());
    let file = &mut open.file;
    let offset = match access.at {
        FilePosition::Offset(offset) => offset as u64,
        // There is no such call at the shared pointer.
        FilePosition::Individual | FilePosition::Shared => {
            let position = file.position();
            file.seek(position + etypes);
            position
        }
    };
    State::Begun(match access.direction {
        Direction::Read => file.iread_at_all(offset, memory),
        Direction::Write => file.iwrite_at_all(offset, memory),
    })
}
