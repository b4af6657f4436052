//! [`Ground`]: where calls are carried out.

mod heritage;
mod memory;
mod on_store;
mod process;
mod root;
mod store_files;
mod through_stack;
mod watch;

use std::fmt::Debug;
use std::path::PathBuf;

use striate_recording::{ProcessIndex, Progress};

use crate::compare::Came;
use crate::contents::Hands;
use crate::error::ReplayError;
use crate::fix::Fix;
use crate::task::Call;
use crate::world::Initial;

pub(crate) use self::on_store::OnStore;
pub(crate) use self::root::Root;
pub(crate) use self::through_stack::ThroughStack;

/// What was done about a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Did {
    /// It was made, and took so many nanoseconds.
    Made(Came, u64),
    /// Stages were told of it, but there is not enough known to make it. That took so many nanoseconds.
    Noted(u64),
    /// Nothing, for a reason.
    Skipped(&'static str),
}

/// Where calls are carried out.
pub(crate) trait Ground: Debug + Send + Sync {
    /// Makes what was there before the recording, unless it is to end. Returns how many bytes.
    fn make(&self, initial: &[Initial], watched: &Progress) -> Result<u64, ReplayError>;

    /// A process begins, whose parent goes on. Returns how many nanoseconds both waited for what the parent held back.
    fn start(&self, process: ProcessIndex, parent: Option<ProcessIndex>) -> Result<u64, String>;

    /// Makes something good.
    fn fix(&self, process: ProcessIndex, fix: &Fix, hands: &mut Hands);

    /// Makes a call.
    fn call(&self, process: ProcessIndex, call: &Call, hands: &mut Hands) -> Did;

    /// A process ends.
    fn end(&self, process: ProcessIndex) -> Result<(), String>;

    /// All that have not ended do.
    fn end_all(&self) -> Vec<String>;

    /// Where files are that stay.
    fn kept(&self) -> Option<PathBuf>;
}
