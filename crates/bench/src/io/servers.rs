//! [`LocalServers`]: I/O servers within the program, for benchmarks that are given none.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use striate_server::{Embedded, ServerError, Settings};

use super::signal_cleanup::SignalCleanup;

/// Servers that store in a directory of their own. Both are gone when this is dropped, and when a
/// signal ends the program.
#[derive(Debug)]
pub struct LocalServers {
    url: String,
    running: RunningServers,
    _signal_cleanup: SignalCleanup,
}

/// The servers and their directory, which the owner or a signal ends.
#[derive(Clone, Debug)]
struct RunningServers {
    servers: Arc<Mutex<Option<Embedded>>>,
    data: PathBuf,
}

impl RunningServers {
    fn end(&self) {
        drop(self.servers.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Nothing more can be done about a directory that does not go.
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

impl LocalServers {
    /// Starts so many servers that store below `directory`, which must be there, after the settings
    /// of each went through `change`.
    pub fn start(
        servers: usize,
        directory: &Path,
        mut change: impl FnMut(&mut Settings),
    ) -> Result<Self, ServerError> {
        let run = RandomState::new().hash_one(std::process::id());
        let data = directory.join(format!("striate-servers-{run:016x}"));
        std::fs::create_dir(&data).map_err(|source| ServerError::System {
            attempt: "create the directory",
            path: data.clone(),
            source,
        })?;
        let servers_and_data = RunningServers { servers: Arc::default(), data };
        let signal_cleanup = SignalCleanup::new({
            let servers_and_data = servers_and_data.clone();
            move || servers_and_data.end()
        });
        // A signal that comes meanwhile waits until they run: servers that start make their
        // directories again.
        let mut running = servers_and_data.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Embedded::with(servers, |settings| {
            let name = settings.data.file_name().unwrap_or_default();
            settings.data = servers_and_data.data.join(name);
            change(settings);
        });
        let started = started.map(|embedded| {
            let url = embedded.url();
            *running = Some(embedded);
            url
        });
        drop(running);
        let url = started.inspect_err(|_| servers_and_data.end())?;
        Ok(Self { url, running: servers_and_data, _signal_cleanup: signal_cleanup })
    }

    /// Where they are.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory that they store in.
    pub fn directory(&self) -> &Path {
        &self.running.data
    }

    /// Changes how many bytes of data pass a server in a second (`None`: any). A server that does
    /// not exist has none.
    pub fn set_bandwidth(&self, server: usize, bytes_per_second: Option<u64>) {
        let servers = self.running.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.as_ref().and_then(|servers| servers.servers().get(server)) {
            server.set_bandwidth(bytes_per_second);
        }
    }
}

impl Drop for LocalServers {
    fn drop(&mut self) {
        self.running.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_leave_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let servers = LocalServers::start(2, directory.path(), |_| {}).unwrap();
        assert!(servers.url().starts_with("striate://127.0.0.1:"));
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        servers.set_bandwidth(1, Some(1 << 30));
        servers.set_bandwidth(2, None);
        drop(servers);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        let missing = directory.path().join("missing");
        let error = LocalServers::start(1, &missing, |_| {}).unwrap_err().to_string();
        assert!(error.starts_with("cannot create the directory "), "{error}");
        assert!(!missing.exists());
    }
}
