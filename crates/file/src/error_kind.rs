//! [`ErrorKind`]: the class of an error, which travels from rank to rank.
//!
//! A collective call that fails ends with an error on every rank, but only the rank at fault has
//! the typed one. The other ranks get its kind, so that all of them return the same: the MPI-IO
//! library returns the same error class everywhere.

use rustix::io::Errno;
use striate_store::{Operation, StoreError};

/// The kinds of errors; see [`crate::FileError::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file.
    NoSuchFile,
    /// The file exists, and must not.
    Exists,
    /// The name is not a valid name of a file.
    BadName,
    /// Another program uses the file in a way that forbids this.
    InUse,
    /// Permission is lacking, or the file was not opened for this.
    Access,
    /// The file or its file system can only be read.
    ReadOnly,
    /// There is no space, or the file cannot be larger.
    NoSpace,
    /// The user's quota is exhausted.
    Quota,
    /// Ranks gave different arguments that have to be the same.
    NotSame,
    /// Modes that exclude each other.
    Mode,
    /// Another argument that cannot be used.
    Argument,
    /// A description that cannot be used.
    Type,
    /// Not a file view.
    View,
    /// The value of a hint.
    Hint,
    /// The store cannot do this.
    Unsupported,
    /// There was not enough memory.
    Memory,
    /// The store failed.
    Io,
    /// The ranks cannot reach each other.
    Comm,
    /// The call was asked to end.
    Interrupted,
    /// A defect of the program or of a store.
    Panicked,
    /// An error of the caller, with its own number.
    Caller(u32),
}

/// The kinds without a number, in the order of their codes, which begin at 1.
const PLAIN: [ErrorKind; 20] = [
    ErrorKind::NoSuchFile,
    ErrorKind::Exists,
    ErrorKind::BadName,
    ErrorKind::InUse,
    ErrorKind::Access,
    ErrorKind::ReadOnly,
    ErrorKind::NoSpace,
    ErrorKind::Quota,
    ErrorKind::NotSame,
    ErrorKind::Mode,
    ErrorKind::Argument,
    ErrorKind::Type,
    ErrorKind::View,
    ErrorKind::Hint,
    ErrorKind::Unsupported,
    ErrorKind::Memory,
    ErrorKind::Io,
    ErrorKind::Comm,
    ErrorKind::Interrupted,
    ErrorKind::Panicked,
];

impl ErrorKind {
    /// Its encoded form. Ranks of a job run the same program, so the codes need no version.
    pub(crate) fn to_code(self) -> u64 {
        match self {
            Self::Caller(number) => u64::from(number) << 8,
            plain => PLAIN.iter().position(|kind| *kind == plain).map_or(0, |at| at as u64 + 1),
        }
    }

    pub(crate) fn from_code(code: u64) -> Self {
        let plain = (code & 0xff).checked_sub(1);
        match plain {
            None => Self::Caller((code >> 8) as u32),
            Some(at) => PLAIN.get(at as usize).copied().unwrap_or(Self::Io),
        }
    }

    /// Of an error of the store.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        use striate_store::ErrorKind as Of;
        if let Some(kind) = error.io_error().and_then(Self::of_system) {
            return kind;
        }
        match error.kind() {
            Of::NotFound => Self::NoSuchFile,
            Of::AlreadyExists => Self::Exists,
            Of::Denied => Self::Access,
            Of::OutOfSpace => Self::NoSpace,
            // An open has no other argument than the name.
            Of::Malformed if error.operation() == Operation::Open => Self::BadName,
            Of::Malformed => Self::Argument,
            Of::Unsupported => Self::Unsupported,
            _ => Self::Io,
        }
    }

    /// Of an error of the system, if it has a kind of its own.
    fn of_system(error: &std::io::Error) -> Option<Self> {
        Some(match Errno::from_io_error(error)? {
            Errno::NOENT => Self::NoSuchFile,
            Errno::EXIST => Self::Exists,
            Errno::NAMETOOLONG | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => Self::BadName,
            Errno::TXTBSY | Errno::BUSY => Self::InUse,
            Errno::ACCESS | Errno::PERM => Self::Access,
            Errno::ROFS => Self::ReadOnly,
            Errno::NOSPC | Errno::FBIG => Self::NoSpace,
            Errno::DQUOT => Self::Quota,
            Errno::NOMEM => Self::Memory,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_arrives_as_it_was_sent() {
        let numbered = [0, 1, 77, u32::MAX].map(ErrorKind::Caller);
        for kind in PLAIN.into_iter().chain(numbered) {
            assert_eq!(ErrorKind::from_code(kind.to_code()), kind);
        }
    }

    #[test]
    fn errors_of_the_system_have_kinds() {
        let of = |errno: Errno| {
            let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
            ErrorKind::of_store(&StoreError::system(Operation::Open, "f", error))
        };
        assert_eq!(of(Errno::NOENT), ErrorKind::NoSuchFile);
        assert_eq!(of(Errno::ROFS), ErrorKind::ReadOnly);
        assert_eq!(of(Errno::DQUOT), ErrorKind::Quota);
        assert_eq!(of(Errno::ISDIR), ErrorKind::BadName);
        assert_eq!(of(Errno::IO), ErrorKind::Io);
        // A descriptor that was opened for the other direction.
        assert_eq!(of(Errno::BADF), ErrorKind::Access);
    }
}
