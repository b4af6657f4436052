//! [`ReplayError`]: why a recording cannot be replayed at all.

use std::io;
use std::path::{Path, PathBuf};

use striate_stack::ConfigurationError;
use striate_store::StoreError;
use thiserror::Error;

/// Why a recording cannot be replayed. What goes wrong with single calls is a
/// [`Difference`](crate::Difference).
#[derive(Debug, Error)]
pub enum ReplayError {
    /// More threads at a time than are allowed.
    #[error("{threads} threads were active at a time, but {most} workers are the most")]
    TooManyThreads {
        /// How many.
        threads: usize,
        /// How many there may be.
        most: usize,
    },
    /// Something cannot be made before the replay begins.
    #[error("cannot make {}: {error}", path.display())]
    Make {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The stack cannot be built.
    #[error("{0}")]
    Stack(#[from] ConfigurationError),
    /// The stage that records the replay cannot be built.
    #[error("cannot record the replay: {0}")]
    Trace(String),
    /// A store does not do.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// What is asked for does not go together.
    #[error("{0}")]
    Unfit(&'static str),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl ReplayError {
    pub(crate) fn make(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Make { path: path.to_path_buf(), error: error.into() }
    }
}
