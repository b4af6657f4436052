//! Parallel HDF5 and parallel netCDF-C, the peers in netCDF-4 files, through MPI-IO. They need
//! contiguous elements in memory here, so noncontiguous ones are packed first.

#[cfg(any(parallel_hdf5, parallel_netcdf))]
mod dataset;

#[cfg(any(parallel_hdf5, parallel_netcdf))]
use super::shared_library::SharedLibrary;
use super::{ArrayEngine, ArrayEngineError, EngineContext};

/// Which library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParallelPeer {
    Hdf5,
    Netcdf,
}

#[cfg(parallel_hdf5)]
static HDF5: SharedLibrary = SharedLibrary::new(
    "parallel HDF5",
    include_bytes!(concat!(env!("OUT_DIR"), "/libstriate_parallel_hdf5.so")),
);

#[cfg(parallel_netcdf)]
static NETCDF: SharedLibrary = SharedLibrary::new(
    "parallel netCDF",
    include_bytes!(concat!(env!("OUT_DIR"), "/libstriate_parallel_netcdf.so")),
);

impl ParallelPeer {
    /// Why it cannot be used, if it cannot.
    pub(super) const fn absence(self) -> Option<&'static str> {
        match self {
            Self::Hdf5 if cfg!(parallel_hdf5) => None,
            Self::Netcdf if cfg!(parallel_netcdf) => None,
            _ if !cfg!(feature = "mpi") => Some("this program was built without MPI"),
            Self::Hdf5 => Some(
                "this program was built without parallel HDF5, which was not installed for its MPI \
                 (Debian: libhdf5-openmpi-dev or libhdf5-mpich-dev, with pkg-config)",
            ),
            Self::Netcdf => Some(
                "this program was built without parallel netCDF, which was not installed for its \
                 MPI (Debian has it for Open MPI: libnetcdf-mpi-dev, with pkg-config)",
            ),
        }
    }

    /// The library's own words.
    #[cfg_attr(
        all(parallel_hdf5, parallel_netcdf),
        expect(clippy::unnecessary_wraps, reason = "it may not be there")
    )]
    pub(super) fn version(self) -> Option<String> {
        match self {
            #[cfg(parallel_hdf5)]
            Self::Hdf5 => Some(HDF5.version()),
            #[cfg(parallel_netcdf)]
            Self::Netcdf => Some(NETCDF.version()),
            #[cfg(not(all(parallel_hdf5, parallel_netcdf)))]
            _ => None,
        }
    }

    /// Its engine, on top of the named implementation of MPI-IO, or of whichever MPI takes.
    #[cfg_attr(
        not(any(parallel_hdf5, parallel_netcdf)),
        expect(unused_variables, reason = "there is no library")
    )]
    pub(super) fn engine<'b>(
        self,
        component: Option<&'static str>,
        context: &EngineContext<'b>,
    ) -> Result<Box<dyn ArrayEngine + 'b>, ArrayEngineError> {
        match self {
            #[cfg(parallel_hdf5)]
            Self::Hdf5 => dataset::engine(&HDF5, component, context),
            #[cfg(parallel_netcdf)]
            Self::Netcdf => dataset::engine(&NETCDF, component, context),
            #[cfg(not(all(parallel_hdf5, parallel_netcdf)))]
            _ => Err(ArrayEngineError::Absent(self.absence().unwrap_or_default())),
        }
    }
}
