//! [`Indicators`]: sums over the calls that the rules of the advice are about.

use crate::model::Transfers;

/// Reads and writes below this are small: a request costs more than its bytes.
pub(crate) const SMALL: u64 = 64 << 10;
/// What write-back writes together, as its default is.
pub(crate) const BLOCK: u64 = 1 << 20;
/// What read-ahead reads together, as its default is.
pub(crate) const WINDOW: u64 = 4 << 20;
/// Bytes that read-ahead reads for one that is wanted, at most.
pub(crate) const WASTE: u64 = 64;
/// Requests that begin and end at multiples of this are aligned.
pub(crate) const PAGE: u64 = 4096;

/// Calls and the time in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) calls: u64,
    pub(crate) time_ns: u64,
}

impl Calls {
    pub(crate) fn add(&mut self, time_ns: u64) {
        self.calls += 1;
        self.time_ns += time_ns;
    }
}

impl Transfers {
    pub(crate) fn add(&mut self, bytes: u64, time_ns: u64) {
        self.calls += 1;
        self.bytes += bytes;
        self.time_ns += time_ns;
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.time_ns += other.time_ns;
    }
}

/// Small reads or writes that a stage could put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct SmallTransfers {
    pub(crate) transfers: Transfers,
    /// Requests that would be left.
    pub(crate) requests: u64,
}

/// Files that were made, written with a few bytes and closed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SmallFiles {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Time in their opens, writes and closes.
    pub(crate) time_ns: u64,
    pub(crate) write_ns: u64,
}

/// What a file stands out by: places of `FileStats::marks`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    SmallWrites,
    SmallReads,
    Unaligned,
    Random,
    Opens,
    Stats,
    SmallFile,
    Syncs,
    ReadBack,
    Missing,
}

impl Mark {
    pub(crate) const COUNT: usize = Self::Missing as usize + 1;
}

/// Sums over calls of the whole recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Indicators {
    pub(crate) small_writes: SmallTransfers,
    /// Small reads that follow each other.
    pub(crate) small_reads: SmallTransfers,
    /// Small and middling requests that follow nothing.
    pub(crate) random_reads: Transfers,
    pub(crate) random_writes: Transfers,
    /// Writes that are not small.
    pub(crate) large_writes: Transfers,
    /// Those of them that do not begin at a multiple of [`PAGE`].
    pub(crate) unaligned_writes: Transfers,
    pub(crate) syncs: Calls,
    /// Syncs after a single write.
    pub(crate) eager_syncs: Calls,
    /// Open files with syncs.
    pub(crate) synced_files: u64,
    /// Writes to files that were opened so that each is durable.
    pub(crate) durable_writes: Transfers,
    pub(crate) small_files: SmallFiles,
    /// Opens to read what the same process had opened before, and not changed.
    pub(crate) repeated_opens: Calls,
    /// Stats that repeat an earlier one of the same process on an unchanged file.
    pub(crate) repeated_stats: Calls,
    /// Names that were not there.
    pub(crate) missing: Calls,
    /// Opens, closes, and all that is about names.
    pub(crate) metadata: Calls,
    /// Reads of what the same process had written.
    pub(crate) read_back: Transfers,
}
