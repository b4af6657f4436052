//! [`RecordingError`]: why something cannot be done with a recording.

use std::io;
use std::path::{Path, PathBuf};

use striate_trace::TraceError;
use thiserror::Error;

/// Why something cannot be done with a recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// A file is not a trace.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// A directory cannot be listed, or a file not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// What.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It was to end early, and nothing is left of the result.
    #[error("interrupted")]
    Interrupted,
    /// A directory without traces.
    #[error("{}: there are no traces", .0.display())]
    Empty(PathBuf),
    /// The result would be a part of what it is made of.
    #[error("{}: the result would be a part of the recording it is made of", .0.display())]
    Within(PathBuf),
    /// It is not said and cannot be seen what a file is.
    #[error("{}: neither the output of strace or darshan-dxt-parser nor a Darshan log", .0.display())]
    UnknownFormat(PathBuf),
    /// A Darshan log cannot be read.
    #[error("{}: {error}", path.display())]
    Darshan {
        /// Which.
        path: PathBuf,
        /// Why.
        error: striate_darshan::LogError,
    },
    /// A Darshan log without extended traces.
    #[error(
        "{}: the Darshan log has counters only, no single reads and writes (DXT), so no recording can be made of it; \
         'striate report' shows its counters",
        .0.display()
    )]
    CountersOnly(PathBuf),
    /// Nothing in a file could be understood.
    #[error("{}: nothing in it is a call: line {line}: {text}", path.display())]
    NothingUnderstood {
        /// The file.
        path: PathBuf,
        /// The first line that was not understood.
        line: u64,
        /// What is there.
        text: String,
    },
}

impl RecordingError {
    pub(crate) fn read(path: &Path, error: io::Error) -> Self {
        Self::Read { path: path.to_path_buf(), error }
    }

    pub(crate) fn write(path: &Path, error: io::Error) -> Self {
        Self::Write { path: path.to_path_buf(), error }
    }
}
