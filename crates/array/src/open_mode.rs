//! [`OpenMode`]: netCDF's `NC_NOWRITE` and `NC_WRITE`.

use striate_file::Mode;

/// What a dataset is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OpenMode {
    /// Data and definitions are read (`NC_NOWRITE`).
    #[default]
    ReadOnly,
    /// Data and definitions are read and written (`NC_WRITE`).
    ReadWrite,
}

impl OpenMode {
    /// Whether the dataset may be written.
    pub const fn is_writable(self) -> bool {
        matches!(self, Self::ReadWrite)
    }

    /// The mode in which its files are opened.
    pub(crate) fn file_mode(self) -> Mode {
        match self {
            Self::ReadOnly => Mode::READ,
            Self::ReadWrite => Mode::READ | Mode::WRITE,
        }
    }
}
