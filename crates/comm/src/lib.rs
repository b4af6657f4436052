//! Ranks: point-to-point messages, collectives and shared memory, over threads or MPI.
//!
//! The trait [`Comm`] is a communicator. Its ranks are threads of this process ([`threads`], always
//! available) or processes of an MPI job (`mpi`, a feature). Messages are bytes; [`CommExt`] adds a
//! few typed calls. Ranks of a node also share memory ([`shm`]), and a rank can start collective
//! work and go on ([`task`]).
//!
//! The decision that shaped it: the death of a rank is an error of the others, never a hang. Every
//! call that waits for other ranks ends with an error that names the rank at fault, and [`agree`]
//! makes an error of one rank an error of all.
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
mod cores;
mod error;
mod ext;
#[cfg(feature = "mpi")]
pub mod mpi;
mod request;
pub mod shm;
pub mod task;
pub mod threads;

pub use comm::{Comm, Reduction, Request};
pub use cores::{available_cores, cores_of_rank};
pub use error::CommError;
pub use ext::{CommExt, agree, first_of};
pub use shm::NodeMemory;
pub use threads::{Threads, alone};
