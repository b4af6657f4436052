//! Recordings: read, merged, cut, counted and exported as an obvious model says; damage is told.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use striate_recording::{Filter, Owners, Recording, Stats, cut, export, filter, merge};
use striate_trace::{
    Call, Function, Header, Kind, Kinds, Origin, PreopenedFile, Record, Trace, TraceError,
    TracedFile, Writer,
};
use support::{Model, expected, file, recordings, written};

fn all(recording: &Recording) -> Vec<(u32, Record)> {
    of_order(recording, recording.in_order())
}

fn of_order(
    recording: &Recording,
    order: impl Iterator<Item = (usize, Record)>,
) -> Vec<(u32, Record)> {
    let pid = |index: usize| recording.processes()[index].header().origin.process;
    order.map(|(index, record)| (pid(index), record)).collect()
}

fn filters() -> impl Strategy<Value = Filter> {
    let times = proptest::option::of((0..200_000_u64, 0..300_000_u64));
    let lists = (
        proptest::collection::vec(99..104_u32, 0..2),
        proptest::collection::vec(0..4_u32, 0..2),
        proptest::collection::vec(100..106_u32, 0..2),
    );
    (times, lists, proptest::option::of(0..3_u8), proptest::option::of(0..3_u8)).prop_map(
        |(times, (processes, ranks, threads), kinds, paths)| {
            let kinds = kinds.map(|which| match which {
                0 => Kinds::of(&[Kind::Read]),
                1 => Kinds::of(&[Kind::Write, Kind::Open]),
                _ => Kinds::ALL,
            });
            let patterns = ["*.nc", "/data/[12].*", "/elsewhere/**"];
            let paths = paths.map(|which| vec![patterns[usize::from(which)].to_owned()]);
            let paths = filter::paths(&paths.unwrap_or_default()).unwrap();
            let (from, to) = (times.map(|times| times.0), times.map(|times| times.0 + times.1));
            Filter { from, to, processes, ranks, threads, kinds, paths, ..Filter::default() }
        },
    )
}

/// The filter, said once more.
fn passes(filter: &Filter, models: &[Model], pid: u32, record: &Record) -> bool {
    let model = models.iter().find(|model| model.header.origin.process == pid).unwrap();
    let rank = model.header.origin.rank;
    let mut paths: Vec<&Path> = Vec::new();
    paths.extend(record.call.path().map(|path| &**path));
    paths.extend(record.call.file().map(|file| file.path.as_path()));
    if let Call::Rename { to, .. } = &record.call {
        paths.push(to);
    }
    if let Call::CopyRange { to, .. } = &record.call {
        paths.extend(to.file.as_ref().map(|file| file.path.as_path()));
    }
    let globs = filter.paths.as_ref();
    filter.from.is_none_or(|from| from <= record.start)
        && filter.to.is_none_or(|to| record.start < to)
        && (filter.processes.is_empty() || filter.processes.contains(&pid))
        && (filter.ranks.is_empty() || rank.is_some_and(|rank| filter.ranks.contains(&rank)))
        && (filter.threads.is_empty() || filter.threads.contains(&record.thread))
        && filter.kinds.is_none_or(|kinds| kinds.has(record.call.kind()))
        && globs.is_none_or(|globs| paths.iter().any(|path| globs.is_match(path)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_merged_recording_answers_as_the_directory(models in recordings()) {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), &models);
        let recording = Recording::open(directory.path()).unwrap();
        let wanted = expected(&models);
        prop_assert_eq!(all(&recording), wanted.clone());
        prop_assert!(recording.complaints().is_empty());
        let other = tempfile::tempdir().unwrap();
        let path = other.path().join("merged.trace");
        merge(&recording, &path).unwrap();
        let merged = Recording::open(&path).unwrap();
        prop_assert_eq!(all(&merged), wanted);
        prop_assert_eq!(merged.began(), recording.began());
        prop_assert_eq!(merged.length(), recording.length());
        for (index, (a, b)) in recording.processes().iter().zip(merged.processes()).enumerate() {
            prop_assert_eq!((a.header(), a.records(), a.span()), (b.header(), b.records(), b.span()));
            prop_assert_eq!(a.source(), b.source());
            let alone = of_order(&merged, merged.records(index));
            prop_assert_eq!(alone.len() as u64, a.records());
            // By the index, and by going through it.
            let (blocks, damage) = b.trace().blocks();
            prop_assert!(damage.is_none());
            prop_assert_eq!(&blocks[..], b.blocks());
        }
        // Merged again, it is the same file.
        let again = other.path().join("again.trace");
        merge(&merged, &again).unwrap();
        prop_assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
        if models.len() > 1 {
            let several = matches!(Trace::open(&path), Err(TraceError::Several { .. }));
            prop_assert!(several);
        }
    }

    #[test]
    fn what_is_cut_is_what_passes(models in recordings(), filter in filters()) {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), &models);
        let recording = Recording::open(directory.path()).unwrap();
        let mut wanted = expected(&models);
        wanted.retain(|(pid, record)| passes(&filter, &models, *pid, record));
        prop_assert_eq!(of_order(&recording, recording.filtered(&filter)), wanted.clone());
        let other = tempfile::tempdir().unwrap();
        let path = other.path().join("cut.trace");
        let count = cut(&recording, &filter, &path).unwrap();
        prop_assert_eq!(count, wanted.len() as u64);
        let made = Recording::open(&path).unwrap();
        prop_assert_eq!(all(&made), wanted.clone());
        // Every file is opened in the cut or known to be open.
        for (index, process) in made.processes().iter().enumerate() {
            let preopened = process.preopened().unwrap();
            let mut known: Vec<_> =
                preopened.iter().map(|preopened| (preopened.file.opener, preopened.file.number)).collect();
            let opens = |record: &Record| {
                matches!(record.call, Call::Open { .. }) && record.outcome.is_ok()
            };
            let key = |record: &Record| record.call.file().map(|file| (file.opener, file.number));
            known.extend(made.records(index).filter_map(|(_, record)| key(&record).filter(|_| opens(&record))));
            for (_, record) in made.records(index) {
                let open = matches!(record.call, Call::Open { .. });
                prop_assert!(open || key(&record).is_none_or(|key| known.contains(&key)));
            }
        }
        // To cut the same again changes nothing.
        let again = other.path().join("again.trace");
        cut(&made, &filter, &again).unwrap();
        prop_assert_eq!(all(&Recording::open(&again).unwrap()), wanted);
    }

    #[test]
    fn statistics_and_exports_have_every_record(models in recordings()) {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), &models);
        let recording = Recording::open(directory.path()).unwrap();
        let wanted = expected(&models);
        let stats = Stats::of(&recording, &Filter::default(), None);
        prop_assert_eq!(stats.total.calls, wanted.len() as u64);
        let sum = |kind: Kind| wanted.iter().filter(|(_, record)| record.call.kind() == kind)
            .map(|(_, record)| record.outcome.unwrap_or(0)).sum::<u64>();
        prop_assert_eq!(stats.total.reads.bytes, sum(Kind::Read));
        prop_assert_eq!(stats.total.writes.bytes, sum(Kind::Write));
        prop_assert_eq!(stats.total.copied, sum(Kind::CopyRange));
        let time: u64 = wanted.iter().map(|(_, record)| record.duration).sum();
        prop_assert_eq!(stats.total.time, time);
        prop_assert_eq!(stats.total.reads.sizes.iter().sum::<u64>(), stats.total.reads.calls);
        for parts in [
            stats.processes.iter().map(|figures| figures.calls).sum::<u64>(),
            stats.files.values().map(|file| file.figures.calls).sum(),
            stats.functions.values().map(|figures| figures.calls).sum(),
        ] {
            prop_assert_eq!(parts, stats.total.calls);
        }
        check_patterns(&stats, &wanted)?;

        let exported = |format| {
            let mut bytes = Vec::new();
            export::write(&recording, &Filter::default(), format, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let rows: Vec<Value> = exported(export::ExportFormat::Jsonl)
            .lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(rows.len(), wanted.len());
        for (row, (pid, record)) in rows.iter().zip(&wanted) {
            prop_assert_eq!(row["start"].as_u64(), Some(record.start));
            prop_assert_eq!(row["duration"].as_u64(), Some(record.duration));
            prop_assert_eq!(row["process"].as_u64(), Some(u64::from(*pid)));
            prop_assert_eq!(row["function"].as_str(), Some(record.function.name()));
            prop_assert_eq!(row["result"].as_u64(), record.outcome.ok());
            prop_assert_eq!(row["error"].is_string(), record.outcome.is_err());
        }
        let csv = exported(export::ExportFormat::Csv);
        let mut lines = csv.lines();
        let columns = lines.next().unwrap().split(',').count();
        for (line, row) in lines.zip(&rows) {
            let cells = cells(line);
            prop_assert_eq!(cells.len(), columns);
            prop_assert_eq!(cells[0].parse().ok(), row["start"].as_u64());
            prop_assert_eq!(cells[9].as_str(), row["to"].as_str().unwrap_or(""));
        }
        prop_assert_eq!(csv.lines().count(), wanted.len() + 1);
        let events: Value = serde_json::from_str(&exported(export::ExportFormat::Perfetto)).unwrap();
        let events = events["traceEvents"].as_array().unwrap();
        let calls: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        prop_assert_eq!(calls.len(), wanted.len());
        for (event, (_, record)) in calls.iter().zip(&wanted) {
            prop_assert_eq!((event["ts"].as_f64().unwrap() * 1000.0).round() as u64, record.start);
            prop_assert_eq!(event["tid"].as_u64(), Some(record.thread.into()));
        }
        let named = |event: &&Value| event["name"] == "process_name";
        prop_assert_eq!(events.iter().filter(named).count(), models.len());
    }

    #[test]
    fn damage_leaves_a_prefix_of_every_process(
        models in recordings(), at: prop::sample::Index, bit in 0..8_u8, cut_off: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        written(directory.path(), &models);
        let recording = Recording::open(directory.path()).unwrap();
        let path = directory.path().join("merged");
        merge(&recording, &path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        if cut_off { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let Ok(damaged) = Recording::in_memory(Path::new("damaged"), bytes) else { return Ok(()) };
        let mut complete = damaged.processes().len() == models.len();
        for process in damaged.processes() {
            let pid = process.header().origin.process;
            // A header with another checksum is not believed.
            let model = models.iter().find(|model| model.header.origin.process == pid).unwrap();
            let read: Vec<Record> = process.trace().shard(process.blocks().to_vec())
                .map(Result::unwrap).collect();
            prop_assert_eq!(&read[..], &model.records[..read.len()]);
            complete &= read.len() == model.records.len();
        }
        prop_assert!(complete || !damaged.complaints().is_empty());
        // Whatever is read is read in order.
        prop_assert_eq!(damaged.in_order().count() as u64, damaged.records_count());
    }
}

/// Sequential, consecutive and unaligned calls, counted once more.
fn check_patterns(stats: &Stats, wanted: &[(u32, Record)]) -> Result<(), TestCaseError> {
    let mut ends: BTreeMap<(u32, bool, &Path), u64> = BTreeMap::new();
    let (mut sequential, mut consecutive, mut unaligned) = (0, 0, 0);
    for (pid, record) in wanted {
        let (Call::Read { file, offset: Some(offset), .. }
        | Call::Write { file, offset: Some(offset), .. }) = &record.call
        else {
            continue;
        };
        let Ok(moved) = record.outcome else { continue };
        let reads = record.call.kind() == Kind::Read;
        let end = ends.insert((*pid, reads, &file.path), offset + moved);
        sequential += u64::from(end.is_some_and(|end| *offset >= end));
        consecutive += u64::from(end == Some(*offset));
        unaligned += u64::from(offset % 4096 != 0);
    }
    let (reads, writes) = (&stats.total.reads, &stats.total.writes);
    prop_assert_eq!(reads.sequential + writes.sequential, sequential);
    prop_assert_eq!(reads.consecutive + writes.consecutive, consecutive);
    prop_assert_eq!(reads.unaligned + writes.unaligned, unaligned);
    Ok(())
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted, mut chars) = (vec![String::new()], false, line.chars().peekable());
    while let Some(c) = chars.next() {
        let cell = cells.last_mut().unwrap();
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    cells
}

fn record(
    function: Function,
    start: u64,
    outcome: u64,
    call: striate_trace::RecordedCall,
) -> Record {
    Record { function, thread: 7, start, duration: 10, outcome: Ok(outcome), known: true, call }
}

fn one_process(directory: &Path, records: &[Record]) -> Recording {
    let origin = Origin { process: 7, parent: 1, command: vec!["cp".into()], ..Origin::default() };
    let header = Header { origin, clock: 1000, began: 5_000_001_000, ..Header::default() };
    let mut writer = Writer::create(directory.join("a.trace"), &header).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap();
    Recording::open(directory).unwrap()
}

/// Opens, writes 10 + 20 bytes, duplicates, seeks, reads, closes.
fn story() -> Vec<Record> {
    let file = || file(7, 1);
    let path = || -> Arc<Path> { file().path.as_path().into() };
    let write = |offset, length| Call::Write {
        file: file(),
        placed: false,
        offset: Some(offset),
        length,
        flags: 0,
        parts: 1,
    };
    let read =
        Call::Read { file: file(), placed: false, offset: Some(5), length: 8, flags: 0, parts: 1 };
    vec![
        record(
            Function::Open,
            2000,
            3,
            Call::Open { file: file(), path: path(), flags: 66, mode: 0o644, size: Some(4) },
        ),
        record(Function::Write, 3000, 10, write(0, 10)),
        record(Function::Dup, 3500, 0, Call::Duplicate { file: file(), descriptor: 5 }),
        record(Function::Write, 4000, 20, write(10, 20)),
        record(Function::Lseek, 5000, 5, Call::Seek { file: file(), offset: 5, whence: 0 }),
        record(Function::Read, 6000, 8, read),
        record(Function::Close, 7000, 0, Call::Close { file: file(), descriptor: 3, last: false }),
        record(Function::Close, 8000, 0, Call::Close { file: file(), descriptor: 5, last: true }),
    ]
}

#[test]
fn files_that_were_open_before_a_cut_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let recording = one_process(directory.path(), &story());
    // The trace began at 1000: that is time 0.
    let preopened = |name: &str, filter: Filter| {
        let path = directory.path().join(name);
        cut(&recording, &filter, &path).unwrap();
        let made = Recording::open(&path).unwrap();
        assert_eq!(made.began(), 5_000_001_000);
        made.processes()[0].preopened().unwrap()
    };
    let wanted = |position, size, descriptors: &[i32]| PreopenedFile {
        file: (*file(7, 1)).clone(),
        position: Some(position),
        size: Some(size),
        descriptors: descriptors.to_vec(),
    };
    let from = |from| Filter { from: Some(from), ..Filter::default() };
    assert_eq!(preopened("a", from(2500)), [wanted(10, 10, &[3])]);
    assert_eq!(preopened("b", from(3500)), [wanted(30, 30, &[3, 5])]);
    assert_eq!(preopened("c", from(4500)), [wanted(5, 30, &[3, 5])]);
    assert_eq!(preopened("d", from(6500)), [wanted(13, 30, &[5])]);
    assert_eq!(preopened("e", Filter::default()), []);
    // The open is cut away by its kind: the file is as it was at the first read.
    let kinds = Some(Kinds::of(&[Kind::Read]));
    assert_eq!(preopened("f", Filter { kinds, ..Filter::default() }), [wanted(5, 30, &[3, 5])]);
    // What was cut once is known when it is cut again.
    let path = directory.path().join("c");
    let again = directory.path().join("again");
    cut(&Recording::open(&path).unwrap(), &from(5500), &again).unwrap();
    let again = Recording::open(&again).unwrap();
    assert_eq!(again.processes()[0].preopened().unwrap(), [wanted(13, 30, &[3, 5])]);
    assert_eq!(again.in_order().map(|(_, record)| record.start).collect::<Vec<_>>(), [6000, 7000]);
}

#[test]
fn counters_are_those_of_darshan() {
    let directory = tempfile::tempdir().unwrap();
    let recording = one_process(directory.path(), &story());
    let mut text = Vec::new();
    let filter = Filter::default();
    export::write(&recording, &filter, export::ExportFormat::Darshan, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let rows: BTreeMap<&str, &str> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(
                (cells.len(), cells[0], cells[1], cells[5]),
                (8, "POSIX", "0", "/data/1.log")
            );
            (cells[3], cells[4])
        })
        .collect();
    for (name, value) in [
        ("POSIX_OPENS", "2"),
        ("POSIX_DUPS", "1"),
        ("POSIX_READS", "1"),
        ("POSIX_WRITES", "2"),
        ("POSIX_SEEKS", "1"),
        ("POSIX_BYTES_READ", "8"),
        ("POSIX_BYTES_WRITTEN", "30"),
        ("POSIX_MAX_BYTE_READ", "12"),
        ("POSIX_MAX_BYTE_WRITTEN", "29"),
        ("POSIX_CONSEC_WRITES", "1"),
        ("POSIX_SEQ_WRITES", "1"),
        ("POSIX_SEQ_READS", "1"),
        ("POSIX_CONSEC_READS", "0"),
        ("POSIX_RW_SWITCHES", "1"),
        ("POSIX_SIZE_WRITE_0_100", "2"),
        ("POSIX_SIZE_READ_0_100", "1"),
        ("POSIX_SIZE_READ_100_1K", "0"),
        ("POSIX_ACCESS1_COUNT", "1"),
        ("POSIX_ACCESS1_ACCESS", "20"),
        ("POSIX_FILE_NOT_ALIGNED", "2"),
        ("POSIX_F_OPEN_START_TIMESTAMP", "0.000001"),
        ("POSIX_F_READ_END_TIMESTAMP", "0.000005"),
        ("POSIX_F_WRITE_TIME", "0.000000"),
    ] {
        assert_eq!(rows.get(name), Some(&value), "{name}");
    }
    assert_eq!(rows.len(), 69 + 17);
}

#[test]
fn a_directory_with_something_else_in_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let empty = Recording::open(directory.path()).unwrap_err();
    assert!(empty.to_string().contains("no traces"), "{empty}");
    one_process(directory.path(), &story());
    std::fs::write(directory.path().join("b.trace"), "something else").unwrap();
    std::fs::write(directory.path().join("notes.txt"), "something else").unwrap();
    let recording = Recording::open(directory.path()).unwrap();
    assert_eq!(recording.records_count(), 8);
    assert_eq!(recording.complaints().len(), 1, "{:?}", recording.complaints());
    // A result must not become a part of what it was made of.
    let within = merge(&recording, &directory.path().join("c.trace")).unwrap_err();
    assert!(within.to_string().contains("part of the recording"), "{within}");
    let path = directory.path().join("merged");
    merge(&recording, &path).unwrap();
    assert!(merge(&recording, &path).is_err(), "it is there");
}

/// Numbers of processes and of files come again; which process opened a file is found all the same.
#[test]
fn a_file_belongs_to_the_process_that_opened_it_last_before() {
    let directory = tempfile::tempdir().unwrap();
    // A process starts another program, has a child by then, and its number is used again later.
    let processes = [(10, 1, 1000), (10, 1, 2000), (11, 10, 3000), (10, 1, 4000)];
    for (place, (process, parent, clock)) in processes.into_iter().enumerate() {
        let origin = Origin { process, parent, host: "here".into(), ..Origin::default() };
        let header = Header { origin, began: 1 << 60, clock, ..Header::default() };
        let path = directory.path().join(format!("{place}.trace"));
        Writer::create(path, &header).unwrap().finish().unwrap();
    }
    let recording = Recording::open(directory.path()).unwrap();
    let owners = Owners::new(&recording);
    let opened_by = |opener: u32| TracedFile { opener, number: 1, path: "/x".into(), flags: 0 };
    for (process, opener, owner) in [
        (0, 10, 0),
        (1, 10, 1),
        (2, 11, 2),
        (2, 10, 1),
        (3, 10, 3),
        // That one is unknown.
        (3, 77, 3),
        (9, 10, 9),
    ] {
        assert_eq!(owners.owner(process, &opened_by(opener)), owner, "{process} {opener}");
    }
}
