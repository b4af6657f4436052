//! What a report needs of memory does not grow with the number of calls, nor with that of files.
//!
//! 300,000 calls by default; `STRIATE_RECORDS=10000000` makes it ten millions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use striate_recording::Recording;
use striate_report::{Options, page, report};
use striate_testing::peak_memory::{PeakAllocator, peak_of};
use striate_trace::{Call, Function, Header, Origin, Record, TracedFile, Writer};

#[global_allocator]
static ALLOCATOR: PeakAllocator = PeakAllocator;

/// Tables of files, processes and time.
const BOUND: usize = 64 << 20;

/// The n-th call: each file is opened, written twice and closed, but for every third, which stays
/// open.
fn record(n: u64) -> Record {
    let (number, step) = (n / 4, n % 4);
    let path: Arc<Path> = Path::new(&format!("/data/{}/{number}", number % 64)).into();
    let (flags, name) = (0o1101, path.to_path_buf());
    let file = Arc::new(TracedFile { opener: 7, number, path: name, flags });
    let write = |file, offset| Call::Write {
        file,
        placed: true,
        offset: Some(offset),
        length: 100,
        flags: 0,
        parts: 1,
    };
    let (function, outcome, call) = match step {
        0 => (Function::Open, Ok(3), Call::Open { file, path, flags, mode: 0o644, size: Some(0) }),
        3 if number.is_multiple_of(3) => (Function::Pwrite, Ok(100), write(file, 200)),
        3 => (Function::Close, Ok(0), Call::Close { file, descriptor: 3, last: true }),
        _ => (Function::Pwrite, Ok(100), write(file, (step - 1) * 100)),
    };
    Record {
        function,
        thread: 7,
        start: 1_000_000 + n * 1000,
        duration: 700,
        outcome,
        known: true,
        call,
    }
}

#[test]
fn many_calls_and_files_take_bounded_memory() {
    let count = std::env::var("STRIATE_RECORDS").ok().and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(300_000);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("7.trace");
    let origin = Origin { process: 7, parent: 1, host: "here".into(), ..Origin::default() };
    let header = Header { origin, clock: 1_000_000, ..Header::default() };
    let mut writer = Writer::create(path.clone(), &header).unwrap();
    (0..count).for_each(|n| writer.write(&record(n)).unwrap());
    writer.finish().unwrap();
    let ((model, page), most) = peak_of(|| {
        let recording = Recording::open(&path).unwrap();
        let model = report(&recording, &Options::default());
        let page = page::render(&model);
        (model, page)
    });
    println!("{most} bytes allocated at most, a page of {} bytes", page.len());
    assert_eq!(model.totals.sums.calls.all(), count);
    assert!(most < BOUND, "{most} bytes allocated");
}
