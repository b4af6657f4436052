//! What can go wrong with a parallel file.

use striate_comm::CommError;
use striate_datatype::{PackError, TypeError};
use striate_store::StoreError;
use thiserror::Error;

use crate::Mode;

/// Why a call on a file failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ranks cannot reach each other; the file is of no more use.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Another rank failed in the same collective call.
    #[error("rank {rank} failed: {reason}")]
    Rank {
        /// The rank at fault; the lowest, if there are several.
        rank: usize,
        /// Its error.
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
    /// Modes that do not go together.
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
    /// The caller could not take part in a collective call.
    #[error("{0}")]
    Caller(String),
    /// Somebody asked the call to end before it was done.
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
