//! Interoperability with other tools: those of netCDF-C and `PnetCDF`, NCO, and netCDF4 and xarray
//! of Python. They run as processes; a missing one is a failure.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../model/mod.rs"]
mod model;
mod partitions;
mod random;
mod reading;
mod tools;
mod writing;

use std::path::Path;
use std::sync::Arc;

use striate_array::{
    ArrayError, Char, Dataset, Format, OpenMode, Options, Slab, Type, Values, VariableId,
};
use striate_comm::{Comm, Threads};

pub(crate) const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];

/// Runs ranks that must all succeed.
pub(crate) fn ranks<T: Send>(
    count: usize,
    body: impl Fn(Arc<dyn Comm>) -> Result<T, ArrayError> + Sync,
) -> Vec<T> {
    Threads::new(count).try_run(body).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn open(comm: &Arc<dyn Comm>, path: &Path) -> Dataset {
    Dataset::open(comm, path, OpenMode::ReadOnly, &Options::default()).unwrap()
}

/// The types that a format has.
pub(crate) fn types(format: Format) -> impl Iterator<Item = Type> {
    Type::ALL.into_iter().filter(move |external| external.is_in(format))
}

/// Reads elements in their external type, collectively.
pub(crate) fn read_collectively(
    data: &mut Dataset,
    variable: VariableId,
    slab: &Slab,
    count: usize,
) -> Result<Values, ArrayError> {
    macro_rules! read {
        ($type:ty) => {{
            let mut elements = vec![<$type>::default(); count];
            data.get_all(variable, slab, &mut elements)?;
            elements.into()
        }};
    }
    Ok(match data.header().variables[variable.index()].external {
        Type::Byte => read!(i8),
        Type::Short => read!(i16),
        Type::Int => read!(i32),
        Type::Float => read!(f32),
        Type::Double => read!(f64),
        Type::UByte => read!(u8),
        Type::UShort => read!(u16),
        Type::UInt => read!(u32),
        Type::Int64 => read!(i64),
        Type::UInt64 => read!(u64),
        Type::Char => {
            let mut text = vec![0; count];
            data.get_all(variable, slab, Char::slice_mut(&mut text))?;
            Values::Char(text)
        }
        other => unreachable!("{other} is in no classic file"),
    })
}
