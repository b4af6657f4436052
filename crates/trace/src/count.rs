//! Counters: what the stage **count** counts, its file, and its readers.
//!
//! Counters are in a file that is mapped into memory, so that the counts of a killed process
//! survive: `PID-START-INDEX.count` in the directory of a run, one per process and stage. Each
//! thread has a shard of the file (`layout.rs`); a reader adds the shards up ([`Counters::read`]).
//!
//! The writer ([`Page`]) is here and not with the stage, so that the format has one definition, and
//! readers of counters do not link stages.

mod counters;
pub mod layout;
mod page;
mod report;

pub use self::counters::{Calls, CountError, Counters, Endings, HISTOGRAM, Origin};
pub use self::page::{KnownEndings, Page};
pub use self::report::Report;
