//! Interception: calls of a program on files, on their way through stages to the kernel
//! (\[SCHMIDTKE\]).
//!
//! An [`Op`] is one call. A [`Stage`] names the operations and files that it wants; it answers,
//! changes, drops, splits or delays them and forwards what is to be done to [`Next`]; the last
//! stage forwards to the kernel. An operation that no stage wants goes to the kernel at once. A
//! [`Stack`] is built from a [`Configuration`], whose stages come from a [`StageTable`]: this crate
//! has no stages, they are in `striate-stages`.
//!
//! A *door* is the code that brings calls of programs here (preloaded library, mount, replay). It
//! maps descriptors to [`OpenFile`]s, and reports when a file becomes visible to other processes
//! ([`Stack::share`]), when the process forks and when it ends.

mod caller;
pub mod classification;
pub mod configuration;
pub mod descriptor_table;
pub mod descriptors;
mod executor;
mod gate;
mod loss;
mod memory;
pub mod notice;
mod op;
mod open_file;
mod route;
mod stack;
mod stage;
pub mod thread_slot;
mod thread_state;

pub use striate_calls::{Detail, Function, Kind, Kinds, layer};

pub use self::caller::{caller, for_caller};
pub use self::classification::Classification;
pub use self::configuration::{
    Configuration, ConfigurationError, PlannedPaths, PlannedStage, StageTable, StageType,
};
pub use self::executor::perform;
pub use self::gate::{StackGuard, is_within, lend, mark_within, stay_within};
pub use self::loss::{LOSS_STATUS, Loss};
pub use self::memory::Memory;
pub use self::notice::{Announced, Completed};
pub use self::op::{Action, CopyEndpoint, FileOrName, Op, Outcome, StatInto, Target};
pub use self::open_file::{Cursor, OpenFile, replace_descriptor};
pub use self::route::{Paths, Route};
pub use self::stack::{MOST_STAGES, Placed, Stack};
pub use self::stage::{Next, Stage};
