//! Recordings that are made up: calls of threads and processes on a model of files, with what must
//! come of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_process::Origin;
use striate_recording::Recording;
use striate_stack::Function;
use striate_trace::{
    Call, Header, MultiProcessWriter, Part, Record, RecordedCall, Subject, TracedFile,
};

/// A recording that is being written.
#[derive(Default)]
pub struct Story {
    /// Numbers of processes and of their parents, with their records.
    processes: Vec<(u32, u32, Vec<Record>)>,
}

impl Story {
    /// A process of a number, with its parent's.
    pub fn process(&mut self, number: u32, parent: u32) -> usize {
        self.processes.push((number, parent, Vec::new()));
        self.processes.len() - 1
    }

    /// A call of a process: thread, start and end, function, outcome.
    pub fn call(
        &mut self,
        process: usize,
        thread: u32,
        (start, end): (u64, u64),
        function: Function,
        outcome: Result<u64, i32>,
        call: RecordedCall,
    ) {
        let duration = end - start;
        self.processes[process].2.push(Record {
            function,
            thread,
            start,
            duration,
            outcome,
            known: true,
            call,
        });
    }

    /// Writes it to a file.
    pub fn write(mut self, path: &Path) {
        let mut writer = MultiProcessWriter::create(path).unwrap();
        for (number, parent, records) in &mut self.processes {
            let clock = records.iter().map(|record| record.start).min().unwrap_or(0);
            let header = Header {
                origin: Origin {
                    process: *number,
                    parent: *parent,
                    host: "here".into(),
                    ..Origin::default()
                },
                began: 1_000_000_000 + clock,
                clock,
                ..Header::default()
            };
            let part = Part { header: &header, source: "story", zero: None, preopened: &[] };
            writer.begin(&part).unwrap();
            records.sort_by_key(|record| record.start + record.duration);
            for record in records {
                writer.write((record.thread % 16) as u16, record).unwrap();
            }
        }
        writer.finish().unwrap();
    }

    /// The recording.
    pub fn recording(self) -> Recording {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("story.trace");
        self.write(&path);
        let bytes = std::fs::read(&path).unwrap();
        Recording::in_memory(&path, bytes).unwrap()
    }
}

/// A file as calls name it.
pub fn file(opener: u32, number: u64, path: &str, flags: i32) -> Arc<TracedFile> {
    Arc::new(TracedFile { opener, number, path: path.into(), flags })
}

/// Opens a file.
pub fn open(file: &Arc<TracedFile>, size: u64) -> RecordedCall {
    let path: Arc<Path> = file.path.as_path().into();
    let (flags, mode) = (file.flags, 0o644);
    Call::Open { file: Arc::clone(file), path, flags, mode, size: Some(size) }
}

/// Closes a file.
pub fn close(file: &Arc<TracedFile>) -> RecordedCall {
    Call::Close { file: Arc::clone(file), descriptor: 3, last: true }
}

/// Writes at an offset that the call says, or at the position that is there.
pub fn write(file: &Arc<TracedFile>, placed: bool, offset: u64, length: u64) -> RecordedCall {
    let file = Arc::clone(file);
    Call::Write { file, placed, offset: Some(offset), length, flags: 0, parts: 1 }
}

/// Reads likewise.
pub fn read(file: &Arc<TracedFile>, placed: bool, offset: u64, length: u64) -> RecordedCall {
    let file = Arc::clone(file);
    Call::Read { file, placed, offset: Some(offset), length, flags: 0, parts: 1 }
}

/// Asks for the size of a name.
pub fn stat(path: &str, size: Option<u64>) -> RecordedCall {
    Call::Stat { of: Subject::Name(Path::new(path).into()), flags: 0, size, mode: None }
}

/// Numbers that look random.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// An open file of the model.
struct Handle {
    file: Arc<TracedFile>,
    inode: usize,
    position: u64,
}

/// What a made-up run does: calls of the same file never overlap, others do.
pub struct Model {
    pub story: Story,
    /// Names that are there, and their sizes.
    pub sizes: HashMap<PathBuf, u64>,
}

/// Makes up a run of so many processes of so many threads each.
#[expect(clippy::too_many_lines, reason = "a list of calls")]
pub fn made_up(seed: u64, processes: u32, threads: u32, calls: usize) -> Model {
    let mut dice = Dice(seed | 1);
    let mut story = Story::default();
    for number in 0..processes {
        story.process(100 + number, 1);
    }
    let names: Vec<String> = (0..6).map(|n| format!("/data/{n}")).collect();
    // By name: which file, and until when a call is busy with it. By file: its size, and the same.
    let mut named: Vec<(Option<usize>, u64)> = vec![(None, 0); names.len()];
    let mut inodes: Vec<(u64, u64)> = Vec::new();
    // Half of them are there before.
    for name in named.iter_mut().take(3) {
        inodes.push((1000 * inodes.len() as u64 + 777, 0));
        name.0 = Some(inodes.len() - 1);
    }
    let workers = (processes * threads) as usize;
    let mut free = vec![0_u64; workers];
    let mut handles: Vec<Vec<Handle>> = (0..workers).map(|_| Vec::new()).collect();
    let mut numbers = vec![0_u64; processes as usize];
    for _ in 0..calls {
        let worker = dice.below(workers as u64) as usize;
        let (process, thread) = (worker % processes as usize, 1000 + worker as u32);
        let opener = 100 + process as u32;
        let name = dice.below(names.len() as u64) as usize;
        let length = dice.below(5000);
        let took = 100 + dice.below(1000);
        let mut busy = free[worker];
        let call = |story: &mut Story, from: u64, function, outcome, what| {
            let (start, end) = (from + 10, from + 10 + took);
            story.call(process, thread, (start, end), function, outcome, what);
            end
        };
        match dice.below(10) {
            0 | 1 => {
                // Open, with a name that is there or not.
                let (inode, until) = named[name];
                busy = busy.max(until).max(inode.map_or(0, |inode| inodes[inode].1));
                numbers[process] += 1;
                let creates = dice.below(2) == 0;
                let flags = libc::O_RDWR | if creates { libc::O_CREAT } else { 0 };
                let file = file(opener, numbers[process], &names[name], flags);
                let end = match inode {
                    Some(inode) => {
                        let what = open(&file, inodes[inode].0);
                        let end = call(&mut story, busy, Function::Open, Ok(3), what);
                        inodes[inode].1 = end;
                        handles[worker].push(Handle { file, inode, position: 0 });
                        end
                    }
                    None if creates => {
                        let end = call(&mut story, busy, Function::Open, Ok(3), open(&file, 0));
                        inodes.push((0, end));
                        let inode = inodes.len() - 1;
                        named[name].0 = Some(inode);
                        handles[worker].push(Handle { file, inode, position: 0 });
                        end
                    }
                    None => {
                        let path: Arc<Path> = Path::new(&names[name]).into();
                        let what = Call::Open { file, path, flags, mode: 0, size: None };
                        call(&mut story, busy, Function::Open, Err(libc::ENOENT), what)
                    }
                };
                named[name].1 = end;
                free[worker] = end;
            }
            2 => {
                let (inode, until) = named[name];
                busy = busy.max(until).max(inode.map_or(0, |inode| inodes[inode].1));
                let outcome = inode.map(|_| 0).ok_or(libc::ENOENT);
                let what = stat(&names[name], inode.map(|inode| inodes[inode].0));
                let end = call(&mut story, busy, Function::Stat, outcome, what);
                named[name].1 = end;
                if let Some(inode) = inode {
                    inodes[inode].1 = end;
                }
                free[worker] = end;
            }
            3 => {
                let (inode, until) = named[name];
                busy = busy.max(until);
                let outcome = inode.map(|_| 0).ok_or(libc::ENOENT);
                let what = Call::Unlink { path: Path::new(&names[name]).into(), flags: 0 };
                let end = call(&mut story, busy, Function::Unlink, outcome, what);
                named[name] = (None, end);
                free[worker] = end;
            }
            4 => {
                let to = (name + 1) % names.len();
                busy = busy.max(named[name].1).max(named[to].1);
                let outcome = named[name].0.map(|_| 0).ok_or(libc::ENOENT);
                let what = Call::Rename {
                    from: Path::new(&names[name]).into(),
                    to: Path::new(&names[to]).into(),
                    flags: 0,
                };
                let end = call(&mut story, busy, Function::Rename, outcome, what);
                if let Some(inode) = named[name].0 {
                    named[to].0 = Some(inode);
                    named[name].0 = None;
                }
                (named[name].1, named[to].1) = (end, end);
                free[worker] = end;
            }
            kind => {
                let open_files = handles[worker].len() as u64;
                if open_files == 0 {
                    continue;
                }
                let place = dice.below(open_files) as usize;
                let handle = &mut handles[worker][place];
                let (size, until) = inodes[handle.inode];
                busy = busy.max(until);
                let placed = dice.below(2) == 0;
                let offset = if placed { dice.below(8000) } else { handle.position };
                let mut now = size;
                let mut moved = 0;
                let (function, what) = match kind {
                    5 | 6 => {
                        moved = length;
                        if length > 0 {
                            now = size.max(offset + length);
                        }
                        (Function::Write, write(&handle.file, placed, offset, length))
                    }
                    7 | 8 => {
                        moved = length.min(size.saturating_sub(offset));
                        (Function::Read, read(&handle.file, placed, offset, length))
                    }
                    _ if placed => {
                        now = length;
                        let file = Arc::clone(&handle.file);
                        (Function::Ftruncate, Call::Truncate { file, length })
                    }
                    _ => (Function::Close, close(&handle.file)),
                };
                let is_transfer = matches!(function, Function::Read | Function::Write);
                if is_transfer && !placed {
                    handle.position += moved;
                }
                let end = call(&mut story, busy, function, Ok(moved), what);
                inodes[handle.inode] = (now, end);
                free[worker] = end;
                if function == Function::Close {
                    handles[worker].remove(place);
                }
            }
        }
    }
    let sizes = names
        .iter()
        .zip(&named)
        .filter_map(|(name, (inode, _))| Some((PathBuf::from(name), inodes[(*inode)?].0)));
    Model { sizes: sizes.collect(), story }
}

/// Writes a recording of so many calls: four threads write and read a file each and one together.
pub fn write_many(path: &Path, calls: u64) {
    let mut writer = MultiProcessWriter::create(path).unwrap();
    let origin = Origin { process: 10, host: "here".into(), ..Origin::default() };
    let header = Header { origin, began: 1_000_000_000, ..Header::default() };
    writer.begin(&Part { header: &header, source: "many", zero: None, preopened: &[] }).unwrap();
    let mut files = Vec::new();
    let mut clock = 0;
    let mut record = |thread: u64, function, outcome, call| {
        clock += 10;
        let (thread, start, duration) = (thread as u32 + 1, clock, 5);
        let record = Record { function, thread, start, duration, outcome, known: true, call };
        writer.write(thread as u16, &record).unwrap();
    };
    for number in 0..8 {
        let name = if number < 4 { format!("/data/{number}") } else { "/data/all".into() };
        let file = file(10, number, &name, libc::O_RDWR | libc::O_CREAT);
        record(number % 4, Function::Open, Ok(3), open(&file, 0));
        files.push(file);
    }
    for call in 0..calls {
        let thread = call % 4;
        let file = &files[(thread + 4 * (call / 4 % 2)) as usize];
        let offset = 512 * (call / 16 % 128);
        if call / 8 % 2 == 0 {
            record(thread, Function::Pwrite, Ok(512), write(file, true, offset, 512));
        } else {
            record(thread, Function::Pread, Ok(512), read(file, true, offset, 512));
        }
    }
    writer.finish().unwrap();
}
