//! Parallel files: ranks open a file collectively, see it through views, and access it by one of
//! five methods.
//!
//! [`File`] is a store, a [`View`] and [`Hints`]. A call is turned into an *access* (which bytes of
//! memory go to or come from which bytes of the file, as descriptions) and carried out by a method,
//! one file each under `method/`. The cost of a call is counted at the store.
//!
//! The semantics are those of MPI-IO; [`File`] states them. `docs/design/file.md` follows a
//! collective write from the call to the store.
//!
//! ```
//! use striate_comm::Threads;
//! use striate_datatype::Datatype;
//! use striate_file::{File, FileError, Hints, Mode, View};
//!
//! let path = std::env::temp_dir().join(format!("striate-example-{}", std::process::id()));
//! // Four ranks write every fourth block of 64 bytes each, collectively.
//! Threads::new(4).try_run(|comm| {
//!     let mode = Mode::CREATE | Mode::READ | Mode::WRITE | Mode::DELETE_ON_CLOSE;
//!     let mut file = File::open(&comm, &path, mode, &Hints::from_environment()?)?;
//!     let byte = Datatype::bytes(1)?;
//!     let block = Datatype::resized(&Datatype::bytes(64)?, 0, 4 * 64)?;
//!     file.set_view(View::new(64 * comm.rank() as u64, &byte, &block)?)?;
//!     file.write_at_all(0, &vec![comm.rank() as u8; 64 * 1000])?;
//!
//!     let mut back = vec![9; 64 * 1000];
//!     assert_eq!(file.read_at_all(0, &mut back)?, 64_000);
//!     assert!(back.iter().all(|&byte| byte == comm.rank() as u8));
//!     assert_eq!(file.size()?, 4 * 64_000);
//!     file.close()
//! })?;
//! # Ok::<(), FileError>(())
//! ```

mod access;
mod cost;
mod cost_model;
mod direction;
mod error;
mod error_kind;
mod file;
mod hints;
mod link_cost;
mod location;
mod memory;
mod method;
mod method_selection;
mod mode;
mod node_state;
mod overlapping_read;
mod probe;
mod publish;
mod rendezvous;
mod request;
mod sieve_exclusion;
mod stats;
mod striping;
mod target;
mod usage;
mod user_cache;
mod view;
mod write_behind;

pub use cost_model::CostModel;
pub use direction::Direction;
pub use error::FileError;
pub use error_kind::ErrorKind;
pub use file::{File, OpenContext, Seek};
pub use hints::{Composites, DomainChoice, Exchange, Hints, MethodChoice, Switch};
pub use memory::{Borrowed, Gather, Memory, MemoryMut, Scatter, Source, Target, Typed};
pub use mode::Mode;
pub use probe::{Measured, Probe, ProbeOptions, Sample, TargetStores, probe};
pub use publish::{PublishOptions, publish, publish_in};
pub use request::Request;
pub use stats::{CallReport, Stats};
pub use striate_layout::characteristics::Method;
pub use striate_layout::targets::Choice;
pub use striate_store::lustre::{StripeCount, StripeRequest, Striping, StripingReport};
pub use striate_store::store::Placement;
pub use target::StorageTarget;
pub use usage::Usage;
pub use view::View;
pub use write_behind::flush_all_files;
