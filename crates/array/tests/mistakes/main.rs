//! Mistakes of programs and failures of disks: each is an error that says what is wrong, on every
//! rank that takes part, and loses no data.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accesses;
mod definitions;
mod files;
mod fill;
mod full_disk;
mod memory;
mod pending;
mod range;
mod sizes;
#[path = "../small_disk/mod.rs"]
mod small_disk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_array::{ArrayError, Dataset, Definition, Format, OpenMode, Options, Type, VariableId};
use striate_comm::{Comm, Threads};
use tempfile::TempDir;

pub(crate) const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];

/// A temporary directory, and the path of a file that does not exist yet.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.nc");
    (directory, path)
}

/// Runs ranks that must all succeed.
pub(crate) fn ranks<T: Send>(
    count: usize,
    body: impl Fn(Arc<dyn Comm>) -> Result<T, ArrayError> + Sync,
) -> Vec<T> {
    Threads::new(count).try_run(body).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs ranks that must all fail, and returns the messages.
pub(crate) fn failures(
    count: usize,
    body: impl Fn(Arc<dyn Comm>) -> Result<(), ArrayError> + Sync,
) -> Vec<String> {
    ranks(count, |comm| Ok(message(body(comm))))
}

/// The text of the error that a call must return.
pub(crate) fn message<T>(result: Result<T, ArrayError>) -> String {
    match result {
        Ok(_) => panic!("there should be an error"),
        Err(error) => error.to_string(),
    }
}

/// Asserts that all ranks return the error of rank `at_fault`: that rank without its number, the
/// other ranks with it.
pub(crate) fn assert_told(messages: &[String], at_fault: usize, words: &str) {
    for (rank, message) in messages.iter().enumerate() {
        assert!(message.contains(words), "rank {rank} says: {message}");
        let named = message.contains(&format!("rank {at_fault}"));
        assert!(named || rank == at_fault, "rank {rank} says: {message}");
    }
}

pub(crate) fn create(comm: &Arc<dyn Comm>, path: &Path, format: Format) -> Definition {
    Dataset::create(comm, path, format, &Options::default()).unwrap()
}

pub(crate) fn open(comm: &Arc<dyn Comm>, path: &Path, mode: OpenMode) -> Dataset {
    Dataset::open(comm, path, mode, &Options::default()).unwrap()
}

/// A dataset of a fixed and a record variable of ints, all written: `grid` is 4 × 6, `series` has
/// two records of 6; text is in `name`.
pub(crate) fn example(comm: &Arc<dyn Comm>, path: &Path, format: Format) -> Dataset {
    let mut define = create(comm, path, format);
    let time = define.unlimited("time").unwrap();
    let y = define.dimension("y", 4).unwrap();
    let x = define.dimension("x", 6).unwrap();
    define.variable("grid", Type::Int, &[y, x]).unwrap();
    define.variable("series", Type::Int, &[time, x]).unwrap();
    define.variable("name", Type::Char, &[x]).unwrap();
    let mut data = define.end().unwrap();
    let [grid, series, name] = example_variables(&data);
    let all = striate_array::Slab::new(&[0, 0], &[4, 6]);
    data.put_all(grid, &all, &(0..24).collect::<Vec<i32>>()).unwrap();
    let two = striate_array::Slab::new(&[0, 0], &[2, 6]);
    data.put_all(series, &two, &(100..112).collect::<Vec<i32>>()).unwrap();
    let text = striate_array::Char::slice(b"abcdef");
    data.put_all(name, &striate_array::Slab::all(), text).unwrap();
    data
}

pub(crate) fn example_variables(data: &Dataset) -> [VariableId; 3] {
    ["grid", "series", "name"].map(|name| data.variable(name).unwrap())
}

/// Asserts that the example has its original content.
pub(crate) fn assert_example(data: &mut Dataset) {
    let [grid, series, name] = example_variables(data);
    let all = striate_array::Slab::all();
    assert_eq!(data.values(grid, &all).unwrap(), (0..24).collect::<Vec<i32>>().into());
    assert_eq!(data.values(series, &all).unwrap(), (100..112).collect::<Vec<i32>>().into());
    assert_eq!(data.values(name, &all).unwrap(), "abcdef".into());
}

/// Asserts that the file has no violations of its format.
pub(crate) fn assert_valid(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(striate_array::format::validate(&bytes, bytes.len() as u64), []);
}
