//! Replay: repeats the calls of a recording (\[SCHMIDTKE\]).
//!
//! [`replay`] goes through a [`Recording`](striate_recording::Recording) twice. First it is
//! surveyed: which threads existed and when, and which files and directories existed before
//! (`survey.rs`); these are created. Then calls are planned in the order of time (`plan.rs`) and
//! carried out by a worker for each thread (`worker.rs`), through a stack of stages for each
//! recorded process or on a store (`backend.rs`). A call waits for those on the same file that had
//! ended when it began (`order.rs`). Its outcome is compared with the recorded one
//! ([`Difference`]).
//!
//! A call only waits for calls that were planned before it, so some worker can always continue: no
//! recording, damaged or not, makes a replay hang.

mod backend;
mod compare;
mod contents;
mod error;
mod fix;
mod namespace;
mod options;
mod order;
mod outcome;
mod pace;
mod plan;
mod progress;
mod replay;
mod space_limit;
mod survey;
mod task;
mod worker;

pub use self::compare::{Difference, DifferenceKind};
pub use self::error::ReplayError;
pub use self::options::{Options, ReplayTarget, SHARE_OF_FREE, StoreAt, Timing, VectorMethod};
pub use self::outcome::{FunctionFigures, Outcome};
pub use self::replay::replay;
