//! [`Stats`]: sums over the calls of a recording, by process, rank, file and function.
//!
//! It is made in one pass. Memory grows with the names of files, not with the calls.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use striate_trace::layer::LayerSort;
use striate_trace::{Damage, LayerRecord, Record};

use crate::figures::{ALIGNMENT, Figures, Pattern, Step};
use crate::filter::{Filter, paths_of};
use crate::nested::Entry;
use crate::peak::{PeakMeter, PeakRates};
use crate::recording::{ProcessIndex, Recording};

/// Sums over the calls of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionFigures {
    /// Calls, also those that failed.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
    /// Those of which it was not recorded what came of them.
    pub unknown: u64,
    /// Bytes that were read, written or copied.
    pub bytes: u64,
    /// Nanoseconds in them.
    pub time: u64,
    /// The longest.
    pub longest: u64,
}

/// Sums over the calls of one function of a layer, and over the calls on files that they caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LayerFigures {
    /// Whether all ranks call it together.
    pub collective: bool,
    /// The calls themselves.
    #[serde(flatten)]
    pub own: FunctionFigures,
    /// Those beneath them.
    pub beneath: FunctionFigures,
}

/// Sums over the calls on one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFigures {
    /// Its calls.
    pub figures: Figures,
    /// How many processes made them.
    pub processes: u64,
}

/// Sums over the calls of a recording.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// All of them.
    pub total: Figures,
    /// The highest rates of all of them together.
    pub peak: PeakRates,
    /// By process, as in [`Recording::processes`].
    pub processes: Vec<Figures>,
    /// By rank, of processes that have one.
    pub ranks: BTreeMap<u32, Figures>,
    /// By path; a call with two paths counts for the first.
    pub files: HashMap<PathBuf, FileFigures>,
    /// Paths that were only ever the second of a call.
    seconds: HashSet<PathBuf>,
    /// By the name of the function.
    pub functions: BTreeMap<&'static str, FunctionFigures>,
    /// By the name of the function, of layers above POSIX.
    pub layers: BTreeMap<&'static str, LayerFigures>,
    /// What could not be read, besides what is known of the processes.
    pub damages: Vec<(ProcessIndex, Damage)>,
}

impl Stats {
    /// Those of the records that a filter lets pass. Whether an offset is aligned is asked of
    /// `alignment`.
    pub fn of(recording: &Recording, filter: &Filter, alignment: Option<u64>) -> Self {
        let mut stats = Self::default();
        stats.processes.resize(recording.processes().len(), Figures::default());
        let mut patterns: Vec<HashMap<PathBuf, Pattern>> = Vec::new();
        patterns.resize_with(recording.processes().len(), HashMap::new);
        let mut peak = PeakMeter::new(recording.length());
        let mut order = recording.nested(filter);
        for (index, entry) in order.by_ref() {
            let (record, above) = match entry {
                Entry::Call(record, above) => (record, above),
                Entry::Layer(layer) => {
                    stats.layer(&layer);
                    continue;
                }
            };
            let [path, second] = paths_of(&record);
            if let Some(second) = second.filter(|second| !stats.seconds.contains(*second)) {
                stats.seconds.insert(second.to_path_buf());
            }
            let step = path.map_or(Step::default(), |path| {
                stats.step(&mut patterns[index], path, &record, alignment.unwrap_or(ALIGNMENT))
            });
            stats.total.add(&record, step);
            peak.add(&record);
            stats.processes[index].add(&record, step);
            if let Some(rank) = recording.processes()[index].header().origin.rank {
                stats.ranks.entry(rank).or_default().add(&record, step);
            }
            stats.functions.entry(record.function.name()).or_default().add(&record);
            if let Some(above) = above {
                stats.layers.entry(above.function.name()).or_default().beneath.add(&record);
            }
        }
        stats.damages = order.damages();
        stats.peak = peak.rates();
        stats
    }

    /// Takes a record into account for its path; how it follows those of its process there.
    fn step(
        &mut self,
        patterns: &mut HashMap<PathBuf, Pattern>,
        path: &Path,
        record: &Record,
        alignment: u64,
    ) -> Step {
        // Looked up before it is inserted: the path is copied once, not for every record.
        if !self.files.contains_key(path) {
            self.files.insert(path.to_path_buf(), FileFigures::default());
        }
        let mut file = self.files.get_mut(path);
        if !patterns.contains_key(path) {
            patterns.insert(path.to_path_buf(), Pattern::default());
            if let Some(file) = &mut file {
                file.processes += 1;
            }
        }
        let step = patterns.get_mut(path).map(|pattern| pattern.step(record, alignment));
        let step = step.unwrap_or_default();
        if let Some(file) = file {
            file.figures.add(record, step);
        }
        step
    }

    fn layer(&mut self, call: &LayerRecord) {
        let layer = self.layers.entry(call.function.name()).or_default();
        layer.collective = call.function.is_collective();
        let moves = matches!(call.function.sort(), LayerSort::Read | LayerSort::Write);
        layer.own.count(call.duration, call.outcome, moves);
    }

    /// How many files calls were about, by their paths: both of calls that have two.
    pub fn files_count(&self) -> u64 {
        let others = self.seconds.iter().filter(|path| !self.files.contains_key(*path));
        (self.files.len() + others.count()) as u64
    }

    /// The files by what was moved, then by time, then by name: those with most first.
    pub fn top_files(&self) -> Vec<(&Path, &FileFigures)> {
        let mut files: Vec<_> =
            self.files.iter().map(|(path, file)| (path.as_path(), file)).collect();
        files.sort_by_key(|(path, file)| {
            let Figures { reads, writes, copied, time, .. } = &file.figures;
            let moved = reads.bytes.saturating_add(writes.bytes).saturating_add(*copied);
            (std::cmp::Reverse((moved, *time)), *path)
        });
        files
    }
}

impl FunctionFigures {
    fn add(&mut self, record: &Record) {
        self.count(record.duration, record.outcome, is_transfer(record));
        self.unknown += u64::from(!record.known);
    }

    /// A call; what it returned is bytes if it `moves` any.
    fn count(&mut self, duration: u64, outcome: Result<u64, i32>, moves: bool) {
        self.calls += 1;
        self.errors += u64::from(outcome.is_err());
        self.time += duration;
        self.longest = self.longest.max(duration);
        if moves {
            self.bytes += outcome.unwrap_or(0);
        }
    }
}

/// Whether what a call returns is a number of bytes.
fn is_transfer(record: &Record) -> bool {
    use striate_trace::Call;
    matches!(
        record.call,
        Call::Read { .. } | Call::Write { .. } | Call::CopyRange { .. } | Call::SendFile { .. }
    )
}
