//! [`RunDirectory`]: the directory of the counters of a run's processes.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::CommandError;

/// A directory, which goes away with this unless it was asked for.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    path: PathBuf,
    temporary: bool,
}

impl RunDirectory {
    /// The one that was asked for, or a new one.
    pub(crate) fn new(asked: Option<&Path>) -> Result<Self, CommandError> {
        if let Some(path) = asked {
            return Ok(Self { path: made(path)?, temporary: false });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("striate-run-{}-{:x}", std::process::id(), now.as_nanos());
        let path = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|source| CommandError::Write { path: path.clone(), source })?;
        Ok(Self { path, temporary: true })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file there.
    pub(crate) fn keep(&self, name: &str, text: &str) -> Result<PathBuf, CommandError> {
        let path = self.path.join(name);
        match fs::write(&path, text) {
            Ok(()) => Ok(path),
            Err(source) => Err(CommandError::Write { path, source }),
        }
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if self.temporary {
            // Processes that still run keep what they have open.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// An existing directory, as an absolute path: programs may change their directory.
pub(crate) fn made(path: &Path) -> Result<PathBuf, CommandError> {
    let made = fs::create_dir_all(path).and_then(|()| path.canonicalize());
    made.map_err(|source| CommandError::Write { path: path.to_path_buf(), source })
}
