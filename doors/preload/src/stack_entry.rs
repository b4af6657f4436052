//! How hooks enter the stack: [`StackEntry`] is a call of the program that is within it, [`Call`]
//! one on an open file.

use std::ffi::{CStr, c_char, c_int};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rustix::io::Errno;
use smallvec::SmallVec;
use striate_stack::{
    Action, Announced, Detail, FileOrName, Function, Kind, LOSS_STATUS, Op, OpenFile, Outcome,
    Route, Stack, StackGuard, Target,
};

use crate::descriptor_table::{self, TableFile};
use crate::path::{self, PathBuffer};
use crate::{errno, signals};

/// The stack, once it is built. It is never taken down.
static STACK: AtomicPtr<Stack> = AtomicPtr::new(null_mut());

/// The process ends: stages hold nothing back any more, and do not see files that are opened now.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The process has ended, and something that it has written is not where it belongs.
static LOST: AtomicBool = AtomicBool::new(false);

/// The stack, if there is one.
#[inline]
pub(crate) fn stack() -> Option<&'static Stack> {
    // SAFETY: it is null, or was leaked for this.
    unsafe { STACK.load(Ordering::Acquire).as_ref() }
}

/// From now on calls pass through this stack.
pub(crate) fn open_up(stack: Stack) -> &'static Stack {
    let stack = Box::leak(Box::new(stack));
    STACK.store(stack, Ordering::Release);
    stack
}

/// A call of the program that is within the stack.
pub(crate) struct StackEntry {
    pub(crate) stack: &'static Stack,
    errno: errno::SavedErrno,
    // Left after all else here, and before late signals come.
    within: StackGuard<'static>,
    _late: LateSignals,
}

impl StackEntry {
    /// Enters. `None` if there is no stack, or if the call is not the program's.
    // Inlined, so that it is not passed through memory.
    #[inline(always)]
    pub(crate) fn new() -> Option<Self> {
        let stack = stack()?;
        let within = stack.enter_from_outside()?;
        Some(Self { stack, errno: errno::SavedErrno::new(), within, _late: LateSignals })
    }

    /// The same for calls by names, which are not seen any more when the process ends.
    pub(crate) fn by_name() -> Option<Self> {
        if ENDING.load(Ordering::Relaxed) { None } else { Self::new() }
    }

    /// Lets an operation pass through the stack.
    #[inline]
    pub(crate) fn call(&self, op: &mut Op<'_>) -> Outcome {
        guarded(|| self.stack.call_within(&self.within, op))
    }

    /// Tells stages of a call that is about to be made.
    pub(crate) fn announce(&self, op: &mut Op<'_>) -> Announced {
        let announce = || self.stack.announce(op);
        catch_unwind(AssertUnwindSafe(announce)).unwrap_or_else(|_| Announced::failed())
    }

    /// Shares a file: other processes may see it from now on, and stages hold nothing of it back.
    pub(crate) fn share(&self, file: &Arc<OpenFile>) -> Outcome {
        guarded(|| self.stack.share(file))
    }

    /// Steps out for a while.
    pub(crate) fn outside(self, act: impl FnOnce()) -> Self {
        let stack = self.stack;
        drop(self);
        act();
        let within = stack.enter();
        Self { stack, errno: errno::SavedErrno::new(), within, _late: LateSignals }
    }

    /// Leaves with the answer of a call.
    #[inline(always)]
    pub(crate) fn answer(self, outcome: Outcome) -> isize {
        drop(self);
        match outcome {
            Ok(value) => value as isize,
            Err(error) => errno::fail(error) as isize,
        }
    }
}

impl Drop for StackEntry {
    #[inline(always)]
    fn drop(&mut self) {
        self.errno.restore();
    }
}

/// A signal that has waited until a thread leaves the stack comes when it has.
struct LateSignals;

impl Drop for LateSignals {
    #[inline(always)]
    fn drop(&mut self) {
        signals::deliver_late();
    }
}

/// Keeps a panic within the library.
#[inline]
pub(crate) fn guarded(act: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Errno::IO))
}

/// A call on a descriptor whose file a stage wants to see.
pub(crate) struct Call {
    // Used within the stack, so left before it.
    file: TableFile,
    entered: StackEntry,
}

impl Call {
    /// A call on a file, if a stage wants any of it.
    #[inline]
    pub(crate) fn on(descriptor: c_int) -> Option<Self> {
        if descriptor_table::has(descriptor) { Self::enter(descriptor) } else { None }
    }

    /// A call on a file, if a stage wants this kind.
    #[inline(always)]
    pub(crate) fn of(descriptor: c_int, kind: Kind) -> Option<Self> {
        if !descriptor_table::wants(descriptor, kind) {
            return None;
        }
        let call = Self::enter(descriptor)?;
        if call.file.route().wants(kind) { Some(call) } else { None }
    }

    #[inline(always)]
    fn enter(descriptor: c_int) -> Option<Self> {
        let entered = StackEntry::new()?;
        let file = descriptor_table::get(descriptor)?;
        Some(Self { file, entered })
    }

    /// The file.
    #[inline]
    pub(crate) fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }

    /// How it came in.
    #[inline]
    pub(crate) fn entered(&self) -> &StackEntry {
        &self.entered
    }

    /// Lets an operation on the file of a descriptor pass through the stack, and answers; `None` if
    /// no stage wants this kind. `action` may find that the kernel has to say what is wrong with
    /// the call: then it has the file as the program knows it, and this returns `None`, too.
    // For calls that are many. Nothing here is passed on by value: what is written in parts and
    // read as a whole makes the processor wait.
    #[inline(always)]
    pub(crate) fn pass(
        descriptor: c_int,
        kind: Kind,
        function: Function,
        action: impl for<'f> FnOnce(&'f Arc<OpenFile>) -> Option<Action<'f>>,
    ) -> Option<isize> {
        if !descriptor_table::wants(descriptor, kind) {
            return None;
        }
        let entered = StackEntry::new()?;
        let file = descriptor_table::get(descriptor)?;
        let route = file.route();
        if !route.wants(kind) {
            return None;
        }
        let Some(action) = action(&file) else {
            let _ = entered.share(&file);
            return None;
        };
        let mut op = ManuallyDrop::new(Op { function, route, action });
        let outcome = entered.call(&mut op);
        if op.action.owns() {
            // SAFETY: it is not used any more.
            unsafe { ManuallyDrop::drop(&mut op) };
        }
        drop(entered);
        Some(match outcome {
            Ok(value) => value as isize,
            Err(error) => errno::fail(error) as isize,
        })
    }

    /// Lets an operation on the file pass through the stack, and answers.
    #[inline(always)]
    pub(crate) fn answer(
        self,
        function: Function,
        action: impl for<'f> FnOnce(&'f Arc<OpenFile>) -> Action<'f>,
    ) -> isize {
        let outcome = self.perform(function, action);
        self.entered.answer(outcome)
    }

    /// Lets an operation on the file pass through the stack.
    #[inline(always)]
    pub(crate) fn perform(
        &self,
        function: Function,
        action: impl for<'f> FnOnce(&'f Arc<OpenFile>) -> Action<'f>,
    ) -> Outcome {
        let action = action(&self.file);
        self.entered.call(&mut Op { function, route: self.file.route(), action })
    }

    /// Leaves with the answer of the call.
    #[inline]
    pub(crate) fn leave(self, outcome: Outcome) -> isize {
        self.entered.answer(outcome)
    }
}

/// Calls something with a name, if a stage wants this kind of calls on it.
pub(crate) fn with_name<R>(
    kind: Kind,
    directory: c_int,
    name: *const c_char,
    act: impl FnOnce(StackEntry, Target<'_>, &Route) -> R,
) -> Option<R> {
    if !stack()?.wants(kind) {
        return None;
    }
    share_named(name);
    let entered = StackEntry::by_name()?;
    // SAFETY: the program's text stays while its call lasts.
    let path: &CStr = unsafe { path::text(name)? };
    let mut room = PathBuffer::new();
    let absolute = path::absolute(directory, path, &mut room)?;
    let route = entered.stack.route(absolute);
    route.wants(kind).then(|| act(entered, Target { directory, path, absolute }, &route))
}

/// A name such as `/proc/self/fd/5` leads to an open file of this process, past the stages: the
/// file is shared first.
fn share_named(name: *const c_char) {
    // SAFETY: the program's text stays while its call lasts.
    if let Some(descriptor) = unsafe { path::text(name) }.and_then(path::descriptor_of) {
        share(Function::Other, descriptor);
    }
}

/// What a function of the C library returns.
pub(crate) trait ReturnValue: Copy {
    /// That it has failed.
    const FAILED: Self;

    /// The result for stages, to which pointers mean nothing.
    fn outcome(self) -> Outcome;
}

fn failed() -> Errno {
    Errno::from_raw_os_error(errno::get())
}

impl ReturnValue for c_int {
    const FAILED: Self = -1;

    fn outcome(self) -> Outcome {
        u64::try_from(self).map_err(|_| failed())
    }
}

impl ReturnValue for isize {
    const FAILED: Self = -1;

    fn outcome(self) -> Outcome {
        u64::try_from(self).map_err(|_| failed())
    }
}

impl ReturnValue for i64 {
    const FAILED: Self = -1;

    fn outcome(self) -> Outcome {
        u64::try_from(self).map_err(|_| failed())
    }
}

impl<T> ReturnValue for *mut T {
    const FAILED: Self = null_mut();

    fn outcome(self) -> Outcome {
        // What maps a file returns -1.
        let has_failed = self.is_null() || self as isize == -1;
        if has_failed { Err(failed()) } else { Ok(0) }
    }
}

/// What stages say to a call that they only have notice of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticePolicy {
    /// If they fail, it does.
    Needed,
    /// It is made in any case.
    Implied,
}

/// Makes a call on a name after stages were notified, if any wants that, and reports the result to
/// them.
pub(crate) fn noticed_name<'d, R: ReturnValue>(
    (function, consent): (Function, NoticePolicy),
    (directory, name): (c_int, *const c_char),
    real: impl FnOnce() -> R,
    detail: impl FnOnce(R) -> Detail<&'d Path>,
) -> R {
    let kind = match function.kind() {
        Kind::ReadDirectory => Kind::ReadDirectory,
        _ => Kind::Notice,
    };
    if !stack().is_some_and(|stack| stack.wants(kind)) {
        return real();
    }
    share_named(name);
    let mut room = PathBuffer::new();
    let Some(entered) = StackEntry::by_name() else { return real() };
    // SAFETY: the program's text stays while its call lasts.
    let path = unsafe { path::text(name) };
    let Some(path) = path else {
        drop(entered);
        return real();
    };
    let Some(absolute) = path::absolute(directory, path, &mut room) else {
        drop(entered);
        return real();
    };
    let route = entered.stack.route(absolute);
    if !route.wants(kind) {
        drop(entered);
        return real();
    }
    let target = Target { directory, path, absolute };
    let action = match kind {
        Kind::ReadDirectory => Action::ReadDirectory { target },
        _ => Action::Notice { of: FileOrName::Name(target) },
    };
    let mut op = Op { function, route: &route, action };
    let announced = entered.announce(&mut op);
    drop(entered);
    make_and_tell(&op, announced, consent, real, detail)
}

/// The same for a call on an open file: `action` is the notice for stages, `before` what else is
/// done before.
pub(crate) fn noticed_file<'d, R: ReturnValue>(
    (function, consent): (Function, NoticePolicy),
    (descriptor, kind): (c_int, Kind),
    action: impl for<'f> FnOnce(&'f Arc<OpenFile>) -> Action<'f>,
    before: impl FnOnce(&Call),
    real: impl FnOnce() -> R,
    detail: impl FnOnce(R) -> Detail<&'d Path>,
) -> R {
    let Some(call) = Call::on(descriptor) else { return real() };
    if !call.file().route().wants(kind) {
        before(&call);
        drop(call);
        return real();
    }
    let file = Arc::clone(call.file());
    let route = file.route().clone();
    let mut op = Op { function, route: &route, action: action(&file) };
    let announced = call.entered.announce(&mut op);
    before(&call);
    drop(call);
    let answer = make_and_tell(&op, announced, consent, real, detail);
    // The thread that drops a file last is within the stack.
    let entered = StackEntry::new();
    drop(op);
    drop(file);
    drop(entered);
    answer
}

pub(crate) fn make_and_tell<'d, R: ReturnValue>(
    op: &Op<'_>,
    announced: Announced,
    consent: NoticePolicy,
    real: impl FnOnce() -> R,
    detail: impl FnOnce(R) -> Detail<&'d Path>,
) -> R {
    let answer = match announced.outcome {
        Err(error) if consent == NoticePolicy::Needed => {
            errno::fail(error);
            R::FAILED
        }
        _ => real(),
    };
    let outcome = answer.outcome();
    if let Some(entered) = StackEntry::new() {
        let _ = guarded(|| {
            entered.stack.completed(op, &detail(answer), announced, outcome);
            Ok(0)
        });
    }
    answer
}

/// Makes a call after stages were notified and the file of the descriptor was shared.
pub(crate) fn shared<'d, R: ReturnValue>(
    function: Function,
    descriptor: c_int,
    real: impl FnOnce() -> R,
    detail: impl FnOnce(R) -> Detail<&'d Path>,
) -> R {
    if !descriptor_table::has(descriptor) {
        return real();
    }
    let share = |call: &Call| {
        if !call.file.is_shared() {
            // What could not be written stays with the stage, which says so at the next call on the
            // file.
            let _ = call.entered.share(&call.file);
        }
    };
    noticed_file(
        (function, NoticePolicy::Implied),
        (descriptor, Kind::Notice),
        |file| Action::Notice { of: FileOrName::File(file) },
        share,
        real,
        detail,
    )
}

/// Tells stages that the file of a name is about to be changed. Says whether its bytes are
/// elsewhere.
pub(crate) fn is_elsewhere(function: Function, name: *const c_char) -> Result<bool, Errno> {
    let told = with_name(Kind::Notice, libc::AT_FDCWD, name, |entered, target, route| {
        let action = Action::Notice { of: FileOrName::Name(target) };
        entered.announce(&mut Op { function, route, action }).outcome
    });
    told.unwrap_or(Ok(0)).map(|told| told != 0)
}

/// Notifies stages of the second name of a call, whose result is reported with the first.
pub(crate) fn announced_name(
    function: Function,
    directory: c_int,
    name: *const c_char,
) -> Result<(), Errno> {
    let told = with_name(Kind::Notice, directory, name, |entered, target, route| {
        let action = Action::Notice { of: FileOrName::Name(target) };
        entered.announce(&mut Op { function, route, action }).outcome
    });
    told.unwrap_or(Ok(0)).map(|_| ())
}

/// A call on any number of files that stages are notified of before it is made and whose result is
/// reported afterwards.
pub(crate) struct Announcements {
    function: Function,
    files: SmallVec<[(Arc<OpenFile>, Route, Announced); 2]>,
}

impl Announcements {
    pub(crate) fn new(function: Function) -> Self {
        Self { function, files: SmallVec::new() }
    }

    /// Announces the call on the file of a descriptor. Other processes may see the file from now
    /// on.
    pub(crate) fn share(&mut self, descriptor: c_int) {
        if let Some(call) = Call::on(descriptor) {
            self.add(&call, share_call);
        }
    }

    /// Adds the file of a descriptor without announcing the call: stages get its result only.
    pub(crate) fn list(&mut self, descriptor: c_int) {
        if let Some(call) = Call::on(descriptor) {
            self.add(&call, |_, _| Announced::unannounced());
        }
    }

    fn add(&mut self, call: &Call, announce: impl FnOnce(&Call, Function) -> Announced) {
        // Sharing changes the route of the file: the result is for the stages that it had before.
        let route = call.file.route().clone();
        let announced = announce(call, self.function);
        if route.wants(Kind::Notice) {
            self.files.push((Arc::clone(&call.file), route, announced));
        }
    }

    /// Makes the call, whatever stages have returned, and reports the result to them.
    pub(crate) fn make<R: ReturnValue>(self, real: impl FnOnce() -> R) -> R {
        let answer = real();
        if self.files.is_empty() {
            return answer;
        }
        let outcome = answer.outcome();
        // A file whose last reference is dropped is dropped within the stack.
        let entered = StackEntry::new();
        for (file, route, announced) in self.files {
            if let Some(entered) = &entered {
                let action = Action::Notice { of: FileOrName::File(&file) };
                let op = Op { function: self.function, route: &route, action };
                let _ = guarded(|| {
                    entered.stack.completed(&op, &Detail::default(), announced, outcome);
                    Ok(0)
                });
            }
        }
        drop(entered);
        answer
    }
}

/// Other processes may see the file of a descriptor from now on. The call for which this is done is
/// recorded elsewhere.
#[inline]
pub(crate) fn share(function: Function, descriptor: c_int) {
    if let Some(call) = Call::on(descriptor) {
        share_call(&call, function);
    }
}

#[cold]
fn share_call(call: &Call, function: Function) -> Announced {
    let mut announced = Announced::unannounced();
    if call.file.route().wants(Kind::Notice) {
        let action = Action::Notice { of: FileOrName::File(&call.file) };
        announced = call.entered.announce(&mut Op { function, route: call.file.route(), action });
    }
    if !call.file.is_shared() {
        // What could not be written stays with the stage, which says so at the next call on the
        // file.
        let _ = call.entered.share(&call.file);
    }
    announced
}

/// Which open files are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// All of them.
    All,
    /// Those that a new program inherits.
    Inherited,
}

/// Shares open files; all else that is held back is written.
pub(crate) fn share_all(which: Shared) {
    let Some(entered) = StackEntry::new() else { return };
    share_all_within(&entered, which);
}

pub(crate) fn share_all_within(entered: &StackEntry, which: Shared) {
    share_open_files(entered.stack, which);
}

/// The same for a thread that has closed the gate.
pub(crate) fn share_all_behind_gate(stack: &Stack) {
    let errno = errno::get();
    share_open_files(stack, Shared::All);
    errno::set(errno);
}

fn share_open_files(stack: &Stack, which: Shared) {
    for descriptor in descriptor_table::descriptors(0, c_int::MAX) {
        let Some(file) = descriptor_table::get(descriptor) else { continue };
        if !(file.is_shared() || which == Shared::Inherited && closes_on_exec(descriptor)) {
            let _ = guarded(|| stack.share(&file));
        }
    }
    let _ = guarded(|| stack.settle_all());
}

fn closes_on_exec(descriptor: c_int) -> bool {
    // SAFETY: it is a descriptor of the program's.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    rustix::io::fcntl_getfd(descriptor)
        .is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC))
}

/// Writes all that stages hold back; files stay as they are.
pub(crate) fn settle_all() {
    if let Some(entered) = StackEntry::new() {
        let _ = guarded(|| entered.stack.settle_all());
    }
}

/// The process ends: all that is held back is written, and stages print their reports. Later calls
/// are not held back.
pub(crate) fn end() {
    let Some(entered) = StackEntry::new() else { return };
    if !ENDING.swap(true, Ordering::SeqCst) {
        share_all_within(&entered, Shared::All);
        let _ = guarded(|| {
            let settled = entered.stack.finish();
            LOST.store(entered.stack.has_lost(), Ordering::SeqCst);
            settled
        });
    }
}

/// The process ends with a status: that one, or another that says that not all it has written is
/// there.
pub(crate) fn end_with(status: c_int) -> c_int {
    end();
    // The kernel keeps eight bits of it.
    let is_success = status as u8 == 0;
    if LOST.load(Ordering::SeqCst) && is_success { LOSS_STATUS } else { status }
}

/// The process is about to become another program, which knows nothing of what could not be
/// written.
pub(crate) fn tell_losses() {
    if let Some(entered) = StackEntry::new() {
        let _ = guarded(|| {
            entered.stack.tell_losses();
            Ok(0)
        });
    }
}
