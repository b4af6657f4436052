//! [`RemoteFile`]: a file that is striped over I/O servers, as a store.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use striate_layout::striping::Striping;
use striate_wire::limits::{MAX_ENCODING, MAX_REGIONS};
use striate_wire::{FileInfo, Reply, Request, Traffic};

use super::client::Client;
use super::feed::Feed;
use super::files::{Layout, striping};
use super::pieces::{RemoteRequest, Typed};
use super::transfer::Servers;
use super::url::RemoteUrl;
use crate::error::{ErrorKind, Operation, StoreError};
use crate::expand;
use crate::placement::check_extent;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// Regions that one list request carries, as in \[CHING\].
const LIST: usize = 64;

/// How long a lock is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(600);

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteOptions {
    /// Make it if it does not exist.
    pub create: bool,
    /// Fail if it exists.
    pub exclusive: bool,
    /// How a new file is striped.
    pub layout: Layout,
}

/// A file on I/O servers. Its layout is learned when it is opened; data then moves between memory
/// and all servers concerned, in parallel.
#[derive(Debug)]
pub struct RemoteFile {
    client: Client,
    name: String,
    info: FileInfo,
    striping: Striping,
    /// Whether something was written since the metadata server got the size.
    grown: AtomicBool,
}

/// Tells the metadata server how long the file is, for listings; if that fails, the objects still
/// know.
impl Drop for RemoteFile {
    fn drop(&mut self) {
        let _ = self.record();
    }
}

impl RemoteFile {
    /// Opens the file that the URL names, with options for the connection from the environment.
    pub fn open(url: &RemoteUrl, options: &RemoteOptions) -> Result<Self, StoreError> {
        Self::open_with(&Client::shared(url)?, url, options)
    }

    /// Opens the file that the URL names through a client.
    pub fn open_with(
        client: &Client,
        url: &RemoteUrl,
        options: &RemoteOptions,
    ) -> Result<Self, StoreError> {
        let path = &url.path;
        let info = if options.create {
            client.create(path, &options.layout, options.exclusive)?
        } else {
            client.lookup(path)?
        };
        let striping = striping(&info);
        let grown = AtomicBool::new(false);
        Ok(Self { client: client.clone(), name: url.to_string(), info, striping, grown })
    }

    /// What the metadata server said of the file when it was opened.
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// Tells the metadata server how long the file is, for listings, if something was written since
    /// it got last.
    pub fn record(&self) -> Result<(), StoreError> {
        if !self.grown.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let recorded = self.len().and_then(|len| self.client.record(&self.info, len));
        if recorded.is_err() {
            self.grown.store(true, Ordering::Relaxed);
        }
        recorded
    }

    /// What went over all connections of the client that the file uses.
    pub fn traffic(&self) -> Traffic {
        self.client.traffic()
    }

    fn servers(&self) -> Servers<'_> {
        Servers {
            pool: self.client.pool(),
            file: self.info.file,
            striping: self.striping,
            addresses: &self.info.servers,
        }
    }

    fn read(&self, wanted: &RemoteRequest<'_>, memory: &mut [u8]) -> Result<u64, StoreError> {
        let failed = |error| StoreError::server(Operation::Read, &self.name, error);
        let objects = self.servers().read(wanted, memory).map_err(failed)?;
        let all = wanted.before(u64::MAX);
        let end_of = |&(server, len): &(u32, u64)| self.striping.offset_of(server, len);
        let is_short = |object: &(u32, u64)| {
            let after_end = end_of(object)..u64::MAX;
            wanted.pieces(self.striping, object.0, after_end).next().is_some()
        };
        let short: Vec<_> = objects.into_iter().filter(is_short).collect();
        if short.is_empty() {
            return Ok(all);
        }
        // An object that ends early has a gap, unless the file ends as well.
        let len = self.len()?;
        for object in short {
            let gap = end_of(&object)..len.max(end_of(&object));
            Feed::new(wanted, wanted.pieces(self.striping, object.0, gap)).clear(memory);
        }
        Ok(wanted.before(len))
    }

    fn write(&self, wanted: &RemoteRequest<'_>, memory: &[u8]) -> Result<(), StoreError> {
        self.grown.store(true, Ordering::Relaxed);
        let written = self.servers().write(wanted, memory);
        written.map_err(|error| StoreError::server(Operation::Write, &self.name, error))
    }

    /// One request to each server.
    fn on_all(
        &self,
        operation: Operation,
        request: impl Fn(u32) -> Request,
    ) -> Result<Vec<Reply>, StoreError> {
        let all = self.client.on_all(&self.info.servers, |server| request(server as u32));
        all.map_err(|error| StoreError::server(operation, &self.name, error))
    }

    fn check_list(
        &self,
        operation: Operation,
        regions: &[Region],
        memory: usize,
    ) -> Result<(), StoreError> {
        let checked = Region::check_all(regions, memory).map(drop);
        checked.map_err(|what| {
            let (offset, len) = Region::hull(regions);
            StoreError::malformed(operation, &self.name, what).at(offset, len)
        })
    }

    /// A typed request that servers understand; `None` if it has to be expanded here: its bytes do
    /// not ascend, its description is too long to be sent, or they are hard to find on the servers.
    fn typed<'r>(
        &self,
        operation: Operation,
        request: &'r TypedRequest,
        memory: usize,
    ) -> Result<Option<RemoteRequest<'r>>, StoreError> {
        let place = |error: StoreError| error.at(request.first_offset(), request.file.len);
        let malformed = |what| place(StoreError::malformed(operation, &self.name, what));
        request.regions(memory).map_err(malformed)?;
        let typed = Typed::new(request).map_err(malformed)?;
        let understood = typed.encoding.len() <= MAX_ENCODING && typed.is_found(self.striping);
        Ok(understood.then(|| RemoteRequest::Typed(Box::new(typed))))
    }
}

/// Whether a server does not carry out requests of this kind, in which case lists do.
fn is_unsupported<T>(result: &Result<T, StoreError>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported)
}

/// A list as requests that can be sent; a region of more than 4 GiB goes alone.
fn lists(regions: &[Region]) -> impl Iterator<Item = RemoteRequest<'_>> {
    let fits = |region: &Region| u32::try_from(region.len).is_ok();
    regions.chunk_by(move |a, b| fits(a) && fits(b)).flat_map(move |run| {
        run.chunks(MAX_REGIONS).map(move |list| match *list {
            [Region { memory, offset, len }] => {
                RemoteRequest::Contiguous { offset, len: len as u64, memory }
            }
            _ => RemoteRequest::List(list),
        })
    })
}

impl Store for RemoteFile {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            list_regions: Some(LIST),
            typed: true,
            locks: true,
            stripe_unit: Some(self.striping.strip.get()),
            stripe_count: Some(self.striping.servers.get()),
            alignment: 1,
            serial_writes: false,
        }
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn len(&self) -> Result<u64, StoreError> {
        self.client.size(&self.info)
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        let check = check_extent(0, len);
        check.map_err(|what| {
            StoreError::malformed(Operation::SetLen, &self.name, what).at(0, len)
        })?;
        let object = self.info.file;
        self.on_all(Operation::SetLen, |server| Request::Truncate {
            object,
            len: self.striping.object_len(server, len),
        })?;
        self.client.record(&self.info, len)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        let check = check_extent(0, len);
        check.map_err(|what| {
            StoreError::malformed(Operation::Preallocate, &self.name, what).at(0, len)
        })?;
        let object = self.info.file;
        self.on_all(Operation::Preallocate, |server| Request::Preallocate {
            object,
            len: self.striping.object_len(server, len),
        })?;
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let object = self.info.file;
        self.on_all(Operation::Sync, |_| Request::Sync { object })?;
        self.grown.store(false, Ordering::Relaxed);
        self.client.record(&self.info, self.len()?)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let len = buffer.len() as u64;
        let place = |error: StoreError| error.at(offset, len);
        let malformed = |what| place(StoreError::malformed(Operation::Read, &self.name, what));
        check_extent(offset, len).map_err(malformed)?;
        if len == 0 {
            return Ok(0);
        }
        let got = self
            .read(&RemoteRequest::Contiguous { offset, len, memory: 0 }, buffer)
            .map_err(place)?;
        Ok(got as usize)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let len = buffer.len() as u64;
        let place = |error: StoreError| error.at(offset, len);
        let malformed = |what| place(StoreError::malformed(Operation::Write, &self.name, what));
        check_extent(offset, len).map_err(malformed)?;
        if len == 0 {
            return Ok(());
        }
        self.write(&RemoteRequest::Contiguous { offset, len, memory: 0 }, buffer).map_err(place)
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.check_list(Operation::Read, regions, memory.len())?;
        lists(regions).try_fold(0, |sum, list| Ok(sum + self.read(&list, memory)?))
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.check_list(Operation::Write, regions, memory.len())?;
        lists(regions).try_for_each(|list| self.write(&list, memory))
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        let wanted = self.typed(Operation::Read, request, memory.len())?;
        if request.file.len == 0 {
            return Ok(0);
        }
        match wanted.map(|wanted| self.read(&wanted, memory)) {
            Some(result) if !is_unsupported(&result) => result,
            _ => expand::read_typed(self, request, memory),
        }
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        let wanted = self.typed(Operation::Write, request, memory.len())?;
        if request.file.len == 0 {
            return Ok(());
        }
        match wanted.map(|wanted| self.write(&wanted, memory)) {
            Some(result) if !is_unsupported(&result) => result,
            _ => expand::write_typed(self, request, memory),
        }
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        Ok(Box::new(self.client.lock(&self.info, range, kind, LOCK_WAIT)?))
    }
}
