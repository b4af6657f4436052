//! [`Failure`]: why a call failed, as MPI names it.
//!
//! The code that a call returns is the predefined error class itself, which every MPI takes for a code, so that
//! `MPI_Error_class` and `MPI_Error_string` know it. What exactly went wrong has no place in a code: it is
//! printed where `STRIATE_MPIIO_VERBOSE` asks for it.

use std::borrow::Cow;
use std::ffi::c_int;

use libc::{EDQUOT, EFBIG, EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR, EROFS};
use striate_file::FileError;
use striate_store::{ErrorKind, StoreError};

use crate::constants as mpi;

/// What a call comes to.
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
    pub(crate) const fn told(class: c_int, reason: String) -> Self {
        Self { class, reason: Cow::Owned(reason) }
    }

    /// The handle is that of no file, or of one that was closed.
    pub(crate) const fn no_file() -> Self {
        Self::new(mpi::ERR_FILE, "the handle is not that of an open file")
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
        Self::told(class_of(&error), told_with_sources(&error))
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

/// The class that the standard names for an error.
fn class_of(error: &FileError) -> c_int {
    match error {
        FileError::Store(error) => class_of_store(error),
        FileError::Mode { .. } => mpi::ERR_AMODE,
        FileError::NotOpenedFor { needed: "writing", .. } => mpi::ERR_READ_ONLY,
        FileError::NotOpenedFor { .. } => mpi::ERR_ACCESS,
        FileError::Type(_) => mpi::ERR_TYPE,
        FileError::Memory(_)
        | FileError::View { .. }
        | FileError::Hint { .. }
        | FileError::Argument { .. } => mpi::ERR_ARG,
        FileError::Rank { .. } => mpi::ERR_IO,
        FileError::Comm(_) | FileError::Panicked(_) => mpi::ERR_INTERN,
        _ => mpi::ERR_OTHER,
    }
}

fn class_of_store(error: &StoreError) -> c_int {
    match error.io_error().and_then(std::io::Error::raw_os_error) {
        Some(EROFS) => return mpi::ERR_READ_ONLY,
        Some(EDQUOT) => return mpi::ERR_QUOTA,
        Some(EFBIG) => return mpi::ERR_IO,
        Some(EISDIR | ENAMETOOLONG | ELOOP | ENOTDIR) => return mpi::ERR_BAD_FILE,
        _ => {}
    }
    match error.kind() {
        ErrorKind::NotFound => mpi::ERR_NO_SUCH_FILE,
        ErrorKind::AlreadyExists => mpi::ERR_FILE_EXISTS,
        ErrorKind::Denied => mpi::ERR_ACCESS,
        ErrorKind::OutOfSpace => mpi::ERR_NO_SPACE,
        ErrorKind::Malformed => mpi::ERR_ARG,
        ErrorKind::Unsupported => mpi::ERR_UNSUPPORTED_OPERATION,
        _ => mpi::ERR_IO,
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
