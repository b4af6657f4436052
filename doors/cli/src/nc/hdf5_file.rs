//! [`Hdf5File`]: an HDF5 file on a disk or on servers, as netCDF sees it.
//!
//! What a file is, its first bytes say. HDF5 may have other bytes before its own, as many as a
//! power of two from 512 on.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use striate_hdf5::netcdf::{NetcdfFile, Unrepresented, describe};
use striate_hdf5::{Error, File, Reason, SIGNATURE, Source};
use striate_store::Store;

use super::{place, store};
use crate::fs::Location;
use crate::{CommandError, ranks};

/// The least bytes before those of HDF5, if there are some.
const USER_BLOCK: u64 = 512;

/// A store as a source of bytes.
pub(super) struct StoreSource(Box<dyn Store>);

impl StoreSource {
    pub(super) fn new(store: Box<dyn Store>) -> Self {
        Self(store)
    }

    /// The length of the stripes of the file, if its store has some.
    pub(super) fn stripe_unit(&self) -> Option<u64> {
        self.0.capabilities().stripe_unit
    }
}

impl Source for StoreSource {
    fn length(&self) -> io::Result<u64> {
        self.0.len().map_err(io::Error::other)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let read = self.0.read_at(offset, buffer).map_err(io::Error::other)?;
        if read < buffer.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// An HDF5 file that is open, and what netCDF sees in it.
pub(super) struct Hdf5File {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) file: File<StoreSource>,
    pub(super) described: NetcdfFile,
}

/// The bytes of a file. `None` if a path cannot be opened: the reader of classic files says why. A
/// server is not asked twice.
fn found(path: &Path) -> Result<Option<Box<dyn Store>>, CommandError> {
    match place(path) {
        Ok(Location::Remote(_)) => store(path).map(Some),
        _ => Ok(store(path).ok()),
    }
}

/// Whether a file is of HDF5, by its signature.
fn is_hdf5(path: &Path) -> Result<bool, CommandError> {
    match found(path)? {
        Some(store) => Ok(has_signature(store.as_ref())),
        None => Ok(false),
    }
}

/// Whether a file has the signature of HDF5. What cannot be read has none: the reader of classic
/// files says why.
pub(super) fn has_signature(store: &dyn Store) -> bool {
    let Ok(len) = store.len() else { return false };
    let mut at = 0;
    while at < len {
        let mut bytes = [0; SIGNATURE.len()];
        let Ok(read) = store.read_at(at, &mut bytes) else { return false };
        if read == bytes.len() && bytes == SIGNATURE {
            return true;
        }
        // A classic file has its own signature.
        if at == 0 && bytes[..3].eq_ignore_ascii_case(b"CDF") {
            return false;
        }
        at = if at == 0 { USER_BLOCK } else { at.saturating_mul(2) };
    }
    false
}

/// A file that is open, and its size; or why it cannot be.
type OpenedFile = Result<(File<StoreSource>, u64), Error>;

/// Opens a file if it is of HDF5, without looking at what is in it.
pub(super) fn open_plain(path: &Path) -> Result<Option<OpenedFile>, CommandError> {
    let Some(store) = found(path)? else { return Ok(None) };
    if !has_signature(store.as_ref()) {
        return Ok(None);
    }
    let size = store.len()?;
    Ok(Some(File::open(StoreSource(store)).map(|file| (file, size))))
}

/// What a file is to one rank.
pub(super) enum Recognized {
    /// Not of HDF5.
    Other,
    /// Of HDF5, and for another rank: the one that prints.
    ForAnotherRank,
    /// Of HDF5.
    Hdf5(Box<Hdf5File>),
}

/// Opens a file if it is of HDF5, on the rank that prints.
pub(super) fn recognize(path: &Path) -> Result<Recognized, CommandError> {
    if !ranks::is_printing_rank() {
        return Ok(if is_hdf5(path)? { Recognized::ForAnotherRank } else { Recognized::Other });
    }
    let Some(opened) = open_plain(path)? else { return Ok(Recognized::Other) };
    let opened = opened.and_then(|(file, size)| Ok((describe(&file)?, file, size)));
    let name = path.display().to_string();
    let attempted = format!("cannot open {name}");
    let (described, file, size) = opened.map_err(|error| unreadable(&attempted, error))?;
    Ok(Recognized::Hdf5(Box::new(Hdf5File { name, size, file, described })))
}

/// What to say when a file cannot be read.
pub(super) fn unreadable(attempted: &str, error: Error) -> CommandError {
    let hint = match error.reason {
        Reason::Unsupported(_) | Reason::Filter(_) => "",
        _ => "'striate nc validate FILE' shows all that is wrong with it",
    };
    CommandError::failed(attempted, error, hint)
}

impl Hdf5File {
    /// Says on standard error what netCDF cannot represent; an error then.
    pub(super) fn report_unrepresented(&self) -> Result<(), CommandError> {
        let all = &self.described.unrepresented;
        if all.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for Unrepresented { path, reason } in all {
            let _ = writeln!(text, "{}: not shown: {path}: {reason}", self.name);
        }
        // If standard error is closed, the status is left.
        let _ = io::stderr().write_all(text.as_bytes());
        Err(CommandError::NotWell)
    }
}
