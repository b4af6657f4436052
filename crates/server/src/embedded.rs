//! [`Embedded`]: servers within a program, for tests and examples.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use tempfile::TempDir;

use crate::error::ServerError;
use crate::server::Server;
use crate::settings::Settings;

/// Some servers in this process, which listen only to this machine. The first of them keeps the
/// names for all. Dropped, they stop.
///
/// ```
/// use striate_server::Embedded;
/// let embedded = Embedded::start(3)?;
/// assert!(embedded.url().starts_with("striate://127.0.0.1:"));
/// assert_eq!(embedded.servers().len(), 3);
/// # Ok::<(), striate_server::ServerError>(())
/// ```
#[derive(Debug)]
pub struct Embedded {
    // Stopped before the directory is removed.
    servers: Vec<Server>,
    _directory: Option<TempDir>,
}

impl Embedded {
    /// Starts servers that store in a temporary directory, which is removed when they stop.
    pub fn start(servers: usize) -> Result<Self, ServerError> {
        Self::with(servers, |_| {})
    }

    /// As [`Embedded::start`], after the settings of each server went through `change`.
    pub fn with(servers: usize, change: impl FnMut(&mut Settings)) -> Result<Self, ServerError> {
        let place = std::env::temp_dir();
        let directory = TempDir::with_prefix_in("striate-", &place)
            .map_err(ServerError::system("create a directory in", &place))?;
        let servers = start(servers, directory.path(), change)?;
        Ok(Self { servers, _directory: Some(directory) })
    }

    /// Starts servers that store in a directory, with all that was stored there before, after the
    /// settings of each went through `change`.
    pub fn in_directory(
        servers: usize,
        directory: &Path,
        change: impl FnMut(&mut Settings),
    ) -> Result<Self, ServerError> {
        Ok(Self { servers: start(servers, directory, change)?, _directory: None })
    }

    /// The address of the metadata server, as clients use it.
    pub fn url(&self) -> String {
        format!("striate://{}", self.servers[0].address())
    }

    /// Stops all servers as [`Server::drain`] does, at the same time; returns how many connections
    /// had to be cut.
    pub fn drain(self) -> usize {
        let Self { servers, _directory } = self;
        std::thread::scope(|scope| {
            let drains: Vec<_> =
                servers.into_iter().map(|server| scope.spawn(|| server.drain())).collect();
            drains.into_iter().map(|drain| drain.join().unwrap_or(0)).sum()
        })
    }

    /// The servers, in their order.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }
}

fn start(
    count: usize,
    directory: &Path,
    mut change: impl FnMut(&mut Settings),
) -> Result<Vec<Server>, ServerError> {
    if count == 0 {
        return Err(ServerError::Settings("at least one server is needed".into()));
    }
    // Bound first, since the first server must know the ports of all.
    let bind = |_| {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let failed = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok((listener, address))
    };
    let bound = (0..count).map(bind).collect::<Result<Vec<_>, ServerError>>()?;
    let addresses: Vec<String> = bound.iter().map(|(_, address)| address.to_string()).collect();
    let start = |(index, (listener, listen))| {
        let metadata = index == 0;
        let mut settings = Settings {
            data: directory.join(format!("server-{index}")),
            listen,
            metadata,
            servers: if metadata { addresses.clone() } else { Vec::new() },
            ..Settings::default()
        };
        change(&mut settings);
        Server::start_at(listener, settings)
    };
    bound.into_iter().enumerate().map(start).collect()
}
