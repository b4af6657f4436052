//! [`ServerError`]: why a server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use striate_wire::{Failure, KeyError, TlsError};
use thiserror::Error;

use crate::catalog::CatalogError;

/// Why a server does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The settings contradict themselves or cannot be read.
    #[error("the settings cannot be used: {0}")]
    Settings(String),
    /// Every machine that reaches the port could read and change all files.
    #[error(
        "anyone who reaches {address} could read and change all files: give the server a key \
         (key_file), or set allow_anyone if that is intended"
    )]
    OpenToAnyone {
        /// The address.
        address: SocketAddr,
    },
    /// Every machine that reaches the port could read the metrics, which no key protects.
    #[error(
        "anyone who reaches {address} could read the metrics: set allow_anyone if that is intended"
    )]
    MetricsOpenToAnyone {
        /// The address.
        address: SocketAddr,
    },
    /// Cannot listen at the address.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Another server uses the directory.
    #[error("the data directory {} is in use by another server", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error("{} is not a data directory of a server: {why}", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// How that was seen.
        why: String,
    },
    /// The system refused.
    #[error("cannot {attempt} {}: {source}", path.display())]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The directory of the objects cannot be used.
    #[error(transparent)]
    Objects(#[from] Failure),
    /// The catalogue of names cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

impl ServerError {
    /// For `map_err`: what the system said of an attempt.
    pub(crate) fn system<'a>(
        attempt: &'static str,
        path: &'a Path,
    ) -> impl Fn(io::Error) -> Self + use<'a> {
        move |source| Self::System { attempt, path: path.to_owned(), source }
    }
}
