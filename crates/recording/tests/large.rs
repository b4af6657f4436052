//! Recordings of millions of calls are merged, cut, counted, exported and imported in bounded
//! memory.
//!
//! A million by default; `STRIATE_RECORDS=10000000` makes it ten.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_recording::import::{ImportFormat, Options, import_from};
use striate_recording::{Filter, Recording, Stats, cut, export, merge};
use striate_testing::peak_memory::{PeakAllocator, peak_of};
use striate_trace::{Call, Function, Header, Kind, Kinds, Origin, Record, TracedFile, Writer};

#[global_allocator]
static ALLOCATOR: PeakAllocator = PeakAllocator;

/// What may be allocated at any time: blocks, windows and tables of four processes, not their
/// records.
const BOUND: usize = 8 << 20;

/// Runs something and checks how much it allocated.
fn bounded<R>(what: &str, run: impl FnOnce() -> R) -> R {
    let (result, most) = peak_of(run);
    println!("{what}: {most} bytes allocated at most");
    assert!(most < BOUND, "{what}: {most} bytes allocated");
    result
}

/// Nothing is kept of what is written but how much it is.
struct Nowhere(u64);

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn record(process: u32, n: u64) -> Record {
    let number = n % 13;
    let path = PathBuf::from(format!("/data/{process}/{number}.nc"));
    let file = Arc::new(TracedFile { opener: process, number, path, flags: libc::O_RDWR });
    let (offset, length) = (Some(n * n % 1_000_003 * 512), 512 + n % 7);
    let call = if n.is_multiple_of(3) {
        Call::Read { file, placed: true, offset, length, flags: 0, parts: 1 }
    } else {
        Call::Write { file, placed: true, offset, length, flags: 0, parts: 1 }
    };
    let function = if n.is_multiple_of(3) { Function::Pread } else { Function::Pwrite };
    let start = 1_000_000 + n * 1000;
    Record {
        function,
        thread: process,
        start,
        duration: 700,
        outcome: Ok(length),
        known: true,
        call,
    }
}

#[test]
fn millions_of_calls_take_bounded_memory() {
    let count = std::env::var("STRIATE_RECORDS").ok().and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(1_000_000);
    let directory = tempfile::tempdir().unwrap();
    let traces = directory.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    bounded("to write", || {
        for process in 1..=4 {
            let origin = Origin { process, rank: Some(process), ..Origin::default() };
            let header = Header { origin, clock: 1_000_000, began: 1 << 60, ..Header::default() };
            let mut writer =
                Writer::create(traces.join(format!("{process}.trace")), &header).unwrap();
            for n in 0..count / 4 {
                writer.write(&record(process, n)).unwrap();
            }
            writer.finish().unwrap();
        }
    });
    let count = count / 4 * 4;
    let merged = directory.path().join("merged.trace");
    bounded("to merge", || merge(&Recording::open(&traces).unwrap(), &merged).unwrap());
    let recording = bounded("to open", || Recording::open(&merged).unwrap());
    assert_eq!(recording.records_count(), count);
    let mut last = 0;
    let read = bounded("to read in order", || {
        let order = recording.in_order().inspect(|(_, record)| {
            assert!(record.start >= last);
            last = record.start;
        });
        order.count() as u64
    });
    assert_eq!(read, count);
    let filter = Filter { kinds: Some(Kinds::of(&[Kind::Read])), ..Filter::default() };
    let part = directory.path().join("cut.trace");
    let reads = bounded("to cut", || cut(&recording, &filter, &part).unwrap());
    assert_eq!(reads, (count / 4).div_ceil(3) * 4);
    let stats = bounded("to count", || Stats::of(&recording, &Filter::default(), None));
    assert_eq!((stats.total.calls, stats.total.reads.calls, stats.files.len()), (count, reads, 52));
    for format in
        [export::ExportFormat::Jsonl, export::ExportFormat::Perfetto, export::ExportFormat::Darshan]
    {
        bounded("to export", || {
            let mut nowhere = Nowhere(0);
            export::write(&recording, &Filter::default(), format, &mut nowhere).unwrap();
            assert!(nowhere.0 > 1000);
        });
    }
    let into = directory.path().join("imported.trace");
    let imported = bounded("to import", || {
        let options = Options { format: Some(ImportFormat::Strace), ..Options::default() };
        let mut lines = BufReader::new(Lines { next: 0, count, line: Vec::new() });
        import_from(&mut lines as &mut dyn BufRead, &options, Path::new("lines"), &into).unwrap()
    });
    assert_eq!((imported.records, imported.malformed), (count, 0));
    let memory = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", memory.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

/// Lines as strace writes them, made as they are read.
struct Lines {
    next: u64,
    count: u64,
    line: Vec<u8>,
}

impl Read for Lines {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.line.is_empty() && self.next < self.count {
            let n = self.next;
            self.next += 1;
            let (task, time) =
                (100 + n % 4, format!("17{:08}.{:06}", n / 1_000_000, n % 1_000_000));
            let call = match n / 4 {
                0 => format!("openat(AT_FDCWD, \"/data/{task}\", O_RDWR|O_CREAT, 0644) = 3"),
                n => format!("pwrite64(3, \"abc\"..., 4096, {}) = 4096", n * 4096),
            };
            self.line = format!("{task} {time} {call} <0.000010>\n").into_bytes();
        }
        let count = into.len().min(self.line.len());
        into[..count].copy_from_slice(&self.line[..count]);
        self.line.drain(..count);
        Ok(count)
    }
}
