//! Random steps of a program, carried out by two systems that have to agree on everything.

use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use proptest::prelude::*;

use super::bytes;
use super::plain::System;

/// Places that programs like: about blocks of 64 bytes, or far away.
fn place() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => 0..300i64,
        2 => prop::sample::select(vec![0, 63, 64, 65, 127, 128, 192, 256]),
        1 => prop::sample::select(vec![-1, -70, 5000, 1 << 40, (1 << 43) - 3, i64::MAX, i64::MAX - 5, i64::MIN]),
    ]
}

fn near() -> impl Strategy<Value = i64> {
    prop_oneof![10 => 0..300i64, 1 => Just(-1i64), 1 => Just(5000i64)]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 1..40usize, 3 => 40..200usize, 1 => Just(0), 1 => Just(64)]
}

fn parts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        4 => length().prop_map(|length| vec![length]),
        1 => prop::collection::vec(0..40usize, 1..5),
    ]
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn flags() -> impl Strategy<Value = i32> {
    let access = prop_oneof![
        1 => Just(libc::O_RDONLY),
        2 => Just(libc::O_WRONLY),
        5 => Just(libc::O_RDWR),
    ];
    let more = prop::collection::vec(
        prop::sample::select(vec![
            libc::O_CREAT,
            libc::O_CREAT,
            libc::O_CREAT,
            libc::O_TRUNC,
            libc::O_EXCL,
            libc::O_APPEND,
            libc::O_SYNC,
            libc::O_DSYNC,
            libc::O_NOFOLLOW,
            libc::O_CLOEXEC,
            libc::O_NONBLOCK,
        ]),
        0..4,
    );
    (access, more).prop_map(|(access, more)| more.into_iter().fold(access, |all, flag| all | flag))
}

/// One step. Files are numbers of open descriptors, counted round.
#[derive(Clone, Debug)]
pub enum FileStep {
    Open(&'static str, i32),
    Close(usize),
    Dup(usize),
    Read(usize, Vec<usize>, Option<i64>),
    Write(usize, Vec<usize>, Option<i64>),
    /// Several writes, one after the other, as streams do.
    Stream(usize, usize, usize),
    /// Several reads at the same distance: from where, how far apart, of which size, how many. From
    /// the position, one after the other, if not said.
    Reads(usize, Option<(i64, i64)>, usize, usize),
    Seek(usize, i64, i32),
    Truncate(usize, i64),
    Allocate(usize, i32, i64, i64),
    Sync(usize, bool),
    Fstat(usize),
    Stat(&'static str, bool),
    Rename(&'static str, &'static str),
    Unlink(&'static str),
    TruncateName(&'static str, i64),
    CopyRange([(usize, Option<i64>); 2], usize),
    SendFile(usize, Option<i64>, usize, usize),
    SetAppend(usize, bool),
    Share(usize),
    /// The process is copied: all are shared.
    Fork,
    Settle,
}

fn step() -> impl Strategy<Value = FileStep> {
    let file = || 0..16usize;
    let at = || prop::option::of(place());
    let near_at = || prop::option::of(near());
    prop_oneof![
        5 => (name(), flags()).prop_map(|(name, flags)| FileStep::Open(name, flags)),
        3 => file().prop_map(FileStep::Close),
        1 => file().prop_map(FileStep::Dup),
        9 => (file(), parts(), at()).prop_map(|(file, parts, at)| FileStep::Read(file, parts, at)),
        12 => (file(), parts(), at()).prop_map(|(file, parts, at)| FileStep::Write(file, parts, at)),
        4 => (file(), 1..30usize, 1..12usize).prop_map(|(file, size, count)| FileStep::Stream(file, size, count)),
        4 => (file(), prop::option::of((0..300i64, -40..60i64)), 1..30usize, 1..12usize)
            .prop_map(|(file, at, size, count)| FileStep::Reads(file, at, size, count)),
        5 => (file(), place(), prop::sample::select(vec![0, 0, 0, 1, 1, 2, 2, 3, 4, 9]))
            .prop_map(|(file, offset, whence)| FileStep::Seek(file, offset, whence)),
        1 => (file(), -300..20i64, 1..3)
            .prop_map(|(file, offset, whence)| FileStep::Seek(file, offset, whence)),
        2 => (file(), near()).prop_map(|(file, length)| FileStep::Truncate(file, length)),
        1 => (file(), prop::sample::select(vec![0, 1, 3, 16]), near(), near())
            .prop_map(|(file, mode, offset, length)| FileStep::Allocate(file, mode, offset, length)),
        1 => (file(), any::<bool>()).prop_map(|(file, data)| FileStep::Sync(file, data)),
        2 => file().prop_map(FileStep::Fstat),
        2 => (name(), any::<bool>()).prop_map(|(name, extended)| FileStep::Stat(name, extended)),
        1 => (name(), name()).prop_map(|(from, to)| FileStep::Rename(from, to)),
        1 => name().prop_map(FileStep::Unlink),
        1 => (name(), near()).prop_map(|(name, length)| FileStep::TruncateName(name, length)),
        1 => ([(file(), near_at()), (file(), near_at())], length())
            .prop_map(|(ends, length)| FileStep::CopyRange(ends, length)),
        1 => (file(), near_at(), file(), length())
            .prop_map(|(from, at, to, length)| FileStep::SendFile(from, at, to, length)),
        1 => (file(), any::<bool>()).prop_map(|(file, append)| FileStep::SetAppend(file, append)),
        1 => file().prop_map(FileStep::Share),
        1 => prop::bool::weighted(0.1).prop_map(|fork| if fork { FileStep::Fork } else { FileStep::Settle }),
    ]
}

/// What a program does.
pub fn steps() -> impl Strategy<Value = Vec<FileStep>> {
    prop::collection::vec(step(), 1..80)
}

/// What the program observed: the value that was returned, and the bytes that were read.
#[derive(Debug, PartialEq, Eq)]
pub enum StepOutcome {
    Value(Result<u64, i32>, Vec<Vec<u8>>),
    Stat(Result<(u64, u64), i32>),
}

struct StepsRun<'s, S> {
    system: &'s S,
    open: Vec<RawFd>,
}

fn room(parts: &[usize]) -> Vec<Vec<u8>> {
    parts.iter().map(|length| vec![0xee; *length]).collect()
}

impl<S: System> StepsRun<'_, S> {
    fn fd(&self, file: usize) -> Option<RawFd> {
        (!self.open.is_empty()).then(|| self.open[file % self.open.len()])
    }

    fn step(&mut self, number: u64, step: &FileStep) -> Option<Vec<StepOutcome>> {
        let value = |value| Some(vec![StepOutcome::Value(value, Vec::new())]);
        let system = self.system;
        match step {
            FileStep::Open(name, flags) => {
                let opened = system.open(name, *flags, 0o644);
                self.open.extend(opened.ok());
                value(opened.map(|_| 0))
            }
            FileStep::Close(file) => {
                let fd = self.fd(*file)?;
                self.open.retain(|other| *other != fd);
                value(system.close(fd))
            }
            FileStep::Dup(file) => {
                let new = system.dup(self.fd(*file)?);
                self.open.extend(new.ok());
                value(new.map(|_| 0))
            }
            FileStep::Read(file, parts, at) => {
                let mut parts = room(parts);
                let count = system.read(self.fd(*file)?, &mut parts, *at);
                Some(vec![StepOutcome::Value(count, parts)])
            }
            FileStep::Write(file, parts, at) => {
                let part = |(n, length): (usize, &usize)| bytes(number + n as u64, *length);
                let parts: Vec<_> = parts.iter().enumerate().map(part).collect();
                value(system.write(self.fd(*file)?, &parts, *at))
            }
            FileStep::Stream(file, size, count) => {
                let fd = self.fd(*file)?;
                let write = |n| system.write(fd, &[bytes(number + n as u64, *size)], None);
                Some((0..*count).map(|n| StepOutcome::Value(write(n), Vec::new())).collect())
            }
            FileStep::Reads(file, at, size, count) => {
                let fd = self.fd(*file)?;
                let read = |n: usize| {
                    let mut parts = room(&[*size]);
                    let at = at.map(|(start, stride)| start + stride * n as i64);
                    StepOutcome::Value(system.read(fd, &mut parts, at), parts)
                };
                Some((0..*count).map(read).collect())
            }
            FileStep::Seek(file, offset, whence) => {
                value(system.seek(self.fd(*file)?, *offset, *whence))
            }
            FileStep::Truncate(file, length) => value(system.truncate(self.fd(*file)?, *length)),
            FileStep::Allocate(file, mode, offset, length) => {
                value(system.allocate(self.fd(*file)?, *mode, *offset, *length))
            }
            FileStep::Sync(file, data) => value(system.sync(self.fd(*file)?, *data)),
            FileStep::Fstat(file) => Some(vec![StepOutcome::Stat(system.fstat(self.fd(*file)?))]),
            FileStep::Stat(name, false) => Some(vec![StepOutcome::Stat(system.stat(name))]),
            FileStep::Stat(name, true) => Some(vec![StepOutcome::Stat(system.statx(name))]),
            FileStep::Rename(from, to) => value(system.rename(from, to)),
            FileStep::Unlink(name) => value(system.unlink(name)),
            FileStep::TruncateName(name, length) => value(system.truncate_name(name, *length)),
            FileStep::CopyRange([from, to], length) => {
                let ends = [(self.fd(from.0)?, from.1), (self.fd(to.0)?, to.1)];
                value(system.copy_range(ends, *length))
            }
            FileStep::SendFile(from, at, to, length) => {
                value(system.send_file((self.fd(*from)?, *at), self.fd(*to)?, *length))
            }
            FileStep::SetAppend(file, append) => value(system.set_append(self.fd(*file)?, *append)),
            FileStep::Share(file) => {
                system.share(self.fd(*file)?);
                None
            }
            FileStep::Fork => {
                system.before_fork();
                None
            }
            FileStep::Settle => {
                system.settle();
                None
            }
        }
    }

    /// What is in the file of a descriptor for others, if it still has a name.
    fn outside(&self, file: usize) -> Option<(String, (u64, Vec<u8>))> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.fd(file)?)).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Some((name, content(&path)?))
    }
}

/// What is in a file: its size, and its bytes where steps may have left some.
fn content(path: &Path) -> Option<(u64, Vec<u8>)> {
    let file = std::fs::File::open(path).ok()?;
    let size = file.metadata().unwrap().len();
    let mut bytes = Vec::new();
    for start in [0, (1 << 40) - 1000, (1 << 43) - 1000, size.max(4000) - 4000] {
        let mut piece = vec![0; 8000];
        if start < size {
            let count = file.read_at(&mut piece, start).unwrap();
            bytes.extend_from_slice(&piece[..count]);
        }
    }
    Some((size, bytes))
}

/// What is in a directory.
fn image(root: &Path) -> Vec<(String, (u64, Vec<u8>))> {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| {
        (entry.file_name().to_str().unwrap().to_owned(), content(&entry.path()).unwrap())
    });
    let mut files: Vec<_> = named.collect();
    files.sort();
    files
}

/// Carries the steps out by both systems. Says where they differ.
pub fn compare(steps: &[FileStep], plain: &impl System, other: &impl System) -> Result<(), String> {
    let mut expected = StepsRun { system: plain, open: Vec::new() };
    let mut found = StepsRun { system: other, open: Vec::new() };
    let mut result = Ok(());
    let end = [FileStep::Settle];
    for (number, step) in steps.iter().chain(&end).enumerate() {
        // Files that are closed or synced are to be seen by others.
        let closing = match step {
            FileStep::Close(file) if !expected.open.is_empty() => {
                Some(expected.outside(*file).map(|named| named.0))
            }
            _ => None,
        };
        let [should, is] =
            [expected.step(number as u64 * 16, step), found.step(number as u64 * 16, step)];
        if should != is {
            result = Err(format!("step {number} {step:?}\n  plain: {should:?}\n  stack: {is:?}"));
            break;
        }
        let visible = match (step, closing) {
            (FileStep::Sync(file, _), _) => [expected.outside(*file), found.outside(*file)],
            (_, Some(Some(name))) => [plain.root(), other.root()]
                .map(|root| content(&root.join(&name)).map(|bytes| (name.clone(), bytes))),
            _ => [None, None],
        };
        if visible[0] != visible[1] {
            result = Err(format!("outside after step {number} {step:?}\n  {visible:?}"));
            break;
        }
    }
    let closed = [close_all(&mut expected), close_all(&mut found)];
    result?;
    if closed[0] != closed[1] {
        return Err(format!("at close: {closed:?}"));
    }
    let images = [image(plain.root()), image(other.root())];
    if images[0] != images[1] {
        return Err(format!("at the end:\n  plain: {:?}\n  stack: {:?}", images[0], images[1]));
    }
    Ok(())
}

fn close_all<S: System>(run: &mut StepsRun<'_, S>) -> Vec<Result<u64, i32>> {
    run.open.drain(..).map(|fd| run.system.close(fd)).collect()
}
