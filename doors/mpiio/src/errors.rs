//! [`Failure`]: why a call failed, as MPI names it.
//!
//! The code that a call returns is the predefined error class itself, which every MPI accepts as a
//! code, so that `MPI_Error_class` and `MPI_Error_string` know it. The exact reason does not fit
//! into a code: it is printed if `STRIATE_MPIIO_VERBOSE` is set.

use std::borrow::Cow;
use std::ffi::c_int;

use striate_file::{ErrorKind, FileError};

use crate::constants as mpi;

/// The result of a call.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    class: c_int,
    reason: Cow<'static, str>,
}

impl Failure {
    /// An error of a class of MPI's.
    pub(crate) const fn new(class: c_int, reason: &'static str) -> Self {
        Self { class, reason: Cow::Borrowed(reason) }
    }

    /// An error with a reason of its own.
    pub(crate) const fn with_reason(class: c_int, reason: String) -> Self {
        Self { class, reason: Cow::Owned(reason) }
    }

    /// The handle is that of no file, or of one that was closed.
    pub(crate) const fn no_file() -> Self {
        Self::new(mpi::ERR_FILE, "the handle is not that of an open file")
    }

    /// The error for other ranks that wait for this one.
    pub(crate) fn to_error(&self) -> FileError {
        FileError::Caller { reason: self.reason.clone().into_owned(), number: self.class as u32 }
    }

    /// The class, which is also the code.
    pub(crate) const fn class(&self) -> c_int {
        self.class
    }

    /// What went wrong, for people.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::with_reason(class_of(error.kind()), told_with_sources(&error))
    }
}

/// The error and what caused it.
fn told_with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// The class that the standard names for a kind of error; the same on all ranks of a collective
/// call.
const fn class_of(kind: ErrorKind) -> c_int {
    match kind {
        ErrorKind::NoSuchFile => mpi::ERR_NO_SUCH_FILE,
        ErrorKind::Exists => mpi::ERR_FILE_EXISTS,
        ErrorKind::BadName => mpi::ERR_BAD_FILE,
        ErrorKind::InUse => mpi::ERR_FILE_IN_USE,
        ErrorKind::Access => mpi::ERR_ACCESS,
        ErrorKind::ReadOnly => mpi::ERR_READ_ONLY,
        ErrorKind::NoSpace => mpi::ERR_NO_SPACE,
        ErrorKind::Quota => mpi::ERR_QUOTA,
        ErrorKind::NotSame => mpi::ERR_NOT_SAME,
        ErrorKind::Mode => mpi::ERR_AMODE,
        ErrorKind::Argument | ErrorKind::Hint => mpi::ERR_ARG,
        ErrorKind::Type => mpi::ERR_TYPE,
        ErrorKind::Unsupported => mpi::ERR_UNSUPPORTED_OPERATION,
        ErrorKind::Memory => mpi::ERR_NO_MEM,
        // For views, the standard names no class; this is the one that programs know from ROMIO.
        ErrorKind::Io | ErrorKind::View => mpi::ERR_IO,
        ErrorKind::Comm | ErrorKind::Panicked => mpi::ERR_INTERN,
        // The value of a rank is an error class.
        ErrorKind::Caller(class) => class as c_int,
        _ => mpi::ERR_OTHER,
    }
}

/// Turns the code of an MPI function into a failure.
pub(crate) fn check(code: c_int) -> Outcome {
    if code == mpi::SUCCESS {
        return Ok(());
    }
    let mut class = mpi::ERR_OTHER;
    // SAFETY: the place for the class outlives the call.
    unsafe { ::mpi::ffi::MPI_Error_class(code, &raw mut class) };
    Err(Failure::new(class, "a function of the MPI failed"))
}
