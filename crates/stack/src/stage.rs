//! [`Stage`]: the trait of the stages that operations pass through on their way to the kernel;
//! [`Next`]: the stages after one.

use std::fmt::Debug;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use striate_calls::layer::LayerCall;
use striate_calls::{Function, Kind, Kinds};

use crate::classification::Classification;
use crate::executor;
use crate::loss::Loss;
use crate::notice::Completed;
use crate::op::{Action, Op, Outcome, Target};
use crate::open_file::OpenFile;
use crate::stack::Stack;

/// Something that operations pass through on their way to the kernel.
///
/// A stage may answer an operation, change it, drop it, split it or delay it; what is to be done it
/// forwards to [`Next`].
///
/// # Contract
///
/// * **Threads.** Every method may be called by all threads of the program at the same time, and
///   none may assume that a thread calls again. A stage takes a [`Cursor`](crate::Cursor) before
///   any lock of its own, and forwards nothing that needs the position while it holds one.
/// * **Transparency.** What the program observes by its own calls (data, sizes, positions, errors,
///   identities) is what it would observe without the stage, unless
///   [`classification`](Self::classification) says otherwise.
/// * **Operations.** [`call`](Self::call) is called for the kinds of [`kinds`](Self::kinds) on
///   files that the stage is for, and for no others. It may change the operation while it forwards
///   it, and restores it before it returns: stages above look at it afterwards.
/// * **Notices.** An operation for which [`Action::is_notice`](crate::Action::is_notice) holds is
///   made by the door. The stage writes out what the call would miss and forwards it; an error
///   keeps the door from making the call.
/// * **Buffering.** A stage that keeps bytes, names or the position from the stages below returns
///   `true` from [`holds_back`](Self::holds_back). Then [`settle`](Self::settle) writes out
///   everything of a file, and [`settle_all`](Self::settle_all) everything of all files and names,
///   also with an error on the way. While a file [is shared](crate::OpenFile::is_shared) the stage
///   must keep nothing of it; it checks that under its own lock.
/// * **Errors.** A write that was answered and cannot be stored later is returned by the next call
///   on the file that can return it. Without such a call it is one of the [`losses`](Self::losses)
///   at the end of the process.
/// * **Processes.** Before `fork` the stack settles everything and excludes all other threads. In
///   the new process [`start_anew`](Self::start_anew) is called: the stage forgets what belongs to
///   the parent (files of its own, counts, bytes that could not be written). Descriptors of its own
///   have high numbers ([`descriptors::high`](crate::descriptors::high)).
/// * **End.** [`finish`](Self::finish) is called once, after everything was settled. A process that
///   is killed calls nothing: what has to survive is in files.
pub trait Stage: Debug + Send + Sync {
    /// The operations that it wants to see.
    fn kinds(&self) -> Kinds;

    /// The kind of stage.
    fn classification(&self) -> Classification;

    /// Carries out an operation: answers it, or forwards it to `next`, changed or not.
    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome;

    /// Whether it keeps something from the next stage (bytes, names or the position) that other
    /// processes would miss. Once a file is shared, such a stage sees only its close
    /// ([`kinds_of_shared`](Self::kinds_of_shared)).
    fn holds_back(&self) -> bool {
        false
    }

    /// The operations on a shared file that a stage sees which holds something back. Everything was
    /// settled before, so it only forwards them.
    fn kinds_of_shared(&self) -> Kinds {
        Kinds::of(&[Kind::Close])
    }

    /// Forwards everything that it holds back of a file to the next stage.
    fn settle(&self, _file: &Arc<OpenFile>, _next: Next<'_>) -> Outcome {
        Ok(0)
    }

    /// Forwards everything that it holds back to the next stage, of all files, and of names that
    /// are not open any more. It continues when some of it fails, and returns the first error.
    fn settle_all(&self, _next: Next<'_>) -> Outcome {
        Ok(0)
    }

    /// How many closed files it holds back, as far as known without waiting: for a progress bar
    /// while everything is settled.
    fn buffered_files(&self) -> u64 {
        0
    }

    /// Does what it has deferred of an operation on a file, for a door that answers first
    /// ([`Stack::answering_first`]).
    fn catch_up(&self, _file: &Arc<OpenFile>, _next: Next<'_>) {}

    /// Whether its state of an open file ([`OpenFile::set_state`]) is also that of a forked process
    /// which a replay runs with another stack ([`Stack::inherit`]).
    fn is_inherited(&self) -> bool {
        false
    }

    /// This process has been forked: counters and records start again. Everything was settled
    /// before, and there is no other thread.
    fn start_anew(&self) {}

    /// A call that it had a notice of has been made. `place` is the index of the stage in the
    /// stack.
    fn completed(&self, _done: &Completed<'_, '_>, _place: usize) {}

    /// Whether it wants calls of layers above POSIX ([`layer_call`](Self::layer_call)).
    fn wants_layer_calls(&self) -> bool {
        false
    }

    /// The program's call of a layer above POSIX has ended. The calls that it caused have passed
    /// through the stack. `place` is the index of the stage in the stack.
    fn layer_call(&self, _call: &LayerCall<'_>, _place: usize) {}

    /// The process ends, after everything was settled.
    fn finish(&self) {}

    /// Bytes of answered writes that it still holds back, or has dropped without returning an
    /// error. Called after [`finish`](Self::finish), or before the process becomes another program
    /// (`exec`).
    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }
}

/// The stages after one, and then the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Next<'s> {
    stack: &'s Stack,
    /// The index of the next stage.
    from: usize,
}

impl<'s> Next<'s> {
    pub(crate) const fn new(stack: &'s Stack, from: usize) -> Self {
        Self { stack, from }
    }

    /// Whether the door answers the program first, and then calls [`Stage::catch_up`].
    #[inline]
    pub const fn answers_first(self) -> bool {
        self.stack.answers_first()
    }

    /// Forwards an operation to the next stage that wants it, or to the kernel.
    #[inline]
    pub fn call(self, op: &mut Op<'_>) -> Outcome {
        let later = op.route.stages(op.action.kind()) & (u32::MAX << self.from);
        if later == 0 {
            return executor::perform(op);
        }
        let place = later.trailing_zeros() as usize;
        match self.stack.stage(place) {
            Some(stage) => stage.call(op, Self { stack: self.stack, from: place + 1 }),
            None => executor::perform(op),
        }
    }

    /// The slot of the stage that was given this, for [`OpenFile::state`].
    #[inline]
    pub const fn slot(self) -> usize {
        self.from - 1
    }

    /// From now on other processes may see this file: all stages settle it, and the kernel has its
    /// position again.
    pub fn share(self, file: &Arc<OpenFile>) -> Outcome {
        self.stack.share(file)
    }

    /// A file that a stage is about to open for itself, by this name.
    pub fn file(self, path: &Path, flags: i32) -> Arc<OpenFile> {
        self.stack.file(path, flags)
    }

    /// Opens a file for the stage itself, through the stages after it that want it.
    pub fn open(self, target: Target<'_>, flags: i32, mode: u32) -> Result<Arc<OpenFile>, Errno> {
        let file = self.file(target.absolute, flags);
        let action = Action::Open { file: &file, target, flags, mode };
        let descriptor = self.call(&mut Op::on(&file, Function::Open, action))?;
        file.add_descriptor(descriptor as RawFd);
        Ok(file)
    }

    /// Closes a file that a stage has opened for itself.
    pub fn close(self, file: &Arc<OpenFile>) -> Outcome {
        let descriptor = file.raw_descriptor();
        let last = file.remove_descriptor(descriptor);
        let action = Action::Close { file, descriptor, last };
        self.call(&mut Op::on(file, Function::Close, action))
    }

    /// Settles a file in the stages after this one.
    pub fn settle(self, file: &Arc<OpenFile>) -> Outcome {
        self.stack.settle_from(self.from, file)
    }
}
