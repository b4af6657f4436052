//! [`Handle`]: what was opened: the ranks, the store and how it is accessed.

use std::sync::Arc;

use striate_comm::Comm;
use striate_store::Counted;
use striate_store::lustre::StripingReport;
use striate_store::store::Store;

use crate::hints::Switch;
use crate::location::Location;
use crate::write_behind::OpenFileEntry;
use crate::{Direction, FileError, Hints, Mode};

/// The part of a file that stays the same from its open to its close, apart from hints and
/// atomicity.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) comm: Arc<dyn Comm>,
    pub(super) store: Arc<Counted<Arc<dyn Store>>>,
    /// Where the file lies; not known of a store that the caller brought.
    pub(super) location: Option<Location>,
    /// Rank 0's, on all ranks.
    pub(super) striping: Option<StripingReport>,
    pub(super) mode: Mode,
    pub(super) hints: Arc<Hints>,
    pub(super) atomic: bool,
    /// Whether the store can be read although the file is opened for writing only.
    pub(super) reads_back: bool,
    /// Whether other ranks may sieve where this rank writes: its plain writes then need a guard.
    pub(super) sieved: bool,
    /// Registers the file as open in this process.
    pub(super) registration: Option<OpenFileEntry>,
}

impl Handle {
    pub(super) fn new(
        comm: &Arc<dyn Comm>,
        store: Arc<dyn Store>,
        mode: Mode,
        hints: Hints,
        reads_back: bool,
    ) -> Self {
        let mut handle = Self {
            comm: Arc::clone(comm),
            store: Arc::new(Counted::new(store)),
            location: None,
            striping: None,
            mode,
            hints: Arc::new(hints),
            atomic: false,
            reads_back,
            sieved: false,
            registration: None,
        };
        handle.sieved = handle.may_sieve();
        handle
    }

    /// The same for a nonblocking call, on another communicator of the same ranks. Its requests are
    /// counted separately.
    pub(super) fn for_task(&self, comm: Arc<dyn Comm>) -> Self {
        let store: Arc<dyn Store> = Arc::clone(&self.store) as _;
        Self {
            comm,
            store: Arc::new(Counted::new(store)),
            location: None,
            striping: None,
            mode: self.mode,
            hints: Arc::clone(&self.hints),
            atomic: self.atomic,
            reads_back: self.reads_back,
            sieved: self.sieved,
            registration: None,
        }
    }

    /// Whether independent writes may be sieved.
    pub(super) fn may_sieve(&self) -> bool {
        let wanted = self.hints.ds_write != Switch::Disable;
        wanted && self.store.capabilities().locks && self.reads_back
    }

    #[inline]
    pub(super) fn check_mode(
        &self,
        direction: Direction,
        call: &'static str,
    ) -> Result<(), FileError> {
        let (mode, needed) = match direction {
            Direction::Write => (Mode::WRITE, "writing"),
            Direction::Read => (Mode::READ, "reading"),
        };
        if self.mode.contains(mode) {
            Ok(())
        } else {
            Err(FileError::NotOpenedFor { call, needed })
        }
    }

    pub(super) fn node_count(&self) -> usize {
        self.comm.nodes().iter().max().map_or(1, |max| max + 1)
    }

    /// Ranks of this rank's node.
    pub(super) fn ranks_of_node(&self) -> usize {
        let own = self.comm.nodes()[self.comm.rank()];
        self.comm.nodes().iter().filter(|&&node| node == own).count()
    }
}
