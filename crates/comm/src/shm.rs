//! Shared memory of the ranks of a node: the memory itself, and what ranks synchronise with inside
//! of it.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`NodeMemory`], [`Section`] | zeroed memory that all ranks of a node map, and a part of it |
//! | [`futex`] | sleeping until a word of it changes, and a lock in one word |
//! | [`EventCount`] | a counter of changes that ranks sleep on |
//! | [`Backoff`] | how long a waiting rank yields its core before it sleeps |
//! | [`Counters`] | numbers in cache lines of their own |
//! | [`NodeRendezvous`] | a barrier at which each rank shows the others a record |
//!
//! All of these lie in memory that starts as zeros, and zeros are their initial state. So nothing
//! has to be constructed in place, and no rank waits for another one to initialise anything. `Rust`
//! references are made to atomics only; records and data are reached by raw pointers, in an order
//! that the atomics establish.
//!
//! A process may die at any time. Waiting is therefore always bounded, and a rank that waits asks
//! [`Comm::health`](crate::Comm::health) between its sleeps.

mod backoff;
mod counters;
mod event;
pub mod futex;
mod memory;
mod rendezvous;

pub use backoff::{Backoff, BackoffPolicy, Wait, Waiter};
pub use counters::{CACHE_LINE, Counters};
pub use event::EventCount;
pub(crate) use memory::{Mapping, number_nodes};
pub use memory::{NodeMemory, Section};
#[cfg(feature = "mpi")]
pub(crate) use memory::{ranks_of, reserve};
pub use rendezvous::NodeRendezvous;
