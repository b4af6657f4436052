//! [`ReplayError`]: why a recording cannot be replayed at all.

use std::io;
use std::path::{Path, PathBuf};

use striate_datatype::Bytes;
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
    /// Files would take more than they may.
    #[error(
        "the files of this recording take up to {}, and {} may be taken{}; most of it, {}, is {}",
        Bytes(*needed), Bytes(*limit), of_free(*free, place), Bytes(largest.1), largest.0.display()
    )]
    Space {
        /// Bytes that they take at a time.
        needed: u64,
        /// Bytes that may be taken.
        limit: u64,
        /// Bytes that are free, if the limit follows from that.
        free: Option<u64>,
        /// Where.
        place: PathBuf,
        /// The largest file and what it takes.
        largest: (PathBuf, u64),
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

fn of_free(free: Option<u64>, place: &Path) -> String {
    match free {
        Some(free) => {
            let percent = crate::options::SHARE_OF_FREE;
            format!(" ({percent} % of the {} that are free in {})", Bytes(free), place.display())
        }
        None => String::new(),
    }
}

impl ReplayError {
    pub(crate) fn make(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Make { path: path.to_path_buf(), error: error.into() }
    }
}
