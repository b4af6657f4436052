//! [`file_datasets`]: which datasets of its files a program read and wrote.
//!
//! The caller says where the datasets of a file are ([`DatasetMap`]); a pass over the recording
//! counts the accesses to each. What belongs to no dataset is metadata, or space that nothing
//! uses. The memory is that of the maps, whatever the number of calls.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};
use striate_recording::{Entry, Filter, Recording};
use striate_trace::{Call, Record};

use crate::aggregate::{PAGE, SMALL};

/// Datasets of a file that are listed.
const LISTED: usize = 20;

/// A range of bytes in a file that belongs to a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetRange {
    /// Its first byte.
    pub begin: u64,
    /// The byte behind its last one.
    pub end: u64,
    /// The dataset, as an index into [`DatasetMap::datasets`].
    pub dataset: u32,
}

/// The records of a classic file: what each has of some datasets, at equal distances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordRanges {
    /// Where the first record begins, and how long records are.
    pub begin: u64,
    /// How long each is.
    pub stride: u64,
    /// The parts of each, counted from its beginning; they ascend.
    pub parts: Vec<DatasetRange>,
}

/// Where the datasets of a file are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatasetMap {
    /// What kind of file it is.
    pub format: String,
    /// The paths of the datasets.
    pub datasets: Vec<String>,
    /// Their ranges, in any order.
    pub ranges: Vec<DatasetRange>,
    /// Records, which reach to the end of the file.
    pub records: Option<RecordRanges>,
    /// What the reader has to know, for example that the map is not complete.
    pub notes: Vec<String>,
}

/// Accesses to a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetRow {
    /// Its path; empty for metadata, and for space that nothing uses.
    pub dataset: String,
    /// Reads and writes that had bytes of it.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Its bytes that were read.
    pub bytes_read: u64,
    /// Its bytes that were written.
    pub bytes_written: u64,
    /// Time in the reads and writes.
    pub time_ns: u64,
    /// Those that moved less than 64 KiB.
    pub small: u64,
    /// Those that do not begin at a multiple of 4 KiB.
    pub unaligned: u64,
}

/// The datasets of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDatasets {
    /// Its path.
    pub path: String,
    /// What kind of file it is; empty if it could not be read.
    pub format: String,
    /// What the reader has to know: that the file is not there any more, or has changed.
    pub notes: Vec<String>,
    /// Metadata first, then the datasets with most bytes.
    pub datasets: Vec<DatasetRow>,
    /// How many more datasets were accessed.
    pub more: u64,
    /// Those together.
    #[serde(default)]
    pub rest: DatasetRow,
}

/// What was counted in one file.
struct CountedFile {
    map: DatasetMap,
    rows: Vec<DatasetRow>,
    metadata: DatasetRow,
}

/// Counts the accesses to the datasets of files: of each path, where they are, or why that is not
/// known.
pub fn file_datasets(
    recording: &Recording,
    maps: Vec<(String, Result<DatasetMap, String>)>,
    stop: &mut dyn FnMut() -> bool,
) -> Vec<FileDatasets> {
    let mut counted = HashMap::new();
    let mut known = Vec::new();
    for (path, map) in maps {
        match map {
            Ok(mut map) => {
                map.ranges.sort_unstable_by_key(|range| range.begin);
                let rows = vec![DatasetRow::default(); map.datasets.len()];
                let metadata = DatasetRow::default();
                counted.insert(path.clone(), CountedFile { map, rows, metadata });
                known.push((path, None));
            }
            Err(why) => known.push((path, Some(why))),
        }
    }
    if !counted.is_empty() {
        for (number, (_, entry)) in recording.nested(&Filter::default()).enumerate() {
            if number % 16_384 == 0 && stop() {
                break;
            }
            if let Entry::Call(record, _) = entry {
                add(&mut counted, &record);
            }
        }
    }
    let finish = |(path, why): (String, Option<String>)| match (counted.remove(&path), why) {
        (Some(file), _) => file.finish(path),
        (None, why) => {
            FileDatasets { path, notes: why.into_iter().collect(), ..FileDatasets::default() }
        }
    };
    known.into_iter().map(finish).collect()
}

fn add(counted: &mut HashMap<String, CountedFile>, record: &Record) {
    let (file, offset, is_write) = match &record.call {
        Call::Read { file, offset: Some(offset), .. } => (file, *offset, false),
        Call::Write { file, offset: Some(offset), .. } => (file, *offset, true),
        _ => return,
    };
    let moved = record.outcome.unwrap_or(0);
    let path: &Path = &file.path;
    if moved == 0 {
        return;
    }
    if let Some(file) = counted.get_mut(path.to_string_lossy().as_ref()) {
        file.add(offset, moved, is_write, record.duration);
    }
}

impl CountedFile {
    fn add(&mut self, offset: u64, moved: u64, is_write: bool, time_ns: u64) {
        let end = offset.saturating_add(moved);
        // Bytes of each dataset that the access has.
        let mut met: BTreeMap<u32, u64> = BTreeMap::new();
        let mut meets = |dataset: u32, bytes: u64| *met.entry(dataset).or_default() += bytes;
        let ranges = &self.map.ranges;
        let first = ranges.partition_point(|range| range.end <= offset);
        for range in ranges[first..].iter().take_while(|range| range.begin < end) {
            let bytes = range.end.min(end).saturating_sub(range.begin.max(offset));
            if bytes > 0 {
                meets(range.dataset, bytes);
            }
        }
        if let Some(records) = &self.map.records {
            records.meet(offset, end, &mut meets);
        }
        let of_datasets: u64 = met.values().sum();
        // The time of an access belongs to what it has, by bytes.
        let share = |bytes: u64| {
            u64::try_from(u128::from(time_ns) * u128::from(bytes) / u128::from(moved)).unwrap_or(0)
        };
        let access = |row: &mut DatasetRow, bytes: u64| {
            let (count, sum) = if is_write {
                (&mut row.writes, &mut row.bytes_written)
            } else {
                (&mut row.reads, &mut row.bytes_read)
            };
            *count += 1;
            *sum += bytes;
            row.time_ns += share(bytes);
            row.small += u64::from(moved < SMALL);
            row.unaligned += u64::from(!offset.is_multiple_of(PAGE));
        };
        for (dataset, bytes) in met {
            if let Some(row) = self.rows.get_mut(dataset as usize) {
                access(row, bytes);
            }
        }
        if of_datasets < moved {
            access(&mut self.metadata, moved - of_datasets);
        }
    }

    fn finish(self, path: String) -> FileDatasets {
        let Self { map, rows, metadata } = self;
        let mut rows: Vec<DatasetRow> = rows
            .into_iter()
            .zip(map.datasets)
            .map(|(row, dataset)| DatasetRow { dataset, ..row })
            .filter(|row| row.reads + row.writes > 0)
            .collect();
        rows.sort_by(|one, other| {
            let bytes = |row: &DatasetRow| row.bytes_read + row.bytes_written;
            bytes(other).cmp(&bytes(one)).then_with(|| one.dataset.cmp(&other.dataset))
        });
        let others = rows.split_off(rows.len().min(LISTED));
        let more = others.len() as u64;
        let rest = others.iter().fold(DatasetRow::default(), |sum, row| DatasetRow {
            dataset: String::new(),
            reads: sum.reads + row.reads,
            writes: sum.writes + row.writes,
            bytes_read: sum.bytes_read + row.bytes_read,
            bytes_written: sum.bytes_written + row.bytes_written,
            time_ns: sum.time_ns + row.time_ns,
            small: sum.small + row.small,
            unaligned: sum.unaligned + row.unaligned,
        });
        if metadata.reads + metadata.writes > 0 {
            rows.insert(0, metadata);
        }
        FileDatasets { path, format: map.format, notes: map.notes, datasets: rows, more, rest }
    }
}

impl RecordRanges {
    /// The parts of records between two places of the file. Whole records in between are counted
    /// at once.
    fn meet(&self, offset: u64, end: u64, meets: &mut dyn FnMut(u32, u64)) {
        let from = offset.max(self.begin);
        if self.stride == 0 || from >= end {
            return;
        }
        let (first, last) =
            ((from - self.begin) / self.stride, (end - 1 - self.begin) / self.stride);
        let mut partly = |record: u64| {
            let start = self.begin + record * self.stride;
            for part in &self.parts {
                let (begin, until) = (start + part.begin, start + part.end);
                let bytes = until.min(end).saturating_sub(begin.max(from));
                if bytes > 0 {
                    meets(part.dataset, bytes);
                }
            }
        };
        partly(first);
        if last > first {
            partly(last);
        }
        let whole = (last - first).saturating_sub(1);
        if whole > 0 {
            for part in &self.parts {
                meets(part.dataset, (part.end - part.begin) * whole);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(begin: u64, end: u64, dataset: u32) -> DatasetRange {
        DatasetRange { begin, end, dataset }
    }

    fn file(map: DatasetMap) -> CountedFile {
        let rows = vec![DatasetRow::default(); map.datasets.len()];
        CountedFile { map, rows, metadata: DatasetRow::default() }
    }

    #[test]
    fn bytes_belong_to_what_they_are_in() {
        let ranges = vec![range(100, 200, 0), range(200, 300, 1), range(400, 500, 0)];
        let names = vec!["/a".to_owned(), "/b".to_owned()];
        let mut file = file(DatasetMap { datasets: names, ranges, ..DatasetMap::default() });
        file.add(50, 200, false, 2000);
        file.add(4096, 1 << 20, true, 7);
        file.add(450, 20, true, 5);
        let found = file.finish("x".into());
        let names: Vec<&str> = found.datasets.iter().map(|row| &*row.dataset).collect();
        assert_eq!(names, ["", "/a", "/b"]);
        let [metadata, a, b] = &found.datasets[..] else { panic!("{found:?}") };
        assert_eq!((metadata.bytes_read, metadata.bytes_written), (50, 1 << 20));
        assert_eq!((a.reads, a.writes, a.bytes_read, a.bytes_written), (1, 1, 100, 20));
        assert_eq!((b.reads, b.bytes_read, b.time_ns), (1, 50, 500));
        assert_eq!((a.small, a.unaligned, metadata.small, metadata.unaligned), (2, 2, 1, 1));
    }

    /// Each byte by itself: the twin.
    #[test]
    fn records_are_found_by_arithmetic() {
        let parts = vec![range(0, 3, 0), range(4, 9, 1)];
        let records = RecordRanges { begin: 20, stride: 10, parts };
        for offset in 0..60 {
            for end in offset + 1..80 {
                let (mut found, mut expected) = ([0; 2], [0; 2]);
                records.meet(offset, end, &mut |dataset, bytes| found[dataset as usize] += bytes);
                for at in offset.max(20)..end {
                    let within = (at - 20) % 10;
                    for part in &records.parts {
                        let inside = part.begin <= within && within < part.end;
                        expected[part.dataset as usize] += u64::from(inside);
                    }
                }
                assert_eq!(found, expected, "{offset}..{end}");
            }
        }
    }

    #[test]
    fn few_datasets_are_listed() {
        let ranges = (0..100).map(|n| range(n * 10, n * 10 + 10, n as u32)).collect();
        let datasets = (0..100).map(|n| format!("/{n}")).collect();
        let mut file = file(DatasetMap { datasets, ranges, ..DatasetMap::default() });
        file.add(0, 1000, false, 1000);
        let found = file.finish("x".into());
        assert_eq!((found.datasets.len(), found.more, found.rest.bytes_read), (LISTED, 80, 800));
    }
}
