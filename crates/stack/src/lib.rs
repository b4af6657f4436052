//! The stack: calls of a program that somebody intercepted, on their way through stages to storage
//! (\[SCHMIDTKE\]).
//!
//! An [`Op`] is one call. A [`Stage`] says which it wants to see, of which files; it answers, changes, drops,
//! splits or delays them, and forwards what it wants done to the [`Next`]; the last one hands it to the kernel.
//! What nobody wants takes the short way. A [`Stack`] is built from a [`Configuration`],
//! whose stages are those of a table ([`StageTable`]): this crate has none itself.
//!
//! Whoever lets calls of programs in is a door: it knows which descriptor stands for which [`OpenFile`],
//! and tells the stack when others begin to see a file ([`Stack::share`]), when the process is copied and when
//! it ends.

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
pub use self::gate::{Within, is_within, lend, mark_within, stay_within};
pub use self::loss::{LOSS_STATUS, Loss};
pub use self::memory::Memory;
pub use self::notice::{Announced, Completed};
pub use self::op::{Action, End, Of, Op, Outcome, StatInto, Target};
pub use self::open_file::{Cursor, OpenFile, replace_descriptor};
pub use self::route::{Paths, Route};
pub use self::stack::{MOST_STAGES, Placed, Stack};
pub use self::stage::{Next, Stage};
