//! Recordings of programs that are made up, call by call.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;
use std::sync::Arc;

use striate_recording::Recording;
use striate_report::{Finding, Model, Options, report};
use striate_trace::layer::LayerFunction;
use striate_trace::{
    Call, Function, Header, LayerRecord, Origin, Record, RecordedCall, Subject, TracedFile, Writer,
};

pub(crate) const CREATE: i32 = 0o1101;
pub(crate) const READ: i32 = 0;
pub(crate) const UPDATE: i32 = 2;
const BEGAN: u64 = 1_767_225_600_000_000_000;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;

/// Programs that ran side by side.
pub(crate) struct Scenario {
    directory: tempfile::TempDir,
    programs: u32,
}

impl Scenario {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), programs: 0 }
    }

    pub(crate) fn program(&mut self, rank: Option<u32>) -> Program {
        self.named(rank, &["/usr/bin/simulation", "input.nml"])
    }

    pub(crate) fn named(&mut self, rank: Option<u32>, command: &[&str]) -> Program {
        self.child(1, rank, command)
    }

    /// One that another process started.
    pub(crate) fn child(&mut self, parent: u32, rank: Option<u32>, command: &[&str]) -> Program {
        self.programs += 1;
        let process = 100 + self.programs;
        let origin = Origin {
            process,
            parent,
            rank,
            host: "node1".into(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
        };
        let clock = 5_000_000;
        let header =
            Header { origin, directory: "/data".into(), began: BEGAN, clock, ..Header::default() };
        let path = self.directory.path().join(format!("{process}.trace"));
        let writer = Writer::create(path, &header).unwrap();
        Program { writer, process, now: clock, files: 0, thread: process, errors: None }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn recording(&self) -> Recording {
        Recording::open(self.directory.path()).unwrap()
    }

    pub(crate) fn model(&self) -> Model {
        report(&self.recording(), &Options::default())
    }

    /// Rules that speak.
    pub(crate) fn rules(&self) -> Vec<String> {
        self.model().findings.into_iter().map(|finding| finding.rule).collect()
    }

    pub(crate) fn finding(&self, rule: &str) -> Finding {
        let model = self.model();
        let found = model.findings.iter().find(|finding| finding.rule == rule);
        found.unwrap_or_else(|| panic!("{rule} does not speak: {:?}", model.findings)).clone()
    }
}

/// What one process does.
pub(crate) struct Program {
    writer: Writer,
    process: u32,
    pub(crate) now: u64,
    files: u64,
    pub(crate) thread: u32,
    /// The next calls fail like this.
    pub(crate) errors: Option<i32>,
}

pub(crate) type File = Arc<TracedFile>;

impl Program {
    pub(crate) fn call(&mut self, function: Function, call: RecordedCall, result: u64, takes: u64) {
        let outcome = self.errors.map_or(Ok(result), Err);
        let (thread, start) = (self.thread, self.now);
        let record =
            Record { function, thread, start, duration: takes, outcome, known: true, call };
        self.writer.write(&record).unwrap();
        self.now += takes;
    }

    /// A call of MPI-IO that moves bytes of a file and within which other things are done.
    pub(crate) fn within(
        &mut self,
        function: LayerFunction,
        file: &File,
        bytes: u64,
        act: impl FnOnce(&mut Self),
    ) {
        let start = self.now;
        act(self);
        let layer = LayerRecord {
            function,
            thread: self.thread,
            start,
            duration: self.now - start,
            outcome: self.errors.map_or(Ok(bytes), Err),
            path: file.path.as_path().into(),
            file: file.number,
            offset: None,
            length: bytes,
            count: bytes,
        };
        self.writer.write_layer(&layer).unwrap();
    }

    pub(crate) fn think(&mut self, time: u64) {
        self.now += time;
    }

    pub(crate) fn open_of_size(
        &mut self,
        path: impl AsRef<Path>,
        flags: i32,
        size: u64,
        takes: u64,
    ) -> File {
        self.files += 1;
        let path: Arc<Path> = path.as_ref().into();
        let file = Arc::new(TracedFile {
            opener: self.process,
            number: self.files,
            path: path.to_path_buf(),
            flags,
        });
        let call = Call::Open { file: file.clone(), path, flags, mode: 0o644, size: Some(size) };
        self.call(Function::Open, call, 3, takes);
        file
    }

    pub(crate) fn open(&mut self, path: impl AsRef<Path>, flags: i32, takes: u64) -> File {
        self.open_of_size(path, flags, 0, takes)
    }

    pub(crate) fn close(&mut self, file: &File, takes: u64) {
        let call = Call::Close { file: file.clone(), descriptor: 3, last: true };
        self.call(Function::Close, call, 0, takes);
    }

    pub(crate) fn write(&mut self, file: &File, offset: u64, length: u64, takes: u64) {
        let (file, offset) = (file.clone(), Some(offset));
        let call = Call::Write { file, placed: true, offset, length, flags: 0, parts: 1 };
        self.call(Function::Pwrite, call, length, takes);
    }

    pub(crate) fn read(&mut self, file: &File, offset: u64, length: u64, takes: u64) {
        let (file, offset) = (file.clone(), Some(offset));
        let call = Call::Read { file, placed: true, offset, length, flags: 0, parts: 1 };
        self.call(Function::Pread, call, length, takes);
    }

    pub(crate) fn sync(&mut self, file: &File, takes: u64) {
        self.call(Function::Fsync, Call::Sync { file: file.clone(), data_only: false }, 0, takes);
    }

    pub(crate) fn stat(&mut self, path: impl AsRef<Path>, takes: u64) {
        let of = Subject::Name(path.as_ref().into());
        self.call(Function::Stat, Call::Stat { of, flags: 0, size: Some(7), mode: None }, 0, takes);
    }

    pub(crate) fn unlink(&mut self, path: impl AsRef<Path>, takes: u64) {
        self.call(
            Function::Unlink,
            Call::Unlink { path: path.as_ref().into(), flags: 0 },
            0,
            takes,
        );
    }

    pub(crate) fn rename(&mut self, from: impl AsRef<Path>, to: impl AsRef<Path>, takes: u64) {
        let call = Call::Rename { from: from.as_ref().into(), to: to.as_ref().into(), flags: 0 };
        self.call(Function::Rename, call, 0, takes);
    }

    pub(crate) fn finish(self) {
        self.writer.finish().unwrap();
    }
}

/// What most programs should do: large aligned pieces, one after the other.
pub(crate) fn good(scenario: &mut Scenario, ranks: u32) {
    for rank in 0..ranks {
        let mut program = scenario.program(Some(rank));
        let file = program.open(format!("/data/out.{rank}"), CREATE, 100 * US);
        for n in 0..200u64 {
            program.write(&file, n << 22, 4 << 20, 2 * MS);
            program.think(MS);
        }
        program.sync(&file, 5 * MS);
        program.close(&file, 50 * US);
        program.finish();
    }
}
