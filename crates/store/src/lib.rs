//! Stores: one trait for a byte-addressed object, back-ends that declare what they can do, and
//! wrappers that add one thing each.
//!
//! [`Store`] is the trait, with its contract. Back-ends: [`PosixFile`], [`MemoryStore`],
//! [`NullStore`], files on I/O servers ([`remote`]) and in pools of Ceph ([`rados`]). Files on
//! Lustre are striped as asked ([`lustre`]). Wrappers, any of them around any store: [`Counted`],
//! [`Traced`], [`Throttled`], [`Faulty`]. A store that does not understand typed requests carries
//! them out by [`expand`].
//!
//! ```
//! use striate_store::{Counted, MemoryStore, Region, Store};
//! let store = Counted::new(MemoryStore::new("scratch"));
//! let regions = [
//!     Region { memory: 0, offset: 0, len: 2 },
//!     Region { memory: 2, offset: 10, len: 2 },
//! ];
//! store.write_list(&regions, b"abcd")?;
//! let mut back = [0; 4];
//! store.read_at(9, &mut back)?;
//! assert_eq!(&back[1..3], b"cd");
//! assert_eq!(store.counts().write.operations, 1);
//! # Ok::<(), striate_store::StoreError>(())
//! ```

pub mod aligned;
pub mod bandwidth;
pub mod coherent;
#[doc(hidden)]
pub mod conformance;
pub mod count;
pub mod error;
pub mod expand;
pub mod fault;
pub mod file_system;
mod forward;
pub mod lustre;
pub mod memory;
pub mod null;
pub mod placement;
pub mod posix;
pub mod rados;
mod range_table;
pub mod remote;
pub mod s3;
pub mod store;
pub mod throttle;
pub mod trace;

pub use aligned::AlignedBuffer;
pub use bandwidth::Bandwidth;
pub use coherent::Coherent;
pub use count::{Counted, Counts};
pub use error::{Cause, ErrorKind, Malformed, Operation, StoreError};
pub use fault::{Fault, FaultPlan, Faulty};
pub use file_system::{Consistency, FileSystem, FileSystemTraits};
pub use memory::MemoryStore;
pub use null::NullStore;
pub use posix::{PosixFile, PosixOptions, Uring};
pub use store::{
    Capabilities, Lock, LockKind, MemoryPlacement, Placement, Region, Store, TypedRequest,
};
pub use throttle::Throttled;
pub use trace::Traced;
