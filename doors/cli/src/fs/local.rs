//! What is known about a local file or directory, and the file system that it lies on.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use striate_store::{FileSystem, Operation, StoreError};

use super::shown;
use crate::number::bytes;
use crate::{CommandError, terminal};

/// A file or directory.
#[derive(Debug, Serialize)]
pub(super) struct LocalDescription {
    path: String,
    size: u64,
    file_system: FileSystemDescription,
}

/// How files of a file system are used; `docs/file-systems.md` says what follows.
#[derive(Debug, Serialize)]
pub(crate) struct FileSystemDescription {
    name: String,
    magic: u64,
    /// `one node`, `nodes` or `unknown`.
    shared_by: String,
    /// `at once` or `close to open`.
    writes_are_seen: String,
    /// `all` or `the node`.
    locks_exclude: String,
    sieving_writes: bool,
    atomic_append: bool,
    serial_writes: bool,
}

impl FileSystemDescription {
    pub(crate) fn of(path: &Path) -> Result<Self, StoreError> {
        let failed = |error| StoreError::system(Operation::Ask, path.display().to_string(), error);
        let system = FileSystem::of(path).map_err(failed)?;
        let row = system.traits();
        Ok(Self {
            name: system.to_string(),
            magic: system.magic(),
            shared_by: row.sharing.to_string(),
            writes_are_seen: row.consistency.to_string(),
            locks_exclude: row.locks.to_string(),
            sieving_writes: row.may_sieve_writes(),
            atomic_append: row.atomic_append,
            serial_writes: row.serial_writes,
        })
    }

    /// In one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "{}: shared by {}, writes are seen {}, locks exclude {}",
            self.name, self.shared_by, self.writes_are_seen, self.locks_exclude
        )
    }
}

impl LocalDescription {
    pub(super) fn new(path: &Path) -> Result<Self, CommandError> {
        let shown = path.display().to_string();
        let about = path
            .metadata()
            .map_err(|error| StoreError::system(Operation::Ask, shown.clone(), error))?;
        let file_system = FileSystemDescription::of(path)?;
        Ok(Self { path: shown, size: about.len(), file_system })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", terminal::heading(&shown(&self.path)));
        let mut line = |what: &str, value: &str| {
            let _ = writeln!(text, "  {what:<17}{value}");
        };
        let system = &self.file_system;
        line("size", &bytes(self.size));
        line("file system", &format!("{} (0x{:X})", system.name, system.magic));
        line("shared by", &system.shared_by);
        line("writes are seen", &system.writes_are_seen);
        line("locks exclude", &system.locks_exclude);
        line("sieving writes", if system.sieving_writes { "locked" } else { "never" });
        line("O_APPEND", if system.atomic_append { "atomic" } else { "not atomic" });
        line("writers", if system.serial_writes { "take turns" } else { "together" });
        text
    }
}
