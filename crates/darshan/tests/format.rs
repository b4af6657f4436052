//! Logs of all versions, in both byte orders, packed in all ways; and those that are damaged.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use striate_darshan::{
    ByteOrder, Direction, Log, LogError, Module, MpiIo, Posix, PosixTime, Stdio,
};
use striate_testing::darshan_log::{self, Order, Packed, example};

const MINORS: [u32; 5] = [0, 10, 20, 21, 41];

#[test]
fn all_versions_are_read() {
    for minor in MINORS {
        for order in [Order::Little, Order::Big] {
            for packed in [Packed::Zlib, Packed::Bzip2, Packed::Not] {
                check(minor, order, packed);
            }
        }
    }
}

fn check(minor: u32, order: Order, packed: Packed) {
    let what = format!("3.{minor} {order:?} {packed:?}");
    let bytes = example(minor, order, packed).bytes();
    assert!(striate_darshan::is_log(&bytes[..16]), "{what}");
    let log = Log::parse(&bytes).unwrap();
    assert_eq!(log.damage, [], "{what}");
    assert_eq!(log.header.order == ByteOrder::Big, order == Order::Big);
    let job = &log.job;
    assert_eq!((job.id, job.processes, job.user), (4711, 2, 1000), "{what}");
    let length = if minor >= 41 { 12_500_000_000 } else { 13_000_000_000 };
    assert_eq!(job.length_ns, length, "{what}");
    assert_eq!(job.command, "./model -n 2");
    assert_eq!(job.metadata["h"], "cb_nodes=4");
    assert_eq!(job.mounts.len(), 3);
    assert_eq!(log.mount("/lustre/run/x").unwrap().kind, "lustre");
    assert_eq!(log.mount("/lustrenot/x").unwrap().kind, "ext4");
    assert_eq!(log.name(13), Some("/home/me/1.txt"));
    assert_eq!(log.name(99), None);

    let mut reads = Vec::new();
    let count = log.counters(Module::POSIX, &mut |record| {
        assert_eq!(record.counters.len(), Posix::NAMES.len());
        assert_eq!(record.times.len(), PosixTime::NAMES.len());
        reads.push((record.id, record.rank, Posix::Reads.of(record), Posix::Dups.of(record)));
        // Counters of old versions are where the newest have them.
        let last = match minor {
            0 => 68,
            10 => 64,
            _ => 69,
        };
        assert_eq!(Posix::SlowestRankBytes.of(record), record.rank.max(0) + last, "{what}");
    });
    assert_eq!(count, Ok(3), "{what}");
    let second = |rank: i64| match minor {
        0 | 10 => (rank.max(0) + 2, -1),
        _ => (rank.max(0) + 4, rank.max(0) + 3),
    };
    let expected: Vec<_> = [(11, -1), (12, 0), (13, 1)]
        .map(|(id, rank)| (id, rank, second(rank).0, second(rank).1))
        .to_vec();
    assert_eq!(reads, expected, "{what}");

    let mut bytes_read = 0;
    let count =
        log.counters(Module::MPI_IO, &mut |record| bytes_read += MpiIo::BytesRead.of(record));
    assert_eq!((count, bytes_read), (Ok(3), 15 * 3 + 1), "{what}");
    let mut opens = Vec::new();
    let count = log.counters(Module::STDIO, &mut |record| opens.push(Stdio::Fdopens.of(record)));
    let expected = match minor {
        0 => vec![],
        10 => vec![-1; 3],
        _ => vec![2, 2, 3],
    };
    assert_eq!((count, &opens), (Ok(expected.len() as u64), &expected), "{what}");

    let mut found = Vec::new();
    let count = log.segments(Module::DXT_POSIX, &mut |traced, segment| {
        assert_eq!(traced.host, "node7");
        assert_eq!(segment.thread, (minor >= 41).then_some(77), "{what}");
        found.push((traced.id, traced.rank, segment.direction, segment.offset, segment.end));
    });
    let traced = if minor == 0 { 0 } else { 10 };
    assert_eq!(count, Ok(traced), "{what}");
    if traced > 0 {
        assert_eq!(found[2], (11, 0, Direction::Write, Some(200), 0.625));
        assert_eq!(found[3], (11, 0, Direction::Read, Some(300), 0.875));
    }
    let mut offsets = Vec::new();
    let count = log.segments(Module::DXT_MPI_IO, &mut |_, segment| offsets.push(segment.offset));
    assert_eq!(count, Ok(traced), "{what}");
    // The first version did not know offsets.
    assert!(offsets.iter().all(|offset| offset.is_some() == (minor > 10)), "{what}");

    let mut layouts = Vec::new();
    log.layouts(&mut |layout| layouts.push(layout.clone())).unwrap();
    let targets: Vec<_> = layouts.iter().map(|layout| layout.targets.clone()).collect();
    assert_eq!(targets, [[5, 3], [5, 3]], "{what}");
    assert_eq!((layouts[0].stripe_size, layouts[0].stripe_count), (1 << 20, 2), "{what}");
}

#[test]
fn partial_modules_are_named() {
    for minor in MINORS {
        for order in [Order::Little, Order::Big] {
            let mut log = example(minor, order, Packed::Zlib);
            log.partial = 1 << darshan_log::POSIX | 1 << darshan_log::LUSTRE;
            let bytes = log.bytes();
            let log = Log::parse(&bytes).unwrap();
            let partial: Vec<String> = log
                .modules()
                .filter(|module| log.header.is_partial(*module))
                .map(Module::name)
                .collect();
            assert_eq!(partial, ["POSIX", "LUSTRE"]);
        }
    }
}

/// How many records can be read of some bytes, and what is wrong with them.
fn read_all(bytes: &[u8]) -> Result<(u64, Vec<String>), LogError> {
    let (log, records, complaints) = dump(bytes)?;
    drop(log);
    Ok((records.len() as u64, complaints))
}

/// All that can be read of some bytes: the log, the records as text, and what is wrong.
fn dump(bytes: &[u8]) -> Result<(String, Vec<String>, Vec<String>), LogError> {
    let log = Log::parse(bytes)?;
    let mut records = Vec::new();
    let mut complaints: Vec<String> = log.damage.iter().map(ToString::to_string).collect();
    for module in log.modules() {
        let read = match module {
            Module::LUSTRE => log.layouts(&mut |layout| records.push(format!("{layout:?}"))),
            Module::DXT_POSIX | Module::DXT_MPI_IO => {
                log.segments(module, &mut |traced, segment| {
                    records.push(format!("{traced:?} {segment:?}"));
                })
            }
            // The first are enough.
            module => log.counters(module, &mut |record| {
                records.push(if records.len() < 100 {
                    format!("{record:?}")
                } else {
                    String::new()
                });
            }),
        };
        complaints.extend(read.err().map(|damage| damage.to_string()));
    }
    let names = [11, 12, 13].map(|id| log.name(id));
    Ok((format!("{:?} {names:?}", log.job), records, complaints))
}

#[test]
fn a_log_that_is_cut_says_so() {
    for (minor, packed) in [(10, Packed::Zlib), (21, Packed::Bzip2), (41, Packed::Not)] {
        let bytes = example(minor, Order::Little, packed).bytes();
        let (all, complaints) = read_all(&bytes).unwrap();
        assert!(complaints.is_empty() && all > 20, "{complaints:?}");
        for length in (0..bytes.len()).step_by(11).chain([bytes.len() - 1]) {
            match read_all(&bytes[..length]) {
                Ok((records, complaints)) => {
                    assert!(records <= all && !complaints.is_empty(), "{length}: {records}");
                }
                Err(error) => assert!(
                    matches!(error, LogError::Other | LogError::Short(_)),
                    "{length}: {error}"
                ),
            }
        }
    }
}

#[test]
fn what_is_changed_within_a_packed_region_is_found() {
    for packed in [Packed::Zlib, Packed::Bzip2] {
        let bytes = example(21, Order::Little, packed).bytes();
        let (log, records, _) = dump(&bytes).unwrap();
        let mut found = 0;
        for at in (360..bytes.len()).step_by(29) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let (changed_log, changed_records, complaints) = dump(&changed).unwrap();
            // Some bits of a stream do not matter.
            let same = log == changed_log && records == changed_records;
            assert!(same || !complaints.is_empty(), "{packed:?}: the change at {at} was not found");
            found += usize::from(!complaints.is_empty());
        }
        assert!(found > 20, "{found}");
    }
}

#[test]
fn other_files_are_no_logs() {
    assert_eq!(read_all(b""), Err(LogError::Other));
    assert_eq!(read_all(&[0; 4096]), Err(LogError::Other));
    let mut log = example(21, Order::Little, Packed::Zlib).bytes();
    log[16] = 9;
    assert_eq!(read_all(&log), Err(LogError::Compression(9)));
    log[..4].copy_from_slice(b"2.06");
    assert_eq!(read_all(&log), Err(LogError::Version("2.06".into())));
    log[..4].copy_from_slice(b"x.06");
    assert_eq!(read_all(&log), Err(LogError::Other));
}

#[test]
fn a_module_of_a_newer_version_is_named_and_left_out() {
    let mut log = example(41, Order::Little, Packed::Zlib);
    log.modules[0].version = 9;
    let (records, complaints) = read_all(&log.bytes()).unwrap();
    assert_eq!(
        complaints,
        ["POSIX: records of version 9 are not read; 0 records before it are used"]
    );
    assert!(records > 20);
}

/// A small file must not keep a reader busy for long, nor fill memory: more is not read than any
/// true log holds.
#[test]
fn little_that_becomes_much_is_bounded() {
    let mut log = example(21, Order::Little, Packed::Bzip2);
    log.modules[0].parts = vec![vec![0; 704 * 8000]; 15];
    let bytes = log.bytes();
    assert!(bytes.len() < 20_000, "{}", bytes.len());
    let (_, complaints) = read_all(&bytes).unwrap();
    assert!(
        complaints.iter().any(|text| text.contains("its uncompressed data is longer than any log")),
        "{complaints:?}"
    );
}
