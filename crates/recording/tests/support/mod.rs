//! Random recordings, and what they are in an obvious way.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use striate_trace::{
    Call, Function, Header, Origin, Record, RecordedCall, Subject, TracedEnd, TracedFile, Writer,
};

/// A process with its records in the order in which calls ended.
#[derive(Clone, Debug)]
pub struct Model {
    pub header: Header,
    pub records: Vec<Record>,
}

/// Wall clock less monotonic clock of the hosts.
pub const HOSTS: [(&str, u64); 2] =
    [("one", 1_700_000_000_000_000_000), ("two", 1_700_000_005_000_000_000)];

pub fn file(opener: u32, number: u64) -> Arc<TracedFile> {
    let path = PathBuf::from(format!("/data/{}.{}", number, ["nc", "log"][number as usize % 2]));
    Arc::new(TracedFile { opener, number, path, flags: libc::O_RDWR })
}

fn calls() -> impl Strategy<Value = (RecordedCall, Function, Result<u64, i32>)> {
    let numbers = (0..14_u32, 1..5_u64, 0..4_u64, prop_oneof![Just(512_u64), 0..100_000_u64]);
    let more = (any::<bool>(), proptest::option::of(0..20_u64), 0..5_u64);
    (numbers, more).prop_map(|((which, number, block, length), (truth, at, less))| {
        let file = file(7, number);
        let path: Arc<Path> = file.path.as_path().into();
        let other: Arc<Path> = Path::new("/data/a \"b\", c").into();
        let offset = at.map(|at| at * 512 + block);
        let end = |file| TracedEnd { file, descriptor: 4, at: offset };
        let of =
            if truth { Subject::File(Arc::clone(&file)) } else { Subject::Name(Arc::clone(&path)) };
        let moved = Ok(length.saturating_sub(less));
        let done = if less == 4 { Err(libc::ENOENT) } else { Ok(0) };
        let (flags, parts) = (0, 1 + u32::from(less == 3));
        match which {
            0 => (
                Call::Open { file, path, flags: 66, mode: 0o644, size: offset },
                Function::Openat,
                done.map(|_| 3),
            ),
            1 => (Call::Close { file, descriptor: 3, last: truth }, Function::Close, done),
            2..=4 => (
                Call::Read { file, placed: truth, offset, length, flags, parts },
                Function::Read,
                moved,
            ),
            5..=7 => (
                Call::Write { file, placed: truth, offset, length, flags, parts },
                Function::Pwrite,
                moved,
            ),
            8 => (Call::Seek { file, offset: -5, whence: 1 }, Function::Lseek, moved),
            9 => (Call::Stat { of, flags: 256, size: offset, mode: None }, Function::Fstatat, done),
            10 => (Call::Rename { from: path, to: other, flags: 1 }, Function::Rename, done),
            11 => {
                let (from, to) = (end(Some(file)), end(truth.then(|| self::file(7, 9))));
                (Call::CopyRange { from, to, length }, Function::CopyFileRange, moved)
            }
            12 => (Call::Sync { file, data_only: truth }, Function::Fsync, done),
            _ => (Call::Duplicate { file, descriptor: 9 }, Function::Dup, done),
        }
    })
}

fn processes(number: u32) -> impl Strategy<Value = Model> {
    let records = (calls(), 0..3_u32, 0..5_000_u64, 0..3_000_u64);
    let records = proptest::collection::vec(records, 0..60);
    (records, 0..HOSTS.len(), 1_000_000..1_100_000_u64, any::<bool>()).prop_map(
        move |(records, host, clock, early)| {
            let (host, wall) = HOSTS[host];
            let origin = Origin {
                process: 100 + number,
                parent: 1,
                rank: (number > 0).then_some(number),
                host: host.into(),
                command: vec!["/bin/program".into(), "an argument".into()],
            };
            let directory = PathBuf::from("/data");
            let label = String::new();
            let header = Header { origin, directory, began: wall + clock, clock, label, place: 0 };
            // A trace may begin a little after its first calls.
            let mut clocks = [clock - if early { 10_000 } else { 0 }; 3];
            let mut records: Vec<Record> = records
                .into_iter()
                .map(|((call, function, outcome), thread, gap, duration)| {
                    let clock = &mut clocks[thread as usize];
                    let start = *clock + gap;
                    *clock = start + duration;
                    Record {
                        function,
                        thread: 100 + number + thread,
                        start,
                        duration,
                        outcome,
                        known: true,
                        call,
                    }
                })
                .collect();
            records.sort_by_key(|record| record.start + record.duration);
            Model { header, records }
        },
    )
}

/// Up to four processes.
pub fn recordings() -> impl Strategy<Value = Vec<Model>> {
    (1..5_usize, (processes(0), processes(1), processes(2), processes(3)))
        .prop_map(|(count, (a, b, c, d))| [a, b, c, d].into_iter().take(count).collect())
}

/// The recording as a directory of traces.
pub fn written(directory: &Path, models: &[Model]) {
    for (n, model) in models.iter().enumerate() {
        let path = directory.join(format!("{n}.trace"));
        let mut writer = Writer::create(path, &model.header).unwrap();
        for record in &model.records {
            writer.write(record).unwrap();
        }
        writer.finish().unwrap();
    }
}

/// All records on one time line with their processes, by start.
pub fn expected(models: &[Model]) -> Vec<(u32, Record)> {
    let wall = |model: &Model, clock: u64| model.header.began - model.header.clock + clock;
    let starts = models.iter().flat_map(|model| {
        let first = model.records.iter().map(|record| record.start).min();
        [Some(wall(model, model.header.clock)), first.map(|first| wall(model, first))]
    });
    let zero = starts.flatten().min().unwrap_or(0);
    let mut order: Vec<&Model> = models.iter().collect();
    order.sort_by_key(|model| (wall(model, model.header.clock), model.header.origin.rank));
    let mut all = Vec::new();
    for model in order {
        for record in &model.records {
            let start = wall(model, record.start) - zero;
            all.push((model.header.origin.process, Record { start, ..record.clone() }));
        }
    }
    // Stable: processes and records that begin at the same time keep their order.
    all.sort_by_key(|(_, record)| record.start);
    all
}
