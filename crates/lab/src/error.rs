//! [`LabError`]: what can go wrong with a lab.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a lab cannot be built, found or used.
#[derive(Debug, Error)]
pub enum LabError {
    /// The caller is not root.
    #[error("a lab of nodes needs root: only root may create network namespaces")]
    NotRoot,
    /// A program is missing.
    #[error("{program} is not on PATH; it is in the package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The kernel, or the container this runs in, refuses namespaces.
    #[error("namespaces are refused here: {said}")]
    Forbidden {
        /// What `unshare` said.
        said: String,
    },
    /// A command that builds or changes the lab failed.
    #[error("{attempted}: {said}")]
    Command {
        /// What was attempted.
        attempted: String,
        /// What the command said.
        said: String,
    },
    /// A file or a process.
    #[error("{attempted}: {source}")]
    Io {
        /// What was attempted.
        attempted: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A record that cannot be read.
    #[error("{} is not the record of a lab: {source}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// There is a lab of this name.
    #[error("there is a lab called {0} already")]
    Exists(String),
    /// There is no lab of this name.
    #[error("there is no lab called {0}")]
    Unknown(String),
    /// The processes of a lab have been killed.
    #[error("the lab {0} is gone: its keeper was killed")]
    Gone(String),
    /// There is no node of this name or number.
    #[error("the lab {lab} has no node {node}")]
    NoNode {
        /// The lab.
        lab: String,
        /// The name or number.
        node: String,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),
}

impl LabError {
    pub(crate) fn io(attempted: impl Into<String>, source: io::Error) -> Self {
        Self::Io { attempted: attempted.into(), source }
    }
}
