//! Opening, closing, deleting and renaming files.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;
use striate_store::s3::{S3Error, S3Url};
use striate_store::store::Store;
use striate_store::{Cause, Operation, StoreError};

use super::accounting::Accounting;
use super::buffered_writes::BufferedWrites;
use super::collective::CollectiveState;
use super::handle::Handle;
use super::nonblocking::Pending;
use super::shared_pointer::Pointers;
use crate::cost_model::{CostModel, CostTable};
use crate::hints::{MethodChoice, Switch};
use crate::link_cost;
use crate::location::{Location, OpenedStore};
use crate::rendezvous::{Proposal, Rendezvous, error_of, share_error};
use crate::write_behind::OpenFileEntry;
use crate::{File, FileError, Hints, Mode, View, striping};

impl File {
    /// Opens the file at `path` on all ranks: a path, the URL of a file on I/O servers
    /// (`striate://host:port/name`), or, for reading, that of an object (`s3://bucket/key`).
    /// Collective; the hints of rank 0 are used.
    pub fn open(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        mode: Mode,
        hints: &Hints,
    ) -> Result<Self, FileError> {
        let mut rendezvous = Rendezvous::new(comm.as_ref())?;
        Self::open_with(comm, &mut rendezvous, path.as_ref(), mode, hints)
    }

    /// Opens a file by ranks with a rendezvous that no open file uses. Collective.
    pub(super) fn open_with(
        comm: &Arc<dyn Comm>,
        rendezvous: &mut Rendezvous,
        path: &Path,
        mode: Mode,
        hints: &Hints,
    ) -> Result<Self, FileError> {
        let location = mode.check().and_then(|()| Location::new(path));
        let agreed = agree_on_open(comm.as_ref(), rendezvous, mode, hints, location)?;
        let OpenAgreement { given: location, mut hints, seed, same_mode } = agreed;
        if !same_mode {
            return Err(FileError::NotSame { call: "open", what: "modes" });
        }
        // One rank creates, so that EXCLUSIVE means: the file did not exist before this call. It
        // also measures what requests cost there, if that is not known, for all ranks.
        let mut opened = None;
        let mut model = CostModel::default();
        let first = if comm.rank() == 0 {
            location.open(mode, &hints, true).map(|one| {
                if hints.method == MethodChoice::Auto {
                    model = location.costs(one.store.as_ref());
                }
                opened = Some(one);
            })
        } else {
            Ok(())
        };
        let is_striped = opened.as_ref().is_some_and(|opened| opened.striping.is_some());
        // Measured where a method is to be chosen by it.
        let chooses = hints.method == MethodChoice::Auto;
        let link = if chooses { link_cost::measure(comm.as_ref())? } else { None };
        if let Some(link) = link {
            let nodes = comm.nodes().iter().max().map_or(1, |max| max + 1);
            model.set_link(nodes, link);
        }
        let proposal = Proposal {
            costs: model.table().measured(),
            note: u8::from(is_striped),
            ..Proposal::default()
        };
        let ((), all) = rendezvous.agree(comm.as_ref(), first, proposal)?;
        let others = match opened {
            Some(opened) => Ok(opened),
            None => location.open(mode, &hints, false),
        };
        let OpenedStore { store, local, reads_back, striping, version } =
            rendezvous.conclude(comm.as_ref(), others)?;
        if let Location::Object(url) = &location {
            same_version(comm.as_ref(), rendezvous, url, version.as_deref())?;
        }
        let striping = match location {
            Location::Path(_) if all[0].note > 0 => {
                striping::agree(comm.as_ref(), &mut hints, striping.as_ref())?
            }
            _ => None,
        };
        // All ranks use write-behind, or none: they see what waits in their shared memory.
        let may_wait = mode.contains(Mode::WRITE)
            && hints.method == MethodChoice::Auto
            && hints.write_behind != Switch::Disable
            && hints.direct != Switch::Enable;
        let write_behind = local
            .as_ref()
            .filter(|_| may_wait)
            .and_then(|file| rendezvous.write_behind(file, comm.as_ref()));
        let registration = local.and_then(|file| OpenFileEntry::new(&file, write_behind.as_ref()));
        let store = write_behind.clone().map_or(store, |write_behind| write_behind as _);
        let handle = Handle {
            registration,
            striping,
            location: Some(location.clone()),
            ..Handle::new(comm, store, mode, hints, reads_back)
        };
        // From here on the file has the rendezvous.
        let mut file = Self::from_parts(handle, rendezvous.clone(), seed);
        file.write_behind = write_behind.map(BufferedWrites::new);
        file.collective.costs = CostTable::new(all[0].costs);
        file.collective.model = model;
        file.pointers.shared.use_sidecar(&location, seed);
        file.start_at_end()?;
        Ok(file)
    }

    /// Opens an object that exists already: each rank brings a handle of it. Collective; the hints
    /// of rank 0 are used. [`Mode::CREATE`] and [`Mode::DELETE_ON_CLOSE`] have no effect.
    pub fn on_store(
        comm: &Arc<dyn Comm>,
        store: Arc<dyn Store>,
        mode: Mode,
        hints: &Hints,
    ) -> Result<Self, FileError> {
        let mut rendezvous = Rendezvous::new(comm.as_ref())?;
        let agreed = agree_on_open(comm.as_ref(), &mut rendezvous, mode, hints, mode.check())?;
        // Modes may differ: each rank brings what it can do with the object.
        let handle = Handle::new(comm, store, mode, agreed.hints, true);
        let mut file = Self::from_parts(handle, rendezvous, agreed.seed);
        file.start_at_end()?;
        Ok(file)
    }

    fn from_parts(handle: Handle, rendezvous: Rendezvous, seed: u64) -> Self {
        let comm = Arc::clone(&handle.comm);
        Self {
            handle,
            view: View::bytes(),
            pointers: Pointers::new(comm.as_ref(), &rendezvous),
            collective: CollectiveState::new(rendezvous, seed),
            write_behind: None,
            accounting: Accounting::default(),
            pending: Pending::new(comm.as_ref()),
            sieve_buffer: None,
        }
    }

    fn start_at_end(&mut self) -> Result<(), FileError> {
        if self.handle.mode.contains(Mode::APPEND) {
            let comm = Arc::clone(&self.handle.comm);
            let size = self.size().and_then(|size| {
                // Before the ranks agree, so that no rank uses it before.
                if comm.rank() == 0 {
                    self.pointers.shared.set(size)?;
                }
                Ok(size)
            });
            // Etypes are bytes so far.
            self.pointers.individual = share_error(comm.as_ref(), size)?;
        }
        Ok(())
    }

    /// Takes part in the other ranks' [`File::open`] with an error, as [`File::decline`] does in
    /// other calls.
    pub fn decline_open(comm: &Arc<dyn Comm>, error: FileError) -> FileError {
        match Rendezvous::new(comm.as_ref()) {
            Ok(mut rendezvous) => error_of(rendezvous.conclude::<()>(comm.as_ref(), Err(error))),
            Err(error) => error.into(),
        }
    }

    /// Closes the file on all ranks, after all nonblocking calls are complete. Collective.
    ///
    /// A file that is dropped instead is closed by this rank alone; nonblocking collective calls
    /// that are not complete are lost.
    pub fn close(mut self) -> Result<(), FileError> {
        self.close_collective()
    }

    pub(super) fn close_collective(&mut self) -> Result<(), FileError> {
        self.complete_pending();
        self.join_background();
        let delete = self.handle.mode.contains(Mode::DELETE_ON_CLOSE);
        let flushed = self.end_write_behind();
        // All ranks have finished with the file before it is deleted.
        let flushed = self.conclude(flushed);
        if self.handle.comm.rank() == 0 {
            self.pointers.shared.free();
        }
        if !delete {
            return flushed;
        }
        let deleted = match &self.handle.location {
            Some(location) if self.handle.comm.rank() == 0 => location.delete(),
            _ => Ok(()),
        };
        self.conclude(deleted)
    }

    /// Writes what waits; from then on nothing does.
    fn end_write_behind(&mut self) -> Result<(), FileError> {
        self.handle.registration = None;
        self.write_behind.take().map_or(Ok(()), |write_behind| Ok(write_behind.store.end()?))
    }

    /// Deletes the file at `path`. Not collective: one rank calls it.
    pub fn delete(path: impl AsRef<Path>) -> Result<(), FileError> {
        Location::new(path.as_ref())?.delete()
    }

    /// Whether there is a file at `path`. Not collective.
    pub fn exists(path: impl AsRef<Path>) -> Result<bool, FileError> {
        Location::new(path.as_ref())?.exists()
    }

    /// Gives the file at `from` the name `to`, durably; a file of that name is replaced. Both are
    /// in the same directory, or on the same servers. Not collective: one rank calls it. Ranks that
    /// have the file open go on with it.
    pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), FileError> {
        Location::new(from.as_ref())?.rename(&Location::new(to.as_ref())?)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A task file has nothing that could be waited for.
        if self.pending.queue.take().is_some() {
            self.pending.background.join(self.handle.comm.tasks());
            // There is no caller left to return an error to.
            let _ = self.end_write_behind();
        }
    }
}

/// Makes sure that all ranks have opened the same version of an object. Collective.
fn same_version(
    comm: &dyn Comm,
    rendezvous: &mut Rendezvous,
    url: &S3Url,
    version: Option<&str>,
) -> Result<(), FileError> {
    let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(version);
    let all = rendezvous.propose(comm, Proposal { len: hash, ..Proposal::default() })?;
    if all.iter().all(|one| one.len == all[0].len) {
        return Ok(());
    }
    let cause = Cause::Objects(S3Error::Changed);
    Err(StoreError::new(Operation::Open, url.to_string(), cause).into())
}

/// What ranks agree on before they open a file.
struct OpenAgreement<T> {
    /// What this rank needs to go on.
    given: T,
    hints: Hints,
    seed: u64,
    /// Whether all ranks have the same mode.
    same_mode: bool,
}

/// The information that ranks exchange before a file is opened, in the fields of a [`Proposal`].
#[derive(Clone, Copy)]
struct OpenProposal {
    /// Equal for equal hints, in all processes.
    hints_hash: u64,
    seed: u64,
    mode: u64,
}

impl OpenProposal {
    fn new(mode: Mode, hints: &str) -> Self {
        Self {
            hints_hash: BuildHasherDefault::<DefaultHasher>::new().hash_one(hints),
            seed: RandomState::new().hash_one(std::process::id()),
            mode: u64::from(mode.bits()),
        }
    }

    fn encode(self) -> Proposal {
        let Self { hints_hash, seed, mode } = self;
        Proposal { len: hints_hash, low: seed, regions: mode, ..Proposal::default() }
    }

    const fn decode(proposal: &Proposal) -> Self {
        Self { hints_hash: proposal.len, seed: proposal.low, mode: proposal.regions }
    }
}

/// Makes sure that all ranks can go on, and makes rank 0's hints and a fresh seed those of all.
/// Collective.
fn agree_on_open<T>(
    comm: &dyn Comm,
    rendezvous: &mut Rendezvous,
    mode: Mode,
    hints: &Hints,
    given: Result<T, FileError>,
) -> Result<OpenAgreement<T>, FileError> {
    let text = hints.to_string();
    let proposal = OpenProposal::new(mode, &text).encode();
    let (given, all) = rendezvous.agree(comm, given, proposal)?;
    let all: Vec<OpenProposal> = all.iter().map(OpenProposal::decode).collect();
    let mut hints = hints.clone();
    if all.iter().any(|one| one.hints_hash != all[0].hints_hash) {
        let mut text = text.into_bytes();
        comm.broadcast(0, &mut text)?;
        hints = String::from_utf8_lossy(&text).parse()?;
    }
    let same_mode = all.iter().all(|one| one.mode == all[0].mode);
    Ok(OpenAgreement { given, hints, seed: all[0].seed, same_mode })
}
