//! [`Files`]: the files with most time, in a sketch of bounded size.
//!
//! Files are kept by path. When there are too many, those with the least time are put together as
//! the rest. A file that reappears after that starts from zero, so its numbers can be too small, by
//! at most what was moved to the rest.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::heat::HeatMap;
use super::indicators::Mark;
use crate::distinct::Distinct;
use crate::model::{FileRow, Rest, Sums};

/// Files that are kept.
const MOST: usize = 2048;
/// Squares of all heat maps together.
const MOST_CELLS: usize = 400_000;
/// Number of processes that are distinguished in one file.
const MOST_PROCESSES: usize = 4096;
/// Stripes whose last writer is remembered, in a file with several.
const STRIPES: usize = 64;
/// What servers lock, as is usual.
pub(crate) const STRIPE: u64 = 1 << 20;

/// What is known of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileStats {
    pub(crate) sums: Sums,
    pub(crate) opens: u64,
    pub(crate) stats: u64,
    pub(crate) size: u64,
    pub(crate) sequential: u64,
    pub(crate) strided: u64,
    pub(crate) random: u64,
    pub(crate) unlinked: bool,
    /// Time in what it stands out by.
    pub(crate) marks: [u64; Mark::COUNT],
    /// How often it was changed.
    pub(crate) changes: u64,
    /// The process that asked last, and how often the file had been changed then.
    pub(crate) asked: Option<(u32, u64)>,
    /// The process that opened it last to read it, and how often the file had been changed then.
    pub(crate) opened: Option<(u32, u64)>,
    /// Bytes that were written lie from here to there.
    pub(crate) written: Option<(u64, u64)>,
    pub(crate) processes: Members,
    pub(crate) writers: Members,
    /// Writes of a process to a stripe that another wrote last.
    pub(crate) handovers: u64,
    /// Calls and time of writes since there are several writers.
    pub(crate) shared_writes: u64,
    pub(crate) shared_ns: u64,
    last_writers: Vec<(u64, u32)>,
    heat: HeatMap,
}

/// A set of processes; most files have one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    last: Option<u32>,
    all: HashSet<u32>,
}

impl Members {
    fn add(&mut self, process: u32) {
        if self.last != Some(process) && self.all.len() < MOST_PROCESSES {
            self.last = Some(process);
            self.all.insert(process);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(crate) fn has(&self, process: u32) -> bool {
        self.all.contains(&process)
    }
}

impl FileStats {
    pub(crate) fn mark(&mut self, mark: Mark, time_ns: u64) {
        self.marks[mark as usize] += time_ns;
    }

    pub(crate) fn marked(&self, mark: Mark) -> u64 {
        self.marks[mark as usize]
    }

    /// A process wrote.
    pub(crate) fn wrote(&mut self, process: u32, offset: u64, length: u64, time_ns: u64) {
        self.changes += 1;
        self.size = self.size.max(offset.saturating_add(length));
        let (from, until) = self.written.unwrap_or((u64::MAX, 0));
        self.written = Some((from.min(offset), until.max(offset.saturating_add(length))));
        self.writers.add(process);
        if self.writers.count() < 2 {
            return;
        }
        self.shared_writes += 1;
        self.shared_ns += time_ns;
        if self.last_writers.is_empty() {
            self.last_writers = vec![(u64::MAX, 0); STRIPES];
        }
        let stripe = offset / STRIPE;
        let place = &mut self.last_writers[stripe as usize % STRIPES];
        if place.0 == stripe && place.1 != process {
            self.handovers += 1;
        }
        *place = (stripe, process);
    }
}

/// The files with most time, and the others together.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Places in `stats`.
    by_path: HashMap<Arc<Path>, usize>,
    stats: Vec<FileStats>,
    others: Sums,
    seen: Distinct,
    complete: bool,
    cells: usize,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// What is known of a file, and that a process had to do with it.
    pub(crate) fn get(&mut self, path: &Path, process: u32) -> &mut FileStats {
        let place = match self.by_path.get(path) {
            Some(place) => *place,
            None => self.insert(path),
        };
        let stats = &mut self.stats[place];
        stats.processes.add(process);
        stats
    }

    fn insert(&mut self, path: &Path) -> usize {
        self.seen.add(path);
        if self.stats.len() >= MOST {
            self.put_away();
        }
        self.by_path.insert(path.into(), self.stats.len());
        self.stats.push(FileStats::default());
        self.stats.len() - 1
    }

    /// Bytes were moved.
    pub(crate) fn heat(
        &mut self,
        path: &Path,
        column: u32,
        offset: u64,
        length: u64,
        written: bool,
    ) {
        let Some(place) = self.by_path.get(path) else { return };
        let heat = &mut self.stats[*place].heat;
        let before = heat.cells();
        heat.add(column, offset, length, written);
        self.cells = (self.cells + heat.cells()).saturating_sub(before);
        if self.cells > MOST_CELLS {
            self.cool();
        }
    }

    /// The half with less time becomes a part of the rest.
    fn put_away(&mut self) {
        self.complete = false;
        let limit = self.middle();
        self.cells = 0;
        let mut kept = Vec::with_capacity(MOST);
        let (stats, others) = (&mut self.stats, &mut self.others);
        self.by_path.retain(|_, place| {
            let stats = std::mem::take(&mut stats[*place]);
            if stats.sums.time_ns.all() <= limit {
                others.add(&stats.sums);
                return false;
            }
            self.cells += stats.heat.cells();
            *place = kept.len();
            kept.push(stats);
            true
        });
        self.stats = kept;
    }

    /// The half with less time loses its squares.
    fn cool(&mut self) {
        let limit = self.middle();
        self.cells = 0;
        for stats in &mut self.stats {
            if stats.sums.time_ns.all() <= limit {
                stats.heat = HeatMap::default();
            }
            self.cells += stats.heat.cells();
        }
    }

    fn middle(&self) -> u64 {
        let mut times: Vec<u64> = self.stats.iter().map(|stats| stats.sums.time_ns.all()).collect();
        let half = times.len() / 2;
        if times.is_empty() { 0 } else { *times.select_nth_unstable(half).1 }
    }

    /// Those that are kept.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &FileStats)> {
        self.by_path.iter().map(|(path, place)| (&**path, &self.stats[*place]))
    }

    /// How many there are, and whether that is exact.
    pub(crate) fn count(&self) -> (u64, bool) {
        let kept = self.stats.len() as u64;
        if self.complete { (kept, true) } else { (self.seen.estimate().max(kept), false) }
    }

    /// The paths that stand out most by something, and by how much in all.
    pub(crate) fn worst(&self, mark: Mark) -> Vec<String> {
        let mut found: Vec<(u64, &Path)> =
            self.iter().map(|(path, stats)| (stats.marked(mark), path)).collect();
        found.retain(|(time, _)| *time > 0);
        found.sort_unstable_by_key(|(time, path)| (Reverse(*time), *path));
        found.iter().take(3).map(|(_, path)| path.to_string_lossy().into_owned()).collect()
    }

    /// The table and what is not in it.
    pub(crate) fn rows(
        &mut self,
        most: usize,
        heats: usize,
        column_ns: u64,
    ) -> (Vec<FileRow>, Rest) {
        let mut order: Vec<Arc<Path>> = self.by_path.keys().cloned().collect();
        let weight = |path: &Arc<Path>| {
            let sums = &self.stats[self.by_path[path]].sums;
            (Reverse(sums.time_ns.all()), Reverse(sums.bytes()), path.clone())
        };
        order.sort_by_cached_key(weight);
        let group = self.byte_code(&mut order);
        let most = most.saturating_sub(usize::from(group.is_some()));
        let mut rest = Rest { count: 0, sums: self.others };
        for path in order.iter().skip(most) {
            rest.sums.add(&self.stats[self.by_path[path]].sums);
        }
        order.truncate(most);
        let in_group = group.as_ref().and_then(|row| row.files).unwrap_or(0);
        rest.count = self.count().0 - order.len() as u64 - in_group;
        let mut maps = heats;
        let mut rows = Vec::with_capacity(order.len());
        for path in order {
            let stats = &mut self.stats[self.by_path[&path]];
            let heat = std::mem::take(&mut stats.heat);
            let shown = maps > 0 && heat.cells() > 0;
            maps -= usize::from(shown);
            rows.push(FileRow {
                path: path.to_string_lossy().into_owned(),
                files: None,
                sums: stats.sums,
                opens: stats.opens,
                stats: stats.stats,
                processes: stats.processes.count(),
                size: stats.size,
                sequential: stats.sequential,
                strided: stats.strided,
                random: stats.random,
                heat: shown.then(|| heat.finish(column_ns)),
            });
        }
        if let Some(group) = group {
            let heavier = |row: &FileRow| row.sums.time_ns.all() >= group.sums.time_ns.all();
            rows.insert(rows.partition_point(heavier), group);
        }
        (rows, rest)
    }

    /// One row for all byte code of Python: an interpreter that starts reads hundreds of such files
    /// by itself.
    fn byte_code(&self, order: &mut Vec<Arc<Path>>) -> Option<FileRow> {
        const FEW: usize = 3;
        let is_one = |path: &Arc<Path>| path.extension().is_some_and(|ending| ending == "pyc");
        if order.iter().filter(|path| is_one(path)).count() < FEW {
            return None;
        }
        let mut row = FileRow::default();
        let mut common: Option<PathBuf> = None;
        let mut files = 0;
        order.retain(|path| {
            if !is_one(path) {
                return true;
            }
            let stats = &self.stats[self.by_path[path]];
            files += 1;
            row.sums.add(&stats.sums);
            row.opens += stats.opens;
            row.stats += stats.stats;
            row.processes = row.processes.max(stats.processes.count());
            row.size = row.size.max(stats.size);
            row.sequential += stats.sequential;
            row.strided += stats.strided;
            row.random += stats.random;
            let mut above = path.parent().unwrap_or(path);
            if let Some(known) = &common {
                while !known.starts_with(above) {
                    above = above.parent().unwrap_or(Path::new(""));
                }
            }
            common = Some(above.to_path_buf());
            false
        });
        let common = common.unwrap_or_default();
        row.path = common.join("*.pyc").to_string_lossy().into_owned();
        row.files = Some(files);
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_stay_and_nothing_is_lost() {
        let mut files = Files::new();
        let mut total = 0;
        for round in 0..3u64 {
            for n in 0..10_000u64 {
                let path = format!("/data/{n}");
                let time = if n % 1000 == 7 { 1_000_000 } else { n % 100 };
                let stats = files.get(Path::new(&path), 1);
                stats.sums.time_ns.read += time;
                stats.sums.calls.read += 1;
                total += time;
                let column = round as u32;
                files.heat(Path::new(&path), column, n, 10, false);
            }
        }
        assert!(files.stats.len() <= MOST && files.by_path.len() == files.stats.len());
        let (count, exact) = files.count();
        assert!(!exact && count.abs_diff(10_000) < 600, "{count}");
        let (rows, rest) = files.rows(20, 5, 1);
        let heavy = rows.iter().take(10).filter(|row| row.sums.time_ns.read == 3_000_000).count();
        assert_eq!(heavy, 10);
        assert_eq!(rows.iter().filter(|row| row.heat.is_some()).count(), 5);
        let listed: u64 = rows.iter().map(|row| row.sums.time_ns.all()).sum();
        assert_eq!(listed + rest.sums.time_ns.all(), total);
        assert_eq!(rest.count, count - 20);
    }

    #[test]
    fn stripes_that_change_hands_are_counted() {
        let mut stats = FileStats::default();
        for n in 0..100u64 {
            stats.wrote(n as u32 % 4, n * 1000, 1000, 5);
        }
        // The first two writes go before there is a second writer, and before its stripe is known.
        assert_eq!((stats.writers.count(), stats.handovers), (4, 98));
        let mut apart = FileStats::default();
        for n in 0..100u64 {
            apart.wrote(n as u32 % 4, (n % 4) << 30 | n << 10, 1000, 5);
        }
        assert_eq!(apart.handovers, 0);
    }
}
