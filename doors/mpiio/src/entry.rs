//! The common entry of all MPI functions of the door.
//!
//! [`export`] makes the two names of a function, `MPI_` and `PMPI_`: Fortran libraries and tools
//! call either. [`on_file`] does so for the functions that begin with a handle, and leaves handles
//! of the MPI's own to the MPI.

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call_record;
use crate::constants as mpi;
use crate::errhandlers::raise;
use crate::errors::{Failure, Outcome};
use crate::handle::FileSlot;
use crate::open::{CallDetails, Open};

/// Carries out a call on a file of ours: under its lock, and with its error handler.
#[inline]
pub(crate) fn on(
    slot: &'static FileSlot,
    call: &'static str,
    function: Option<call_record::Function>,
    act: impl FnOnce(&mut Open) -> Outcome,
) -> c_int {
    let recorded = function
        .map(call_record::RecordedCall::begin)
        .filter(call_record::RecordedCall::is_recorded);
    let done = guarded(|| match slot.lock().as_deref_mut() {
        None => Err(Failure::no_file()),
        Some(open) => match recorded {
            None => act(open),
            Some(recorded) => {
                open.details = CallDetails::default();
                let done = act(open);
                let outcome = done.as_ref().map(|()| open.details.moved).map_err(Failure::class);
                recorded.end(&open.name, &open.details.done(open.number, outcome));
                done
            }
        },
    });
    match done {
        Ok(()) => mpi::SUCCESS,
        Err(failure) => raise(Some(slot), call, &failure),
    }
}

/// Carries out a call that is not on a file.
pub(crate) fn alone(call: &'static str, act: impl FnOnce() -> Outcome) -> c_int {
    match guarded(act) {
        Ok(()) => mpi::SUCCESS,
        Err(failure) => raise(None, call, &failure),
    }
}

/// No panic leaves the library: to the program, it is an error like others.
#[inline]
pub(crate) fn guarded<T>(act: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for no reason");
    Failure::with_reason(mpi::ERR_INTERN, format!("panicked: {text}"))
}

/// Exports functions under both names: `"File_open"(arguments) => body;`.
macro_rules! export {
    ($($name:literal ($($argument:ident: $type:ty),*) $(-> $result:ty)? => $body:expr;)*) => {$(
        const _: () = {
            #[unsafe(export_name = concat!("MPI_", $name))]
            unsafe extern "C" fn mpi($($argument: $type),*) $(-> $result)? { $body }

            #[unsafe(export_name = concat!("PMPI_", $name))]
            unsafe extern "C" fn pmpi($($argument: $type),*) $(-> $result)? { $body }
        };
    )*};
}

/// Exports functions on files under both names: `"File_sync"(arguments) |open| body;`, where the
/// handle comes before the arguments. Handles of the MPI's own go to the function of the MPI.
macro_rules! on_file {
    ($($name:literal $($suffix:literal)? $([$function:ident])? ($($argument:ident: $type:ty),*)
        |$open:ident| $body:expr;)*) => {$(
        #[allow(clippy::undocumented_unsafe_blocks, reason = "comments do not reach it through other macros")]
        const _: () = {
            /// What a recording calls it; what neither moves nor changes anything is not recorded.
            const FUNCTION: Option<call_record::Function> = entry::recorded!($($function)?);

            type Signature = unsafe extern "C" fn(MPI_File, $($type),*) -> c_int;
            // SAFETY: the type is that of the function, which has the signature of its double here.
            static NATIVE: Native<Signature> =
                unsafe { Native::new(concat!("PMPI_", $name, $($suffix,)? "\0")) };

            #[inline]
            fn enter(file: MPI_File, $($argument: $type),*) -> c_int {
                match handle::find(file) {
                    HandleKind::Ours(slot) => {
                        let name = concat!("MPI_", $name $(, $suffix)?);
                        entry::on(slot, name, FUNCTION, |$open| $body)
                    }
                    HandleKind::Null => entry::alone(concat!("MPI_", $name $(, $suffix)?), || {
                        Err(Failure::no_file())
                    }),
                    HandleKind::Foreign => match NATIVE.get() {
                        // SAFETY: what the program gave, for the function that it called.
                        Some(native) => unsafe { native(file, $($argument),*) },
                        None => mpi::ERR_UNSUPPORTED_OPERATION,
                    },
                }
            }

            #[unsafe(export_name = concat!("MPI_", $name $(, $suffix)?))]
            unsafe extern "C" fn mpi_name(file: MPI_File, $($argument: $type),*) -> c_int {
                enter(file, $($argument),*)
            }

            #[unsafe(export_name = concat!("PMPI_", $name $(, $suffix)?))]
            unsafe extern "C" fn pmpi_name(file: MPI_File, $($argument: $type),*) -> c_int {
                enter(file, $($argument),*)
            }
        };
    )*};
}

/// A function in recordings, or none.
macro_rules! recorded {
    () => {
        None
    };
    ($function:ident) => {
        Some(call_record::Function::$function)
    };
}

pub(crate) use {export, on_file, recorded};
