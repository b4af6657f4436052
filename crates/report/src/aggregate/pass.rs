//! [`Pass`]: passes each record to the parts of the model that use it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use striate_recording::{Owners, PeakMeter, Process, Recording};
use striate_trace::{Call, Function, LayerRecord, Record, TracedFile};

use super::access_pattern::AccessOrder;
use super::calls::{class, count_size, is_about_names, path, size_row, sums};
use super::files::{FileStats, Files};
use super::heat::COLUMNS;
use super::in_flight::InFlight;
use super::indicators::{Indicators, Mark, PAGE, SMALL};
use super::open_files::{Key, OpenFile, OpenFiles, key};
use super::process::Processes;
use super::time_bins::{BINS, spread, width};
use super::{Evidence, Options};
use crate::durations::Durations;
use crate::model::{FunctionRow, Model, Rate, SizeRow, Sums, Totals, Transfers};

/// Random requests below this size are reported: for larger ones the transfer takes longer than the
/// seek.
const MIDDLING: u64 = 1 << 20;
/// Threads that are counted one by one.
const MOST_THREADS: usize = 1 << 20;

const O_ACCMODE: i32 = 0o3;
const O_DSYNC: i32 = 0o10_000;
const ENOENT: i32 = 2;

/// Calls of one function.
#[derive(Clone, Debug, Default)]
struct FunctionSums {
    calls: u64,
    failed: u64,
    bytes: u64,
    time_ns: u64,
    durations: Durations,
}

/// What has been gathered so far.
#[derive(Debug)]
pub(super) struct Pass<'r> {
    options: Options,
    totals: Totals,
    owners: Owners<'r>,
    threads: HashSet<(usize, u32)>,
    processes: Processes,
    functions: BTreeMap<u8, (Function, FunctionSums)>,
    sizes: Vec<SizeRow>,
    rate: Rate,
    peak: PeakMeter,
    column_ns: u64,
    in_flight: InFlight,
    files: Files,
    open_files: OpenFiles,
    indicators: Indicators,
}

/// A read or a write.
#[derive(Clone, Copy)]
struct Transfer<'r> {
    file: &'r TracedFile,
    offset: Option<u64>,
    asked: u64,
    moved: u64,
}

impl<'r> Pass<'r> {
    pub(super) fn new(recording: &'r Recording, options: &Options) -> Self {
        let length = recording.length();
        let bin_ns = width(length, BINS);
        let bins = length.div_ceil(bin_ns).max(1) as usize;
        let host = |process: &'r Process| process.header().origin.host.as_str();
        let hosts: HashSet<&str> = recording.processes().iter().map(host).collect();
        let span = |(from, until): (u64, u64)| until.saturating_sub(from);
        let processes = recording.processes();
        let ranks: HashSet<u32> =
            processes.iter().filter_map(|process| process.header().origin.rank).collect();
        let totals = Totals {
            processes: processes.len() as u64,
            ranks: ranks.len() as u64,
            hosts: hosts.len() as u64,
            process_time_ns: processes.iter().filter_map(|process| process.span().map(span)).sum(),
            ..Totals::default()
        };
        let zeros = || vec![0; bins];
        Self {
            options: *options,
            totals,
            owners: Owners::new(recording),
            threads: HashSet::new(),
            processes: Processes::new(recording, options, bin_ns, bins),
            functions: BTreeMap::new(),
            sizes: (0..=64).map(size_row).collect(),
            rate: Rate {
                bin_ns,
                read: zeros(),
                written: zeros(),
                calls: zeros(),
                metadata: zeros(),
            },
            peak: PeakMeter::new(length),
            column_ns: length.div_ceil(COLUMNS.into()).max(1),
            in_flight: InFlight::default(),
            files: Files::new(),
            open_files: OpenFiles::default(),
            indicators: Indicators::default(),
        }
    }

    pub(super) fn add(&mut self, process: usize, record: &Record) {
        let class = class(record.call.kind());
        let sums = sums(class, record);
        self.totals.sums.add(&sums);
        if self.threads.len() < MOST_THREADS {
            self.threads.insert((process, record.thread));
        }
        self.processes.add(process, class, record.start, &sums);
        let code = record.function as u8;
        let (_, function) =
            self.functions.entry(code).or_insert((record.function, FunctionSums::default()));
        function.calls += 1;
        function.failed += sums.failed;
        function.bytes += sums.bytes_read.max(sums.bytes_written);
        function.time_ns += record.duration;
        function.durations.add(record.duration);
        self.peak.add(record);
        self.in_flight.begin(record.start, record.duration);
        self.over_time(record, &sums);
        self.by_file(process, record, &sums);
        for file in self.open_files.too_many() {
            self.closed(&file, None);
        }
    }

    /// A call of a layer above those on files.
    pub(super) fn add_layer(&mut self, process: usize, layer: &LayerRecord) {
        self.processes.add_layer(process, layer.start, layer.duration);
    }

    fn over_time(&mut self, record: &Record, sums: &Sums) {
        let Rate { bin_ns, read, written, calls, metadata } = &mut self.rate;
        let bins = calls.len();
        let bin = ((record.start / *bin_ns) as usize).min(bins - 1);
        calls[bin] += 1;
        metadata[bin] += u64::from(is_about_names(&record.call));
        for (bytes, bins_of) in [(sums.bytes_read, read), (sums.bytes_written, written)] {
            if bytes == 0 {
                continue;
            }
            // What rounding loses goes to the last bin.
            let (mut left, mut last) = (bytes, bin);
            spread(*bin_ns, bins, record.start, record.duration, |place, time| {
                let share = u128::from(bytes) * u128::from(time) / u128::from(record.duration);
                let share = (share as u64).min(left);
                bins_of[place] += share;
                left -= share;
                last = place;
            });
            bins_of[last] += left;
        }
    }

    fn by_file(&mut self, process: usize, record: &Record, sums: &Sums) {
        let who = process as u32;
        let time = record.duration;
        if is_about_names(&record.call) {
            self.indicators.metadata.add(time);
        }
        let Some(path) = path(&record.call) else { return };
        let stats = self.files.get(path, who);
        stats.sums.add(sums);
        if record.outcome == Err(ENOENT) && is_about_names(&record.call) {
            self.indicators.missing.add(time);
            stats.mark(Mark::Missing, time);
        }
        match &record.call {
            Call::Open { file, flags, size, .. } => {
                self.opened(
                    who,
                    key(self.owners.owner(process, file), file),
                    path,
                    record,
                    *flags,
                    *size,
                );
            }
            Call::Close { file, last: true, .. } => {
                if let Some(open) =
                    self.open_files.take(key(self.owners.owner(process, file), file))
                {
                    self.closed(&open, Some((path, who, time)));
                }
            }
            Call::Read { file, offset, length, .. } | Call::Write { file, offset, length, .. } => {
                let moved = record.outcome.unwrap_or(0);
                let transfer = Transfer { file, offset: *offset, asked: *length, moved };
                if matches!(record.call, Call::Write { .. }) {
                    self.written(
                        who,
                        key(self.owners.owner(process, file), file),
                        transfer,
                        record,
                    );
                } else {
                    self.read(who, key(self.owners.owner(process, file), file), transfer, record);
                }
            }
            Call::Sync { file, .. } => {
                self.indicators.syncs.add(time);
                let before =
                    self.open_files.get(key(self.owners.owner(process, file), file)).synced();
                if before == 1 {
                    self.indicators.eager_syncs.add(time);
                    self.files.get(path, who).mark(Mark::Syncs, time);
                }
            }
            Call::Truncate { length, .. } => {
                stats.changes += 1;
                stats.size = *length;
            }
            Call::Stat { size, .. } => {
                self.totals.stats += 1;
                stats.stats += 1;
                stats.size = stats.size.max(size.unwrap_or(0));
                if record.outcome.is_ok() && stats.asked == Some((who, stats.changes)) {
                    self.indicators.repeated_stats.add(time);
                    stats.mark(Mark::Stats, time);
                }
                stats.asked = Some((who, stats.changes));
            }
            Call::Unlink { .. } => {
                stats.changes += 1;
                stats.unlinked = true;
            }
            Call::Rename { to, .. } => {
                stats.changes += 1;
                self.files.get(to, who).changes += 1;
            }
            Call::CopyRange { to, .. } | Call::SendFile { to, .. } => {
                if let Some(to) = &to.file {
                    let moved = record.outcome.unwrap_or(0);
                    let stats = self.files.get(&to.path, who);
                    stats.changes += 1;
                    stats.sums.bytes_written += moved;
                }
            }
            _ => {}
        }
    }

    fn opened(
        &mut self,
        who: u32,
        key: Key,
        path: &Path,
        record: &Record,
        flags: i32,
        size: Option<u64>,
    ) {
        self.totals.opens += 1;
        let stats = self.files.get(path, who);
        stats.opens += 1;
        if record.outcome.is_err() {
            return;
        }
        stats.size = stats.size.max(size.unwrap_or(0));
        if flags & O_ACCMODE == 0 {
            if stats.opened == Some((who, stats.changes)) {
                self.indicators.repeated_opens.add(record.duration);
                stats.mark(Mark::Opens, record.duration);
            }
            stats.opened = Some((who, stats.changes));
        }
        if let Some(before) = self.open_files.take(key) {
            self.closed(&before, None);
        }
        let file = self.open_files.get(key);
        file.fresh = size == Some(0) && flags & O_ACCMODE != 0;
        file.open_ns = record.duration;
    }

    /// What became of an open file; `close`: its path, the process that closed it, and how long
    /// that took.
    fn closed(&mut self, open: &OpenFile, close: Option<(&Path, u32, u64)>) {
        self.indicators.synced_files += u64::from(open.syncs > 0);
        if let Some((path, who, close_ns)) = close
            && open.is_small_file()
        {
            let sums = &mut self.indicators.small_files;
            let time = open.open_ns + open.write_ns + close_ns;
            sums.files += 1;
            sums.bytes += open.bytes_written;
            sums.time_ns += time;
            sums.write_ns += open.write_ns;
            self.files.get(path, who).mark(Mark::SmallFile, time);
            return;
        }
        if open.small_writes.calls > 1 {
            let small = &mut self.indicators.small_writes;
            small.transfers.join(&open.small_writes);
            small.requests += open.blocks;
            if let Some((path, who, _)) = close {
                self.files.get(path, who).mark(Mark::SmallWrites, open.small_writes.time_ns);
            }
        }
    }

    fn written(&mut self, who: u32, key: Key, transfer: Transfer<'_>, record: &Record) {
        let Transfer { file, offset, asked, moved } = transfer;
        let time = record.duration;
        count_size(&mut self.sizes, asked, |row| &mut row.writes, moved, time);
        let path = file.path.as_path();
        let stats = self.files.get(path, who);
        // Where a write to the end goes is not recorded, but is known if no other process writes.
        let offset = offset.unwrap_or(stats.size);
        stats.wrote(who, offset, moved, time);
        let order = self.open_files.get(key).wrote(offset, moved, time);
        if file.flags & O_DSYNC != 0 {
            self.indicators.durable_writes.add(moved, time);
            stats.mark(Mark::Syncs, time);
        }
        if moved >= SMALL {
            self.indicators.large_writes.add(moved, time);
            if !offset.is_multiple_of(PAGE) {
                self.indicators.unaligned_writes.add(moved, time);
                stats.mark(Mark::Unaligned, time);
            }
        }
        count_order(stats, order, &mut self.indicators.random_writes, moved, time);
        let column = (record.start / self.column_ns) as u32;
        self.files.heat(path, column, offset, moved, true);
    }

    fn read(&mut self, who: u32, key: Key, transfer: Transfer<'_>, record: &Record) {
        let Transfer { file, offset, asked, moved } = transfer;
        let time = record.duration;
        count_size(&mut self.sizes, asked, |row| &mut row.reads, moved, time);
        let Some(offset) = offset else { return };
        // Reads that find the end move nothing.
        if moved == 0 {
            return;
        }
        let path = file.path.as_path();
        let (order, foreseen) = self.open_files.get(key).read(offset, moved);
        let stats = self.files.get(path, who);
        stats.size = stats.size.max(offset.saturating_add(moved));
        if let Some(begins_window) = foreseen {
            let small = &mut self.indicators.small_reads;
            small.transfers.add(moved, time);
            small.requests += u64::from(begins_window);
            stats.mark(Mark::SmallReads, time);
        }
        let inside = |(from, until): (u64, u64)| from <= offset && offset + moved <= until;
        if stats.written.is_some_and(inside) && stats.writers.has(who) {
            self.indicators.read_back.add(moved, time);
            stats.mark(Mark::ReadBack, time);
        }
        count_order(stats, order, &mut self.indicators.random_reads, moved, time);
        let column = (record.start / self.column_ns) as u32;
        self.files.heat(path, column, offset, moved, false);
    }

    /// The model, without advice, and what advice is made of.
    pub(super) fn finish(mut self) -> (Model, Evidence) {
        for file in self.open_files.take_all() {
            self.closed(&file, None);
        }
        let (busy_ns, concurrency) = self.in_flight.finish();
        let (count, exact) = self.files.count();
        (self.totals.files, self.totals.files_exact) = (count, exact);
        self.totals.busy_ns = busy_ns;
        self.totals.peak = Some(self.peak.rates());
        self.totals.threads = self.threads.len() as u64;
        let options = self.options;
        let (files, other_files) = self.files.rows(options.files, options.heats, self.column_ns);
        let (processes, other_processes, timeline) = self.processes.finish(options.processes);
        let row = |(function, sums): (Function, FunctionSums)| FunctionRow {
            name: function.name().into(),
            kind: function.kind().name().into(),
            calls: sums.calls,
            failed: sums.failed,
            bytes: sums.bytes,
            time_ns: sums.time_ns,
            durations: sums.durations,
        };
        let mut functions: Vec<FunctionRow> = self.functions.into_values().map(row).collect();
        functions.sort_by_key(|row| std::cmp::Reverse((row.time_ns, row.calls)));
        let used = |row: &SizeRow| row.reads.calls + row.writes.calls > 0;
        let first = self.sizes.iter().position(used).unwrap_or(0);
        let last = self.sizes.iter().rposition(used).map_or(0, |last| last + 1);
        let model = Model {
            totals: self.totals,
            processes,
            other_processes,
            functions,
            sizes: self.sizes.drain(first..last).collect(),
            timeline,
            rate: self.rate,
            concurrency,
            files,
            other_files,
            ..Model::default()
        };
        (model, Evidence { indicators: self.indicators, files: self.files })
    }
}

/// Counts a transfer by its order among those before it on the same open file; short ones at random
/// places count as `random` as well.
fn count_order(
    stats: &mut FileStats,
    order: AccessOrder,
    random: &mut Transfers,
    moved: u64,
    time: u64,
) {
    match order {
        AccessOrder::First => {}
        AccessOrder::Sequential => stats.sequential += 1,
        AccessOrder::Strided(_) => stats.strided += 1,
        AccessOrder::Random => {
            stats.random += 1;
            if moved < MIDDLING {
                random.add(moved, time);
                stats.mark(Mark::Random, time);
            }
        }
    }
}
