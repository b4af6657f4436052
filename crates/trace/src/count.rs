//! What the stage **count** counts, where it keeps it, and how it is read.
//!
//! Counters live in a file that is mapped into memory, so that a process that is killed has counted all
//! the same: `PID-START-PLACE.count` in the directory of a run, one per process and stage. Threads have
//! parts of it to themselves (`layout.rs`); whoever reads it adds them up ([`Counters::read`]).

mod counters;
pub mod layout;
mod page;
mod report;

pub use self::counters::{Calls, CountError, Counters, Endings, HISTOGRAM, Origin};
pub use self::page::{KnownEndings, Page};
pub use self::report::Report;
