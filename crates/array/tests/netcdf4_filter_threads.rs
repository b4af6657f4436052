//! Filters in several threads: files, values and errors are the same for any number of threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use striate_array::format::{ByteOrder, ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{ArrayError, Dataset, Format, OpenMode, Options, Slab, Type};
use striate_comm::Threads;
use striate_hdf5::model::Address;
use tempfile::TempDir;

const ROWS: u64 = 500;
const COLUMNS: u64 = 700;
/// Chunks of 60,000 bytes, of which the last of each row reaches beyond the variable.
const CHUNK: [u64; 2] = [50, 150];

fn options(threads: usize) -> Options {
    Options::default().with("nc_filter_threads", &threads.to_string()).unwrap()
}

fn value(row: u64, column: u64) -> f64 {
    (row * COLUMNS + column) as f64 * 0.25
}

fn values(rows: std::ops::Range<u64>, columns: std::ops::Range<u64>) -> Vec<f64> {
    rows.flat_map(|row| columns.clone().map(move |column| value(row, column))).collect()
}

/// Ranks write rows whose edges are not those of chunks, then rows of others again.
fn write(path: &Path, ranks: usize, threads: usize, filters: &[ChunkFilter]) {
    let storage = StorageOptions {
        layout: StorageLayout::Chunked(CHUNK.to_vec()),
        filters: filters.to_vec(),
        byte_order: ByteOrder::Little,
    };
    Threads::new(ranks)
        .try_run(|comm| {
            let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
            let mut define = Dataset::create(&comm, path, Format::Netcdf4, &options(threads))?;
            let y = define.dimension("y", ROWS)?;
            let x = define.dimension("x", COLUMNS)?;
            let variable = define.variable("v", Type::Double, &[y, x])?;
            define.storage(variable, storage.clone())?;
            let mut data = define.end()?;
            let (low, high) = ((ROWS * rank / ranks) + rank * 7, ROWS * (rank + 1) / ranks);
            let high = if rank + 1 < ranks { high + (rank + 1) * 7 } else { high };
            let slab = Slab::new(&[low, 0], &[high - low, COLUMNS]);
            data.put_all(variable, &slab, &values(low..high, 0..COLUMNS))?;
            // Parts of all chunks, which have to be decoded for that.
            let slab = Slab::new(&[rank, 3], &[(ROWS - rank).div_ceil(ranks), COLUMNS - 10]);
            let again: Vec<f64> = (rank..ROWS)
                .step_by(ranks as usize)
                .flat_map(|row| values(row..row + 1, 3..COLUMNS - 7))
                .collect();
            data.put_all(variable, &slab.stride(&[ranks, 1]), &again)?;
            data.close()
        })
        .unwrap();
}

#[test]
fn files_and_values_are_the_same() {
    let filters = [ChunkFilter::Shuffle, ChunkFilter::Deflate(2), ChunkFilter::Fletcher32];
    let place = TempDir::new().unwrap();
    for ranks in [1, 2, 3] {
        let mut files = Vec::new();
        for threads in [1, 2, 7] {
            let path = place.path().join(format!("{ranks}-{threads}.nc"));
            write(&path, ranks, threads, &filters);
            files.push(std::fs::read(&path).unwrap());
        }
        assert!(files[0] == files[1] && files[0] == files[2], "{ranks} ranks");
        let path = place.path().join(format!("{ranks}-1.nc"));
        for threads in [1, 2, 7] {
            Threads::new(ranks)
                .try_run(|comm| {
                    let mode = OpenMode::ReadOnly;
                    let mut data = Dataset::open(&comm, &path, mode, &options(threads))?;
                    let variable = data.variable("v")?;
                    // Parts of chunks first, which are kept; then all.
                    let mut part = vec![0.0; 480 * 20];
                    let slab = Slab::new(&[11, 140], &[480, 20]);
                    for _ in 0..2 {
                        data.get_all(variable, &slab, &mut part)?;
                        assert_eq!(part, values(11..491, 140..160), "{threads} threads");
                        part.fill(0.0);
                    }
                    let mut all = vec![0.0; (ROWS * COLUMNS) as usize];
                    data.get_all(variable, &Slab::all(), &mut all)?;
                    assert!(all == values(0..ROWS, 0..COLUMNS), "{threads} threads");
                    data.close()
                })
                .unwrap();
        }
    }
}

/// Large chunks, of which one for each thread is more than a rank has in memory at a time.
#[test]
fn files_of_large_chunks_are_the_same() {
    const LARGE: [u64; 2] = [512, 1024];
    let place = TempDir::new().unwrap();
    let mut files = Vec::new();
    for threads in [1, 9] {
        let path = place.path().join(format!("{threads}.nc"));
        Threads::new(2)
            .try_run(|comm| {
                let mut define = Dataset::create(&comm, &path, Format::Netcdf4, &options(threads))?;
                let y = define.dimension("y", 12 * LARGE[0])?;
                let x = define.dimension("x", LARGE[1])?;
                let variable = define.variable("v", Type::Double, &[y, x])?;
                let storage = StorageOptions {
                    layout: StorageLayout::Chunked(LARGE.to_vec()),
                    filters: vec![ChunkFilter::Fletcher32],
                    byte_order: ByteOrder::Little,
                };
                define.storage(variable, storage)?;
                let mut data = define.end()?;
                // A rank has half of all chunks; then half of each.
                let (rank, rows) = (comm.rank() as u64, 6 * LARGE[0]);
                let part = values(0..rows, 0..LARGE[1]);
                data.put_all(variable, &Slab::new(&[rank * rows, 0], &[rows, LARGE[1]]), &part)?;
                let slab = Slab::new(&[rank, 0], &[rows, LARGE[1]]).stride(&[2, 1]);
                data.put_all(variable, &slab, &part)?;
                data.close()
            })
            .unwrap();
        files.push(std::fs::read(&path).unwrap());
    }
    assert!(files[0] == files[1]);
}

/// Damages the chunk that has an element, and returns its address.
fn damage(path: &Path, row: u64, column: u64) -> Address {
    let first = [row / CHUNK[0] * CHUNK[0], column / CHUNK[1] * CHUNK[1]];
    let pattern: Vec<u8> = values(first[0]..first[0] + 1, first[1]..first[1] + 100)
        .into_iter()
        .flat_map(f64::to_le_bytes)
        .collect();
    let mut bytes = std::fs::read(path).unwrap();
    let found: Vec<usize> =
        (0..bytes.len() - pattern.len()).filter(|&at| bytes[at..].starts_with(&pattern)).collect();
    // What was written first may still be there.
    let &at = found.last().unwrap();
    bytes[at + 1000] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
    Address(at as u64)
}

/// The first of two damaged chunks is named, and what comes before it is read.
#[test]
fn the_first_damaged_chunk_is_named() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("damaged.nc");
    // Without compression the elements are found in the file.
    write(&path, 1, 2, &[ChunkFilter::Fletcher32]);
    damage(&path, 310, 20);
    let first = damage(&path, 260, 320);
    let untouched = std::fs::read(&path).unwrap();
    let mut errors = Vec::new();
    for threads in [1, 2, 7] {
        let told = Threads::new(1)
            .try_run(|comm| {
                let mut data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &options(threads))?;
                let variable = data.variable("v")?;
                let mut all = vec![0.0; (ROWS * COLUMNS) as usize];
                let read = data.get(variable, &Slab::all(), &mut all).unwrap_err();
                let before = (250 * COLUMNS) as usize;
                assert!(all[..before] == values(0..250, 0..COLUMNS), "{threads} threads");
                assert_eq!(all[before..before + 300], values(250..251, 0..300));
                assert_eq!(all[before + 450..before + 700], [0.0; 250], "{threads} threads");
                // To change a part of a chunk, it has to be decoded.
                let slab = Slab::new(&[0, 1], &[ROWS, COLUMNS - 2]);
                let part = values(0..ROWS, 1..COLUMNS - 1);
                let written = data.put_all(variable, &slab.stride(&[1, 1]), &part);
                let whole = Slab::new(&[0, 1], &[ROWS, 1]);
                let column = data.put_all(variable, &whole, &values(0..ROWS, 1..2));
                Ok::<_, ArrayError>([
                    read.to_string(),
                    written.map_or_else(|error| error.to_string(), |()| String::new()),
                    column.map_or_else(|error| error.to_string(), |()| String::new()),
                ])
            })
            .unwrap();
        errors.push(told);
        std::fs::write(&path, &untouched).unwrap();
    }
    assert!(errors[0][0][0].contains(&first.to_string()), "{first}: {:?}", errors[0]);
    assert_eq!(errors[0], errors[1]);
    assert_eq!(errors[0], errors[2]);
}
