//! [`Materializer`]: writes buffered files out as files of the file system.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::num::NonZeroUsize;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use rustix::fs::{AtFlags, Mode, Timespec, Timestamps};
use rustix::io::Errno;
use striate_calls::Function;
use striate_process::reopen::Identity;
use striate_stack::{
    Action, FileOrName, Memory, Next, Op, OpenFile, Outcome, StatInto, stay_within,
};

use super::buffered_file::{BufferedFile, CombineHandle, Time};
use super::identities::Identities;
use super::state::CombineState;
use crate::dentry::Directory;
use crate::threads::without_signals;

/// With fewer files than this it does not pay to start threads.
const WORTH_THREADS: usize = 8;

/// A file to be written out.
struct Job<'a> {
    directory: &'a Arc<Directory>,
    name: &'a CStr,
    path: PathBuf,
    /// What it is made with: whatever the mask of the process is, it gets all of this.
    mode: u32,
    bytes: Cow<'a, [u8]>,
    /// Whether the program knows its identity, so that the real one has to be known.
    told: bool,
    /// Whether the name is hidden: it must not exist before, or its owner would see what is
    /// written.
    hidden: bool,
}

impl Job<'_> {
    /// Makes the file, by way of the next stages. Returns its identity, if that has to be known.
    fn write(&self, next: Next<'_>) -> Result<Option<Identity>, Errno> {
        let target = self.directory.target(self.name, &self.path);
        let flags = libc::O_WRONLY
            | libc::O_CREAT
            | libc::O_TRUNC
            | libc::O_NOFOLLOW
            | libc::O_CLOEXEC
            | libc::O_LARGEFILE
            | if self.hidden { libc::O_EXCL } else { 0 };
        let file = next.open(target, flags, self.mode)?;
        let descriptor = file.descriptor()?;
        // To ask is cheaper than to know the mask, which other threads may change meanwhile.
        if rustix::fs::fstat(descriptor).is_ok_and(|stat| stat.st_mode & 0o7777 != self.mode) {
            let _ = rustix::fs::fchmod(descriptor, Mode::from_raw_mode(self.mode));
        }
        let written = write_all(&file, &self.bytes, next);
        let closed = next.close(&file);
        written.and(closed)?;
        if !self.told {
            return Ok(None);
        }
        // By its name: a stage after this one may have moved it when it was closed.
        // SAFETY: a structure of numbers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let into = StatInto::Stat(&mut stat);
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let action = Action::Stat { of: FileOrName::Name(target), flags, into };
        let route = file.full_route();
        next.call(&mut Op { function: Function::Fstatat, route, action })?;
        Ok(Some((stat.st_dev, stat.st_ino)))
    }

    /// Gives it its time, which stages after this one do not change any more.
    fn set_time(&self, modified: Time) {
        // A stage further down may have put it elsewhere for now; then it has the time of now.
        let times = times(modified);
        let _ = rustix::fs::utimensat(self.directory, self.name, &times, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// A unique name, for a file that has none. It is counted in the process, not in the stage: there
/// may be several, as in a replay.
fn hidden_name() -> CString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let process = rustix::process::getpid().as_raw_nonzero();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    // The time, so that it cannot be predicted.
    let time = super::log::now();
    CString::new(format!(".striate-{process}-{number}-{time}")).unwrap_or_default()
}

fn times(modified: Time) -> Timestamps {
    let time = Timespec { tv_sec: modified.0, tv_nsec: modified.1.into() };
    Timestamps { last_access: time, last_modification: time }
}

fn write_all(file: &Arc<OpenFile>, mut bytes: &[u8], next: Next<'_>) -> Outcome {
    let mut at = 0;
    while !bytes.is_empty() {
        let memory = Memory::source(bytes);
        let action = Action::Write { file, memory, at: Some(at), flags: 0 };
        match next.call(&mut Op::on(file, Function::Flush, action)) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                at += count;
                bytes = bytes.get(count as usize..).unwrap_or_default();
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}

/// How buffered files become real ones.
pub(super) struct Materializer<'w> {
    /// So many at a time.
    pub(super) threads: NonZeroUsize,
    pub(super) identities: &'w Identities,
    /// Counts those that are real files.
    pub(super) written: &'w AtomicUsize,
    pub(super) next: Next<'w>,
}

impl Materializer<'_> {
    /// Makes real files of these, in the order of the list. It goes on when some of it fails: those
    /// stay buffered. Returns the first error.
    pub(super) fn materialize(&self, state: &mut CombineState, ids: &[u64]) -> Result<(), Errno> {
        let is_open = |id: &u64| state.buffered.get(id).is_some_and(BufferedFile::is_open);
        let (open, closed): (Vec<u64>, Vec<u64>) = ids.iter().copied().partition(is_open);
        let mut first = self.bring_closed_home(state, &closed);
        for id in open {
            first = first.and(self.bring_open_home(state, id));
        }
        first
    }

    /// A file is a real one now: from now on this is its identity, under the name that the program
    /// knows.
    fn is_materialized(&self, state: &mut CombineState, id: u64, real: Option<Identity>) {
        if let (Some(buffered), Some(real)) = (state.buffered.get(&id), real) {
            self.identities.tell(real, buffered.identity);
        }
        state.is_materialized(id);
    }

    fn bring_closed_home(&self, state: &mut CombineState, ids: &[u64]) -> Result<(), Errno> {
        let outcomes = {
            let state = &*state;
            let write = |id: &u64| -> Result<Option<Identity>, Errno> {
                let Some(buffered) = state.buffered.get(id) else { return Ok(None) };
                let job = Job {
                    directory: &buffered.directory,
                    name: buffered.c_name(),
                    path: buffered.directory.path_to(buffered.c_name()),
                    mode: buffered.mode,
                    bytes: buffered.bytes(state.log.as_ref())?,
                    told: buffered.told,
                    hidden: false,
                };
                let real = job.write(self.next)?;
                job.set_time(buffered.modified);
                self.written.fetch_add(1, Ordering::Relaxed);
                Ok(real)
            };
            in_threads(ids, self.threads, &write)
        };
        let mut first = Ok(());
        for (place, outcome) in outcomes {
            match outcome {
                Ok(real) => self.is_materialized(state, ids[place], real),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// Makes a real file of one that the program has open, and lets its descriptors stand for that.
    fn bring_open_home(&self, state: &mut CombineState, id: u64) -> Result<(), Errno> {
        let Some(buffered) = state.buffered.get(&id) else { return Ok(()) };
        let next = self.next;
        let hidden;
        let name = if buffered.key.is_some() {
            buffered.c_name()
        } else {
            hidden = hidden_name();
            &hidden
        };
        let job = Job {
            directory: &buffered.directory,
            name,
            path: buffered.directory.path_to(name),
            // An open file that may be written stays writable, whatever the permissions say.
            mode: buffered.mode | 0o600,
            bytes: buffered.bytes(state.log.as_ref())?,
            told: buffered.told,
            hidden: buffered.key.is_none(),
        };
        let real = job.write(next)?;
        let target = job.directory.target(name, &job.path);
        let open = |file: Arc<OpenFile>| -> Result<(Arc<OpenFile>, OwnedFd), Errno> {
            let flags = file.flags() & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
            let action = Action::Open { file: &file, target, flags, mode: 0 };
            let mut op = Op { function: Function::Open, route: file.full_route(), action };
            let descriptor = next.call(&mut op)?;
            // SAFETY: it was opened just now, and has no other user.
            let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) };
            Ok((file, descriptor))
        };
        let files: Vec<_> = buffered.handles.iter().filter_map(Weak::upgrade).collect();
        let opened: Result<Vec<_>, Errno> = files.into_iter().map(open).collect();
        if let Some((_, descriptor)) = opened.as_ref().ok().and_then(|opened| opened.first()) {
            let _ = rustix::fs::futimens(descriptor, &times(buffered.modified));
            if job.mode != buffered.mode {
                let _ = rustix::fs::fchmod(descriptor, Mode::from_raw_mode(buffered.mode));
            }
        }
        if buffered.key.is_none() {
            let file = next.file(&job.path, 0);
            let action = Action::Unlink { target, flags: 0 };
            let _ = next.call(&mut Op::on(&file, Function::Unlink, action));
        }
        for (file, descriptor) in opened? {
            if let Some(handle) = file.state::<CombineHandle>(next.slot()) {
                file.replace_descriptors(&descriptor, handle.opened.load(Ordering::Acquire))?;
                handle.set_materialized();
            }
        }
        self.is_materialized(state, id, real);
        Ok(())
    }
}

/// Does something with each, several at a time; they are begun in the order of the list.
fn in_threads<T: Sync, R: Send>(
    list: &[T],
    threads: NonZeroUsize,
    what: &(impl Fn(&T) -> R + Sync),
) -> Vec<(usize, R)> {
    let begun = AtomicUsize::new(0);
    let work = || {
        let mut outcomes = Vec::new();
        loop {
            let place = begun.fetch_add(1, Ordering::Relaxed);
            let Some(item) = list.get(place) else { return outcomes };
            outcomes.push((place, what(item)));
        }
    };
    if list.len() < WORTH_THREADS || threads.get() == 1 {
        return work();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = without_signals(|| {
            let start = |_| {
                let work = || {
                    stay_within();
                    work()
                };
                // Without a thread this one does it all.
                std::thread::Builder::new().spawn_scoped(scope, work).ok()
            };
            (1..threads.get().min(list.len() / 2)).map_while(start).collect()
        });
        let mut outcomes = work();
        for other in others {
            outcomes.extend(other.join().unwrap_or_default());
        }
        outcomes
    })
}
