//! netCDF's serial library, in the classical way: every rank sends its part to rank 0, which alone
//! has the file, and gets it from there.

#[cfg(netcdf)]
mod dataset;
#[cfg(netcdf)]
mod library;

use super::{Engine, EngineError, Setting};

/// Why it cannot be used, if it cannot.
#[cfg(netcdf)]
pub(super) const ABSENCE: Option<&str> = None;

/// Why it cannot be used, if it cannot.
#[cfg(not(netcdf))]
pub(super) const ABSENCE: Option<&str> = Some(REASON);

#[cfg(not(netcdf))]
const REASON: &str =
    "this program was built without netCDF: it takes --features mpi and libnetcdf-dev";

/// The library's own words.
#[cfg(netcdf)]
pub(super) const VERSION: Option<fn() -> String> = Some(library::version);

/// The library's own words.
#[cfg(not(netcdf))]
pub(super) const VERSION: Option<fn() -> String> = None;

/// It.
#[cfg(netcdf)]
#[expect(clippy::unnecessary_wraps, reason = "it may not be there")]
pub(super) fn engine<'b>(setting: &Setting<'b>) -> Result<Box<dyn Engine + 'b>, EngineError> {
    Ok(Box::new(dataset::Netcdf::new(setting.clone())))
}

/// It is not there.
#[cfg(not(netcdf))]
pub(super) fn engine<'b>(_setting: &Setting<'b>) -> Result<Box<dyn Engine + 'b>, EngineError> {
    Err(EngineError::Absent(REASON))
}
