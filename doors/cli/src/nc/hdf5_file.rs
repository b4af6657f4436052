//! [`Hdf5File`]: an HDF5 file on a disk or on servers, as netCDF sees it.
//!
//! What a file is, its first bytes say. HDF5 may have other bytes before its own, as many as a
//! power of two from 512 on.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use striate_array::cdl::netcdf4::{DividedElements, as_whole};
use striate_array::format::ByteOrder;
use striate_array::{ArrayError, Dataset, DatasetFiles, DatasetKind, OpenMode, Options, Slab};
use striate_comm::alone;
use striate_hdf5::netcdf::{NetcdfFile, Unrepresented, describe};
use striate_hdf5::{Error, File, Reason, SIGNATURE, Source, Structure};
use striate_store::Store;

use super::{failed, options, place, store};
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
    /// The dataset of which it is the master.
    pub(super) partitioned: Option<PartitionedDataset>,
}

/// A partitioned dataset, from which one rank reads.
pub(super) struct PartitionedDataset {
    pub(super) dataset: RefCell<Dataset>,
    /// The number in the dataset of each variable of the master that is divided.
    numbers: Vec<Option<usize>>,
}

impl PartitionedDataset {
    pub(super) fn divides(&self, variable: usize) -> bool {
        self.number_of(variable).is_some()
    }

    /// The number in the dataset of a variable of the master, if it is divided.
    pub(super) fn number_of(&self, variable: usize) -> Option<usize> {
        self.numbers.get(variable).copied().flatten()
    }
}

impl DividedElements for PartitionedDataset {
    fn read(
        &self,
        variable: usize,
        start: &[u64],
        count: &[u64],
    ) -> Option<striate_hdf5::Result<Vec<u8>>> {
        let number = (*self.numbers.get(variable)?)?;
        let mut dataset = self.dataset.borrow_mut();
        let id = dataset.variables().nth(number)?;
        let byte_order = dataset.header().variables[number].storage.byte_order;
        let values = dataset.values(id, &Slab::new(start, count)).map_err(|error| {
            Error::of(Structure::Data, Reason::Storage(io::Error::other(error.to_string())))
        });
        Some(values.map(|values| {
            let mut bytes = values.to_bytes();
            if byte_order == ByteOrder::Little {
                striate_datatype::swap_in_place(&mut bytes, values.external().size() as usize);
            }
            bytes
        }))
    }
}

/// The bytes of a file. `None` if a path cannot be opened: the reader of classic files says why. A
/// server is not asked twice.
fn found(path: &Path) -> Result<Option<Box<dyn Store>>, CommandError> {
    match place(path) {
        Ok(Location::Remote(_) | Location::Pool(_)) => store(path).map(Some),
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
    let partitioned = None;
    Ok(Recognized::Hdf5(Box::new(Hdf5File { name, size, file, described, partitioned })))
}

/// What to say when a file cannot be read.
pub(super) fn unreadable(attempted: &str, error: Error) -> CommandError {
    let hint = match error.reason {
        Reason::Unsupported(_) | Reason::Filter(_) => "",
        _ => "'striate nc validate FILE' shows all that is wrong with it",
    };
    CommandError::failed(attempted, error, hint)
}

/// What becomes of a dataset of which partitions are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingPartitions {
    /// It is not opened.
    Refuse,
    /// It is opened as far as possible.
    Accept,
}

impl Hdf5File {
    /// Makes it the whole dataset, if the file is the master of a partitioned one.
    pub(super) fn with_partitions(
        mut self,
        path: &Path,
        missing: MissingPartitions,
    ) -> Result<Self, CommandError> {
        let is_master =
            |found: &DatasetFiles| matches!(found.kind, DatasetKind::Partitioned { .. });
        if !DatasetFiles::of(path).is_ok_and(|found| is_master(&found)) {
            return Ok(self);
        }
        let mut options: Options = options()?;
        options.partitioning.partial = missing == MissingPartitions::Accept;
        let opened = Dataset::open(&alone(), path, OpenMode::ReadOnly, &options);
        let dataset = opened.map_err(|error: ArrayError| failed("cannot open it", error))?;
        let numbers = as_whole(&mut self.described, &dataset);
        self.partitioned = Some(PartitionedDataset { dataset: RefCell::new(dataset), numbers });
        Ok(self)
    }

    /// Elements that are in partitions.
    pub(super) fn divided(&self) -> Option<&dyn DividedElements> {
        self.partitioned.as_ref().map(|partitioned| partitioned as &dyn DividedElements)
    }

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
