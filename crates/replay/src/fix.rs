//! [`Fix`]: a correction of the state of files before a call.
//!
//! Programs that were not recorded change files, too: a statically linked one writes a file, or
//! inherits its standard output. It shows in a call that finds a file, or a size, which the
//! recorded calls do not explain. The replay then establishes that state before the call.

use std::path::PathBuf;

use crate::namespace::FileId;

/// What is made so before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// A file exists, with a size.
    File(PathBuf, u64),
    /// A directory exists.
    Directory(PathBuf),
    /// A symbolic link exists, with this target.
    Link(PathBuf, PathBuf),
    /// A file has this size.
    Size(PathBuf, u64),
    /// No file exists.
    Nothing(PathBuf),
    /// The position of an open file is this one.
    Position(FileId, u64),
}

impl Fix {
    /// What it is called in reports.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::File(..) => "files made",
            Self::Directory(..) => "directories made",
            Self::Link(..) => "links made",
            Self::Size(..) => "sizes changed",
            Self::Nothing(..) => "names removed",
            Self::Position(..) => "positions moved",
        }
    }
}
