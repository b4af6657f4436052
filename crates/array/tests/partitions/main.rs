//! Partitioned datasets: accesses, the content of their files, and errors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
mod failures;
mod kill;
#[path = "../killed_writer/mod.rs"]
mod killed_writer;
mod mistakes;
mod netcdf4;
mod probing;
mod rados;
#[path = "../small_disk/mod.rs"]
mod small_disk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_array::{ArrayError, Dataset, OpenMode, Options};
use striate_comm::{Comm, Threads};

/// Runs ranks that must all succeed.
pub(crate) fn ranks<T: Send>(
    count: usize,
    body: impl Fn(Arc<dyn Comm>) -> Result<T, ArrayError> + Sync,
) -> Vec<T> {
    Threads::new(count).try_run(body).unwrap_or_else(|error| panic!("{error}"))
}

/// A temporary directory, and the path of a dataset in it.
pub(crate) fn temporary_dataset() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.nc");
    (directory, path)
}

/// Options for `count` partitions.
pub(crate) fn divided(count: u64) -> Options {
    Options::default()
        .with("nc_partitioning_enabled", "enable")
        .unwrap()
        .with("nc_num_partitions", &count.to_string())
        .unwrap()
}

pub(crate) fn open(comm: &Arc<dyn Comm>, path: &Path, mode: OpenMode) -> Dataset {
    Dataset::open(comm, path, mode, &Options::default()).unwrap()
}

/// The names of the files in a directory, in order.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Asserts that a file has no violations of its format.
pub(crate) fn assert_valid(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let violations = striate_array::format::validate(&bytes, bytes.len() as u64);
    assert_eq!(violations, [], "{}", path.display());
}
