//! Held files become real ones.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::num::NonZeroUsize;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use rustix::fs::{AtFlags, Mode, Timespec, Timestamps};
use rustix::io::Errno;

use super::held::{Handle, Held, Time};
use super::state::State;
use crate::file::OpenFile;
use crate::function::Function;
use crate::gate::stay_within;
use crate::memory::Memory;
use crate::op::{Action, Op, Outcome};
use crate::place::Directory;
use crate::route::Route;
use crate::stage::Next;
use crate::threads::without_signals;
use crate::umask::Umask;

/// With fewer files than this it does not pay to start threads.
const WORTH_THREADS: usize = 8;

/// A file to be written out.
struct Job<'a> {
    directory: &'a Arc<Directory>,
    name: &'a CStr,
    path: PathBuf,
    mode: u32,
    modified: Time,
    bytes: Cow<'a, [u8]>,
}

impl Job<'_> {
    /// Makes the file, by way of the next stages.
    fn write(&self, next: Next<'_>) -> Result<(), Errno> {
        let target = self.directory.target(self.name, &self.path);
        let flags = libc::O_WRONLY
            | libc::O_CREAT
            | libc::O_TRUNC
            | libc::O_NOFOLLOW
            | libc::O_CLOEXEC
            | libc::O_LARGEFILE;
        let file = next.open(target, flags, self.mode)?;
        let written = write_all(&file, &self.bytes, next);
        let closed = next.close(&file);
        written.and(closed)?;
        Ok(())
    }

    /// Gives it its permissions and times, which stages after this one do not change any more.
    fn finish(&self, made_with: u32, umask: &Umask) {
        let Self { directory, name, .. } = self;
        if umask.now().is_none_or(|umask| made_with & !umask != self.mode) {
            let mode = Mode::from_raw_mode(self.mode);
            let _ = rustix::fs::chmodat(directory, *name, mode, AtFlags::empty());
        }
        // A stage further down may have put it elsewhere for now; then it has the time of now.
        let time = Timespec { tv_sec: self.modified.0, tv_nsec: self.modified.1.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        let _ = rustix::fs::utimensat(directory, *name, &times, AtFlags::SYMLINK_NOFOLLOW);
    }
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

/// Makes real files of these, in the order of the list. It goes on when some of it fails: those stay held.
/// Returns the first error.
pub(super) fn bring_home(
    state: &mut State,
    ids: &[u64],
    threads: NonZeroUsize,
    umask: &Umask,
    next: Next<'_>,
) -> Result<(), Errno> {
    let is_open = |id: &u64| state.held.get(id).is_some_and(Held::is_open);
    let (open, closed): (Vec<u64>, Vec<u64>) = ids.iter().copied().partition(is_open);
    let mut first = bring_closed_home(state, &closed, threads, umask, next);
    for id in open {
        first = first.and(bring_open_home(state, id, umask, next));
    }
    first
}

fn bring_closed_home(
    state: &mut State,
    ids: &[u64],
    threads: NonZeroUsize,
    umask: &Umask,
    next: Next<'_>,
) -> Result<(), Errno> {
    let outcomes = {
        let state = &*state;
        let write = |id: &u64| -> Result<(), Errno> {
            let Some(held) = state.held.get(id) else { return Ok(()) };
            let job = Job {
                directory: &held.directory,
                name: held.c_name(),
                path: held.directory.path_to(held.c_name()),
                mode: held.mode,
                modified: held.modified,
                bytes: held.bytes(state.log.as_ref())?,
            };
            job.write(next)?;
            job.finish(job.mode, umask);
            Ok(())
        };
        in_threads(ids, threads, &write)
    };
    let mut first = Ok(());
    for (place, outcome) in outcomes {
        match outcome {
            Ok(()) => state.is_home(ids[place]),
            Err(error) => first = first.and(Err(error)),
        }
    }
    first
}

/// Does something with each, several at a time; they are begun in the order of the list.
fn in_threads<T: Sync>(
    list: &[T],
    threads: NonZeroUsize,
    what: &(impl Fn(&T) -> Result<(), Errno> + Sync),
) -> Vec<(usize, Result<(), Errno>)> {
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
            (1..threads.get()).map_while(start).collect()
        });
        let mut outcomes = work();
        for other in others {
            outcomes.extend(other.join().unwrap_or_default());
        }
        outcomes
    })
}

/// Makes a real file of one that the program has open, and lets its descriptors stand for that.
fn bring_open_home(state: &mut State, id: u64, umask: &Umask, next: Next<'_>) -> Result<(), Errno> {
    let Some(held) = state.held.get(&id) else { return Ok(()) };
    let hidden;
    let name = if held.key.is_some() {
        held.c_name()
    } else {
        hidden =
            CString::new(format!(".striate-{}-{id}", rustix::process::getpid().as_raw_nonzero()))
                .unwrap_or_default();
        &hidden
    };
    let job = Job {
        directory: &held.directory,
        name,
        path: held.directory.path_to(name),
        // Whoever has it open for writing may write it, whatever its permissions say.
        mode: held.mode | 0o600,
        modified: held.modified,
        bytes: held.bytes(state.log.as_ref())?,
    };
    job.write(next)?;
    let target = job.directory.target(name, &job.path);
    let open = |file: Arc<OpenFile>| -> Result<(Arc<OpenFile>, OwnedFd), Errno> {
        let flags = file.flags() & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
        let action = Action::Open { file: &file, target, flags, mode: 0 };
        let mut op = Op { function: Function::Open, route: file.full_route(), action };
        let descriptor = next.call(&mut op)?;
        // SAFETY: it was opened just now, for nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) };
        Ok((file, descriptor))
    };
    let files: Vec<_> = held.handles.iter().filter_map(Weak::upgrade).collect();
    let route = files.first().map_or(Route::NONE, |file| file.route().clone());
    let opened: Result<Vec<_>, Errno> = files.into_iter().map(open).collect();
    let made_with = job.mode;
    Job { mode: held.mode, path: PathBuf::new(), bytes: Cow::Borrowed(&[]), ..job }
        .finish(made_with, umask);
    if held.key.is_none() {
        let action = Action::Unlink { target, flags: 0 };
        let _ = next.call(&mut Op { function: Function::Unlink, route: &route, action });
    }
    let opened = opened?;
    for (file, descriptor) in opened {
        if let Some(handle) = file.state::<Handle>(next.slot()) {
            file.replace_descriptors(&descriptor, handle.opened.load(Ordering::Acquire))?;
            handle.set_home();
        }
    }
    state.is_home(id);
    Ok(())
}
