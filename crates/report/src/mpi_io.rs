//! [`MpiIo`]: the part of a model about MPI-IO calls, and the calls on files beneath them.
//!
//! These are the same bytes as in [`Totals`](crate::model::Totals), as the program requested them:
//! communication between ranks and waiting are in the time of the MPI-IO calls only.

use serde::{Deserialize, Serialize};

use crate::durations::Durations;
use crate::model::Sums;

/// Sums over some MPI-IO calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerSums {
    /// How many.
    pub calls: u64,
    /// Those that returned an error.
    pub failed: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Time in them.
    pub time_ns: u64,
    /// The calls on files that were made for them.
    pub beneath: Sums,
}

impl LayerSums {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.time_ns += other.time_ns;
        self.beneath.add(&other.beneath);
    }

    /// Both together.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.add(other);
        self
    }

    /// Bytes in both directions.
    pub const fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}

/// A function of MPI-IO.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFunctionRow {
    /// Its name.
    pub name: String,
    /// Whether all ranks call it together.
    pub collective: bool,
    /// Its calls.
    pub sums: LayerSums,
    /// How long calls took.
    pub durations: Durations,
}

/// A process that made MPI-IO calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerProcessRow {
    /// Its number.
    pub process: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// Calls that all ranks made together.
    pub collective: LayerSums,
    /// Calls that it made alone.
    pub independent: LayerSums,
}

impl LayerProcessRow {
    /// All its calls.
    pub fn all(&self) -> LayerSums {
        self.collective.with(&self.independent)
    }
}

/// MPI-IO calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpiIo {
    /// Calls that ranks made together.
    pub collective: LayerSums,
    /// Calls that they made alone.
    pub independent: LayerSums,
    /// Functions, the one with most time first.
    pub functions: Vec<LayerFunctionRow>,
    /// Processes by rank.
    pub processes: Vec<LayerProcessRow>,
    /// How many processes are not listed: those with the least time in MPI-IO calls.
    pub other_processes: u64,
}

impl MpiIo {
    /// All calls.
    pub fn all(&self) -> LayerSums {
        self.collective.with(&self.independent)
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}
