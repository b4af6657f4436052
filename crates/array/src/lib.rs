//! netCDF classic datasets (CDF-1, CDF-2, CDF-5) in parallel.
//!
//! A dataset has two modes, and each is a type: a [`Definition`] takes dimensions, variables and
//! attributes; a [`Dataset`] reads and writes data. An access has a [`Slab`] of a variable, which
//! becomes a datatype in the file, and memory of any layout ([`Source`], [`Sink`]), which is packed
//! and converted in one pass when the access method of [`striate_file`] asks for its bytes.
//!
//! ```
//! use striate_array::{Dataset, Format, Options, Owner, Slab, Type};
//! use striate_comm::Threads;
//!
//! let path = std::env::temp_dir().join(format!("striate-array-{}.nc", std::process::id()));
//! Threads::new(4).try_run(|comm| {
//!     let mut define = Dataset::create(&comm, &path, Format::Cdf5, &Options::from_environment()?)?;
//!     let y = define.dimension("y", 4)?;
//!     let x = define.dimension("x", 100)?;
//!     let heat = define.variable("heat", Type::Double, &[y, x])?;
//!     define.attribute(heat, "units", "K")?;
//!     define.attribute(Owner::Global, "title", "an example")?;
//!
//!     let mut data = define.end()?;
//!     let row = comm.rank() as u64;
//!     data.put_all(heat, &Slab::new(&[row, 0], &[1, 100]), &vec![row as f64; 100])?;
//!     data.sync()?;
//!     // Every rank reads a column, as single precision.
//!     let mut column = [0_f32; 4];
//!     data.get_all(heat, &Slab::new(&[0, row], &[4, 1]), &mut column)?;
//!     assert_eq!(column, [0.0, 1.0, 2.0, 3.0]);
//!     data.close()
//! })?;
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), striate_array::ArrayError>(())
//! ```

mod access;
pub mod cdl;
mod dataset;
mod definition;
mod definition_types;
mod error;
mod file_state;
mod fill;
pub mod format;
mod header_reading;
mod memory;
mod netcdf4;
mod open_mode;
mod options;
mod partition;
mod pending;
mod placement;
mod relocate;
mod slab;
mod slab_batches;
mod stream;
pub mod value;

pub use dataset::Dataset;
pub use definition::{Definition, DimensionId, GroupId, Owner, VariableId};
pub use error::ArrayError;
pub use format::{CompoundMember, Format, Type, UserType, UserTypeClass, UserTypeId, Values};
pub use memory::{Sink, Source};
pub use open_mode::OpenMode;
pub use options::Options;
pub use partition::{
    DatasetFiles, DatasetKind, IfExists, Ownership, PartitionFile, PartitionInfo, PartitionRange,
    PartitionStats, Partitioning,
};
pub use pending::Pending;
pub use slab::Slab;
pub use slab_batches::SlabBatches;
/// Elements with their values of variable length, which are independent of places in a file.
pub use striate_hdf5::write::Elements;
pub use value::{Char, Raw, Value};

/// Tests the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/arrays.md")]
pub struct Guide;
