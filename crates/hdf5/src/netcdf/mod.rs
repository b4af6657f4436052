//! HDF5 files as netCDF programs see them.
//!
//! [`FileDefinition`] is the model of a netCDF-4 file without its data: what is written
//! ([`crate::write`]) and what is read are the same types. [`describe`] makes a [`NetcdfFile`] of a
//! file that was opened: the definitions by the rules of netCDF-C, the dataset of each variable,
//! and by name all that netCDF has no place for. Nothing but the bytes of the file decides what
//! comes out, so every rank that describes the same bytes has the same numbers.
//!
//! A file that [`NetcdfFile::rewritable`] accepts is written further with
//! [`crate::write::FilePlan::resume`].

mod atomic_type;
mod attributes;
mod class;
mod definition;
mod describe;
mod dimensions;
mod findings;
mod hidden;
mod objects;
mod resume;
mod variables;

pub use atomic_type::{AtomicType, default_fill};
pub use class::same_type;
pub use definition::{
    AttributeDefinition, DimensionDefinition, FileDefinition, GroupDefinition, Storage,
    TypeDefinition, VariableDefinition, VariableFill,
};
pub use describe::describe;

use crate::Dataset;
use crate::model::Name;

/// What a file is to a netCDF program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetcdfFile {
    /// Groups, dimensions, types and variables with their attributes. The numbers of dimensions are
    /// in the order of netCDF-C's `dimid`s. Attributes by which netCDF and HDF5 keep their own
    /// books (`_Netcdf4Dimid`, `DIMENSION_LIST` and so on) are not among the attributes.
    pub definition: FileDefinition,
    /// What the header of each variable's dataset says; the same index as
    /// [`FileDefinition::variables`].
    pub objects: Vec<Dataset>,
    /// Whose conventions the file follows.
    pub kind: NetcdfKind,
    /// What is in the file and not in the definitions.
    pub unrepresented: Vec<Unrepresented>,
    /// What else a commit would lose, as sentences.
    lost: Vec<String>,
}

/// Whose conventions a file follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetcdfKind {
    /// NetCDF-4.
    Netcdf4,
    /// NetCDF-4 with the classic model: one group, no types of users.
    Netcdf4Classic,
    /// HDF5 without any convention of netCDF: dimensions have made-up names (`phony_dim_0`).
    Hdf5,
}

/// An object, link or attribute that a netCDF program cannot see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unrepresented {
    /// Its path; that of an attribute is the path of its object, `@` and its name.
    pub path: Name,
    /// Why.
    pub reason: String,
}
