//! [`Module`]: the module of Darshan that recorded a region of a log.

/// A module by its number in the newest version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Module(pub u8);

/// The names of modules by number.
const NAMES: [&str; 18] = [
    "NULL",
    "POSIX",
    "MPI-IO",
    "H5F",
    "H5D",
    "PNETCDF_FILE",
    "PNETCDF_VAR",
    "BG/Q",
    "LUSTRE",
    "STDIO",
    "DXT_POSIX",
    "DXT_MPIIO",
    "MDHIM",
    "APXC",
    "APMPI",
    "HEATMAP",
    "DFS",
    "DAOS",
];

impl Module {
    /// Calls of the POSIX layer, counted by file.
    pub const POSIX: Self = Self(1);
    /// Calls of MPI-IO, counted by file.
    pub const MPI_IO: Self = Self(2);
    /// HDF5 datasets, which exist since format version 3.20.
    pub(crate) const H5D: Self = Self(4);
    /// Variables of PnetCDF, which exist since format version 3.41.
    pub(crate) const PNETCDF_VAR: Self = Self(6);
    /// Layouts of files on Lustre.
    pub const LUSTRE: Self = Self(8);
    /// Calls of the C library's streams, counted by file.
    pub const STDIO: Self = Self(9);
    /// Each read and write at the POSIX layer.
    pub const DXT_POSIX: Self = Self(10);
    /// Each read and write at the MPI-IO layer.
    pub const DXT_MPI_IO: Self = Self(11);
    /// As many modules a log can have.
    pub(crate) const MOST: usize = 64;

    /// Its name as Darshan's own tools print it.
    pub fn name(self) -> String {
        NAMES
            .get(usize::from(self.0))
            .map_or_else(|| format!("module {}", self.0), |name| (*name).to_owned())
    }

    /// Whether its records are read here.
    pub const fn is_read(self) -> bool {
        matches!(
            self,
            Self::POSIX
                | Self::MPI_IO
                | Self::STDIO
                | Self::LUSTRE
                | Self::DXT_POSIX
                | Self::DXT_MPI_IO
        )
    }
}
