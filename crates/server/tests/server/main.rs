//! A server as its clients see it, friendly and hostile ones.
#![allow(clippy::unwrap_used, reason = "tests")]

mod draining;
mod handshake;
mod hostile;
mod limits;
mod locks;
mod metrics;
mod names;
mod objects;
mod sessions;
mod start;
mod support;
