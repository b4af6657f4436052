//! Traces: what is written is read again, up to where a file is cut or damaged; what a stage
//! records.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

use program::Program;
use proptest::prelude::*;
use rustix::io::Errno;
use striate_process::Origin;
use striate_stack::{Detail, Function};
use striate_trace::{
    Call, Header, Record, RecordedCall, Subject, Trace, TraceError, TracedEnd, TracedFile, Writer,
};

fn header() -> Header {
    let origin = Origin {
        process: 17,
        parent: 1,
        rank: Some(3),
        host: "host".into(),
        command: vec!["a".into(), String::new(), "b c".into()],
    };
    let directory = PathBuf::from("/home/somebody");
    Header { origin, directory, began: 1 << 60, clock: 1 << 40, label: "top".into(), place: 2 }
}

fn files() -> impl Strategy<Value = Arc<TracedFile>> {
    // Some numbers want the same place of what is remembered.
    let numbers = prop_oneof![0..6_u64, Just(256), Just(u64::MAX - 1)];
    (numbers, 0..3_u32).prop_map(|(number, opener)| {
        let path = PathBuf::from(format!("/data/{number}-{opener}.nc"));
        let flags = if number % 2 == 0 { 0 } else { libc::O_RDWR | libc::O_APPEND };
        Arc::new(TracedFile { opener, number, path, flags })
    })
}

fn paths() -> impl Strategy<Value = Arc<Path>> {
    "/[a-c]{1,2}(/[x-z]{0,3})?".prop_map(|text| PathBuf::from(text).into())
}

fn subjects() -> impl Strategy<Value = Subject<Arc<TracedFile>, Arc<Path>>> {
    prop_oneof![files().prop_map(Subject::File), paths().prop_map(Subject::Name)]
}

fn ends() -> impl Strategy<Value = TracedEnd<Arc<TracedFile>>> {
    (proptest::option::of(files()), any::<i32>(), offsets())
        .prop_map(|(file, descriptor, at)| TracedEnd { file, descriptor, at })
}

fn offsets() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0..5_u64).prop_map(|n| Some(n * 512)), (0..u64::MAX).prop_map(Some)]
}

fn transfers() -> impl Strategy<Value = RecordedCall> {
    let (lengths, flags, parts) = (
        prop_oneof![Just(512_u64), any::<u64>()],
        prop_oneof![4 => Just(0), 1 => any::<i32>()],
        prop_oneof![4 => Just(1_u32), 1 => any::<u32>()],
    );
    (files(), any::<(bool, bool)>(), offsets(), lengths, flags, parts).prop_map(
        |(file, (reads, placed), offset, length, flags, parts)| {
            if reads {
                Call::Read { file, placed, offset, length, flags, parts }
            } else {
                Call::Write { file, placed, offset, length, flags, parts }
            }
        },
    )
}

fn calls() -> impl Strategy<Value = RecordedCall> {
    let numbers = any::<(i32, u64, u64, bool, u32)>();
    let others =
        (0..17, files(), (paths(), paths()), subjects(), (ends(), ends()), numbers, offsets());
    let others = others.prop_map(|(which, file, (path, to), of, ends, numbers, size)| {
        let (small, a, b, truth, mode) = numbers;
        match which {
            0 => Call::Open { file, path, flags: small, mode, size },
            1 => Call::Close { file, descriptor: small, last: truth },
            2 => Call::Seek { file, offset: a.cast_signed(), whence: small },
            3 => Call::Sync { file, data_only: truth },
            4 => Call::Truncate { file, length: a },
            5 => Call::Allocate { file, mode: small, offset: a, length: b },
            6 => Call::Stat { of, flags: small, size, mode: truth.then_some(mode) },
            7 => Call::Rename { from: path, to, flags: mode },
            8 => Call::Unlink { path, flags: small },
            9 => Call::MakeDirectory { path, mode },
            10 => Call::ReadDirectory { path },
            11 => Call::Duplicate { file, descriptor: small },
            12 => Call::Control { file, descriptor: small, command: small, argument: a },
            13 => Call::Map { file, offset: a, length: b, writable: truth },
            14 => Call::CopyRange { from: ends.0, to: ends.1, length: a },
            15 => Call::SendFile { from: ends.0, to: ends.1, length: b },
            _ => {
                let text = truth.then_some(path);
                let detail = Detail { text, flags: small, numbers: [a, b, 0, u64::from(mode)] };
                Call::Notice { of, detail }
            }
        }
    });
    prop_oneof![2 => transfers(), 1 => others]
}

fn records() -> impl Strategy<Value = Record> {
    let function = (0..Function::ALL.len()).prop_map(|n| Function::ALL[n]);
    let function = prop_oneof![3 => Just(Function::Pwrite), 1 => function];
    let outcome =
        prop_oneof![Just(Ok(512)), (0..1_u64 << 62).prop_map(Ok), (1..4096_i32).prop_map(Err)];
    let times = (0..1_u64 << 42, 0..1_u64 << 30);
    (function, 1..4_u32, times, outcome, calls()).prop_map(
        |(function, thread, (start, duration), outcome, call)| Record {
            function,
            thread,
            start,
            duration,
            outcome,
            known: true,
            call,
        },
    )
}

fn written(directory: &Path, records: &[Record]) -> PathBuf {
    let path = directory.join("a.trace");
    let mut writer = Writer::create(&path, &header()).unwrap();
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap();
    path
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in proptest::collection::vec(records(), 0..80)) {
        let directory = tempfile::tempdir().unwrap();
        let trace = Trace::open(&written(directory.path(), &records)).unwrap();
        prop_assert_eq!(trace.header(), &header());
        let read: Vec<Record> = trace.records().map(Result::unwrap).collect();
        prop_assert_eq!(&read, &records);
        let (blocks, damage) = trace.blocks();
        prop_assert!(damage.is_none());
        let in_blocks: Vec<Record> =
            blocks.iter().flat_map(|block| trace.block(block).unwrap()).collect();
        prop_assert_eq!(&in_blocks, &records);
        // One shard keeps its order, whatever the times are.
        let ordered: Vec<Record> = trace.in_order().map(Result::unwrap).collect();
        prop_assert_eq!(&ordered, &records);
    }
}

/// Writes of a process, so many that there are several blocks.
fn many(count: u64) -> Vec<Record> {
    let path = PathBuf::from("/data/a.nc");
    let file = Arc::new(TracedFile { opener: 1, number: 1, path, flags: libc::O_WRONLY });
    let write = |n: u64| Record {
        function: Function::Pwrite,
        thread: 1,
        start: (1 << 40) + n * 1_000_000,
        duration: n * n % 1000,
        outcome: Ok(n % 7 * 100),
        known: true,
        call: Call::Write {
            file: Arc::clone(&file),
            placed: true,
            offset: Some(n * n),
            length: 600,
            flags: 0,
            parts: 1,
        },
    };
    (0..count).map(write).collect()
}

#[test]
fn a_cut_trace_is_read_up_to_the_cut() {
    let directory = tempfile::tempdir().unwrap();
    let records = many(30_000);
    let path = written(directory.path(), &records);
    let bytes = std::fs::read(&path).unwrap();
    let (blocks, _) = Trace::open(&path).unwrap().blocks();
    assert!(blocks.len() >= 3, "{}", blocks.len());
    assert!(blocks.windows(2).all(|pair| pair[0].until <= pair[1].from));
    let cut = directory.path().join("cut.trace");
    for length in [
        bytes.len() - 1,
        bytes.len() - 100,
        blocks[2].offset as usize + 5,
        blocks[2].offset as usize,
        200,
    ] {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let trace = Trace::open(&cut).unwrap();
        let whole: u64 = blocks
            .iter()
            .enumerate()
            .filter(|(n, _)| {
                blocks.get(n + 1).map_or(bytes.len() - 400, |next| next.offset as usize) <= length
            })
            .map(|(_, block)| u64::from(block.count))
            .sum();
        let (mut read, mut damage) = (0, None);
        for record in trace.records() {
            match record {
                Ok(record) => {
                    assert_eq!(record, records[read]);
                    read += 1;
                }
                Err(found) => damage = Some(found),
            }
        }
        assert_eq!(read as u64, whole, "cut at {length}");
        let clean = length == blocks[2].offset as usize;
        assert_eq!(damage.is_none(), clean, "cut at {length}: {damage:?}");
        let ordered = trace.in_order();
        assert_eq!(ordered.flatten().count(), read);
    }
    std::fs::write(&cut, &bytes[..50]).unwrap();
    assert!(matches!(Trace::open(&cut), Err(TraceError::Damaged { .. })));
    std::fs::write(&cut, b"something else").unwrap();
    assert!(matches!(Trace::open(&cut), Err(TraceError::Foreign(_))));
    let mut newer = bytes.clone();
    newer[8] = 9;
    std::fs::write(&cut, newer).unwrap();
    assert!(matches!(Trace::open(&cut), Err(TraceError::Version { version: 9, .. })));
}

#[test]
fn a_changed_byte_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let records = many(12_000);
    let bytes = std::fs::read(written(directory.path(), &records)).unwrap();
    let path = directory.path().join("changed.trace");
    for at in (0..bytes.len()).step_by(bytes.len() / 97) {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        std::fs::write(&path, &changed).unwrap();
        let Ok(trace) = Trace::open(&path) else { continue };
        let mut read = 0;
        let mut damaged = false;
        for record in trace.records() {
            match record {
                Ok(record) => {
                    assert_eq!(record, records[read], "byte {at} was changed");
                    read += 1;
                }
                Err(damage) => {
                    assert!(!damage.to_string().is_empty());
                    damaged = true;
                }
            }
        }
        assert!(damaged || read == records.len());
    }
}

#[test]
fn long_traces_are_indexed_in_parts() {
    let directory = tempfile::tempdir().unwrap();
    let path = PathBuf::from(format!("/{}", "a-long-name".repeat(200)));
    let mut writer = Writer::create(directory.path().join("long.trace"), &header()).unwrap();
    // Each has a path of its own that fills a part of a block.
    let mut count = 0;
    for n in 0..45_000_u64 {
        let path = path.join(n.to_string()).into();
        let call = Call::Unlink { path, flags: 0 };
        let (function, outcome) = (Function::Unlink, Ok(n));
        let record =
            Record { function, thread: 1, start: n, duration: 1, outcome, known: true, call };
        writer.write(&record).unwrap();
        count += 1;
    }
    let path = writer.path().to_path_buf();
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    let (blocks, damage) = trace.blocks();
    assert!(damage.is_none() && blocks.len() > 1024, "{}", blocks.len());
    let sum: u64 = blocks.iter().map(|block| u64::from(block.count)).sum();
    assert_eq!(sum, count);
    // Compressed, it is no larger than a hundredth.
    assert!(std::fs::metadata(&path).unwrap().len() < 45_000 * 2200 / 20);
}

fn tracing(directory: &Path) -> Program {
    let at = directory.display();
    Program::new(&format!("[paths]\n[[stage]]\nkind = 'trace'\ndirectory = '{at}'\nlabel = 'l'"))
}

fn traces(directory: &Path) -> Vec<Trace> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "trace")).collect();
    paths.sort();
    paths.iter().map(|path| Trace::open(path).unwrap()).collect()
}

#[test]
fn a_stage_records_all_that_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let program = tracing(directory.path());
    let [path, other] = ["data.nc", "other"].map(|name| directory.path().join(name));
    std::fs::write(&path, [5; 100]).unwrap();
    let file = program.open(&path, libc::O_RDWR).unwrap();
    let mut buffer = [0; 80];
    assert_eq!(program.read(&file, &mut buffer, None), Ok(80));
    assert_eq!(program.read(&file, &mut buffer, None), Ok(20));
    assert_eq!(program.write(&file, &[1; 10], Some(7)), Ok(10));
    assert_eq!(program.write(&file, &[1; 10], None), Ok(10));
    assert_eq!(program.seek(&file, 3, libc::SEEK_SET), Ok(3));
    assert_eq!(program.write(&file, &[1; 10], None), Ok(10));
    // From now on the kernel is asked, since others may move it.
    program.stack.share(&file).unwrap();
    rustix::fs::seek(file.descriptor().unwrap(), rustix::fs::SeekFrom::Start(60)).unwrap();
    assert_eq!(program.write(&file, &[1; 10], None), Ok(10));
    assert_eq!(program.truncate(&file, 50), Ok(0));
    program.close(&file).unwrap();
    program.stat(&path).unwrap();
    program.rename(&path, &other).unwrap();
    assert_eq!(program.open(&path, 0).err(), Some(Errno::NOENT));
    program.stack.finish().unwrap();

    let traces = traces(directory.path());
    let [trace] = &traces[..] else { panic!("{} traces", traces.len()) };
    let header = trace.header();
    assert_eq!((header.origin.process, header.label.as_str()), (std::process::id(), "l"));
    let records: Vec<Record> = trace.in_order().map(Result::unwrap).collect();
    let kinds: Vec<_> = records.iter().map(|record| record.call.kind().name()).collect();
    let wanted = ["open", "read", "read", "write", "write", "seek", "write", "write", "truncate"];
    assert_eq!(kinds[..9], wanted);
    assert_eq!(kinds[9..], ["close", "stat", "rename", "open"]);
    assert!(records.windows(2).all(|pair| pair[0].start <= pair[1].start));
    assert!(records.iter().all(|record| record.thread == records[0].thread));
    let Call::Open { size: Some(100), flags: libc::O_RDWR, mode: 0o644, .. } = records[0].call
    else {
        panic!("{:?}", records[0]);
    };
    let places: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.call {
            Call::Read { placed, offset, length, .. }
            | Call::Write { placed, offset, length, .. } => {
                Some((*placed, *offset, *length, record.outcome))
            }
            _ => None,
        })
        .collect();
    let at = |placed, offset, length, moved| (placed, Some(offset), length, Ok(moved));
    assert_eq!(
        places,
        [
            at(false, 0, 80, 80),
            at(false, 80, 80, 20),
            at(true, 7, 10, 10),
            at(false, 100, 10, 10),
            at(false, 3, 10, 10),
            at(false, 60, 10, 10)
        ]
    );
    let Call::Rename { from, to, .. } = &records[11].call else { panic!("{:?}", records[11]) };
    assert_eq!((&**from, &**to), (&*path, &*other));
    assert!(matches!(records[10].call, Call::Stat { size: Some(50), .. }));
    assert_eq!(records[12].outcome, Err(Errno::NOENT.raw_os_error()));
    let opened = records[0].call.file().unwrap();
    assert!(records[1..10].iter().all(|record| record.call.file() == Some(opened)));
}

#[test]
fn threads_keep_their_order_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let program = tracing(directory.path());
    let file = program.open(&directory.path().join("data"), libc::O_CREAT | libc::O_RDWR).unwrap();
    let together = Barrier::new(70);
    std::thread::scope(|scope| {
        for thread in 0..70_u64 {
            let (program, file, together) = (&program, &file, &together);
            scope.spawn(move || {
                together.wait();
                for n in 0..3_000 {
                    program.write(file, b"x", Some(thread * 100_000 + n)).unwrap();
                }
                together.wait();
            });
        }
    });
    program.stack.finish().unwrap();
    let traces = traces(directory.path());
    for in_order in [true, false] {
        let mut next: HashMap<u32, u64> = HashMap::new();
        let mut count = 0;
        let mut check = |record: Record| {
            if let Call::Write { offset: Some(offset), .. } = record.call {
                let expected = next.entry(record.thread).or_insert(offset);
                assert_eq!(offset, *expected);
                *expected += 1;
                count += 1;
            }
        };
        if in_order {
            traces[0].in_order().map(Result::unwrap).for_each(&mut check);
        } else {
            traces[0].records().map(Result::unwrap).for_each(&mut check);
        }
        assert_eq!((count, next.len()), (70 * 3_000, 70));
    }
}

#[test]
fn a_trace_without_an_end_is_read_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let program = tracing(directory.path());
    let file = program.open(&directory.path().join("data"), libc::O_CREAT | libc::O_RDWR).unwrap();
    for n in 0..20_000_u64 {
        program.write(&file, b"abc", Some(n * n % 99_991)).unwrap();
    }
    // As if the process was killed now.
    let trace = &traces(directory.path())[0];
    let before = trace.records().map(Result::unwrap).count();
    assert!(before > 1000, "{before}");
    program.stack.settle_all().unwrap();
    assert_eq!(trace.records().map(Result::unwrap).count(), 20_001);
    assert_eq!(trace.in_order().map(Result::unwrap).count(), 20_001);
    // A copy of the process has a trace of its own, and goes on with its files.
    program.stack.start_anew();
    program.write(&file, b"abc", Some(0)).unwrap();
    program.stack.finish().unwrap();
    let traces = traces(directory.path());
    assert_eq!(traces.len(), 2);
    let sum: usize = traces.iter().map(|trace| trace.records().count()).sum();
    assert_eq!(sum, 20_002);
}
