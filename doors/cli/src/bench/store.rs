//! The location of the files of a benchmark: a directory, servers, or servers within the program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use striate_bench::io::{FileChoice, LocalServers};
use striate_comm::{Comm, agree};
use striate_datatype::{Bytes, parse_size};
use striate_server::parse_duration;
use striate_store::remote::{Client, RemoteUrl};

use crate::CommandError;
use crate::document::filesystem;
use crate::number::counted;
use crate::serve::rate;

/// The most servers within one program.
const MOST_SERVERS: u64 = 256;

const ATTEMPTED: &str = "cannot use the servers";

/// Options for the location of the files.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// The directory for the files, which are removed afterwards; by default the system's temporary
    /// directory. With --servers, the directory of the servers' data
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// I/O servers for the files, which are removed afterwards, instead of a directory:
    /// striate://host:port or striate://host:port/prefix
    #[arg(long, value_name = "URL", conflicts_with = "servers")]
    store: Option<RemoteUrl>,
    /// Number of I/O servers for the files, started within the program
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_SERVERS))]
    servers: Option<u64>,
    /// Bytes of a strip on servers
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = strip)]
    strip: u64,
    /// Time by which the servers of --servers delay each read or write of data, e.g. 200us
    #[arg(long, value_name = "TIME", requires = "servers", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Limit of data per second for each server of --servers, e.g. 16MiB
    #[arg(long, value_name = "SIZE", requires = "servers", value_parser = rate)]
    bandwidth: Option<u64>,
}

fn strip(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if (512..=1 << 30).contains(&size) { Ok(size) } else { Err("it is from 512 to 1 GiB".into()) }
}

/// Where the files are. Servers that were started for them stop when this is dropped.
#[derive(Debug)]
pub(super) struct BenchStore {
    /// A directory, or a URL on servers.
    pub(super) files: PathBuf,
    /// A directory of this machine in any case.
    pub(super) local: PathBuf,
    /// In words.
    pub(super) store: Option<String>,
    /// Servers within the program, on the rank that started them.
    pub(super) servers: Option<Arc<LocalServers>>,
}

impl StoreArgs {
    /// How many servers are started within the program.
    pub(super) fn servers(&self) -> Option<u64> {
        self.servers
    }

    /// Bytes per second of each of them, if that was said.
    pub(super) fn bandwidth(&self) -> Option<u64> {
        self.bandwidth
    }

    /// The directory that was said, or none: the working directory.
    pub(super) fn directory(&self) -> PathBuf {
        self.dir.clone().filter(|_| !self.is_remote()).unwrap_or_default()
    }

    /// Whether the files are on servers.
    pub(super) fn is_remote(&self) -> bool {
        self.store.is_some() || self.servers.is_some()
    }

    /// The bytes of a strip, if there are any.
    pub(super) fn strip(&self) -> Option<u64> {
        self.is_remote().then_some(self.strip)
    }

    /// Files that were chosen by a name: a path, or on servers one below their URL.
    pub(super) fn chosen(
        &self,
        files: &FileChoice,
        place: &BenchStore,
    ) -> Result<FileChoice, CommandError> {
        let Some(name) = &files.name else { return Ok(files.clone()) };
        if self.is_remote() && name.is_absolute() {
            return Err(CommandError::usage(
                "a file on servers is named below their URL",
                "give -o a name without a / at its beginning",
            ));
        }
        let name = if self.is_remote() { place.files.join(name) } else { name.clone() };
        Ok(FileChoice { name: Some(name), ..files.clone() })
    }

    /// Finds the place, and starts servers on rank 0 if they are asked for. Collective.
    pub(super) fn find(&self, comm: &dyn Comm) -> Result<BenchStore, CommandError> {
        self.find_with(comm, self.bandwidth)
    }

    /// As [`StoreArgs::find`], with servers of this bandwidth.
    pub(super) fn find_with(
        &self,
        comm: &dyn Comm,
        bandwidth: Option<u64>,
    ) -> Result<BenchStore, CommandError> {
        let local = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let servers = self.start(comm, &local, bandwidth)?;
        let started = servers.as_ref().map(|servers| servers.url().to_owned());
        let mut text = started.unwrap_or_default().into_bytes();
        comm.broadcast(0, &mut text)?;
        let text = String::from_utf8_lossy(&text);
        let url = match &self.store {
            Some(url) => url.clone(),
            None if text.is_empty() => {
                let store = filesystem(&local);
                return Ok(BenchStore { files: local.clone(), local, store, servers: None });
            }
            None => text.parse().map_err(|error| CommandError::failed(ATTEMPTED, error, ""))?,
        };
        let known = Client::shared(&url).and_then(|client| client.servers());
        let known = agree(comm, known.map_err(|error| error.to_string()))
            .map_err(|error| CommandError::failed(ATTEMPTED, error, "are the servers running?"))?;
        let delay = self.delay.map(|delay| format!(", {delay:?} delay")).unwrap_or_default();
        let strips = Bytes(self.strip);
        let rate = bandwidth.map(|rate| format!(" of {}/s", Bytes(rate))).unwrap_or_default();
        let known = counted(known.len() as u64, "server");
        let store = format!("{url} ({known}{rate}, {strips} strips{delay})");
        let files = url.to_string().into();
        Ok(BenchStore { files, local, store: Some(store), servers: servers.map(Arc::new) })
    }

    fn start(
        &self,
        comm: &dyn Comm,
        directory: &Path,
        bandwidth: Option<u64>,
    ) -> Result<Option<LocalServers>, CommandError> {
        let start = |servers: u64| {
            LocalServers::start(servers as usize, directory, |settings| {
                settings.delay = self.delay.unwrap_or_default();
                settings.bandwidth = bandwidth;
            })
        };
        let asked = self.servers.filter(|_| comm.rank() == 0);
        let started = asked.map(start).transpose().map_err(|error| error.to_string());
        agree(comm, started).map_err(|error| {
            let hint = "--dir names the directory that they store in";
            CommandError::failed("cannot start the servers", error, hint)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_have_limits() {
        assert_eq!(strip("64KiB"), Ok(65_536));
        for wrong in ["0", "100", "2GiB", "wide"] {
            assert!(strip(wrong).is_err(), "{wrong}");
        }
    }
}
