//! Calls of a [`Client`] for `fsck`: objects, and files whose removal is not finished.

use striate_wire::limits::MAX_ENTRIES;
use striate_wire::{FailureCode, FileInfo, Reply, Request};

use super::client::{Client, unexpected};
use super::error::ServerError;
use crate::error::{Operation, StoreError};

/// Upkeep.
impl Client {
    /// The ids of dead files: their names are removed, but perhaps not all of their objects.
    pub fn dead(&self) -> Result<Vec<u64>, StoreError> {
        let failed = |error| {
            let what = format!("the dead files of {}", self.url(""));
            StoreError::server(Operation::List, what, error)
        };
        let mut all: Vec<u64> = Vec::new();
        loop {
            let request = Request::Dead { after: all.last().copied(), limit: MAX_ENTRIES };
            let (ids, more) = match self.ask(&request).map_err(failed)? {
                Reply::Ids { ids, more } => (ids, more),
                other => return Err(failed(unexpected(self.address(), &other, "a list of ids"))),
            };
            // A page without progress would be asked for again for ever.
            let ended = !more || ids.is_empty();
            all.extend(ids);
            if ended {
                return Ok(all);
            }
        }
    }

    /// The lengths of a file's objects, in the order of its servers; `None` where there is none.
    pub fn object_lens(&self, file: &FileInfo) -> Result<Vec<Option<u64>>, StoreError> {
        let failed =
            |error| StoreError::server(Operation::Len, self.url(&file.path).to_string(), error);
        let object = file.file;
        let replies =
            self.on_all(&file.servers, |_| Request::ObjectLen { object }).map_err(failed)?;
        let mut lens = Vec::with_capacity(replies.len());
        for (address, reply) in file.servers.iter().zip(&replies) {
            let Reply::Len { len, exists } = *reply else {
                return Err(failed(unexpected(address, reply, "the length of an object")));
            };
            lens.push(exists.then_some(len));
        }
        Ok(lens)
    }

    /// Removes an object from a server if no file has its id; returns whether it did.
    ///
    /// The id must be one that was given to a file before: a file that gets it just now would lose
    /// its object.
    pub fn remove_orphan(&self, address: &str, object: u64) -> Result<bool, StoreError> {
        let failed = |error: ServerError| {
            let what = format!("object {object:016x} on {address}");
            StoreError::server(Operation::Remove, what, error)
        };
        // Files are listed in pages, and one that is renamed meanwhile can hide between two of
        // them; but none that lives can be buried.
        let metadata = [self.address().to_owned()];
        match self.all_done(&metadata, &Request::Bury { file: object }) {
            Ok(()) => {}
            Err(error) if is_alive(&error) => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
        let request = Request::RemoveObject { object };
        self.all_done(&[address.to_owned()], &request).map_err(failed)?;
        Ok(true)
    }
}

/// Whether a file cannot be buried since it lives.
fn is_alive(error: &ServerError) -> bool {
    error.failure().is_some_and(|failure| failure.code == FailureCode::Malformed)
}
