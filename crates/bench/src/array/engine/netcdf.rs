//! netCDF's serial library: every rank sends its part to rank 0, which alone has the file open, and
//! receives its part from there.

#[cfg(netcdf)]
mod dataset;

#[cfg(netcdf)]
use super::shared_library::SharedLibrary;
use super::{ArrayEngine, ArrayEngineError, EngineContext};

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
pub(super) const VERSION: Option<fn() -> String> = Some(|| LIBRARY.version());

/// The library's own words.
#[cfg(not(netcdf))]
pub(super) const VERSION: Option<fn() -> String> = None;

#[cfg(netcdf)]
static LIBRARY: SharedLibrary =
    SharedLibrary::new("netCDF", include_bytes!(concat!(env!("OUT_DIR"), "/libstriate_netcdf.so")));

/// It.
#[cfg(netcdf)]
#[expect(clippy::unnecessary_wraps, reason = "it may not be there")]
pub(super) fn engine<'b>(
    context: &EngineContext<'b>,
) -> Result<Box<dyn ArrayEngine + 'b>, ArrayEngineError> {
    Ok(Box::new(dataset::Netcdf::new(&LIBRARY, context.clone())))
}

/// It is not there.
#[cfg(not(netcdf))]
pub(super) fn engine<'b>(
    _setting: &EngineContext<'b>,
) -> Result<Box<dyn ArrayEngine + 'b>, ArrayEngineError> {
    Err(ArrayEngineError::Absent(REASON))
}
