//! [`Model`]: the numbers of a report, as `--json` prints them.
//!
//! Times are nanoseconds, and those of calls are summed over all of them, so that calls of several
//! threads can take more than the elapsed time. Names of fields are stable; new ones may be added.

use serde::{Deserialize, Serialize};
use striate_recording::PeakRates;

use crate::advice::Finding;
use crate::darshan::DarshanLog;
use crate::datasets::FileDatasets;
use crate::durations::Durations;
use crate::mpi_io::MpiIo;
use crate::what_if::StackTrial;

/// What [`Model::format`] says.
pub const FORMAT: &str = "striate report";
/// What [`Model::version`] says.
pub const VERSION: u32 = 1;

/// What calls are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Reading data.
    Read,
    /// Writing data.
    Write,
    /// Making data durable.
    Sync,
    /// Everything else: names, sizes, positions, descriptors.
    Metadata,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Sync, Self::Metadata];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Metadata => "metadata",
        }
    }
}

/// A number for each [`Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByClass {
    /// Of reads.
    pub read: u64,
    /// Of writes.
    pub write: u64,
    /// Of syncs.
    pub sync: u64,
    /// Of everything else.
    pub metadata: u64,
}

impl ByClass {
    /// All together.
    pub const fn all(&self) -> u64 {
        let data = self.read.saturating_add(self.write);
        data.saturating_add(self.sync).saturating_add(self.metadata)
    }

    /// That of a class.
    pub const fn of(&self, class: Class) -> u64 {
        match class {
            Class::Read => self.read,
            Class::Write => self.write,
            Class::Sync => self.sync,
            Class::Metadata => self.metadata,
        }
    }

    /// That of a class, to be changed.
    pub const fn of_mut(&mut self, class: Class) -> &mut u64 {
        match class {
            Class::Read => &mut self.read,
            Class::Write => &mut self.write,
            Class::Sync => &mut self.sync,
            Class::Metadata => &mut self.metadata,
        }
    }

    fn add(&mut self, other: &Self) {
        for class in Class::ALL {
            let sum = self.of(class).saturating_add(other.of(class));
            *self.of_mut(class) = sum;
        }
    }
}

/// Sums over some calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// How many.
    pub calls: ByClass,
    /// Those that returned an error.
    pub failed: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Time in them.
    pub time_ns: ByClass,
}

impl Sums {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.calls.add(&other.calls);
        self.time_ns.add(&other.time_ns);
        self.failed = self.failed.saturating_add(other.failed);
        self.bytes_read = self.bytes_read.saturating_add(other.bytes_read);
        self.bytes_written = self.bytes_written.saturating_add(other.bytes_written);
    }

    /// Bytes in both directions.
    pub const fn bytes(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }
}

/// The recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Where it is.
    pub path: String,
    /// The command line of the program that was started: of the first process whose parent was not
    /// recorded.
    #[serde(default)]
    pub command: String,
    /// Nanoseconds since 1970 when it began.
    pub began_ns: u64,
    /// From its beginning to the end of its last call.
    pub length_ns: u64,
    /// What is wrong with it.
    pub complaints: Vec<String>,
}

/// The whole recording in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// All calls.
    pub sums: Sums,
    /// Processes.
    pub processes: u64,
    /// Processes that are ranks of an MPI job.
    pub ranks: u64,
    /// Hosts.
    pub hosts: u64,
    /// Threads that made calls.
    pub threads: u64,
    /// Files that calls were about, by their paths; an estimate if it is not
    /// [`files_exact`](Self::files_exact).
    pub files: u64,
    /// Whether the number of files is exact.
    pub files_exact: bool,
    /// Files that were opened.
    pub opens: u64,
    /// Questions for sizes, times and the like.
    pub stats: u64,
    /// From the first to the last call of each process, summed.
    pub process_time_ns: u64,
    /// Time in which at least one call was under way.
    pub busy_ns: u64,
    /// The highest rates; `None` if it is not known when calls were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<PeakRates>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its number.
    pub process: u32,
    /// That of its parent.
    pub parent: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// Its host.
    pub host: String,
    /// Its command line, perhaps cut.
    pub command: String,
    /// When its first call began.
    pub from_ns: u64,
    /// When its last call ended.
    pub until_ns: u64,
    /// Its calls.
    pub sums: Sums,
}

/// What is not listed one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// How many are left out.
    pub count: u64,
    /// Their calls.
    pub sums: Sums,
}

/// A function of the C library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionRow {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: String,
    /// Its calls.
    pub calls: u64,
    /// Those that returned an error.
    pub failed: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Time in it.
    pub time_ns: u64,
    /// How long calls took.
    pub durations: Durations,
}

/// Calls of one direction and similar size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// How many.
    pub calls: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Time in them.
    pub time_ns: u64,
}

/// Reads and writes that asked for similar numbers of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRow {
    /// As many bytes at least.
    pub from: u64,
    /// Fewer than these; 0 in the first row, which is that of calls for no bytes.
    pub below: u64,
    /// Reads.
    pub reads: Transfers,
    /// Writes.
    pub writes: Transfers,
}

/// Time in calls over time, by process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The width of a bin.
    pub bin_ns: u64,
    /// A lane for each process, or for several that began after each other if there are many.
    pub lanes: Vec<Lane>,
}

/// One or more processes over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Which.
    pub label: String,
    /// How many.
    pub processes: u64,
    /// Time in reads in each bin.
    pub read: Vec<u64>,
    /// Time in writes.
    pub write: Vec<u64>,
    /// Time in syncs.
    pub sync: Vec<u64>,
    /// Time in everything else.
    pub metadata: Vec<u64>,
    /// Time in MPI-IO calls, of which all others are a part; empty if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpi_io: Vec<u64>,
}

impl Lane {
    /// The bins of a class.
    pub fn of(&self, class: Class) -> &[u64] {
        match class {
            Class::Read => &self.read,
            Class::Write => &self.write,
            Class::Sync => &self.sync,
            Class::Metadata => &self.metadata,
        }
    }

    pub(crate) fn of_mut(&mut self, class: Class) -> &mut Vec<u64> {
        match class {
            Class::Read => &mut self.read,
            Class::Write => &mut self.write,
            Class::Sync => &mut self.sync,
            Class::Metadata => &mut self.metadata,
        }
    }
}

/// Bytes and calls over time. The bytes of a call are spread over the time that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// The width of a bin.
    pub bin_ns: u64,
    /// Bytes read in each.
    pub read: Vec<u64>,
    /// Bytes written.
    pub written: Vec<u64>,
    /// Calls that began.
    pub calls: Vec<u64>,
    /// Those of them that are about names, sizes and the like.
    pub metadata: Vec<u64>,
}

/// For how long so many calls were under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// So many; from here to the next.
    pub calls: u64,
    /// For so long.
    pub time_ns: u64,
}

/// How many calls were under way at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Concurrency {
    /// The most.
    pub most: u64,
    /// How many on average, while there was one at least.
    pub mean: f64,
    /// For how long how many.
    pub levels: Vec<Level>,
}

/// Where in a file and when bytes were moved, in squares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heat {
    /// The width of a column.
    pub column_ns: u64,
    /// Columns.
    pub columns: u32,
    /// The bytes of the file that a row stands for.
    pub row_bytes: u64,
    /// Rows.
    pub rows: u32,
    /// Squares that are not empty.
    pub cells: Vec<Cell>,
}

/// A square of a [`Heat`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its place in time.
    pub column: u32,
    /// Its place in the file.
    pub row: u32,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    /// Its path. What is not UTF-8 in it is replaced. Of several files in one row, what their
    /// paths have in common.
    pub path: String,
    /// How many files it stands for, if these are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Its calls.
    pub sums: Sums,
    /// How often it was opened.
    pub opens: u64,
    /// How often it was asked for its size and the like.
    pub stats: u64,
    /// Processes that had to do with it.
    pub processes: u64,
    /// The end of the last byte that was moved, or its size if that was recorded.
    pub size: u64,
    /// Reads and writes that went on where one before ended.
    pub sequential: u64,
    /// Those at the same distance as the ones before.
    pub strided: u64,
    /// All others.
    pub random: u64,
    /// Where and when bytes were moved, for the files with most time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<Heat>,
}

/// The model of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The recording.
    pub recording: About,
    /// All together.
    pub totals: Totals,
    /// What stands out, the most important first.
    pub findings: Vec<Finding>,
    /// What was measured with stacks.
    pub what_if: Vec<StackTrial>,
    /// Processes by rank and beginning.
    pub processes: Vec<ProcessRow>,
    /// Processes that are not listed: those with the least time in calls.
    pub other_processes: Rest,
    /// Functions, the one with most time first.
    pub functions: Vec<FunctionRow>,
    /// Reads and writes by the bytes that were asked for.
    pub sizes: Vec<SizeRow>,
    /// Processes over time.
    pub timeline: Timeline,
    /// Bytes and calls over time.
    pub rate: Rate,
    /// Calls at the same time.
    pub concurrency: Concurrency,
    /// Files, the one with most time first.
    pub files: Vec<FileRow>,
    /// Files that are not listed.
    pub other_files: Rest,
    /// The datasets of files in formats that have some, if they were looked up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub datasets: Vec<FileDatasets>,
    /// MPI-IO calls, and the calls beneath them.
    #[serde(default, skip_serializing_if = "MpiIo::is_empty")]
    pub mpi_io: MpiIo,
    /// What a Darshan log says besides calls, if the report is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub darshan: Option<Box<DarshanLog>>,
}
