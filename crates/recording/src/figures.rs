//! [`Figures`]: sums over calls: counts, bytes, times, sizes and access patterns.
//!
//! [`moved`] is the one definition of the bytes that a call moves; all commands that show bytes use
//! it.

use serde::Serialize;
use striate_trace::{Call, Kind, Record};

/// Offsets that are not a multiple of this are called unaligned, unless something else is said.
pub const ALIGNMENT: u64 = 4096;

/// Bytes that a call moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedBytes {
    /// Out of files.
    pub read: u64,
    /// Into files.
    pub written: u64,
}

/// Bytes that a call moved out of files and into files. A copy within the kernel does both, as far
/// as its ends are files of the recording; accesses to mapped memory are not calls.
pub fn moved(record: &Record) -> MovedBytes {
    let moved = record.outcome.unwrap_or(0);
    let if_file = |is_file: bool| if is_file { moved } else { 0 };
    match &record.call {
        Call::Read { .. } => MovedBytes { read: moved, written: 0 },
        Call::Write { .. } => MovedBytes { read: 0, written: moved },
        Call::CopyRange { from, to, .. } | Call::SendFile { from, to, .. } => {
            MovedBytes { read: if_file(from.file.is_some()), written: if_file(to.file.is_some()) }
        }
        _ => MovedBytes::default(),
    }
}

/// Sums over the reads, or over the writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Calls, also those that failed.
    pub calls: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Nanoseconds in them.
    pub time: u64,
    /// How many calls asked for how much: place n counts lengths of n binary digits.
    pub sizes: Vec<u64>,
    /// Calls of which it is known where they happened; the next three are among these.
    pub located: u64,
    /// Calls behind the last byte that the process had read (or written) of the file.
    pub sequential: u64,
    /// Calls right behind it.
    pub consecutive: u64,
    /// Calls at an offset that is not aligned.
    pub unaligned: u64,
}

/// Sums over calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// All calls.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// Calls of which it was not recorded what came of them.
    pub unknown: u64,
    /// Nanoseconds in all calls, of all threads together.
    pub time: u64,
    /// Reads.
    pub reads: Transfers,
    /// Writes.
    pub writes: Transfers,
    /// Bytes that were copied within the kernel.
    pub copied: u64,
    /// Bytes that were moved out of files: by reads and by copies.
    pub bytes_read: u64,
    /// Bytes that were moved into files: by writes and by copies.
    pub bytes_written: u64,
    /// Calls of each kind, in the order of `Kind::ALL`.
    #[serde(skip)]
    pub kinds: [u64; Kind::COUNT],
    /// When the first call began and the last ended, in nanoseconds of the recording.
    pub first: Option<u64>,
    /// See `first`.
    pub last: u64,
}

/// Where a process has read and written a file: used to decide whether an access is sequential.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pattern {
    last_read: Option<u64>,
    last_written: Option<u64>,
}

/// How a transfer follows the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step(Option<Located>);

/// What is known of a transfer of which it is known where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Located {
    sequential: bool,
    consecutive: bool,
    unaligned: bool,
}

impl Pattern {
    /// Takes a record of the file into account; how it follows those before.
    pub fn step(&mut self, record: &Record, alignment: u64) -> Step {
        let (last, offset) = match &record.call {
            Call::Read { offset: Some(offset), .. } => (&mut self.last_read, *offset),
            Call::Write { offset: Some(offset), .. } => (&mut self.last_written, *offset),
            _ => return Step::default(),
        };
        let Ok(moved) = record.outcome else { return Step::default() };
        // The end of the one before: one more than its last byte.
        let end = *last;
        *last = Some(offset.saturating_add(moved));
        Step(Some(Located {
            sequential: end.is_some_and(|end| offset >= end),
            consecutive: end == Some(offset),
            unaligned: !offset.is_multiple_of(alignment.max(1)),
        }))
    }
}

impl Transfers {
    fn add(&mut self, record: &Record, length: u64, step: Step) {
        self.calls += 1;
        self.bytes += record.outcome.unwrap_or(0);
        self.time += record.duration;
        let digits = (u64::BITS - length.leading_zeros()) as usize;
        if self.sizes.len() <= digits {
            self.sizes.resize(digits + 1, 0);
        }
        self.sizes[digits] += 1;
        if let Some(located) = step.0 {
            self.located += 1;
            self.sequential += u64::from(located.sequential);
            self.consecutive += u64::from(located.consecutive);
            self.unaligned += u64::from(located.unaligned);
        }
    }

    /// Bytes in a second of the time that calls took; `None` if they took none.
    pub fn rate(&self) -> Option<f64> {
        (self.time > 0).then(|| self.bytes as f64 / (self.time as f64 / 1e9))
    }

    /// Which part of the calls with a known place some are.
    pub fn share(&self, some: u64) -> Option<f64> {
        (self.located > 0).then(|| some as f64 / self.located as f64)
    }
}

impl Figures {
    /// Takes a record into account, with times of the recording.
    pub fn add(&mut self, record: &Record, step: Step) {
        self.calls += 1;
        self.errors += u64::from(record.failed());
        self.unknown += u64::from(!record.known);
        self.time += record.duration;
        self.kinds[record.call.kind() as usize] += 1;
        self.first = Some(self.first.map_or(record.start, |first| first.min(record.start)));
        self.last = self.last.max(record.start.saturating_add(record.duration));
        let MovedBytes { read, written } = moved(record);
        self.bytes_read = self.bytes_read.saturating_add(read);
        self.bytes_written = self.bytes_written.saturating_add(written);
        match &record.call {
            Call::Read { length, .. } => self.reads.add(record, *length, step),
            Call::Write { length, .. } => self.writes.add(record, *length, step),
            Call::CopyRange { .. } | Call::SendFile { .. } => {
                self.copied += record.outcome.unwrap_or(0);
            }
            _ => {}
        }
    }

    /// How many calls of a kind there are.
    pub const fn of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    /// Nanoseconds from the first call to the end of the last.
    pub fn span(&self) -> u64 {
        self.last.saturating_sub(self.first.unwrap_or(self.last))
    }
}
