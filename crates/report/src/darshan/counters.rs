//! [`Counted`]: the counters of a log, added up by file, file system and layer.

use std::collections::{BTreeMap, HashMap, HashSet};

use striate_darshan::{
    FileRecord, Log, Module, MpiIo, MpiIoTime, Posix, PosixTime, Stdio, StdioTime,
};

use super::{
    DarshanLog, LayerRow, LayoutRow, ModuleRow, MountRow, RanksRow, SharingRow, SizeCount,
};
use crate::model::{ByClass, FileRow, Rest, Sums, Totals};

/// Number of files that are distinguished; further ones are added up in one row.
const MOST_FILES: usize = 1_000_000;
/// Number of access sizes that are distinguished.
const MOST_SIZES: usize = 100_000;
/// Rows of ranks, and of common sizes.
const SHOWN: usize = 10;

/// What Darshan calls the sizes that it counts.
const SIZES: [&str; 10] = [
    "0 to 100",
    "100 to 1K",
    "1K to 10K",
    "10K to 100K",
    "100K to 1M",
    "1M to 4M",
    "4M to 10M",
    "10M to 100M",
    "100M to 1G",
    "1G and more",
];

/// Sums of counters.
pub(super) struct Counted {
    pub(super) darshan: DarshanLog,
    pub(super) totals: Totals,
    pub(super) files: Vec<FileRow>,
    pub(super) other_files: Rest,
    /// There are counters at all.
    pub(super) any: bool,
}

/// A file over all ranks and layers.
#[derive(Clone, Copy, Default)]
struct FileSums {
    /// At the POSIX layer and as streams.
    sums: Sums,
    /// At the MPI-IO layer, which counts if nothing beneath it was recorded.
    above: Sums,
    beneath: bool,
    opens: u64,
    stats: u64,
    size: u64,
    /// Records of each layer; a record of all ranks counts as more than there are.
    records: [u64; 3],
    all_ranks: bool,
}

impl FileSums {
    fn told(&self) -> &Sums {
        if self.beneath { &self.sums } else { &self.above }
    }

    fn ranks(&self, all: u64) -> u64 {
        let records = self.records.iter().copied().max().unwrap_or(0);
        if self.all_ranks { all.max(1) } else { records.max(1) }
    }
}

/// One of the layers that count.
struct Layer {
    module: Module,
    names: &'static [&'static str],
    place: usize,
}

const LAYERS: [Layer; 3] = [
    Layer { module: Module::POSIX, names: Posix::NAMES, place: 0 },
    Layer { module: Module::MPI_IO, names: MpiIo::NAMES, place: 1 },
    Layer { module: Module::STDIO, names: Stdio::NAMES, place: 2 },
];

impl Counted {
    pub(super) fn of(log: &Log<'_>, most: usize, complaints: &mut Vec<String>) -> Self {
        let mut files: HashMap<u64, FileSums> = HashMap::new();
        let mut darshan = about(log);
        let mut records: BTreeMap<Module, u64> = BTreeMap::new();
        for layer in &LAYERS {
            if log.header.region(layer.module).length == 0 {
                continue;
            }
            let mut row = LayerSum::new(layer);
            let read = log.counters(layer.module, &mut |record| {
                row.add(record, layer, &mut files);
            });
            records.insert(layer.module, kept(read, complaints));
            darshan.ranks_of_files.append(&mut row.ranks(log));
            darshan.layers.push(row.finish());
        }
        darshan.ranks_of_files.sort_by_key(|row| std::cmp::Reverse(row.slowest_ns));
        darshan.ranks_of_files.truncate(SHOWN);
        let mut layouts: BTreeMap<(i64, i64), (u64, HashSet<i64>)> = BTreeMap::new();
        let read = log.layouts(&mut |layout| {
            if layouts.len() < MOST_SIZES {
                let key = (layout.stripe_size, layout.stripe_count);
                let known = layouts.entry(key).or_default();
                known.0 += 1;
                known.1.extend(&layout.targets);
            }
        });
        records.insert(Module::LUSTRE, kept(read, complaints));
        let row = |((stripe_size, stripe_count), (files, targets)): ((i64, i64), (u64, _))| {
            let targets: HashSet<i64> = targets;
            LayoutRow { stripe_size, stripe_count, files, targets: targets.len() as u64 }
        };
        darshan.layouts = layouts.into_iter().map(row).collect();
        darshan.layouts.sort_by_key(|row| std::cmp::Reverse(row.files));
        darshan.layouts.truncate(SHOWN);
        for module in [Module::DXT_POSIX, Module::DXT_MPI_IO] {
            let read = log.segments(module, &mut |_, _| ());
            records.insert(module, kept(read, complaints));
        }
        let row = |module: Module| ModuleRow {
            name: module.name(),
            version: log.header.module_version(module),
            records: records.get(&module).copied().unwrap_or(0),
            partial: log.header.is_partial(module),
            read: module.is_read(),
        };
        darshan.modules = log.modules().map(row).collect();
        Self::told(log, darshan, files, most)
    }

    /// Files, and what they are by file system and by the ranks that used them.
    fn told(
        log: &Log<'_>,
        mut darshan: DarshanLog,
        mut files: HashMap<u64, FileSums>,
        most: usize,
    ) -> Self {
        let rest = files.remove(&REST).unwrap_or_default();
        let any = !files.is_empty();
        let mut totals =
            Totals { files: files.len() as u64, files_exact: true, ..Totals::default() };
        let mut mounts: BTreeMap<(String, String), MountRow> = BTreeMap::new();
        let mut sharing = ["all ranks", "some ranks", "one rank"]
            .map(|ranks| SharingRow { ranks: ranks.into(), ..SharingRow::default() });
        for (id, file) in &files {
            let sums = file.told();
            totals.sums.add(sums);
            totals.opens = totals.opens.saturating_add(file.opens);
            totals.stats = totals.stats.saturating_add(file.stats);
            let mount = log.name(*id).and_then(|name| log.mount(name));
            let (path, kind) = mount.map_or(("other", "–"), |mount| (&mount.path, &mount.kind));
            let (path, kind) = (path.to_owned(), kind.to_owned());
            let row = mounts.entry((path.clone(), kind.clone())).or_insert_with(|| MountRow {
                path,
                kind,
                ..MountRow::default()
            });
            row.files += 1;
            row.bytes_read = row.bytes_read.saturating_add(sums.bytes_read);
            row.bytes_written = row.bytes_written.saturating_add(sums.bytes_written);
            row.time_ns = row.time_ns.saturating_add(sums.time_ns.all());
            let ranks = file.ranks(darshan.ranks);
            let row = match ranks {
                1 => 2,
                ranks if ranks >= darshan.ranks => 0,
                _ => 1,
            };
            let row = &mut sharing[row];
            row.files += 1;
            row.bytes_read = row.bytes_read.saturating_add(sums.bytes_read);
            row.bytes_written = row.bytes_written.saturating_add(sums.bytes_written);
        }
        totals.sums.add(rest.told());
        totals.files_exact = rest.records == [0; 3];
        darshan.sharing = sharing.into_iter().filter(|row| row.files > 0).collect();
        let used: Vec<MountRow> = mounts.into_values().collect();
        let known = used.iter().filter(|row| row.kind != "–").count();
        darshan.unused_mounts = log.job.mounts.len().saturating_sub(known) as u64;
        darshan.mounts = used;
        darshan.mounts.sort_by_key(|row| {
            std::cmp::Reverse((row.bytes_read.saturating_add(row.bytes_written), row.files))
        });
        let mut rows: Vec<(u64, FileSums)> = files.into_iter().collect();
        let heavy = |file: &FileSums| (file.told().time_ns.all(), file.told().bytes());
        rows.sort_by_key(|(id, file)| (std::cmp::Reverse(heavy(file)), *id));
        let mut other_files = Rest { count: 0, sums: *rest.told() };
        for (_, file) in rows.iter().skip(most) {
            other_files.count += 1;
            other_files.sums.add(file.told());
        }
        let row = |(id, file): &(u64, FileSums)| FileRow {
            path: named(log, *id),
            sums: *file.told(),
            opens: file.opens,
            stats: file.stats,
            processes: file.ranks(darshan.ranks),
            size: file.size,
            ..FileRow::default()
        };
        let files = rows.iter().take(most).map(row).collect();
        Self { darshan, totals, files, other_files, any }
    }
}

/// The key of the row for all files beyond the limit. A path hashes to it only by chance.
const REST: u64 = u64::MAX;

/// The job.
fn about(log: &Log<'_>) -> DarshanLog {
    let job = &log.job;
    let positive = |value: i128| u64::try_from(value).unwrap_or(0);
    DarshanLog {
        version: log.header.version.to_string(),
        compression: log.header.compression.name().into(),
        job: job.id,
        user: job.user,
        start_ns: positive(job.start_ns),
        end_ns: positive(job.end_ns),
        run_ns: job.length_ns,
        ranks: u64::try_from(job.processes).unwrap_or(0),
        command: job.command.clone(),
        metadata: job.metadata.clone(),
        ..DarshanLog::default()
    }
}

fn kept(read: Result<u64, striate_darshan::Damage>, complaints: &mut Vec<String>) -> u64 {
    read.unwrap_or_else(|damage| {
        complaints.push(damage.to_string());
        damage.records
    })
}

fn named(log: &Log<'_>, id: u64) -> String {
    let known = log.name(id).filter(|name| !name.is_empty());
    known.map_or_else(|| format!("unknown file {id:016x}"), str::to_owned)
}

/// What was counted; -1 stands for what older versions did not count.
fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Seconds as nanoseconds; 0 for invalid times.
fn ns(seconds: f64) -> u64 {
    if seconds.is_finite() && (0.0..1e9).contains(&seconds) {
        (seconds * 1e9).round() as u64
    } else {
        0
    }
}

/// A layer while records are added.
struct LayerSum {
    module: Module,
    row: LayerRow,
    values: Vec<i64>,
    names: &'static [&'static str],
    sizes: HashMap<i64, u64>,
    shared: Vec<(u64, RanksRow)>,
    ids: HashSet<u64>,
}

impl LayerSum {
    fn new(layer: &Layer) -> Self {
        let row = LayerRow { layer: layer.module.name(), ..LayerRow::default() };
        Self {
            module: layer.module,
            row,
            values: vec![0; layer.names.len()],
            names: layer.names,
            sizes: HashMap::new(),
            shared: Vec::new(),
            ids: HashSet::new(),
        }
    }

    fn add(&mut self, record: &FileRecord, layer: &Layer, files: &mut HashMap<u64, FileSums>) {
        let key = if files.len() < MOST_FILES || files.contains_key(&record.id) {
            record.id
        } else {
            REST
        };
        let file = files.entry(key).or_default();
        if self.ids.len() < MOST_FILES {
            self.ids.insert(record.id);
        }
        file.records[layer.place] += 1;
        file.all_ranks |= record.rank < 0;
        for (sum, value) in self.values.iter_mut().zip(&record.counters) {
            *sum = sum.saturating_add((*value).max(0));
        }
        let times = match self.module {
            Module::POSIX => posix(record, file),
            Module::MPI_IO => mpi_io(record, file),
            _ => stdio(record, file),
        };
        self.row.read_ns = self.row.read_ns.saturating_add(times.read);
        self.row.write_ns = self.row.write_ns.saturating_add(times.write);
        self.row.metadata_ns = self.row.metadata_ns.saturating_add(times.metadata);
        self.common_sizes(record);
        if record.rank < 0 {
            self.shared(record);
        }
    }

    fn common_sizes(&mut self, record: &FileRecord) {
        let (size, number) = match self.module {
            Module::POSIX => (Posix::Access1Access as usize, Posix::Access1Count as usize),
            Module::MPI_IO => (MpiIo::Access1Access as usize, MpiIo::Access1Count as usize),
            _ => return,
        };
        for place in 0..4 {
            let (size, times) = (record.counters[size + place], record.counters[number + place]);
            if times > 0 && (self.sizes.len() < MOST_SIZES || self.sizes.contains_key(&size)) {
                let known = self.sizes.entry(size).or_default();
                *known = known.saturating_add(count(times));
            }
        }
    }

    /// A file that all ranks used.
    fn shared(&mut self, record: &FileRecord) {
        let (ranks, times) = match self.module {
            Module::POSIX => (Posix::FastestRank as usize, PosixTime::FastestRankTime as usize),
            Module::MPI_IO => (MpiIo::FastestRank as usize, MpiIoTime::FastestRankTime as usize),
            _ => (Stdio::FastestRank as usize, StdioTime::FastestRankTime as usize),
        };
        let row = RanksRow {
            path: String::new(),
            layer: self.row.layer.clone(),
            fastest: record.counters[ranks],
            fastest_bytes: count(record.counters[ranks + 1]),
            slowest: record.counters[ranks + 2],
            slowest_bytes: count(record.counters[ranks + 3]),
            fastest_ns: ns(record.times[times]),
            slowest_ns: ns(record.times[times + 1]),
        };
        self.shared.push((record.id, row));
        if self.shared.len() >= 4096 {
            self.shared.sort_by_key(|(_, row)| std::cmp::Reverse(row.slowest_ns));
            self.shared.truncate(SHOWN);
        }
    }

    fn ranks(&mut self, log: &Log<'_>) -> Vec<RanksRow> {
        let mut shared = std::mem::take(&mut self.shared);
        shared.sort_by_key(|(_, row)| std::cmp::Reverse(row.slowest_ns));
        shared.truncate(SHOWN);
        let named = |(id, row): (u64, RanksRow)| RanksRow { path: named(log, id), ..row };
        shared.into_iter().map(named).filter(|row| row.slowest_ns > 0).collect()
    }

    fn finish(mut self) -> LayerRow {
        self.row.files = self.ids.len() as u64;
        let mut sizes: Vec<(i64, u64)> = self.sizes.into_iter().collect();
        sizes.sort_by_key(|(size, times)| (std::cmp::Reverse(*times), *size));
        sizes.truncate(SHOWN);
        self.row.common_sizes =
            sizes.into_iter().map(|(size, times)| (count(size), times)).collect();
        let first = match self.module {
            Module::POSIX => Some((Posix::SizeRead0100 as usize, Posix::SizeWrite0100 as usize)),
            Module::MPI_IO => {
                Some((MpiIo::SizeReadAgg0100 as usize, MpiIo::SizeWriteAgg0100 as usize))
            }
            _ => None,
        };
        if let Some((reads, writes)) = first {
            let row = |(place, bytes): (usize, &&str)| SizeCount {
                bytes: (*bytes).to_owned(),
                reads: count(self.values[reads + place]),
                writes: count(self.values[writes + place]),
            };
            self.row.sizes = SIZES.iter().enumerate().map(row).collect();
        }
        // Counters that are not sums have no meaning over several files.
        let sums = |name: &str| {
            !["MODE", "ALIGNMENT", "RENAMED_FROM", "MAX_", "STRIDE", "ACCESS", "_RANK"]
                .iter()
                .any(|part| name.contains(part))
        };
        let both = self.names.iter().zip(&self.values);
        let both = both.filter(|(name, _)| sums(name));
        self.row.counters = both.map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.row
    }
}

/// Adds a record of the POSIX layer to its file; times in reads, writes and everything else.
fn posix(record: &FileRecord, file: &mut FileSums) -> ByClass {
    use Posix::{
        BytesRead, BytesWritten, Fdsyncs, Fsyncs, MaxByteRead, MaxByteWritten, Mmaps, Opens, Reads,
        RenameSources, Seeks, Stats, Writes,
    };
    let value = |counter: Posix| count(counter.of(record));
    let mut sums = Sums::default();
    (sums.calls.read, sums.calls.write) = (value(Reads), value(Writes));
    sums.calls.sync = value(Fsyncs).saturating_add(value(Fdsyncs));
    let others = [Opens, Seeks, Stats, Mmaps, RenameSources];
    sums.calls.metadata = others.into_iter().map(value).fold(0, u64::saturating_add);
    (sums.bytes_read, sums.bytes_written) = (value(BytesRead), value(BytesWritten));
    let time_ns = |time: PosixTime| ns(time.of(record));
    sums.time_ns.read = time_ns(PosixTime::ReadTime);
    sums.time_ns.write = time_ns(PosixTime::WriteTime);
    sums.time_ns.metadata = time_ns(PosixTime::MetaTime);
    file.sums.add(&sums);
    file.beneath = true;
    file.opens = file.opens.saturating_add(value(Opens));
    file.stats = file.stats.saturating_add(value(Stats));
    file.size = file.size.max(end(MaxByteRead.of(record), value(BytesRead)));
    file.size = file.size.max(end(MaxByteWritten.of(record), value(BytesWritten)));
    sums.time_ns
}

fn stdio(record: &FileRecord, file: &mut FileSums) -> ByClass {
    use Stdio::{
        BytesRead, BytesWritten, Flushes, MaxByteRead, MaxByteWritten, Opens, Reads, Seeks, Writes,
    };
    let value = |counter: Stdio| count(counter.of(record));
    let mut sums = Sums::default();
    (sums.calls.read, sums.calls.write) = (value(Reads), value(Writes));
    sums.calls.metadata =
        [Opens, Seeks, Flushes].into_iter().map(value).fold(0, u64::saturating_add);
    (sums.bytes_read, sums.bytes_written) = (value(BytesRead), value(BytesWritten));
    let time_ns = |time: StdioTime| ns(time.of(record));
    sums.time_ns.read = time_ns(StdioTime::ReadTime);
    sums.time_ns.write = time_ns(StdioTime::WriteTime);
    sums.time_ns.metadata = time_ns(StdioTime::MetaTime);
    file.sums.add(&sums);
    file.beneath = true;
    file.opens = file.opens.saturating_add(value(Opens));
    file.size = file.size.max(end(MaxByteRead.of(record), value(BytesRead)));
    file.size = file.size.max(end(MaxByteWritten.of(record), value(BytesWritten)));
    sums.time_ns
}

fn mpi_io(record: &FileRecord, file: &mut FileSums) -> ByClass {
    use MpiIo::{
        BytesRead, BytesWritten, CollOpens, CollReads, CollWrites, IndepOpens, IndepReads,
        IndepWrites, NbReads, NbWrites, SplitReads, SplitWrites, Syncs, Views,
    };
    let value = |counter: MpiIo| count(counter.of(record));
    let all = |counters: &[MpiIo]| {
        counters.iter().map(|counter| value(*counter)).fold(0, u64::saturating_add)
    };
    let mut sums = Sums::default();
    sums.calls.read = all(&[IndepReads, CollReads, SplitReads, NbReads]);
    sums.calls.write = all(&[IndepWrites, CollWrites, SplitWrites, NbWrites]);
    sums.calls.sync = value(Syncs);
    sums.calls.metadata = all(&[IndepOpens, CollOpens, Views]);
    (sums.bytes_read, sums.bytes_written) = (value(BytesRead), value(BytesWritten));
    let time_ns = |time: MpiIoTime| ns(time.of(record));
    sums.time_ns.read = time_ns(MpiIoTime::ReadTime);
    sums.time_ns.write = time_ns(MpiIoTime::WriteTime);
    sums.time_ns.metadata = time_ns(MpiIoTime::MetaTime);
    file.above.add(&sums);
    sums.time_ns
}

/// The end of the highest byte that was moved; Darshan has 0 both for the first byte and for none.
fn end(highest: i64, bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { count(highest).saturating_add(1) }
}
