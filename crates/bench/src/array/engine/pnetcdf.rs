//! PnetCDF, the peer, through MPI-IO. It needs contiguous elements in memory, so noncontiguous ones
//! are packed first, as programs do; this is part of the measured time.

#[cfg(pnetcdf)]
mod dataset;
#[cfg(pnetcdf)]
mod library;

use super::{ArrayEngine, ArrayEngineError, EngineContext};

/// Why it cannot be used, if it cannot.
#[cfg(pnetcdf)]
pub(super) const ABSENCE: Option<&str> = None;

/// Why it cannot be used, if it cannot.
#[cfg(not(pnetcdf))]
pub(super) const ABSENCE: Option<&str> = Some(REASON);

#[cfg(all(not(pnetcdf), not(feature = "mpi")))]
const REASON: &str = "this program was built without MPI";

#[cfg(all(not(pnetcdf), feature = "mpi"))]
const REASON: &str = "this program was built without PnetCDF, which was not installed for its MPI \
                      (Debian has it for Open MPI: libpnetcdf-dev)";

/// The library's own words.
#[cfg(pnetcdf)]
pub(super) const VERSION: Option<fn() -> String> = Some(library::version);

/// The library's own words.
#[cfg(not(pnetcdf))]
pub(super) const VERSION: Option<fn() -> String> = None;

/// It, on top of the named implementation of MPI-IO, or of whichever MPI takes.
#[cfg(pnetcdf)]
pub(super) fn engine<'b>(
    component: Option<&'static str>,
    context: &EngineContext<'b>,
) -> Result<Box<dyn ArrayEngine + 'b>, ArrayEngineError> {
    library::ready()?;
    Ok(Box::new(dataset::Pnetcdf::new(component, context.clone())))
}

/// It is not there.
#[cfg(not(pnetcdf))]
pub(super) fn engine<'b>(
    _component: Option<&'static str>,
    _setting: &EngineContext<'b>,
) -> Result<Box<dyn ArrayEngine + 'b>, ArrayEngineError> {
    Err(ArrayEngineError::Absent(REASON))
}
