//! A trace of the requests of this program, which writes and reads the array once more, and a
//! report of it.
//!
//! Ranks are threads, and their requests are recorded on the way to the store. `striate run
//! --trace` records all calls of a program in the same way.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use striate_bench::io::{ScratchDirectory, SignalCleanup, paper_hints};
use striate_bench::workload::{Block3d, Workload};
use striate_comm::{Comm, Threads};
use striate_datatype::{Bytes, Datatype};
use striate_file::{File, FileError, Hints, Method, MethodChoice, Mode, View};
use striate_process::Origin;
use striate_recording::Recording;
use striate_report::{Model, page, report};
use striate_stack::Function;
use striate_store::trace::Event;
use striate_store::{Operation, PosixFile, PosixOptions, StoreError, Traced};
use striate_trace::{Call, Header, Record, RecordedCall, TracedFile, Writer};

use crate::CommandError;
use crate::number::counted_as;
use crate::output::write_whole;
use crate::report::refused;

/// The edge of the array at most, so that the trace stays small, and the ranks at most.
const EDGE: u64 = 64;
const RANKS: u64 = 16;
/// Methods whose requests are distinguished by offset and length.
const METHODS: [Method; 3] = [Method::Posix, Method::Sieve, Method::TwoPhase];

/// What was recorded, and where it is.
#[derive(Debug, Serialize)]
pub(super) struct Recorded {
    trace: PathBuf,
    report: PathBuf,
    records: u64,
    page_bytes: u64,
    findings: Vec<String>,
}

/// Records ranks that write and read an array, in files of `directory` that are removed afterwards.
/// The trace and the report go to `keep`, or to a new directory.
pub(super) fn run(
    workload: &Block3d,
    directory: &Path,
    keep: Option<&Path>,
) -> Result<Recorded, CommandError> {
    let small = Block3d::near_cubic(workload.edge.min(EDGE), workload.ranks().min(RANKS));
    let failed = |error| {
        CommandError::failed("cannot make a directory for the report", error, "try another --dir")
    };
    let place = match keep {
        Some(keep) => std::fs::create_dir_all(keep).map(|()| keep.to_path_buf()),
        None => kept_directory(directory),
    };
    let place = place.map_err(failed)?;
    let _unfinished = keep.is_none().then(|| {
        let place = place.clone();
        SignalCleanup::new(move || drop(std::fs::remove_dir_all(place)))
    });
    let scratch = ScratchDirectory::new(directory).map_err(failed)?;
    let (trace, path) = (place.join("quickstart.trace"), place.join("report.html"));
    let attempted = || format!("cannot record into {}", trace.display());
    let records = record(&small, scratch.path(), &trace)
        .map_err(|error| CommandError::failed(attempted(), error, "try another --dir"))?;
    let model =
        report(&Recording::open(&trace).map_err(refused)?, &striate_report::Options::default());
    let page = page::render(&model);
    write_whole(&path, |file| file.write_all(page.as_bytes()))
        .map_err(|source| CommandError::Write { path: path.clone(), source })?;
    let findings = titles(&model);
    Ok(Recorded { trace, report: path, records, page_bytes: page.len() as u64, findings })
}

/// A directory that stays.
fn kept_directory(within: &Path) -> std::io::Result<PathBuf> {
    // `std` has no directories with names of their own; numbers of processes come again.
    for number in 0..u64::MAX {
        let path = within.join(format!("striate-quickstart-{}-{number}", std::process::id()));
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

fn titles(model: &Model) -> Vec<String> {
    model.findings.iter().map(|finding| format!("{}: {}", finding.title, finding.figure)).collect()
}

#[derive(Debug, thiserror::Error)]
enum RecordError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Trace(#[from] std::io::Error),
}

/// Nanoseconds of the monotonic clock, as in all traces of this host.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the number of records.
fn record(workload: &Block3d, directory: &Path, trace: &Path) -> Result<u64, RecordError> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let header = Header {
        origin: Origin::this(None),
        directory: directory.to_path_buf(),
        began: began.as_nanos() as u64,
        clock: now(),
        label: "quickstart".into(),
        place: 0,
    };
    let (sender, receiver) = channel();
    Threads::new(workload.ranks() as usize).try_run(|comm| {
        METHODS.iter().zip(0..).try_for_each(|(method, number)| {
            let path = directory.join(format!("array.{}", method.name()));
            access(&comm, workload, &path, *method, number, sender.clone())
        })
    })?;
    drop(sender);
    write(&receiver, trace, &header)
}

fn write(from: &Receiver<Record>, trace: &Path, header: &Header) -> Result<u64, RecordError> {
    // One from before was ours, too.
    match std::fs::remove_file(trace) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut writer = Writer::create(trace, header)?;
    let mut records = 0;
    for record in from {
        writer.write(&record)?;
        records += 1;
    }
    writer.finish()?;
    Ok(records)
}

/// A rank writes its block into a file by a method, and reads it back.
fn access(
    comm: &Arc<dyn Comm>,
    workload: &Block3d,
    path: &Path,
    method: Method,
    number: u64,
    sender: Sender<Record>,
) -> Result<(), FileError> {
    let rank = comm.rank() as u64;
    let clerk = RequestRecorder::new(path, rank, number * workload.ranks() + rank, sender);
    let options = PosixOptions { read: true, write: true, create: true, ..PosixOptions::default() };
    let start = now();
    let opened = PosixFile::open(path, &options);
    clerk.opened(start, options.mode, &opened);
    let told = clerk.clone();
    let store = Traced::with_callback(opened?, move |event| told.asked(event));
    let hints = Hints { method: MethodChoice::Fixed(method), ..paper_hints(workload.ranks()) };
    let mut file = File::on_store(comm, Arc::new(store), Mode::READ | Mode::WRITE, &hints)?;
    let block = workload.notation(rank).build()?;
    // A rank may have no part of a small array; a view has bytes.
    let element = Datatype::bytes(4)?;
    let filetype = if block.size() > 0 { &block } else { &element };
    file.set_view(View::new(0, &element, filetype)?)?;
    let mut memory = vec![rank as u8; block.size() as usize];
    file.write_at_all(0, &memory)?;
    memory.fill(!(rank as u8));
    file.read_at_all(0, &mut memory)?;
    if memory.iter().any(|byte| *byte != rank as u8) {
        return Err(FileError::caller(format!("rank {rank} read other bytes than it wrote")));
    }
    let start = now();
    file.close()?;
    clerk.closed(start);
    Ok(())
}

/// Writes down what a rank asks of one file.
#[derive(Clone, Debug)]
struct RequestRecorder {
    file: Arc<TracedFile>,
    path: Arc<Path>,
    thread: u32,
    descriptor: u64,
    sender: Sender<Record>,
}

impl RequestRecorder {
    fn new(path: &Path, rank: u64, number: u64, sender: Sender<Record>) -> Self {
        let flags = (rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CREATE).bits() as i32;
        let opener = std::process::id();
        let file = TracedFile { opener, number, path: path.to_path_buf(), flags };
        // Threads are identified by their ranks; a store does not report its descriptor.
        let (thread, descriptor) = (opener + rank as u32, number + 3);
        Self { file: Arc::new(file), path: path.into(), thread, descriptor, sender }
    }

    fn opened(&self, start: u64, mode: u32, opened: &Result<PosixFile, StoreError>) {
        let outcome = opened
            .as_ref()
            .map_or(Err(rustix::io::Errno::IO.raw_os_error()), |_| Ok(self.descriptor));
        let (file, path) = (Arc::clone(&self.file), Arc::clone(&self.path));
        let call = Call::Open { file, path, flags: self.file.flags, mode, size: Some(0) };
        self.note(Function::Open, start, now() - start, outcome, call);
    }

    fn closed(&self, start: u64) {
        let (file, descriptor) = (Arc::clone(&self.file), self.descriptor as i32);
        let call = Call::Close { file, descriptor, last: true };
        self.note(Function::Close, start, now() - start, Ok(0), call);
    }

    fn asked(&self, event: &Event) {
        let file = Arc::clone(&self.file);
        let (placed, offset, length) = (true, Some(event.offset), event.len);
        let (flags, parts) = (0, 1);
        let (function, call) = match event.operation {
            Operation::Read => {
                (Function::Pread, Call::Read { file, placed, offset, length, flags, parts })
            }
            Operation::Write => {
                (Function::Pwrite, Call::Write { file, placed, offset, length, flags, parts })
            }
            Operation::SetLen => (Function::Ftruncate, Call::Truncate { file, length }),
            Operation::Sync => (Function::Fsync, Call::Sync { file, data_only: false }),
            _ => return,
        };
        let outcome = event.outcome.map_err(|_| rustix::io::Errno::IO.raw_os_error());
        let duration = event.duration.as_nanos() as u64;
        self.note(function, now() - duration, duration, outcome, call);
    }

    fn note(
        &self,
        function: Function,
        start: u64,
        duration: u64,
        outcome: Result<u64, i32>,
        call: RecordedCall,
    ) {
        let (thread, known) = (self.thread, true);
        let record = Record { function, thread, start, duration, outcome, known, call };
        // A receiver that has ended has failed, and reports that itself.
        let _ = self.sender.send(record);
    }
}

impl Recorded {
    /// What was done, for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{} in\n  {}\nand what they tell is in this page for your browser ({}):\n  {}\n",
            counted_as(self.records, "request of this program is", "requests of this program are"),
            self.trace.display(),
            Bytes(self.page_bytes),
            self.report.display(),
        );
        for finding in &self.findings {
            let _ = writeln!(text, "  - {finding}");
        }
        text
    }

    /// The trace.
    pub(super) fn trace(&self) -> &Path {
        &self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_recorded_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        for (edge, ranks) in [(3, 64), (7, 12)] {
            run(&Block3d::near_cubic(edge, ranks), directory.path(), Some(directory.path()))
                .unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        let workload = Block3d::near_cubic(8, 8);
        let done = run(&workload, directory.path(), None).unwrap();
        let page = std::fs::read_to_string(&done.report).unwrap();
        assert!(page.contains("array.posix"));
        let model =
            report(&Recording::open(&done.trace).unwrap(), &striate_report::Options::default());
        assert_eq!(model.totals.sums.calls.all(), done.records);
        // Eight ranks with 4 × 4 rows of 16 bytes each, written and read once by one request per
        // row.
        let trace = striate_trace::Trace::open(&done.trace).unwrap();
        let of_posix = trace.in_order().filter_map(Result::ok).filter(|record| {
            let file = record.call.file().unwrap();
            file.path.ends_with("array.posix") && record.function == Function::Pwrite
        });
        assert_eq!(of_posix.count(), 8 * 16);
        // Only what is kept is left; in a directory that is given, nothing else.
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        let kept = directory.path().join("kept");
        for _ in 0..2 {
            run(&workload, directory.path(), Some(&kept)).unwrap();
        }
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 2);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2);
    }
}
