//! A mount of I/O servers that run in this process.

use std::path::PathBuf;
use std::time::Duration;

use striate_mount::{Mounted, ServerOptions};
use striate_server::Embedded;
use striate_store::remote::{Client, ClientOptions};
use tempfile::TempDir;

/// Servers, and a mount of a directory of theirs.
pub struct ServerMount {
    mounted: Option<Mounted>,
    pub servers: Option<Embedded>,
    pub client: Client,
    place: TempDir,
}

/// A client that does not wait for long.
pub fn client(servers: &Embedded) -> Client {
    let url = servers.url();
    let options = ClientOptions { patience: Duration::from_secs(3), ..ClientOptions::default() };
    Client::connect(url.strip_prefix("striate://").unwrap(), options).unwrap()
}

impl ServerMount {
    /// All that three servers have.
    pub fn new() -> Self {
        Self::of("")
    }

    /// A directory of three servers.
    pub fn of(directory: &str) -> Self {
        let servers = Embedded::start(3).unwrap();
        let client = client(&servers);
        let place = TempDir::new().unwrap();
        let mounted = mount(&client, directory, place.path().join("point"));
        Self { mounted: Some(mounted), servers: Some(servers), client, place }
    }

    /// Another mount of the same servers.
    pub fn another(&self, name: &str) -> Mounted {
        mount(&client(self.servers.as_ref().unwrap()), "", self.place.path().join(name))
    }

    /// A path below the point.
    pub fn point(&self, name: &str) -> PathBuf {
        self.beside("point").join(name)
    }

    /// A path beside the point.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Unmounts.
    pub fn end(&mut self) -> Result<striate_mount::UnmountKind, striate_mount::MountError> {
        self.mounted.take().unwrap().end()
    }
}

fn mount(client: &Client, directory: &str, point: PathBuf) -> Mounted {
    std::fs::create_dir(&point).unwrap();
    let mut options = ServerOptions::new(client.clone(), directory, point);
    // Small, so that a file soon has a strip on each server.
    options.layout.strip = 4096;
    Mounted::of_servers(&options).unwrap()
}

impl Drop for ServerMount {
    fn drop(&mut self) {
        // Before the servers.
        drop(self.mounted.take());
    }
}
