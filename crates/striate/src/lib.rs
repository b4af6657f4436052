//! Parallel structured I/O: files and netCDF datasets that many ranks write and read together.
//!
//! This crate is what a program depends on. It re-exports the crates below it as modules and, in
//! the [`prelude`], the types that nearly every program names. [`run`] starts the ranks: the
//! processes of an MPI job with the feature `mpi` under `mpiexec`, threads otherwise, from the same
//! source.
//!
//! ```
//! use striate::prelude::*;
//!
//! let path = std::env::temp_dir().join(format!("striate-first-{}", std::process::id()));
//! // Each of four ranks holds a quarter of a 512 × 512 array of doubles; one file holds the array.
//! striate::run(4, |comm| {
//!     let (y, x) = (comm.rank() as u64 / 2 * 256, comm.rank() as u64 % 2 * 256);
//!     let double = Datatype::from(Element::F64);
//!     let quarter = Datatype::subarray(&[512, 512], &[256, 256], &[y, x], Order::C, &double)?;
//!
//!     let mode = Mode::CREATE | Mode::READ | Mode::WRITE | Mode::DELETE_ON_CLOSE;
//!     let mut file = File::open(&comm, &path, mode, &Hints::from_environment()?)?;
//!     file.set_view(View::new(0, &double, &quarter)?)?;
//!     let mine = vec![comm.rank() as u8; 256 * 256 * 8];
//!     file.write_at_all(0, &mine)?;
//!
//!     let mut back = vec![0; mine.len()];
//!     file.read_at_all(0, &mut back)?;
//!     assert_eq!(back, mine);
//!     file.close()
//! })?;
//! # Ok::<(), FileError>(())
//! ```
//!
//! # Features
//!
//! | feature | what it adds | default |
//! | --- | --- | --- |
//! | `netcdf` | [`array`](mod@array): datasets in netCDF's classic formats | yes |
//! | `mpi` | ranks that are processes of an MPI job; `MPICC` names its compiler | no |
//! | `servers` | `server`: I/O servers within the program, for tests and small set-ups | no |
//!
//! Files on I/O servers of other processes (`striate://host:port/path`), and their client
//! ([`store::remote`]), need no feature.
//!
//! # Where to look
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`comm`] | ranks: collectives, messages, memory that ranks of a node share |
//! | [`datatype`] | descriptions of structured accesses, with MPI's constructors |
//! | [`file`](mod@file) | files with views and hints; collective, independent, nonblocking access |
//! | [`array`](mod@array) | netCDF datasets: dimensions, variables, attributes, slabs |
//! | [`store`] | the storage below files: POSIX, memory, I/O servers; wrappers that count |
//! | [`layout`] | what access methods cost, and which storage targets to use, as formulas |

mod ranks;

/// Datasets in netCDF's classic formats.
#[cfg(feature = "netcdf")]
pub use striate_array as array;
/// Ranks, over threads or MPI.
pub use striate_comm as comm;
/// Descriptions of structured accesses.
pub use striate_datatype as datatype;
/// Files that ranks open together.
pub use striate_file as file;
/// Arithmetic of parallel I/O.
pub use striate_layout as layout;
/// I/O servers within the program.
#[cfg(feature = "servers")]
pub use striate_server as server;
/// Storage below files.
pub use striate_store as store;

pub use ranks::run;

/// What nearly every program names: `use striate::prelude::*`.
///
/// Names that two crates have (`Request`, `Source`, `Pieces`) stay in their modules.
pub mod prelude {
    #[cfg(feature = "netcdf")]
    pub use striate_array::{
        ArrayError, Dataset, Definition, Format, Options, Owner, Pending, Slab, Type,
    };
    pub use striate_comm::{Comm, CommError, CommExt, Reduction, Threads};
    pub use striate_datatype::{Datatype, Distribution, Element, Order};
    pub use striate_file::{
        File, FileError, Hints, Memory, MemoryMut, Method, Mode, ProbeOptions, StorageTarget, View,
        probe,
    };
    #[cfg(feature = "servers")]
    pub use striate_server::Embedded;
    pub use striate_store::remote::{Client, ClientOptions, RemoteUrl};
}

/// The example of the README is tested here.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct ReadMe;

/// The examples of the guide are tested here.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
pub struct Guide;
