//! The stack: calls of a program that somebody intercepted, on their way through stages to storage
//! (\[SCHMIDTKE\]).
//!
//! An [`Op`] is one call. A [`Stage`] says which it wants to see, of which files; it answers, changes, drops,
//! splits or delays them, and forwards what it wants done to the [`Next`]; the last one hands it to the kernel.
//! What nobody wants takes the short way. A [`Stack`] is built from a [`Configuration`].
//!
//! Whoever lets calls of programs in is a door: it knows which descriptor stands for which [`OpenFile`],
//! and tells the stack when others begin to see a file ([`Stack::share`]), when the process is copied and when
//! it ends.

mod caller;
pub mod classification;
mod clock;
pub mod configuration;
pub mod count;
mod descriptor_table;
pub mod descriptors;
mod executor;
mod file;
mod function;
mod gate;
mod here;
mod kind;
pub mod layer;
pub mod limits;
pub mod lock;
mod loss;
mod memory;
mod notice;
mod op;
mod origin;
pub mod part_file;
mod place;
pub mod recover;
mod route;
mod seat;
mod stack;
mod stage;
pub mod stages;
mod standard_error;
mod threads;
pub mod trace;
mod transfer;
mod trust;
mod umask;
mod voice;

pub use self::caller::for_caller;
pub use self::classification::Classification;
pub use self::configuration::{Configuration, ConfigurationError, PlannedPaths, PlannedStage};
pub use self::executor::perform;
pub use self::file::{Cursor, OpenFile};
pub use self::function::Function;
pub use self::gate::{Within, is_within, lend, mark_within, stay_within};
pub use self::kind::{Kind, Kinds};
pub use self::loss::{LOSS_STATUS, Loss};
pub use self::memory::Memory;
pub use self::notice::{Announced, Completed};
pub use self::op::{Action, End, Of, Op, Outcome, StatInto, Target};
pub use self::origin::{Origin, RUN_DIRECTORY, building_for};
pub use self::route::{Paths, Route};
pub use self::stack::{MOST_STAGES, Placed, Stack};
pub use self::stage::{Next, Stage};
pub use self::stages::combine::is_own_log;
pub use self::standard_error::say;
