//! What can go wrong with a parallel file.

use striate_comm::CommError;
use striate_datatype::{PackError, TypeError};
use striate_store::StoreError;
use thiserror::Error;

use crate::{ErrorKind, Mode};

/// Why a call on a file failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ranks cannot reach each other; the file cannot be used any more.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Another rank failed in the same collective call.
    #[error("rank {rank} failed: {reason}")]
    Rank {
        /// The rank at fault; the lowest, if there are several.
        rank: usize,
        /// Its error.
        reason: String,
        /// The kind of that.
        kind: ErrorKind,
    },
    /// Ranks gave different arguments to a call that needs the same of all.
    #[error("{call}: the ranks gave different {what}")]
    NotSame {
        /// The call.
        call: &'static str,
        /// In what they differ.
        what: &'static str,
    },
    /// A name that cannot be that of a file.
    #[error("{name}: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A description cannot be used.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A description and the memory given with it do not fit.
    #[error("the memory does not fit its description: {0}")]
    Memory(#[from] PackError),
    /// A view that MPI does not allow.
    #[error("not a file view: {reason}")]
    View {
        /// What is wrong with it.
        reason: String,
    },
    /// A hint has a value that cannot be used.
    #[error("hint {name}: '{value}' {reason}")]
    Hint {
        /// The hint.
        name: String,
        /// Its value.
        value: String,
        /// What it must be.
        reason: String,
    },
    /// Modes that exclude each other.
    #[error("mode {mode:?}: {reason}")]
    Mode {
        /// The mode.
        mode: Mode,
        /// Why not.
        reason: &'static str,
    },
    /// The call does not fit how the file was opened.
    #[error("{call} needs a file that was opened for {needed}")]
    NotOpenedFor {
        /// The call.
        call: &'static str,
        /// What it needs.
        needed: &'static str,
    },
    /// An argument of a call cannot be used.
    #[error("{call}: {reason}")]
    Argument {
        /// The call.
        call: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The store cannot do what the call needs.
    #[error("{call}: {reason}")]
    Unsupported {
        /// The call.
        call: &'static str,
        /// What it lacks.
        reason: String,
    },
    /// There was not enough memory for what the call needs.
    #[error("{call}: no memory for {what}")]
    NoMemory {
        /// The call.
        call: &'static str,
        /// What it was for.
        what: String,
    },
    /// The caller could not take part in a collective call; see [`FileError::caller`].
    #[error("{reason}")]
    Caller {
        /// Why not.
        reason: String,
        /// The caller's own number for it, which the other ranks get in [`ErrorKind::Caller`].
        number: u32,
    },
    /// The call was asked to end before it was complete.
    #[error("{call} was interrupted")]
    Interrupted {
        /// The call.
        call: &'static str,
    },
    /// A part of a call panicked; a defect of the program or of a store.
    #[error("panicked: {0}")]
    Panicked(String),
}

impl FileError {
    /// An error of the caller, with which it takes part in a collective call instead of an access.
    pub fn caller(reason: impl Into<String>) -> Self {
        Self::Caller { reason: reason.into(), number: 0 }
    }

    /// The kind of the error. For an error of another rank it is the same as there.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => ErrorKind::of_store(error),
            Self::NoMemory { .. } | Self::Comm(CommError::Memory { .. }) => ErrorKind::Memory,
            Self::Comm(_) => ErrorKind::Comm,
            Self::Rank { kind, .. } => *kind,
            Self::NotSame { .. } => ErrorKind::NotSame,
            Self::BadName { .. } => ErrorKind::BadName,
            Self::Type(_) => ErrorKind::Type,
            Self::Memory(_) | Self::Argument { .. } => ErrorKind::Argument,
            Self::View { .. } => ErrorKind::View,
            Self::Hint { .. } => ErrorKind::Hint,
            Self::Mode { .. } => ErrorKind::Mode,
            Self::NotOpenedFor { needed: "writing", .. } => ErrorKind::ReadOnly,
            Self::NotOpenedFor { .. } => ErrorKind::Access,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Caller { number, .. } => ErrorKind::Caller(*number),
            Self::Interrupted { .. } => ErrorKind::Interrupted,
            Self::Panicked(_) => ErrorKind::Panicked,
        }
    }

    /// The message with those of all its sources.
    pub(crate) fn full(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        text
    }
}
