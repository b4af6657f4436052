//! What servers report: their identity, space, statistics and objects, and the list of servers.

use striate_wire::limits::MAX_ENTRIES;
use striate_wire::{Identity, Reply, Request};

use super::client::{Client, unexpected};
use super::error::{CallError, ServerError};
use crate::error::{Operation, StoreError};

/// A server, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// The version of its program.
    pub version: String,
    /// The name of its storage.
    pub identity: Identity,
    /// Whether it keeps the names of files.
    pub metadata: bool,
    /// For how long it has been running, in seconds.
    pub uptime_s: u64,
    /// Connections it has now, the one that asked included.
    pub connections: u32,
}

/// The space of a server's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSpace {
    /// Bytes it has.
    pub total: u64,
    /// Bytes that are not used.
    pub free: u64,
    /// Those of them that the server may use.
    pub available: u64,
    /// Number of objects.
    pub objects: u64,
}

/// Questions to servers.
impl Client {
    /// The addresses of the I/O servers, in the order in which they are numbered.
    pub fn servers(&self) -> Result<Vec<String>, StoreError> {
        let what = "the list of servers";
        let (addresses, identities) =
            self.inquire(self.address(), what, &Request::Servers, |reply| match reply {
                Reply::Servers { addresses, identities } => Ok((addresses, identities)),
                other => Err(other),
            })?;
        for (address, identity) in addresses.iter().zip(identities) {
            if let Some(identity) = identity {
                self.pool().expect_storage(address, identity);
            }
        }
        Ok(addresses)
    }

    /// Accepts the storage that a server has now in place of the one that it had: the objects that
    /// lay there are given up. Returns the storage.
    pub fn accept_storage(&self, address: &str) -> Result<Identity, StoreError> {
        let failed = |error: ServerError| {
            StoreError::server(Operation::Ask, format!("the identity of {address}"), error)
        };
        let found = match self.ask_server(address, &Request::Identify) {
            Ok(Reply::Server { identity, .. }) => identity,
            Ok(other) => return Err(failed(unexpected(address, &other, "the identity"))),
            Err(error) => match error.reason() {
                CallError::WrongStorage { found, .. } => *found,
                _ => return Err(failed(error)),
            },
        };
        self.enrol(address, found, true).map_err(failed)?;
        Ok(found)
    }

    /// Whether a server answers.
    pub fn ping(&self, address: &str) -> Result<(), StoreError> {
        self.inquire(address, "a sign of life", &Request::Ping, |reply| match reply {
            Reply::Done => Ok(()),
            other => Err(other),
        })
    }

    /// Which server it is.
    pub fn identify(&self, address: &str) -> Result<ServerInfo, StoreError> {
        self.inquire(address, "the identity", &Request::Identify, |reply| match reply {
            Reply::Server { version, identity, metadata, uptime_s, connections } => {
                Ok(ServerInfo { version, identity, metadata, uptime_s, connections })
            }
            other => Err(other),
        })
    }

    /// How much space is left on a server.
    pub fn space(&self, address: &str) -> Result<ServerSpace, StoreError> {
        self.inquire(address, "the space", &Request::Space, |reply| match reply {
            Reply::Space { total, free, available, objects } => {
                Ok(ServerSpace { total, free, available, objects })
            }
            other => Err(other),
        })
    }

    /// What a server has done so far: counters by their names.
    pub fn statistics(&self, address: &str) -> Result<Vec<(String, u64)>, StoreError> {
        self.inquire(address, "the statistics", &Request::Statistics, |reply| match reply {
            Reply::Statistics { counters } => Ok(counters),
            other => Err(other),
        })
    }

    /// The objects of a server, each as id and length, in the order of their ids.
    pub fn objects(&self, address: &str) -> Result<Vec<(u64, u64)>, StoreError> {
        let mut all: Vec<(u64, u64)> = Vec::new();
        loop {
            let after = all.last().map(|&(id, _)| id);
            let request = Request::Objects { after, limit: MAX_ENTRIES };
            let (objects, more) =
                self.inquire(address, "the list of objects", &request, |reply| match reply {
                    Reply::Objects { objects, more } => Ok((objects, more)),
                    other => Err(other),
                })?;
            // A page without progress would be asked for again for ever.
            let ended = !more || objects.is_empty();
            all.extend(objects);
            if ended {
                return Ok(all);
            }
        }
    }

    /// Asks a server; `accept` hands back a reply that is none to the question.
    fn inquire<T>(
        &self,
        address: &str,
        what: &'static str,
        request: &Request,
        accept: impl FnOnce(Reply) -> Result<T, Reply>,
    ) -> Result<T, StoreError> {
        let failed = |error: ServerError| {
            StoreError::server(Operation::Ask, format!("{what} of {address}"), error)
        };
        let reply = self.ask_server(address, request).map_err(failed)?;
        accept(reply).map_err(|other| failed(unexpected(address, &other, what)))
    }
}
