//! [`Counters`]: the counters of one file in one process, by Darshan's definitions.

use striate_trace::{Call, Record};

use super::frequent::Frequent;
use crate::figures::ALIGNMENT;

/// Upper ends of the ranges of sizes.
const RANGES: [(&str, u64); 10] = [
    ("0_100", 100),
    ("100_1K", 1 << 10),
    ("1K_10K", 10 << 10),
    ("10K_100K", 100 << 10),
    ("100K_1M", 1 << 20),
    ("1M_4M", 4 << 20),
    ("4M_10M", 10 << 20),
    ("10M_100M", 100 << 20),
    ("100M_1G", 1 << 30),
    ("1G_PLUS", u64::MAX),
];

/// Which way the last bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastTransfer {
    Read,
    Written,
}

/// Reads, or writes.
#[derive(Clone, Debug, Default)]
struct DirectionCounters {
    calls: u64,
    bytes: u64,
    greatest: u64,
    sequential: u64,
    consecutive: u64,
    sizes: [u64; RANGES.len()],
    /// The last byte, 0 before there is one.
    last_byte: u64,
    longest: u64,
    longest_size: u64,
    time: u64,
    span: Span,
    /// When the last call ended that time was counted of.
    until: u64,
}

/// When calls of a sort began and ended.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: Option<u64>,
    last: u64,
}

impl Span {
    fn add(&mut self, record: &Record) {
        self.first = Some(self.first.map_or(record.start, |first| first.min(record.start)));
        self.last = self.last.max(record.start.saturating_add(record.duration));
    }

    fn merge(&mut self, other: &Self) {
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
    }
}

/// The counters of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    opens: u64,
    dups: u64,
    seeks: u64,
    stats: u64,
    mmaps: u64,
    fsyncs: u64,
    fdatasyncs: u64,
    rename_sources: u64,
    rename_targets: u64,
    mode: u64,
    switches: u64,
    unaligned: u64,
    read: DirectionCounters,
    written: DirectionCounters,
    last_way: Option<LastTransfer>,
    strides: Frequent,
    accesses: Frequent,
    open: Span,
    close: Span,
    meta_time: u64,
}

impl DirectionCounters {
    /// Adds a call that moved bytes; how far behind the last byte it began.
    fn add(&mut self, record: &Record, offset: u64, moved: u64) -> u64 {
        self.calls += 1;
        self.bytes += moved;
        self.sequential += u64::from(offset > self.last_byte);
        self.consecutive += u64::from(offset == self.last_byte.saturating_add(1));
        let stride = if offset > self.last_byte && self.last_byte != 0 {
            offset - self.last_byte - 1
        } else {
            0
        };
        let end = offset.saturating_add(moved).saturating_sub(1);
        self.last_byte = end;
        self.greatest = self.greatest.max(end);
        let range = RANGES.iter().position(|range| moved <= range.1).unwrap_or(RANGES.len() - 1);
        self.sizes[range] += 1;
        if record.duration > self.longest {
            (self.longest, self.longest_size) = (record.duration, moved);
        }
        // Time in which several calls overlap counts once.
        let end = record.start.saturating_add(record.duration);
        self.time += end.saturating_sub(record.start.max(self.until));
        self.until = self.until.max(end);
        self.span.add(record);
        stride
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.greatest = self.greatest.max(other.greatest);
        self.sequential += other.sequential;
        self.consecutive += other.consecutive;
        for (sum, more) in self.sizes.iter_mut().zip(other.sizes) {
            *sum += more;
        }
        if other.longest > self.longest {
            (self.longest, self.longest_size) = (other.longest, other.longest_size);
        }
        self.time += other.time;
        self.span.merge(&other.span);
    }
}

impl Counters {
    /// Adds a call on the file.
    pub(super) fn add(&mut self, record: &Record) {
        let Ok(result) = record.outcome else { return };
        match &record.call {
            Call::Read { offset, .. } => self.transfer(record, LastTransfer::Read, *offset, result),
            Call::Write { offset, .. } => {
                self.transfer(record, LastTransfer::Written, *offset, result);
            }
            Call::Open { mode, .. } => {
                (self.opens, self.mode) = (self.opens + 1, u64::from(*mode));
                self.open.add(record);
            }
            // A duplicate counts as one more open.
            Call::Duplicate { .. } => (self.opens, self.dups) = (self.opens + 1, self.dups + 1),
            Call::Close { .. } => self.close.add(record),
            Call::Seek { .. } => self.seeks += 1,
            Call::Stat { .. } => self.stats += 1,
            Call::Map { .. } => self.mmaps += 1,
            Call::Sync { data_only, .. } => {
                let count = if *data_only { &mut self.fdatasyncs } else { &mut self.fsyncs };
                *count += 1;
                // Darshan counts the time of these as that of writing.
                self.written.time += record.duration;
                return;
            }
            Call::Rename { .. } => self.rename_sources += 1,
            _ => return,
        }
        if !matches!(record.call, Call::Read { .. } | Call::Write { .. }) {
            self.meta_time += record.duration;
        }
    }

    /// Adds a call that has the file as its second.
    pub(super) fn add_target(&mut self, record: &Record) {
        if matches!(record.call, Call::Rename { .. }) && record.outcome.is_ok() {
            self.rename_targets += 1;
        }
    }

    fn transfer(&mut self, record: &Record, way: LastTransfer, offset: Option<u64>, moved: u64) {
        let side = if way == LastTransfer::Read { &mut self.read } else { &mut self.written };
        // Where the offset is unknown, Darshan would use its own position: the end of the last
        // transfer.
        let next = if side.calls == 0 { 0 } else { side.last_byte.saturating_add(1) };
        let offset = offset.unwrap_or(next);
        let stride = side.add(record, offset, moved);
        self.strides.add(stride, 1);
        self.accesses.add(moved, 1);
        self.unaligned += u64::from(!offset.is_multiple_of(ALIGNMENT));
        self.switches += u64::from(self.last_way.is_some_and(|last| last != way));
        self.last_way = Some(way);
    }

    /// Whether the file was used and not only asked about.
    pub(super) const fn is_used(&self) -> bool {
        self.opens + self.read.calls + self.written.calls > 0
            || self.mmaps + self.stats + self.rename_sources + self.rename_targets > 0
    }

    /// Adds those of another process of the same rank.
    pub(super) fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.opens, other.opens),
            (&mut self.dups, other.dups),
            (&mut self.seeks, other.seeks),
            (&mut self.stats, other.stats),
            (&mut self.mmaps, other.mmaps),
            (&mut self.fsyncs, other.fsyncs),
            (&mut self.fdatasyncs, other.fdatasyncs),
            (&mut self.rename_sources, other.rename_sources),
            (&mut self.rename_targets, other.rename_targets),
            (&mut self.switches, other.switches),
            (&mut self.unaligned, other.unaligned),
            (&mut self.meta_time, other.meta_time),
        ] {
            *sum += more;
        }
        self.mode = self.mode.max(other.mode);
        self.read.merge(&other.read);
        self.written.merge(&other.written);
        self.strides.merge(&other.strides);
        self.accesses.merge(&other.accesses);
        self.open.merge(&other.open);
        self.close.merge(&other.close);
    }

    /// The counters that are whole numbers, in Darshan's order.
    pub(super) fn integers(&self) -> Vec<(String, i128)> {
        let (read, written) = (&self.read, &self.written);
        let mut all: Vec<(String, i128)> = Vec::new();
        let mut put = |name: &str, value: i128| all.push((format!("POSIX_{name}"), value));
        for (name, value) in [
            ("OPENS", self.opens),
            ("FILENOS", 0),
            ("DUPS", self.dups),
            ("READS", read.calls),
            ("WRITES", written.calls),
            ("SEEKS", self.seeks),
            ("STATS", self.stats),
            ("MMAPS", self.mmaps),
            ("FSYNCS", self.fsyncs),
            ("FDSYNCS", self.fdatasyncs),
            ("RENAME_SOURCES", self.rename_sources),
            ("RENAME_TARGETS", self.rename_targets),
            ("RENAMED_FROM", 0),
            ("MODE", self.mode),
            ("BYTES_READ", read.bytes),
            ("BYTES_WRITTEN", written.bytes),
            ("MAX_BYTE_READ", read.greatest),
            ("MAX_BYTE_WRITTEN", written.greatest),
            ("CONSEC_READS", read.consecutive),
            ("CONSEC_WRITES", written.consecutive),
            ("SEQ_READS", read.sequential),
            ("SEQ_WRITES", written.sequential),
            ("RW_SWITCHES", self.switches),
        ] {
            put(name, value.into());
        }
        // Where memory lies is not recorded.
        put("MEM_NOT_ALIGNED", -1);
        put("MEM_ALIGNMENT", -1);
        put("FILE_NOT_ALIGNED", self.unaligned.into());
        put("FILE_ALIGNMENT", ALIGNMENT.into());
        put("MAX_READ_TIME_SIZE", read.longest_size.into());
        put("MAX_WRITE_TIME_SIZE", written.longest_size.into());
        for (way, side) in [("READ", read), ("WRITE", written)] {
            for ((range, _), count) in RANGES.iter().zip(side.sizes) {
                put(&format!("SIZE_{way}_{range}"), count.into());
            }
        }
        for (what, frequent) in [("STRIDE", &self.strides), ("ACCESS", &self.accesses)] {
            let top = frequent.top();
            for (n, (value, _)) in (1..).zip(top) {
                put(&format!("{what}{n}_{what}"), value.into());
            }
            for (n, (_, count)) in (1..).zip(top) {
                put(&format!("{what}{n}_COUNT"), count.into());
            }
        }
        for name in ["FASTEST_RANK", "FASTEST_RANK_BYTES", "SLOWEST_RANK", "SLOWEST_RANK_BYTES"] {
            put(name, 0);
        }
        all
    }

    /// The counters that are times in seconds, in Darshan's order.
    pub(super) fn times(&self) -> Vec<(String, f64)> {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let (read, written) = (&self.read, &self.written);
        let spans = [
            ("OPEN", self.open),
            ("READ", read.span),
            ("WRITE", written.span),
            ("CLOSE", self.close),
        ];
        let mut all: Vec<(String, f64)> = Vec::new();
        for (name, span) in spans {
            let first = seconds(span.first.unwrap_or(0));
            all.push((format!("POSIX_F_{name}_START_TIMESTAMP"), first));
        }
        for (name, span) in spans {
            all.push((format!("POSIX_F_{name}_END_TIMESTAMP"), seconds(span.last)));
        }
        for (name, time) in [
            ("READ_TIME", read.time),
            ("WRITE_TIME", written.time),
            ("META_TIME", self.meta_time),
            ("MAX_READ_TIME", read.longest),
            ("MAX_WRITE_TIME", written.longest),
            ("FASTEST_RANK_TIME", 0),
            ("SLOWEST_RANK_TIME", 0),
            ("VARIANCE_RANK_TIME", 0),
            ("VARIANCE_RANK_BYTES", 0),
        ] {
            all.push((format!("POSIX_F_{name}"), seconds(time)));
        }
        all
    }
}
