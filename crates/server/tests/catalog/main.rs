//! The metadata catalogue: its operations, against a model, through power cuts and truncation.
#![allow(clippy::unwrap_used, reason = "tests")]

mod damage;
mod model;
mod operations;
mod power_cut;
mod random;
mod simulated_disk;
