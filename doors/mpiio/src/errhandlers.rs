//! Error handlers of files.
//!
//! MPI has no call that returns the function of an error handler, so the door creates such handlers
//! itself. The program gets a *carrier*: a handler of communicators that does nothing, which the
//! MPI reference-counts and frees like every handler. A table here maps it to the function of the
//! program.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use mpi::ffi;
use striate_process::say;

use crate::constants::{self as mpi_constants, MPI_Comm, MPI_Errhandler, MPI_File};
use crate::errors::{Failure, Outcome, check};
use crate::handle::{self, FileSlot, HandleKind};
use crate::native::Native;
use crate::settings::Settings;

/// A function of a C program that handles errors.
pub(crate) type CFunction = unsafe extern "C" fn(*mut MPI_File, *mut c_int, ...);

/// A function of a Fortran program that handles errors.
pub(crate) type FortranFunction = unsafe extern "C" fn(*mut c_int, *mut c_int);

/// A function of the program that handles errors.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HandlerFunction {
    C(CFunction),
    Fortran(FortranFunction),
}

/// What happens when a call on a file fails.
#[derive(Clone, Debug)]
pub(crate) enum Handler {
    /// The call returns a code.
    Return,
    /// The job ends.
    Fatal,
    /// The processes of the file end, by which all MPIs mean the job.
    Abort,
    /// A function of the program is called first.
    Program(Arc<ProgramHandler>),
}

/// A handler of the program.
#[derive(Debug)]
pub(crate) struct ProgramHandler {
    carrier: Reference,
    function: HandlerFunction,
}

/// A reference to a handler; the MPI frees the handler with the last one.
#[derive(Debug)]
struct Reference(MPI_Errhandler);

// SAFETY: a handle names a handler from any thread.
unsafe impl Send for Reference {}
// SAFETY: as above.
unsafe impl Sync for Reference {}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and this is its end.
        let _ = unsafe { ffi::MPI_Errhandler_free(&raw mut self.0) };
    }
}

/// Which function a carrier stands for. Handles are pointers in one MPI and numbers in the other.
static MADE: LazyLock<Mutex<HashMap<usize, HandlerFunction>>> = LazyLock::new(Mutex::default);

/// The handler of `MPI_FILE_NULL`: of calls that have no file, and of files that will be opened.
static DEFAULT: Mutex<Handler> = Mutex::new(Handler::Return);

fn key(raw: MPI_Errhandler) -> usize {
    raw.0 as usize
}

fn function_of(raw: MPI_Errhandler) -> Option<HandlerFunction> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner).get(&key(raw)).copied()
}

/// Makes a handler of a function.
pub(crate) fn create(function: HandlerFunction) -> Outcome<MPI_Errhandler> {
    unsafe extern "C" fn nothing(_: *mut MPI_Comm, _: *mut c_int) {}
    // SAFETY: a function that takes less than it may be given is callable with more in C's
    // convention.
    let carried = unsafe {
        std::mem::transmute::<
            unsafe extern "C" fn(*mut MPI_Comm, *mut c_int),
            unsafe extern "C" fn(*mut MPI_Comm, *mut c_int, ...),
        >(nothing)
    };
    let mut raw = mpi_constants::errhandler_null();
    // SAFETY: the place for the handle outlives the call.
    check(unsafe { ffi::MPI_Comm_create_errhandler(Some(carried), &raw mut raw) })?;
    MADE.lock().unwrap_or_else(PoisonError::into_inner).insert(key(raw), function);
    Ok(raw)
}

/// One more reference to a handler. MPI has no function for it, but gives one when it is asked for
/// the handler of a communicator.
fn retained(raw: MPI_Errhandler) -> Outcome<MPI_Errhandler> {
    struct Holder(MPI_Comm);
    // SAFETY: a handle names a communicator from any thread; the mutex keeps them apart.
    unsafe impl Send for Holder {}
    static HOLDER: Mutex<Option<Holder>> = Mutex::new(None);

    let mut place = HOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let holder = if let Some(holder) = &*place {
        holder.0
    } else {
        let mut comm = mpi_constants::comm_null();
        // SAFETY: the communicator of this process alone exists while MPI does.
        check(unsafe { ffi::MPI_Comm_dup(mpi_constants::comm_self(), &raw mut comm) })?;
        place.insert(Holder(comm)).0
    };
    let mut again = mpi_constants::errhandler_null();
    // SAFETY: the communicator is ours, and the handler exists.
    unsafe {
        check(ffi::MPI_Comm_set_errhandler(holder, raw))?;
        let got = check(ffi::MPI_Comm_get_errhandler(holder, &raw mut again));
        check(ffi::MPI_Comm_set_errhandler(holder, mpi_constants::errors_return()))?;
        got?;
    }
    Ok(again)
}

impl Handler {
    /// The handler that a handle of the program names.
    pub(crate) fn named(raw: MPI_Errhandler) -> Outcome<Self> {
        if raw == mpi_constants::errors_return() {
            return Ok(Self::Return);
        }
        if raw == mpi_constants::errors_are_fatal() {
            return Ok(Self::Fatal);
        }
        if raw == mpi_constants::errors_abort() {
            return Ok(Self::Abort);
        }
        let wrong = Failure::new(mpi_constants::ERR_ARG, "not an error handler of files");
        let function = function_of(raw).ok_or(wrong)?;
        Ok(Self::Program(Arc::new(ProgramHandler { carrier: Reference(retained(raw)?), function })))
    }

    /// A handle of it, which the program frees.
    pub(crate) fn handle(&self) -> Outcome<MPI_Errhandler> {
        retained(match self {
            Self::Return => mpi_constants::errors_return(),
            Self::Fatal => mpi_constants::errors_are_fatal(),
            Self::Abort => mpi_constants::errors_abort(),
            Self::Program(made) => made.carrier.0,
        })
    }

    /// The handler of `MPI_FILE_NULL`.
    pub(crate) fn default_of_files() -> Self {
        DEFAULT.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the handler of `MPI_FILE_NULL`.
    pub(crate) fn set_default_of_files(handler: Self) {
        *DEFAULT.lock().unwrap_or_else(PoisonError::into_inner) = handler;
    }

    /// Does what is to be done about an error, and returns what the call returns.
    fn handle_error(
        &self,
        file: Option<&'static FileSlot>,
        code: c_int,
        call: &str,
        why: &str,
    ) -> c_int {
        match self {
            Self::Return => code,
            Self::Fatal | Self::Abort => {
                say(format_args!(
                    "striate-mpiio: {call} failed: {why}; errors are fatal, the job is ended\n"
                ));
                striate_comm::mpi::wait_for_reader();
                // SAFETY: a file was opened or asked for, so MPI is initialised.
                unsafe { ffi::MPI_Abort(mpi_constants::comm_world(), code) };
                std::process::exit(1)
            }
            Self::Program(made) => {
                let mut code = code;
                match made.function {
                    HandlerFunction::C(function) => {
                        let mut raw = file.map_or_else(mpi_constants::file_null, FileSlot::handle);
                        let why = CString::new(why).unwrap_or_default();
                        let end = std::ptr::null::<c_char>();
                        // SAFETY: a function that the program gave for this; the places outlive it.
                        unsafe { function(&raw mut raw, &raw mut code, why.as_ptr(), end) };
                    }
                    HandlerFunction::Fortran(function) => {
                        let mut number = file.map_or(0, FileSlot::number);
                        // SAFETY: as above.
                        unsafe { function(&raw mut number, &raw mut code) };
                    }
                }
                code
            }
        }
    }
}

/// Ends a call that failed: the handler of its file is called, or that of `MPI_FILE_NULL`.
///
/// The caller does not hold the lock of the file, since the handler may use it.
#[cold]
pub(crate) fn raise(file: Option<&'static FileSlot>, call: &str, failure: &Failure) -> c_int {
    let handler = file.and_then(|slot| slot.lock().as_ref().map(|open| open.handler.clone()));
    raise_on(&handler.unwrap_or_else(Handler::default_of_files), file, call, failure)
}

/// As [`raise`], with a handler that is known.
#[cold]
pub(crate) fn raise_on(
    handler: &Handler,
    file: Option<&'static FileSlot>,
    call: &str,
    failure: &Failure,
) -> c_int {
    let why = failure.reason();
    if Settings::get().verbose {
        say(format_args!("striate-mpiio: {call} failed: {why}\n"));
    }
    handler.handle_error(file, failure.class(), call, why)
}

/// A handler for files of the MPI's own that does what `raw` does for ours.
fn for_native(raw: MPI_Errhandler) -> Option<MPI_Errhandler> {
    type CreateC = unsafe extern "C" fn(CFunction, *mut MPI_Errhandler) -> c_int;
    type CreateFortran = unsafe extern "C" fn(FortranFunction, *mut c_int, *mut c_int);
    // SAFETY: the types of these functions.
    static C: Native<CreateC> = unsafe { Native::new("PMPI_File_create_errhandler\0") };
    // SAFETY: as above.
    static FORTRAN: Native<CreateFortran> = unsafe { Native::new("mpi_file_create_errhandler_\0") };

    let mut own = mpi_constants::errhandler_null();
    match function_of(raw)? {
        HandlerFunction::C(function) => {
            // SAFETY: a function of the program; the place for the handle outlives the call.
            (unsafe { C.get()?(function, &raw mut own) } == 0).then_some(own)
        }
        HandlerFunction::Fortran(function) => {
            let (mut number, mut code) = (0, 0);
            // SAFETY: as above.
            unsafe { FORTRAN.get()?(function, &raw mut number, &raw mut code) };
            // SAFETY: a number that was just given.
            (code == 0).then(|| unsafe { ffi::RSMPI_Errhandler_f2c(number) })
        }
    }
}

type SetNative = unsafe extern "C" fn(MPI_File, MPI_Errhandler) -> c_int;
type GetNative = unsafe extern "C" fn(MPI_File, *mut MPI_Errhandler) -> c_int;
type CallNative = unsafe extern "C" fn(MPI_File, c_int) -> c_int;

/// Sets the handler of a file of the MPI's own, or that of files which it will open.
fn set_native(file: MPI_File, raw: MPI_Errhandler) -> c_int {
    // SAFETY: the type of this function.
    static SET: Native<SetNative> = unsafe { Native::new("PMPI_File_set_errhandler\0") };
    let Some(set) = SET.get() else { return mpi_constants::ERR_UNSUPPORTED_OPERATION };
    let own = for_native(raw);
    // SAFETY: the program's handle, and a handler that exists.
    let code = unsafe { set(file, own.unwrap_or(raw)) };
    // The file has a reference; ours is no longer needed.
    drop(own.map(Reference));
    code
}

/// `MPI_File_set_errhandler`.
pub(crate) fn set(file: MPI_File, raw: MPI_Errhandler) -> c_int {
    const CALL: &str = "MPI_File_set_errhandler";
    let slot = match handle::find(file) {
        HandleKind::Foreign => return set_native(file, raw),
        HandleKind::Ours(slot) => Some(slot),
        HandleKind::Null => None,
    };
    let done = Handler::named(raw).and_then(|handler| match slot {
        None => {
            Handler::set_default_of_files(handler);
            set_native(file, raw);
            Ok(())
        }
        Some(slot) => match slot.lock().as_mut() {
            Some(open) => {
                open.handler = handler;
                Ok(())
            }
            None => Err(Failure::no_file()),
        },
    });
    done.map_or_else(|failure| raise(slot, CALL, &failure), |()| mpi_constants::SUCCESS)
}

/// `MPI_File_get_errhandler`.
///
/// # Safety
///
/// `raw` leads to a place for a handle.
pub(crate) unsafe fn get(file: MPI_File, raw: *mut MPI_Errhandler) -> c_int {
    const CALL: &str = "MPI_File_get_errhandler";
    // SAFETY: the type of this function.
    static GET: Native<GetNative> = unsafe { Native::new("PMPI_File_get_errhandler\0") };
    let (slot, handler) = match handle::find(file) {
        HandleKind::Foreign => {
            return match GET.get() {
                // SAFETY: what the program gave.
                Some(get) => unsafe { get(file, raw) },
                None => mpi_constants::ERR_UNSUPPORTED_OPERATION,
            };
        }
        HandleKind::Ours(slot) => {
            (Some(slot), slot.lock().as_ref().map(|open| open.handler.clone()))
        }
        HandleKind::Null => (None, Some(Handler::default_of_files())),
    };
    match handler.ok_or_else(Failure::no_file).and_then(|handler| handler.handle()) {
        Ok(handle) => {
            // SAFETY: the caller's promise.
            unsafe { raw.write(handle) };
            mpi_constants::SUCCESS
        }
        Err(failure) => raise(slot, CALL, &failure),
    }
}

/// `MPI_File_call_errhandler`.
pub(crate) fn call(file: MPI_File, code: c_int) -> c_int {
    // SAFETY: the type of this function.
    static CALL: Native<CallNative> = unsafe { Native::new("PMPI_File_call_errhandler\0") };
    let slot = match handle::find(file) {
        HandleKind::Foreign => {
            return match CALL.get() {
                // SAFETY: what the program gave.
                Some(call) => unsafe { call(file, code) },
                None => mpi_constants::ERR_UNSUPPORTED_OPERATION,
            };
        }
        HandleKind::Ours(slot) => Some(slot),
        HandleKind::Null => None,
    };
    let own = slot.map(|slot| slot.lock().as_ref().map(|open| open.handler.clone()));
    match own {
        Some(None) => raise(None, "MPI_File_call_errhandler", &Failure::no_file()),
        own => {
            let handler = own.flatten().unwrap_or_else(Handler::default_of_files);
            handler.handle_error(slot, code, "MPI_File_call_errhandler", "the program says so");
            mpi_constants::SUCCESS
        }
    }
}
