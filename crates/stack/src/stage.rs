//! [`Stage`]: a part of the way of an operation; [`Next`]: what comes after it.

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

/// Something that operations pass through on their way to storage.
///
/// A stage may answer an operation, change it, drop it, make several of it, or delay it; whatever it wants
/// done it forwards to [`Next`]. It is called by all threads of the program at once.
///
/// What the program observes by its own calls stays what it would be without the stage, unless the
/// stage's [`Classification`] says otherwise.
pub trait Stage: Debug + Send + Sync {
    /// The operations that it wants to see.
    fn kinds(&self) -> Kinds;

    /// What sort of stage it is.
    fn classification(&self) -> Classification;

    /// Carries out an operation.
    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome;

    /// Whether it keeps something from the next stage (bytes, or the position) that others would miss. From
    /// when a file is shared with others such a stage sees nothing of it any more but that it is closed
    /// ([`kinds_of_shared`](Self::kinds_of_shared)).
    fn holds_back(&self) -> bool {
        false
    }

    /// What a stage that holds something back sees of a file that is shared. By then all was settled, so it only
    /// passes on.
    fn kinds_of_shared(&self) -> Kinds {
        Kinds::of(&[Kind::Close])
    }

    /// Hands all that it holds back of a file to the next stage.
    fn settle(&self, _file: &Arc<OpenFile>, _next: Next<'_>) -> Outcome {
        Ok(0)
    }

    /// Hands all that it holds back to the next stage, of all files, and of names that are not open any
    /// more. It goes on when some of it fails, and returns the first error.
    fn settle_all(&self, _next: Next<'_>) -> Outcome {
        Ok(0)
    }

    /// How many files it holds back, as far as it knows without waiting: it is asked for while all is settled, to show
    /// how much is left. Bytes of files that the program has open do not count.
    fn buffered_files(&self) -> u64 {
        0
    }

    /// Does what it has put off of an operation on a file, for a door that answers first
    /// ([`Stack::answering_first`]).
    fn catch_up(&self, _file: &Arc<OpenFile>, _next: Next<'_>) {}

    /// Whether what it leaves with a file ([`OpenFile::set_state`]) is also for a copy of the process that is acted
    /// out with another stack ([`Stack::inherit`]).
    fn is_inherited(&self) -> bool {
        false
    }

    /// This process is a new one, a copy of the one that it was: what is counted or recorded starts anew.
    /// All was settled before, and no other thread is there.
    fn start_anew(&self) {}

    /// A call of which it had notice has been made. The stage is at this place of the stack.
    fn completed(&self, _done: &Completed<'_, '_>, _place: usize) {}

    /// Whether it wants to be told of calls of layers above POSIX.
    fn wants_layer_calls(&self) -> bool {
        false
    }

    /// The program's call of a layer above POSIX has ended. Only a notice: the calls that it caused have passed
    /// through the stack. The stage is at this place of it.
    fn layer_call(&self, _call: &LayerCall<'_>, _place: usize) {}

    /// The process ends, after all was settled.
    fn finish(&self) {}

    /// What it still holds back of files that the program has been told are written, or has given up without an answer
    /// that says so. It is asked when the process ends, after [`finish`](Self::finish), or becomes another program.
    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }
}

/// The rest of the way of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Next<'s> {
    stack: &'s Stack,
    /// The first stage that may still see it.
    from: usize,
}

impl<'s> Next<'s> {
    pub(crate) const fn new(stack: &'s Stack, from: usize) -> Self {
        Self { stack, from }
    }

    /// Whether the door answers first, and then has stages catch up.
    #[inline]
    pub const fn answers_first(self) -> bool {
        self.stack.answers_first()
    }

    /// Hands an operation to the next stage that wants it, or to the kernel.
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

    /// Where the stage that was given this keeps its state with files.
    #[inline]
    pub const fn slot(self) -> usize {
        self.from - 1
    }

    /// From now on others may see this file: all stages hand on what they hold back of it, and the kernel
    /// has its position again.
    pub fn share(self, file: &Arc<OpenFile>) -> Outcome {
        self.stack.share(file)
    }

    /// A file that a stage is about to open on its own account, by this name.
    pub fn file(self, path: &Path, flags: i32) -> Arc<OpenFile> {
        self.stack.file(path, flags)
    }

    /// Opens a file for a stage itself, by way of the stages after it that want it.
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

    /// Lets the stages after this one hand on what they hold back of a file.
    pub fn settle(self, file: &Arc<OpenFile>) -> Outcome {
        self.stack.settle_from(self.from, file)
    }
}
