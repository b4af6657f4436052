//! [`Counters`]: the counters of processes, read and added up.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use striate_calls::layer::LayerSort;
use striate_calls::{Function, Kind};
pub use striate_process::Origin;
use striate_process::clock::Moment;
use striate_process::origin;
use thiserror::Error;

use super::layout::{
    BUCKETS, COMMAND, ENDED, ENDING, ENDINGS, FUNCTIONS, FunctionCell, HEADER, HOST, LABEL, LATER,
    LAYERS, MAGIC, MOST_COMMAND, MOST_ENDINGS, NAME, SHARD, START, Shard, VERSION,
};

/// How many places a histogram of lengths has: place 0 counts transfers of nothing, place n those
/// of 2ⁿ⁻¹ bytes up to below 2ⁿ.
pub const HISTOGRAM: usize = BUCKETS;

/// Why counters cannot be read.
#[derive(Debug, Error)]
pub enum CountError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a file of counters")]
    Foreign,
    /// It is of another version.
    #[error("counters of version {0}, which this program does not know")]
    Version(u32),
    /// It ends too early.
    #[error("the counters are truncated")]
    Cut,
}

/// The calls of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    /// How many there were.
    pub calls: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Seconds that they took, below the stage that counted.
    pub seconds: f64,
}

/// The calls on open files whose names have the same ending.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Endings {
    /// How many there were.
    pub calls: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Seconds that they took.
    pub seconds: f64,
}

/// What one process has counted, or several together.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// What the configuration calls the stage.
    pub label: String,
    /// The place of the stage in the stack.
    pub place: u32,
    /// The processes.
    pub processes: Vec<Origin>,
    /// How many of them ended in a way that could be noted.
    pub ended: u64,
    /// When the first began, in nanoseconds since 1970.
    pub began: u64,
    /// Calls by function, by their numbers.
    functions: BTreeMap<u8, Calls>,
    /// Reads by their lengths.
    pub reads: Vec<u64>,
    /// Writes by their lengths.
    pub writes: Vec<u64>,
    /// Calls by the endings of file names. `0`: a number; `?`: something odd, or too many.
    pub endings: BTreeMap<String, Endings>,
    /// Seconds that the counting itself took, estimated from samples.
    pub own: f64,
    /// Calls of layers above POSIX, by their places.
    layers: BTreeMap<usize, Calls>,
    /// Bytes that were moved out of files: by reads, and by copies within the kernel.
    pub bytes_read: u64,
    /// Bytes that were moved into files: by writes, and by copies within the kernel.
    pub bytes_written: u64,
}

impl Counters {
    /// Reads those of a process.
    pub fn read(path: &Path) -> Result<Self, CountError> {
        Self::decode(&std::fs::read(path)?)
    }

    /// Those in the bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Self, CountError> {
        if bytes.len() < 12 || bytes[..8] != *MAGIC {
            return Err(CountError::Foreign);
        }
        let version = narrow(bytes, 8);
        if version != VERSION {
            return Err(CountError::Version(version));
        }
        if bytes.len() < HEADER {
            return Err(CountError::Cut);
        }
        let rank = narrow(bytes, 24) as i32;
        let length = (narrow(bytes, 84) as usize).min(MOST_COMMAND);
        let origin = Origin {
            process: narrow(bytes, 16),
            parent: narrow(bytes, 20),
            rank: u32::try_from(rank).ok(),
            host: text(&bytes[HOST..HOST + NAME]),
            command: origin::arguments(&bytes[COMMAND..COMMAND + length]),
        };
        let moment = |at| Moment { ticks: wide(bytes, at), nanoseconds: wide(bytes, at + 8) };
        let tick = moment(START).nanoseconds_per_tick(moment(LATER)) * 1e-9;
        let mut counters = Self {
            label: text(&bytes[LABEL..LABEL + NAME]),
            place: narrow(bytes, 80),
            processes: vec![origin],
            ended: u64::from(wide(bytes, ENDED) != 0),
            began: wide(bytes, 32),
            reads: vec![0; BUCKETS],
            writes: vec![0; BUCKETS],
            ..Self::default()
        };
        let names = bytes[ENDINGS..].chunks_exact(ENDING).take(MOST_ENDINGS).map(text);
        let names: Vec<String> = names.collect();
        let shards = narrow(bytes, 12) as usize;
        for shard in bytes[HEADER..].chunks_exact(SHARD).take(shards) {
            counters.add_shard(shard, &names, tick);
        }
        Ok(counters)
    }

    fn add_shard(&mut self, shard: &[u8], names: &[String], tick: f64) {
        let cell = |at: usize| Calls {
            calls: wide(shard, at),
            errors: wide(shard, at + 8),
            bytes: wide(shard, at + 16),
            seconds: wide(shard, at + 24) as f64 * tick,
        };
        for code in 0..FUNCTIONS {
            let calls = cell(code * size_of::<FunctionCell>());
            if calls.calls > 0 {
                self.functions.entry(code as u8).or_default().add(calls);
            }
        }
        for place in 0..LAYERS {
            let at = std::mem::offset_of!(Shard, layers) + place * size_of::<FunctionCell>();
            let calls = cell(at);
            if calls.calls > 0 {
                self.layers.entry(place).or_default().add(calls);
            }
        }
        let (reads, writes) =
            (std::mem::offset_of!(Shard, reads), std::mem::offset_of!(Shard, writes));
        for n in 0..BUCKETS {
            grow(&mut self.reads[n], wide(shard, reads + n * 8));
            grow(&mut self.writes[n], wide(shard, writes + n * 8));
        }
        for (n, name) in names.iter().enumerate() {
            let at = std::mem::offset_of!(Shard, endings) + n * 32;
            let endings = Endings {
                calls: wide(shard, at),
                read: wide(shard, at + 8),
                written: wide(shard, at + 16),
                seconds: wide(shard, at + 24) as f64 * tick,
            };
            if endings.calls > 0 {
                let name = if n + 1 == MOST_ENDINGS { "?" } else { name };
                self.endings.entry(name.to_owned()).or_default().add(endings);
            }
        }
        self.own += wide(shard, std::mem::offset_of!(Shard, own)) as f64 * tick;
        grow(&mut self.bytes_read, wide(shard, std::mem::offset_of!(Shard, bytes_read)));
        grow(&mut self.bytes_written, wide(shard, std::mem::offset_of!(Shard, bytes_written)));
    }

    /// Adds those of other processes.
    pub fn add(&mut self, other: &Self) {
        if self.processes.is_empty() {
            *self = other.clone();
            return;
        }
        self.processes.extend_from_slice(&other.processes);
        self.ended += other.ended;
        self.began = self.began.min(other.began);
        for (code, calls) in &other.functions {
            self.functions.entry(*code).or_default().add(*calls);
        }
        for (place, calls) in &other.layers {
            self.layers.entry(*place).or_default().add(*calls);
        }
        for (mine, more) in [(&mut self.reads, &other.reads), (&mut self.writes, &other.writes)] {
            for (count, more) in mine.iter_mut().zip(more) {
                grow(count, *more);
            }
        }
        for (name, endings) in &other.endings {
            self.endings.entry(name.clone()).or_default().add(*endings);
        }
        self.own += other.own;
        grow(&mut self.bytes_read, other.bytes_read);
        grow(&mut self.bytes_written, other.bytes_written);
    }

    /// The functions that were called, with their calls, by their numbers. Those that this program
    /// does not know are left out.
    pub fn functions(&self) -> impl Iterator<Item = (Function, Calls)> {
        self.functions.iter().filter_map(|(code, calls)| Some((Function::of_code(*code)?, *calls)))
    }

    /// Calls of layers above POSIX: what they do, and whether ranks made them together. They are
    /// not among the functions, which they have caused.
    pub fn layers(&self) -> impl Iterator<Item = (LayerSort, bool, Calls)> {
        let sorts = LayerSort::ALL.len();
        self.layers
            .iter()
            .map(move |(place, calls)| (LayerSort::ALL[place % sorts], *place >= sorts, *calls))
    }

    /// The calls of all functions that do the same.
    pub fn of_kind(&self, kind: Kind) -> Calls {
        let mut sum = Calls::default();
        self.functions()
            .filter(|(function, _)| function.kind() == kind)
            .for_each(|(_, calls)| sum.add(calls));
        sum
    }

    /// All calls together.
    pub fn all(&self) -> Calls {
        let mut sum = Calls::default();
        self.functions.values().for_each(|calls| sum.add(*calls));
        sum
    }
}

impl Calls {
    fn add(&mut self, other: Self) {
        grow(&mut self.calls, other.calls);
        grow(&mut self.errors, other.errors);
        grow(&mut self.bytes, other.bytes);
        self.seconds += other.seconds;
    }
}

impl Endings {
    fn add(&mut self, other: Self) {
        grow(&mut self.calls, other.calls);
        grow(&mut self.read, other.read);
        grow(&mut self.written, other.written);
        self.seconds += other.seconds;
    }
}

/// Counters are what a file says; a damaged one may say anything.
const fn grow(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

fn narrow(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

/// Text with zeros after it.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
