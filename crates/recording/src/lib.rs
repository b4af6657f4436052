//! Recordings: the calls on files of all processes of a run, on one time line.
//!
//! A [`Recording`] is a trace, a file of several traces, or a directory of traces, as `striate run
//! --trace` leaves it. Its records come in the order of time on one time line
//! ([`Recording::in_order`]), with a block in memory for each shard that is being read, and with
//! the calls of layers above POSIX (MPI-IO) that caused them ([`Recording::nested`]).
//! [`merge`](mod@merge), [`cut`](mod@cut), [`Stats`] and [`export`] are based on that; [`import`]
//! converts the output of other tools to recordings.
//!
//! Damage is never fatal: a trace is read up to it, and [`Process::damage`] says so.

mod constants;
pub mod cut;
mod error;
pub mod export;
pub mod figures;
pub mod filter;
pub mod import;
mod layers;
pub mod line;
pub mod merge;
mod nested;
mod order;
mod owners;
pub mod peak;
mod progress;
mod recording;
pub mod row;
pub mod stats;
mod windowed_merge;

pub use self::cut::cut;
pub use self::error::RecordingError;
pub use self::filter::Filter;
pub use self::layers::LayersInOrder;
pub use self::merge::merge;
pub use self::nested::{Entry, Nested};
pub use self::order::InOrder;
pub use self::owners::Owners;
pub use self::peak::{PeakMeter, PeakRates};
pub use self::progress::Progress;
pub use self::recording::{Process, ProcessIndex, Recording};
pub use self::row::Row;
pub use self::stats::Stats;
