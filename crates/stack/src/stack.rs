//! [`Stack`]: stages in their order, and which files they want.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::file::OpenFile;
use crate::function::Function;
use crate::op::{Action, Op, Outcome, Target};
use crate::route::{Paths, Route};
use crate::stage::{Next, Stage};

/// How many stages a stack has at most.
pub const MOST_STAGES: usize = 32;

/// A stage in a stack, with the files it is for.
#[derive(Debug)]
pub struct Placed {
    /// The name of its sort.
    pub name: &'static str,
    /// The files.
    pub paths: Paths,
    /// The stage.
    pub stage: Box<dyn Stage>,
}

/// Stages in the order in which operations pass them.
#[derive(Debug)]
pub struct Stack {
    /// Files that no stage sees.
    paths: Paths,
    stages: Vec<Placed>,
    /// Held for reading by whoever is within a stage, for writing while the process is copied: the copy
    /// has none of the other threads, which must not leave locks behind.
    gate: RwLock<()>,
}

thread_local! {
    /// How many calls of this thread are within a stack, one within the other.
    static WITHIN: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, this thread is within a stack: what the process does from here on, it does for itself.
#[derive(Debug)]
pub struct Within<'s> {
    _gate: Option<RwLockReadGuard<'s, ()>>,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let _ = WITHIN.try_with(|within| within.set(within.get().saturating_sub(1)));
    }
}

/// Whether this thread is within a stack. Calls that come from there are not the program's.
#[inline]
pub fn is_within() -> bool {
    // Where the thread is ending and has no memory of its own any more, its calls are passed on as well.
    WITHIN.try_with(|within| within.get() > 0).unwrap_or(true)
}

impl Stack {
    /// A stack of these stages for files that `paths` covers. Stages after the 32nd would not be seen.
    pub fn new(paths: Paths, stages: Vec<Placed>) -> Self {
        debug_assert!(stages.len() <= MOST_STAGES);
        Self { paths, stages, gate: RwLock::new(()) }
    }

    /// The stages.
    pub fn stages(&self) -> &[Placed] {
        &self.stages
    }

    pub(crate) fn stage(&self, place: usize) -> Option<&dyn Stage> {
        self.stages.get(place).map(|placed| placed.stage.as_ref())
    }

    /// The stages that want operations on an absolute path.
    pub fn route(&self, path: &Path) -> Route {
        self.routes(path)[0].clone()
    }

    /// The same, and without those that hold something back.
    fn routes(&self, path: &Path) -> [Route; 2] {
        let mut routes = [Route::NONE; 2];
        if self.paths.cover(path) {
            for (place, placed) in self.stages.iter().enumerate() {
                if placed.paths.cover(path) {
                    let kinds = placed.stage.kinds();
                    routes[0].add(place, kinds);
                    if !placed.stage.holds_back() {
                        routes[1].add(place, kinds);
                    }
                }
            }
        }
        routes
    }

    /// Enters the stack with a call of the program.
    #[inline]
    pub fn enter(&self) -> Within<'_> {
        let first = WITHIN.try_with(|within| within.replace(within.get() + 1)).unwrap_or(1) == 0;
        // A stage that calls in again has the gate already; to wait for it then could be for ever.
        let gate = first.then(|| self.gate.read().unwrap_or_else(PoisonError::into_inner));
        Within { _gate: gate }
    }

    /// Lets an operation of the program pass through the stages that want it.
    #[inline]
    pub fn call(&self, op: &mut Op<'_>) -> Outcome {
        let _within = self.enter();
        Next::new(self, 0).call(op)
    }

    /// Opens a file for the program; `None` if no stage wants it, or if it is not a regular file: then
    /// nothing was done.
    pub fn open(
        &self,
        function: Function,
        target: Target<'_>,
        flags: i32,
        mode: u32,
    ) -> Option<Result<Arc<OpenFile>, Errno>> {
        let routes = self.routes(target.absolute);
        if routes[0].is_empty() || flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
            return None;
        }
        // To open a pipe may wait for somebody, and devices are not for stages.
        if is_special(target.directory, target.path, flags) {
            return None;
        }
        let file = Arc::new(OpenFile::new(target.absolute, flags, routes, self.stages.len()));
        let action = Action::Open { file: &file, target, flags, mode };
        let outcome = self.call(&mut Op::on(&file, function, action));
        Some(outcome.map(|descriptor| {
            file.add_descriptor(descriptor as RawFd);
            file
        }))
    }

    /// From now on others may see this file: whatever stages hold back of it goes to storage, the kernel
    /// has the position again, and stages that hold something back do not see it any more.
    pub fn share(&self, file: &Arc<OpenFile>) -> Outcome {
        let _within = self.enter();
        // First, so that what is put in a buffer while it is emptied does not stay there.
        file.share();
        let settled = self.settle(file);
        let positioned = file.give_position_back();
        settled?;
        positioned.map(|()| 0)
    }

    /// Hands on what stages hold back of a file.
    pub fn settle(&self, file: &Arc<OpenFile>) -> Outcome {
        let _within = self.enter();
        self.each(|stage, next| stage.settle(file, next))
    }

    /// Hands on all that stages hold back.
    pub fn settle_all(&self) -> Outcome {
        let _within = self.enter();
        self.each(|stage, next| stage.settle_all(next))
    }

    fn each(&self, what: impl Fn(&dyn Stage, Next<'_>) -> Outcome) -> Outcome {
        let mut first = Ok(0);
        for (place, placed) in self.stages.iter().enumerate() {
            let outcome = what(placed.stage.as_ref(), Next::new(self, place + 1));
            first = first.and(outcome);
        }
        first
    }

    /// Waits until no other thread is within the stack, and keeps them out: the process is about to be
    /// copied. What is held back should be settled right after.
    pub fn close_gate(&self) -> RwLockWriteGuard<'_, ()> {
        let _ = WITHIN.try_with(|within| within.set(within.get() + 1));
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others in again, in the process that was copied and in its copy.
    pub fn open_gate(&self, closed: RwLockWriteGuard<'_, ()>) {
        drop(closed);
        let _ = WITHIN.try_with(|within| within.set(within.get().saturating_sub(1)));
    }

    /// This process is a copy of another.
    pub fn start_anew(&self) {
        let _within = self.enter();
        for placed in &self.stages {
            placed.stage.start_anew();
        }
    }

    /// The process ends: all is settled, and stages say what they have to say.
    pub fn finish(&self) -> Outcome {
        let _within = self.enter();
        let settled = self.settle_all();
        for placed in &self.stages {
            placed.stage.finish();
        }
        settled
    }
}

/// Whether a name is that of something which exists and is not a regular file.
fn is_special(directory: RawFd, path: &CStr, flags: i32) -> bool {
    // SAFETY: it is the program's descriptor, or stands for the current directory.
    let directory = unsafe { std::os::fd::BorrowedFd::borrow_raw(directory) };
    let follow =
        if flags & libc::O_NOFOLLOW == 0 { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    rustix::fs::statat(directory, path, follow)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile)
}
