//! NetCDF-4 files as HDF5 files: definitions of [`crate::netcdf`] by the conventions by which
//! netCDF-C, h5netcdf and xarray find them again.

mod check;
mod fill;
mod objects;
mod scales;

pub use crate::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, GroupDefinition, Storage,
    TypeDefinition, VariableDefinition, VariableFill, default_fill,
};
pub(crate) use check::check_definition;
pub(crate) use fill::fill_of;
pub(crate) use objects::build;
