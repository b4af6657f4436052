//! [`Stack`]: stages in their order, the files they are for, and the entry point for doors.

use std::ffi::CStr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use striate_calls::layer::LayerCall;
use striate_calls::{Detail, Function, Kind, Kinds};
use striate_process::{StartupStderr, clock, limits};

use crate::gate::{self, Gate, StackGuard};
use crate::loss;
use crate::notice::{Announced, Announcing, Completed};
use crate::op::{Action, Op, Outcome, Target};
use crate::open_file::OpenFile;
use crate::route::{FileRoutes, Paths, Route};
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
    /// How many of them see all files.
    watchers: usize,
    /// What any of them wants.
    wanted: Kinds,
    /// The copy of a process has none of its other threads, which must not leave locks behind.
    gate: Gate,
    /// The process it is for.
    process: AtomicU32,
    answers_first: bool,
    /// Whether any of them wants notices of calls of layers.
    wants_layer_calls: bool,
    /// The directory that stands for `/`, if there is one.
    root: Option<PathBuf>,
    stderr: StartupStderr,
}

impl Stack {
    /// A stack of these stages for files that `paths` covers. Stages after the 32nd would not be
    /// seen.
    pub fn new(paths: Paths, stages: Vec<Placed>) -> Self {
        debug_assert!(stages.len() <= MOST_STAGES);
        gate::prepare();
        limits::refresh();
        let (wanted, wants_layer_calls) = (wanted_by(&stages), layers_wanted_by(&stages));
        let process = AtomicU32::new(std::process::id());
        let gate = Gate::new();
        Self {
            paths,
            stages,
            watchers: 0,
            wanted,
            gate,
            process,
            answers_first: false,
            wants_layer_calls,
            root: None,
            stderr: StartupStderr::capture(),
        }
    }

    /// The same with more stages before all others, for whichever files: not only those of the
    /// stack.
    #[must_use]
    pub fn watched_by(mut self, watchers: Vec<Placed>) -> Self {
        self.watchers += watchers.len();
        self.stages.splice(0..0, watchers);
        debug_assert!(self.stages.len() <= MOST_STAGES);
        self.wanted = wanted_by(&self.stages);
        self.wants_layer_calls = layers_wanted_by(&self.stages);
        self
    }

    /// The same for a door that calls [`catch_up`](Self::catch_up) when it has answered a write:
    /// until then stages may put off what the program need not wait for.
    #[must_use]
    pub fn answering_first(mut self) -> Self {
        self.answers_first = true;
        self
    }

    #[inline]
    pub(crate) const fn answers_first(&self) -> bool {
        self.answers_first
    }

    /// Does what stages have put off while they carried out an operation on a file.
    pub fn catch_up(&self, file: &Arc<OpenFile>) {
        let _within = self.enter();
        for (place, placed) in self.stages.iter().enumerate() {
            placed.stage.catch_up(file, Next::new(self, place + 1));
        }
    }

    /// The same where a directory stands for `/`: files that stages open for themselves, by the
    /// paths that the kernel reports, are chosen by the paths beneath it, as those of the program
    /// are.
    #[must_use]
    pub fn rooted_at(mut self, root: PathBuf) -> Self {
        self.root = Some(root);
        self
    }

    /// The stages.
    pub fn stages(&self) -> &[Placed] {
        &self.stages
    }

    pub(crate) fn stage(&self, place: usize) -> Option<&dyn Stage> {
        self.stages.get(place).map(|placed| placed.stage.as_ref())
    }

    /// Whether any stage wants a kind, of whichever files.
    #[inline]
    pub fn wants(&self, kind: Kind) -> bool {
        self.wanted.has(kind)
    }

    /// The stages that want operations on an absolute path.
    pub fn route(&self, path: &Path) -> Route {
        self.routes(path).full
    }

    /// The same, and without those that hold something back.
    fn routes(&self, path: &Path) -> FileRoutes {
        let mut routes = FileRoutes { full: Route::NONE, open_to_others: Route::NONE };
        let rooted = self.beneath_root(path);
        let path = rooted.as_deref().unwrap_or(path);
        let seen = if self.paths.cover(path) { self.stages.len() } else { self.watchers };
        for (place, placed) in self.stages.iter().enumerate().take(seen) {
            if placed.paths.cover(path) {
                let kinds = placed.stage.kinds();
                routes.full.add(place, kinds);
                // A stage that holds something back has to learn of the close, shared or not.
                let left = if placed.stage.holds_back() {
                    placed.stage.kinds_of_shared().and(kinds)
                } else {
                    kinds
                };
                routes.open_to_others.add(place, left);
            }
        }
        routes
    }

    /// What a path is called from the directory on that stands for `/`, if it is beneath that.
    fn beneath_root(&self, path: &Path) -> Option<PathBuf> {
        let beneath = path.strip_prefix(self.root.as_ref()?).ok()?;
        Some(Path::new("/").join(beneath))
    }

    /// Enters the stack.
    #[inline]
    pub fn enter(&self) -> StackGuard<'_> {
        self.gate.enter()
    }

    /// Enters the stack with a call of the program. `None` if it comes from within the stack, or
    /// from a child process on this one's memory ([`lend`](crate::lend)): then the stack has no
    /// part in it.
    #[inline]
    pub fn enter_from_outside(&self) -> Option<StackGuard<'_>> {
        self.gate.enter_from_outside(&self.process)
    }

    /// Slots (as bits) of threads that are inside now. A thread that may have seen something that
    /// was taken away has left when each of these has been free once since.
    pub fn busy(&self) -> u64 {
        self.gate.busy()
    }

    /// Waits until all threads that are inside now have left. The caller is not inside.
    pub fn wait_for_others(&self) {
        self.gate.wait_for_others();
    }

    /// Lets an operation of the program, which has entered, pass through the stages that want it.
    #[inline]
    pub fn call_within(&self, _entered: &StackGuard<'_>, op: &mut Op<'_>) -> Outcome {
        Next::new(self, 0).call(op)
    }

    /// Lets an operation of the program pass through the stages that want it.
    #[inline]
    pub fn call(&self, op: &mut Op<'_>) -> Outcome {
        let _within = self.enter();
        Next::new(self, 0).call(op)
    }

    /// Tells stages of a call that is about to be made (a notice, a listing, a mapping). What came
    /// of it follows: [`completed`](Self::completed).
    pub fn announce(&self, op: &mut Op<'_>) -> Announced {
        let _within = self.enter();
        let _announcing = Announcing::new(op.function);
        let began = clock::now();
        let outcome = Next::new(self, 0).call(op);
        Announced { outcome, began, made: clock::now() }
    }

    /// Tells stages what came of a call that was announced.
    pub fn completed(
        &self,
        op: &Op<'_>,
        detail: &Detail<&Path>,
        announced: Announced,
        outcome: Outcome,
    ) {
        let _within = self.enter();
        let (end, wanted) = (clock::now(), op.route.stages(op.action.kind()));
        for (place, placed) in self.stages.iter().enumerate() {
            if wanted >> place & 1 != 0 {
                let start = if place == 0 { announced.began } else { announced.made };
                let done = Completed { op, detail, outcome, times: (start, end) };
                placed.stage.completed(&done, place);
            }
        }
    }

    /// The time that calls of layers begin and end by; `None` if no stage wants them.
    pub fn layer_clock(&self) -> Option<u64> {
        self.wants_layer_calls.then(clock::now)
    }

    /// Tells the stages for its file of a call of a layer above POSIX that has ended.
    pub fn layer_call(&self, call: &LayerCall<'_>) {
        let _within = self.enter();
        let seen = if self.paths.cover(call.path) { self.stages.len() } else { self.watchers };
        for (place, placed) in self.stages.iter().enumerate().take(seen) {
            if placed.stage.wants_layer_calls() && placed.paths.cover(call.path) {
                placed.stage.layer_call(call, place);
            }
        }
    }

    /// Opens a file for the program; `None` if no stage wants it, or if it is not a regular file:
    /// then nothing was done.
    pub fn open(
        &self,
        function: Function,
        target: Target<'_>,
        flags: i32,
        mode: u32,
    ) -> Option<Result<Arc<OpenFile>, Errno>> {
        let routes = self.routes(target.absolute);
        if routes.full.is_empty() || flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
            return None;
        }
        // The open of a pipe may block, and devices are not for stages.
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

    /// Opens whatever there is: only watchers ([`watched_by`](Self::watched_by)) see it. For what
    /// [`open`](Self::open) leaves to its caller (directories), where watchers want to see that as
    /// well.
    pub fn open_watched(
        &self,
        function: Function,
        target: Target<'_>,
        flags: i32,
        mode: u32,
    ) -> Result<Arc<OpenFile>, Errno> {
        let mut route = Route::NONE;
        for (place, placed) in self.stages.iter().enumerate().take(self.watchers) {
            if placed.paths.cover(target.absolute) {
                route.add(place, placed.stage.kinds());
            }
        }
        let routes = FileRoutes { full: route.clone(), open_to_others: route };
        let file = Arc::new(OpenFile::new(target.absolute, flags, routes, self.stages.len()));
        let action = Action::Open { file: &file, target, flags, mode };
        let descriptor = self.call(&mut Op::on(&file, function, action))?;
        file.add_descriptor(descriptor as RawFd);
        Ok(file)
    }

    /// A file that is about to be opened by a stage for itself.
    pub(crate) fn file(&self, path: &Path, flags: i32) -> Arc<OpenFile> {
        Arc::new(OpenFile::new(path, flags, self.routes(path), self.stages.len()))
    }

    /// From now on others may see this file: whatever stages hold back of it goes to storage, the
    /// kernel has the position again, and stages that hold something back see nothing of it any
    /// more but that it is closed.
    pub fn share(&self, file: &Arc<OpenFile>) -> Outcome {
        if file.is_settled() {
            return Ok(0);
        }
        let _within = self.enter();
        // First, so that what is put in a buffer while it is emptied does not stay there.
        file.share();
        let settled = match self.settle(file) {
            Err(Errno::MFILE) => limits::with_more_descriptors(|| self.settle(file)),
            settled => settled,
        };
        file.give_position_back()?;
        settled?;
        file.set_settled();
        Ok(0)
    }

    /// A file that the process of this stack has inherited from that of another, which has shared
    /// it: the same file, of which this process has a descriptor.
    pub fn inherit(&self, file: &OpenFile, descriptor: RawFd) -> Arc<OpenFile> {
        let routes = self.routes(file.path());
        let heir = OpenFile::new(file.path(), file.flags(), routes, self.stages.len());
        for (slot, placed) in self.stages.iter().enumerate() {
            if placed.stage.is_inherited() {
                heir.take_state(file, slot);
            }
        }
        heir.share();
        heir.set_settled();
        heir.add_descriptor(descriptor);
        Arc::new(heir)
    }

    /// Forwards what stages hold back of a file.
    pub fn settle(&self, file: &Arc<OpenFile>) -> Outcome {
        let _within = self.enter();
        self.each(|stage, next| stage.settle(file, next))
    }

    /// Forwards what the stages from a position on hold back of a file.
    pub(crate) fn settle_from(&self, from: usize, file: &Arc<OpenFile>) -> Outcome {
        let mut first = Ok(0);
        for (place, placed) in self.stages.iter().enumerate().skip(from) {
            first = first.and(placed.stage.settle(file, Next::new(self, place + 1)));
        }
        first
    }

    /// Forwards everything that stages hold back.
    pub fn settle_all(&self) -> Outcome {
        let _within = self.enter();
        // The program may have used up its descriptors.
        limits::with_more_descriptors(|| self.each(|stage, next| stage.settle_all(next)))
    }

    /// How many files stages hold back, as far as they know without waiting.
    pub fn buffered_files(&self) -> u64 {
        self.stages.iter().map(|placed| placed.stage.buffered_files()).sum()
    }

    fn each(&self, what: impl Fn(&dyn Stage, Next<'_>) -> Outcome) -> Outcome {
        let mut first = Ok(0);
        for (place, placed) in self.stages.iter().enumerate() {
            let outcome = what(placed.stage.as_ref(), Next::new(self, place + 1));
            first = first.and(outcome);
        }
        first
    }

    /// Waits until no other thread is within the stack, and keeps them out: the process is about to
    /// fork. What is held back should be settled right after. The caller is not within yet.
    pub fn close_gate(&self) {
        self.gate.close();
    }

    /// Lets others in again, in the process that was copied and in its copy.
    pub fn open_gate(&self) {
        self.gate.open();
    }

    /// This process is a copy of another.
    pub fn start_anew(&self) {
        self.process.store(std::process::id(), Ordering::Relaxed);
        self.gate.start_anew();
        let _within = self.enter();
        for placed in &self.stages {
            placed.stage.start_anew();
        }
    }

    /// The process ends: all is settled, and stages say what they have to say, and what they have
    /// lost.
    pub fn finish(&self) -> Outcome {
        let _within = self.enter();
        let settled = self.settle_all();
        limits::with_more_descriptors(|| {
            for placed in &self.stages {
                placed.stage.finish();
            }
        });
        self.tell_losses();
        settled
    }

    /// Writes to standard error what stages could not forward, now that no further call can return
    /// it.
    pub fn tell_losses(&self) {
        let _within = self.enter();
        for placed in &self.stages {
            let losses = placed.stage.losses();
            self.stderr.say(&loss::describe(placed.name, &losses));
        }
    }

    /// Whether there is anything that stages could not hand on.
    pub fn has_lost(&self) -> bool {
        let _within = self.enter();
        self.stages.iter().any(|placed| !placed.stage.losses().is_empty())
    }
}

fn wanted_by(stages: &[Placed]) -> Kinds {
    stages.iter().fold(Kinds::NONE, |wanted, placed| wanted.or(placed.stage.kinds()))
}

fn layers_wanted_by(stages: &[Placed]) -> bool {
    stages.iter().any(|placed| placed.stage.wants_layer_calls())
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
