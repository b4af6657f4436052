//! [`Backend`]: where calls are carried out: through a stack of stages on a directory, or on a
//! store.

mod fd_inheritance;
mod memory;
mod process;
mod root;
mod stack;
mod stopwatch;
mod store;
mod store_files;

use std::fmt::Debug;
use std::path::PathBuf;

use striate_recording::{ProcessIndex, Progress};

use crate::compare::Observed;
use crate::contents::WorkerBuffer;
use crate::error::ReplayError;
use crate::fix::Fix;
use crate::namespace::Initial;
use crate::task::Call;

pub(crate) use self::root::Root;
pub(crate) use self::stack::StackBackend;
pub(crate) use self::store::StoreBackend;

/// What was done about a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Execution {
    /// It was made, and took so many nanoseconds.
    Made(Observed, u64),
    /// Stages were notified, but the recording has too little to make the call. The notification
    /// took this many nanoseconds.
    Noted(u64),
    /// Nothing, for a reason.
    Skipped(&'static str),
}

/// Where calls are carried out.
pub(crate) trait Backend: Debug + Send + Sync {
    /// Makes what existed before the recording, unless it is to end. Returns how many bytes.
    fn make(&self, initial: &[Initial], watched: &Progress) -> Result<u64, ReplayError>;

    /// A process begins, whose parent goes on. Returns how many nanoseconds both waited for what
    /// the parent held back.
    fn start(&self, process: ProcessIndex, parent: Option<ProcessIndex>) -> Result<u64, String>;

    /// Makes something good.
    fn fix(&self, process: ProcessIndex, fix: &Fix, buffer: &mut WorkerBuffer);

    /// Makes a call.
    fn call(&self, process: ProcessIndex, call: &Call, buffer: &mut WorkerBuffer) -> Execution;

    /// A process ends.
    fn end(&self, process: ProcessIndex) -> Result<(), String>;

    /// All that have not ended do.
    fn end_all(&self) -> Vec<String>;

    /// Where files are that stay.
    fn kept(&self) -> Option<PathBuf>;
}
