//! Ranks: what collectives need and no more.
//!
//! A program talks to its ranks through the trait [`Comm`]. There are two ways to have them: as threads
//! of this process ([`threads`], always there), and as processes of an MPI job (`mpi`, a feature). All
//! that is sent is bytes; [`CommExt`] adds the few typed calls that are wanted often.
//!
//! The decision that shaped it: a rank that dies takes nobody with it silently. Every call that waits
//! for others ends with an error that names the rank at fault, and [`agree`] makes an error of one rank
//! an error of all.
//!
//! ```
//! use striate_comm::{CommError, CommExt, Reduction, Threads};
//!
//! let sums = Threads::new(4).try_run(|comm| -> Result<u64, CommError> {
//!     comm.reduce_u64(Reduction::Sum, comm.rank() as u64)
//! })?;
//! assert_eq!(sums, [6, 6, 6, 6]);
//! # Ok::<(), CommError>(())
//! ```

pub mod comm;
mod error;
mod ext;
pub mod futex;
mod memory;
#[cfg(feature = "mpi")]
pub mod mpi;
mod request;
pub mod task;
pub mod threads;

pub use comm::{Comm, Reduction, Request};
pub use error::CommError;
pub use ext::{CommExt, agree, first_of};
pub use memory::NodeMemory;
pub use threads::{Threads, alone};
