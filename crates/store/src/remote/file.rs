//! [`RemoteFile`]: a file that is striped over I/O servers, as a store.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use striate_layout::striping::Striping;
use striate_wire::limits::{MAX_ENCODING, MAX_REGIONS};
use striate_wire::{FailureCode, FileInfo, Reply, Request, Traffic};

use super::attempts::Attempts;
use super::client::{Client, unexpected};
use super::error::{CallError, ServerError};
use super::feed::Feed;
use super::files::{Layout, size_of, striping};
use super::pieces::{RemoteRequest, Typed};
use super::transfer::Servers;
use super::unsynced::{Settled, Unsynced};
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
    unsynced: Unsynced,
    known: Mutex<KnownLens>,
}

/// How long the objects are at least, as the metadata server or this handle found.
#[derive(Clone, Debug, Default)]
struct KnownLens {
    truncations: u64,
    lens: Vec<u64>,
}

impl From<&FileInfo> for KnownLens {
    fn from(info: &FileInfo) -> Self {
        let lens = info.objects.iter().map(|object| object.len).collect();
        Self { truncations: info.truncations, lens }
    }
}

/// Attempts at telling the metadata server the size when a file is closed.
const FAREWELLS: u32 = 4;

/// Tells the metadata server how long the file is, for listings; if that fails, the objects still
/// know.
impl Drop for RemoteFile {
    fn drop(&mut self) {
        let _ = self.record_by(&self.client.brief(FAREWELLS));
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
            let found = client.lookup(path)?;
            // For a catalogue that does not know it yet; a server that is down may tell later.
            client.brief(1).enrol_new(&found).unwrap_or(found)
        };
        let striping = striping(&info);
        let grown = AtomicBool::new(false);
        let unsynced = Unsynced::new(info.servers.len(), client.pool().budget());
        let known = Mutex::new(KnownLens::from(&info));
        let (client, name) = (client.clone(), url.to_string());
        Ok(Self { client, name, info, striping, grown, unsynced, known })
    }

    /// What the metadata server said of the file when it was opened.
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// Tells the metadata server how long the file is, for listings, if something was written since
    /// it got last.
    pub fn record(&self) -> Result<(), StoreError> {
        self.record_by(&self.client)
    }

    fn record_by(&self, client: &Client) -> Result<(), StoreError> {
        if !self.grown.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let recorded = self.record_now(client);
        if recorded.is_err() {
            self.grown.store(true, Ordering::Relaxed);
        }
        recorded
    }

    /// What went over all connections of the client that the file uses.
    pub fn traffic(&self) -> Traffic {
        self.client.traffic()
    }

    fn known(&self) -> MutexGuard<'_, KnownLens> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the metadata server how long the file and its objects are.
    fn record_now(&self, client: &Client) -> Result<(), StoreError> {
        let truncations = self.known().truncations;
        let lens = self.checked_lens(client)?;
        client.record_lens(&self.info, size_of(&self.info, &lens), truncations, lens.clone())?;
        let mut known = self.known();
        if known.truncations == truncations {
            known.lens = lens;
        }
        Ok(())
    }

    /// The lengths of all objects, none of which is shorter than it was known to be.
    fn checked_lens(&self, client: &Client) -> Result<Vec<u64>, StoreError> {
        let failed = |error| StoreError::server(Operation::Len, &self.name, error);
        let known = self.known().clone();
        let lens = client.found_lens(&self.info).map_err(failed)?;
        for (server, (&len, &known)) in (0..).zip(lens.iter().zip(&known.lens)) {
            if len < known {
                self.check_missing(client, server).map_err(failed)?;
            }
        }
        Ok(lens)
    }

    /// An object was found shorter than it was known to be.
    fn check_missing(&self, client: &Client, server: u32) -> Result<(), ServerError> {
        let now = client.check_missing(&self.info, server)?;
        *self.known() = KnownLens::from(&now);
        Ok(())
    }

    /// Does something to objects. An object that is missing is made if it never had a byte: who
    /// created the file may have come no further than the name.
    fn with_objects<T>(
        &self,
        mut work: impl FnMut() -> Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        let is_missing = |error: &ServerError| {
            error.failure().is_some_and(|failure| failure.code == FailureCode::NotFound)
        };
        let mut left = self.info.servers.len();
        loop {
            let error = match work() {
                Err(error) if is_missing(&error) && left > 0 => error,
                result => return result,
            };
            let servers = &self.info.servers;
            let Some(server) = servers.iter().position(|address| *address == error.address())
            else {
                return Err(error);
            };
            // If the file is gone, that is the error.
            self.check_missing(&self.client, server as u32)?;
            let touch = Request::Touch { object: self.info.file };
            self.client.all_done(&servers[server..=server], &touch)?;
            left -= 1;
        }
    }

    fn servers(&self) -> Servers<'_> {
        Servers {
            pool: self.client.pool(),
            file: self.info.file,
            striping: self.striping,
            addresses: &self.info.servers,
            unsynced: &self.unsynced,
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
        for &(server, len) in &short {
            if self.known().lens.get(server as usize).is_some_and(|&known| len < known) {
                self.check_missing(&self.client, server).map_err(failed)?;
            }
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
        let written = self.with_objects(|| self.servers().write(wanted, memory));
        written.map_err(|error| StoreError::server(Operation::Write, &self.name, error))
    }

    /// One request to each server, which changes its object.
    fn change_all(
        &self,
        operation: Operation,
        request: impl Fn(u32) -> Request,
    ) -> Result<(), StoreError> {
        let servers = &self.info.servers;
        let _order = self.unsynced.order.read().unwrap_or_else(PoisonError::into_inner);
        // The start that acknowledges it is this one, or a later one: never an earlier.
        let starts: Vec<_> =
            servers.iter().map(|address| self.client.pool().start_of(address)).collect();
        self.with_objects(|| self.client.on_all(servers, |server| request(server as u32)))
            .map_err(|error| StoreError::server(operation, &self.name, error))?;
        for (server, (address, start)) in (0..).zip(servers.iter().zip(starts)) {
            if let Some(start) = start.or_else(|| self.client.pool().start_of(address)) {
                let kept = self.unsynced.keep(server).map(|kept| (request(server), None, kept));
                self.unsynced.acknowledged(server, start, 0, kept);
            }
        }
        Ok(())
    }

    /// Makes durable what was written; what a server may have lost that was started anew is
    /// written again, or is an error.
    fn sync_objects(&self) -> Result<(), ServerError> {
        let servers = &self.info.servers;
        let object = self.info.file;
        let mut attempts = Attempts::new(self.client.options());
        loop {
            let marks: Vec<u64> =
                (0..servers.len() as u32).map(|server| self.unsynced.mark(server)).collect();
            let replies =
                self.with_objects(|| self.client.on_all(servers, |_| Request::Sync { object }))?;
            let (mut again, mut lost) = (Vec::new(), None);
            for (server, (address, reply)) in (0..).zip(servers.iter().zip(&replies)) {
                let Reply::Synced { start } = *reply else {
                    return Err(unexpected(address, reply, "that it is durable"));
                };
                match self.unsynced.settle(server, marks[server as usize], start) {
                    Settled::Durable => {}
                    Settled::WriteAgain => again.push((server, start)),
                    Settled::Lost(bytes) => {
                        let restarted = CallError::Restarted { bytes };
                        lost.get_or_insert(ServerError::new(address, restarted, 1));
                    }
                }
            }
            if let Some(lost) = lost {
                return Err(lost);
            }
            let Some(&(last, _)) = again.last() else { return Ok(()) };
            for (server, start) in again {
                self.client.pool().note_start(&servers[server as usize], start);
                self.servers().write_again(server, &mut Attempts::new(self.client.options()))?;
            }
            if !attempts.again() {
                // It was started anew each time, so often that nothing could be made durable.
                let address = servers[last as usize].as_str();
                return Err(ServerError::new(address, CallError::Stale, attempts.made()));
            }
        }
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
        Ok(size_of(&self.info, &self.checked_lens(&self.client)?))
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        let check = check_extent(0, len);
        check.map_err(|what| {
            StoreError::malformed(Operation::SetLen, &self.name, what).at(0, len)
        })?;
        let object = self.info.file;
        let object_len = |server| self.striping.object_len(server, len);
        let lens: Vec<u64> = (0..self.striping.servers.get()).map(object_len).collect();
        // First, so that no one takes the objects for damaged, whatever happens in between.
        let shortened = self.client.shorten(&self.info, lens.clone());
        let info =
            shortened.map_err(|error| StoreError::server(Operation::SetLen, &self.name, error))?;
        *self.known() = KnownLens::from(&info);
        self.change_all(Operation::SetLen, |server| Request::Truncate {
            object,
            len: object_len(server),
        })?;
        self.client.record_lens(&self.info, len, info.truncations, lens)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        let check = check_extent(0, len);
        check.map_err(|what| {
            StoreError::malformed(Operation::Preallocate, &self.name, what).at(0, len)
        })?;
        let object = self.info.file;
        self.change_all(Operation::Preallocate, |server| Request::Preallocate {
            object,
            len: self.striping.object_len(server, len),
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.sync_objects()
            .map_err(|error| StoreError::server(Operation::Sync, &self.name, error))?;
        self.grown.store(false, Ordering::Relaxed);
        self.record_now(&self.client)
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
