//! NetCDF-4 files as HDF5 files: definitions in netCDF's terms, and the conventions by which
//! netCDF-C, h5netcdf and xarray find them again.

mod atomic_type;
mod check;
mod definition;
mod fill;
mod objects;
mod scales;

pub use atomic_type::{AtomicType, default_fill};
pub(crate) use check::check_definition;
pub use definition::{
    AttributeDefinition, DimensionDefinition, FileDefinition, GroupDefinition, Storage,
    TypeDefinition, VariableDefinition, VariableFill,
};
pub(crate) use objects::build;
