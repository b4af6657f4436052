//! [`Mode`]: how a file is opened, as in MPI.

use bitflags::bitflags;

use crate::FileError;

bitflags! {
    /// How a file is opened.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Mode: u32 {
        /// For reading.
        const READ = 1;
        /// For writing.
        const WRITE = 1 << 1;
        /// Create it if it does not exist.
        const CREATE = 1 << 2;
        /// With [`Mode::CREATE`]: fail if it exists.
        const EXCLUSIVE = 1 << 3;
        /// Delete it when it is closed.
        const DELETE_ON_CLOSE = 1 << 4;
        /// File pointers start at the end of the file.
        const APPEND = 1 << 5;
    }
}

impl Mode {
    /// Refuses the combinations that MPI refuses.
    pub(crate) fn check(self) -> Result<(), FileError> {
        let refuse = |reason| Err(FileError::Mode { mode: self, reason });
        if !self.intersects(Self::READ | Self::WRITE) {
            return refuse("it must be opened for reading, writing or both");
        }
        if !self.contains(Self::WRITE) && self.intersects(Self::CREATE | Self::EXCLUSIVE) {
            return refuse("a file that is opened for reading only cannot be created");
        }
        if self.contains(Self::EXCLUSIVE) && !self.contains(Self::CREATE) {
            return refuse("EXCLUSIVE needs CREATE");
        }
        Ok(())
    }
}
