//! The files of a [`Client`]: making, finding, listing, renaming and removing them.
//!
//! The metadata server knows names and layouts, the I/O servers hold the objects, and only clients
//! talk to both. So a file is made by name first, then its objects; and it is removed by name
//! first: its id stays noted as dead until all objects are gone, so that whatever interrupts a
//! removal, another client can finish it ([`Client::bury_dead`]).

use std::num::{NonZeroU32, NonZeroU64};

use striate_layout::striping::Striping;
use striate_wire::limits::MAX_ENTRIES;
use striate_wire::{FileInfo, Identity, Reply, Request};

use super::client::{Client, unexpected};
use super::error::{CallError, ServerError};
use crate::error::{Operation, StoreError};

/// How a new file is dealt to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a strip.
    pub strip: u64,
    /// Over how many servers; all of them if not given.
    pub servers: Option<u32>,
    /// The server of the first strip, by its place in the list of servers; the metadata server
    /// chooses if not given.
    pub first: Option<u32>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { strip: 64 << 10, servers: None, first: None }
    }
}

/// How a file is dealt to servers, as arithmetic.
pub(super) fn striping(file: &FileInfo) -> Striping {
    Striping {
        // Both are checked where they come from the wire.
        strip: NonZeroU64::new(file.strip).unwrap_or(NonZeroU64::MIN),
        servers: NonZeroU32::new(file.servers.len() as u32).unwrap_or(NonZeroU32::MIN),
    }
}

/// The size of a file whose objects have these lengths.
pub(super) fn size_of(file: &FileInfo, lens: &[u64]) -> u64 {
    let striping = striping(file);
    let ends = (0..).zip(lens).map(|(index, &len)| striping.file_len(index, len));
    ends.max().unwrap_or(0)
}

/// Files by their names. A slash at the beginning of a path makes no difference.
impl Client {
    /// Makes a file and its objects; finds it if it exists, unless `exclusive`.
    pub fn create(
        &self,
        path: &str,
        layout: &Layout,
        exclusive: bool,
    ) -> Result<FileInfo, StoreError> {
        let Layout { strip, servers, first } = *layout;
        let request = Request::Create { path: path.to_owned(), strip, servers, first, exclusive };
        let failed = |error| StoreError::server(Operation::Open, self.url(path).to_string(), error);
        let file = self.ask_for_file(&request).map_err(failed)?;
        self.expect_storage(&file);
        // Also if the file was there: the client that created it may have come no further.
        let touched = self.all_done(&file.servers, &Request::Touch { object: file.file });
        if touched.is_err() && exclusive {
            // It was created just now, for a caller that will get an error.
            let _ = self.remove(path);
        }
        touched.map_err(failed)?;
        self.enrol_new(&file).map_err(failed)
    }

    /// Finds a file, with its size as of the last sync, close or truncation.
    pub fn lookup(&self, path: &str) -> Result<FileInfo, StoreError> {
        let failed = |error| StoreError::server(Operation::Open, self.url(path).to_string(), error);
        let request = Request::Lookup { path: path.to_owned() };
        let file = self.ask_for_file(&request).map_err(failed)?;
        self.expect_storage(&file);
        Ok(file)
    }

    /// What the metadata server knows of a file now, whatever its name is.
    pub(super) fn describe(&self, file: u64) -> Result<FileInfo, ServerError> {
        let file = self.ask_for_file(&Request::Describe { file })?;
        self.expect_storage(&file);
        Ok(file)
    }

    /// The servers of a file must have the storage that the catalogue knows.
    fn expect_storage(&self, file: &FileInfo) {
        for (address, object) in file.servers.iter().zip(&file.objects) {
            if let Some(storage) = object.storage {
                self.pool().expect_storage(address, storage);
            }
        }
    }

    /// Tells the metadata server which storage servers have that it does not know yet.
    pub(super) fn enrol_new(&self, file: &FileInfo) -> Result<FileInfo, ServerError> {
        let mut file = file.clone();
        for (address, object) in file.servers.iter().zip(&mut file.objects) {
            if object.storage.is_none() {
                let identity = match self.ask_server(address, &Request::Identify)? {
                    Reply::Server { identity, .. } => identity,
                    other => return Err(unexpected(address, &other, "the identity")),
                };
                self.enrol(address, identity, false)?;
                object.storage = Some(identity);
            }
        }
        Ok(file)
    }

    /// Tells the metadata server which storage a server has.
    pub(super) fn enrol(
        &self,
        address: &str,
        identity: Identity,
        replace: bool,
    ) -> Result<(), ServerError> {
        let request = Request::Enrol { address: address.to_owned(), identity, replace };
        self.ask_done(&request)?;
        self.pool().expect_storage(address, identity);
        Ok(())
    }

    /// Finds a file, with its size of now.
    pub fn stat(&self, path: &str) -> Result<FileInfo, StoreError> {
        let mut file = self.lookup(path)?;
        file.size = self.size(&file)?;
        Ok(file)
    }

    /// The size of a file now: up to the last byte of any of its objects.
    pub fn size(&self, file: &FileInfo) -> Result<u64, StoreError> {
        self.size_by_objects(file).map_err(|error| {
            StoreError::server(Operation::Len, self.url(&file.path).to_string(), error)
        })
    }

    fn size_by_objects(&self, file: &FileInfo) -> Result<u64, ServerError> {
        let lens = self.found_lens(file)?;
        let known: Vec<u64> = file.objects.iter().map(|object| object.len).collect();
        for (server, (&len, &known)) in (0..).zip(lens.iter().zip(&known)) {
            if len < known {
                self.check_missing(file, server)?;
            }
        }
        Ok(size_of(file, &lens))
    }

    /// The lengths that the objects of a file have.
    pub(super) fn found_lens(&self, file: &FileInfo) -> Result<Vec<u64>, ServerError> {
        let object = file.file;
        let replies = self.on_all(&file.servers, |_| Request::ObjectLen { object })?;
        let len = |(address, reply): (&String, &Reply)| match reply {
            Reply::Len { len, .. } => Ok(*len),
            other => Err(unexpected(address, other, "the length of an object")),
        };
        file.servers.iter().zip(&replies).map(len).collect()
    }

    /// An object was found shorter than it was known to be: that is an error, unless the file was
    /// made shorter meanwhile. Returns what is known of the file now.
    pub(super) fn check_missing(
        &self,
        file: &FileInfo,
        server: u32,
    ) -> Result<FileInfo, ServerError> {
        let now = self.describe(file.file)?;
        let known = now.objects.get(server as usize).map_or(0, |object| object.len);
        // In this order: what was known before was there before.
        let len = self.found_lens(&now)?.get(server as usize).copied().unwrap_or(0);
        if len < known && self.describe(file.file)?.truncations == now.truncations {
            let missing = CallError::MissingBytes { object: file.file, len, known };
            let address = file.servers.get(server as usize).map_or("", String::as_str);
            return Err(ServerError::new(address, missing, 1));
        }
        Ok(now)
    }

    /// The files whose paths begin with `prefix`, in the order of their paths' bytes, with their
    /// sizes as of the last sync, close or truncation.
    pub fn list(&self, prefix: &str) -> Result<Vec<FileInfo>, StoreError> {
        let mut files: Vec<FileInfo> = Vec::new();
        loop {
            let after = files.last().map(|file| file.path.clone());
            let (entries, more) = self.list_page(prefix, after.as_deref(), MAX_ENTRIES)?;
            // A page without progress would be asked for again for ever.
            let ended = !more || entries.is_empty();
            files.extend(entries);
            if ended {
                return Ok(files);
            }
        }
    }

    /// A part of what [`Client::list`] finds: up to `limit` files after the path `after`, and
    /// whether there are more.
    pub fn list_page(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<FileInfo>, bool), StoreError> {
        let failed =
            |error| StoreError::server(Operation::List, self.url(prefix).to_string(), error);
        let request = Request::List {
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
            limit: limit.clamp(1, MAX_ENTRIES),
        };
        match self.ask(&request) {
            Ok(Reply::Names { entries, more }) => Ok((entries, more)),
            Ok(other) => Err(failed(unexpected(self.address(), &other, "a list of files"))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Gives a file another name; if another file has it, that one is removed if `replace`, and it
    /// is an error otherwise.
    pub fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), StoreError> {
        let request = Request::Rename { from: from.to_owned(), to: to.to_owned(), replace };
        let renamed = self.ask_done(&request);
        renamed.map_err(|error| {
            let what = format!("{} to {to}", self.url(from));
            StoreError::server(Operation::Rename, what, error)
        })?;
        if replace {
            // Of the file that was replaced only its objects are left. The renaming is done,
            // whether they can be removed now or by another client later.
            let _ = self.bury_dead();
        }
        Ok(())
    }

    /// Removes a file and its objects. After an error that names a server, the file is gone by
    /// name; its objects are removed by the next [`Client::bury_dead`].
    pub fn remove(&self, path: &str) -> Result<(), StoreError> {
        let failed =
            |error| StoreError::server(Operation::Remove, self.url(path).to_string(), error);
        let request = Request::Remove { path: path.to_owned() };
        let file = self.ask_for_file(&request).map_err(failed)?;
        self.bury(file.file, &file.servers).map_err(failed)
    }

    /// Finishes removals that were interrupted; returns how many.
    pub fn bury_dead(&self) -> Result<u64, StoreError> {
        let failed = |error| {
            StoreError::server(
                Operation::Remove,
                format!("the dead files of {}", self.url("")),
                error,
            )
        };
        // The servers of a dead file are not known; removing a missing object does no harm.
        let servers = self.servers()?;
        let mut buried = 0;
        let mut after = None;
        loop {
            let (ids, more) =
                match self.ask(&Request::Dead { after, limit: MAX_ENTRIES }).map_err(failed)? {
                    Reply::Ids { ids, more } => (ids, more),
                    other => {
                        return Err(failed(unexpected(self.address(), &other, "a list of ids")));
                    }
                };
            for &file in &ids {
                self.bury(file, &servers).map_err(failed)?;
                buried += 1;
            }
            after = ids.last().copied();
            if !more || after.is_none() {
                return Ok(buried);
            }
        }
    }

    fn bury(&self, file: u64, servers: &[String]) -> Result<(), ServerError> {
        self.all_done(servers, &Request::RemoveObject { object: file })?;
        self.ask_done(&Request::Bury { file })
    }

    /// Notes the size of a file, as known at a sync, close or truncation, for listings.
    pub fn record(&self, file: &FileInfo, size: u64) -> Result<(), StoreError> {
        self.record_lens(file, size, 0, Vec::new())
    }

    /// As [`Client::record`], with the lengths of all objects as they were found after the file
    /// had been made shorter so often.
    pub(super) fn record_lens(
        &self,
        file: &FileInfo,
        size: u64,
        truncations: u64,
        lens: Vec<u64>,
    ) -> Result<(), StoreError> {
        let request = Request::Record { file: file.file, size, truncations, lens };
        self.ask_done(&request).map_err(|error| {
            let url = self.url(&file.path).to_string();
            StoreError::server(Operation::SetLen, url, error).at(0, size)
        })
    }

    /// Tells the metadata server that the objects of a file are about to have these lengths.
    pub(super) fn shorten(&self, file: &FileInfo, lens: Vec<u64>) -> Result<FileInfo, ServerError> {
        self.ask_for_file(&Request::Shorten { file: file.file, lens })
    }
}

/// Answers of the kinds that are due.
impl Client {
    fn ask_for_file(&self, request: &Request) -> Result<FileInfo, ServerError> {
        match self.ask(request)? {
            Reply::File(file) => Ok(file),
            other => Err(unexpected(self.address(), &other, "a file")),
        }
    }

    fn ask_done(&self, request: &Request) -> Result<(), ServerError> {
        self.all_done(&[self.address().to_owned()], request)
    }

    /// Asks all servers for the same, which has no answer but that it is done.
    pub(super) fn all_done(
        &self,
        addresses: &[String],
        request: &Request,
    ) -> Result<(), ServerError> {
        let replies = self.on_all(addresses, |_| request.clone())?;
        let mut answers = addresses.iter().zip(&replies);
        match answers.find(|(_, reply)| **reply != Reply::Done) {
            None => Ok(()),
            Some((address, reply)) => Err(unexpected(address, reply, "that it is done")),
        }
    }
}
