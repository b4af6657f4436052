//! Space of filtered chunks that are written again is used again, after the sync that no longer
//! needs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
#[cfg(feature = "peers")]
use std::process::Command;

use striate_array::format::{ByteOrder, ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{ArrayError, Dataset, Format, OpenMode, Options, Slab, Type, VariableId};
use striate_comm::{Comm, Threads};

const ROWS: u64 = 64;
const COLUMNS: u64 = 300;

/// Rounds need chunks of different sizes.
fn value(round: u64, row: u64, column: u64) -> i32 {
    let noise = (round * 8191 + row * 1021 + column).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    (noise % (1 << (round * 7 % 25)) + row) as i32
}

fn put(
    data: &mut Dataset,
    comm: &dyn Comm,
    variable: VariableId,
    round: u64,
) -> Result<(), ArrayError> {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    let rows = ROWS * rank / ranks..ROWS * (rank + 1) / ranks;
    let slab = Slab::new(&[rows.start, 0], &[rows.end - rows.start, COLUMNS]);
    let values: Vec<i32> =
        rows.flat_map(|row| (0..COLUMNS).map(move |column| value(round, row, column))).collect();
    data.put_all(variable, &slab, &values)
}

/// Writes all elements in each round, with a sync after it; the length of the file then.
fn rewrite(path: &Path, ranks: usize, rounds: u64) -> u64 {
    Threads::new(ranks)
        .try_run(|comm| {
            let options = Options::default();
            let mut define = Dataset::create(&comm, path, Format::Netcdf4, &options)?;
            let y = define.dimension("y", ROWS)?;
            let x = define.dimension("x", COLUMNS)?;
            let variable = define.variable("v", Type::Int, &[y, x])?;
            let storage = StorageOptions {
                layout: StorageLayout::Chunked(vec![10, 70]),
                filters: vec![ChunkFilter::Shuffle, ChunkFilter::Deflate(1)],
                byte_order: ByteOrder::Little,
            };
            define.storage(variable, storage)?;
            let mut data = define.end()?;
            for round in 0..rounds {
                put(&mut data, comm.as_ref(), variable, round)?;
                data.sync()?;
            }
            data.close()
        })
        .unwrap();
    std::fs::metadata(path).unwrap().len()
}

fn check(path: &Path, round: u64) {
    Threads::new(1)
        .try_run(|comm| {
            let mode = OpenMode::ReadOnly;
            let mut data = Dataset::open(&comm, path, mode, &Options::default())?;
            let mut found = vec![0; (ROWS * COLUMNS) as usize];
            data.get_all(data.variable("v")?, &Slab::all(), &mut found)?;
            for (at, &found) in found.iter().enumerate() {
                let (row, column) = (at as u64 / COLUMNS, at as u64 % COLUMNS);
                assert_eq!(found, value(round, row, column), "{row} {column}");
            }
            data.close()
        })
        .unwrap();
}

#[test]
fn a_file_that_is_written_again_and_again_stays_small() {
    let place = tempfile::tempdir().unwrap();
    for ranks in [1, 3] {
        // The rounds before have chunks of every size.
        let few = rewrite(&place.path().join("few.nc"), ranks, 25);
        let path = place.path().join(format!("many-{ranks}.nc"));
        let many = rewrite(&path, ranks, 125);
        check(&path, 124);
        // Two states at a time, and gaps between blocks.
        let elements = ROWS * COLUMNS * 4;
        assert!(many < 4 * elements, "{ranks} ranks: {many} bytes for {elements}");
        assert!(many < few * 3 / 2, "{ranks} ranks: {many} bytes after {few}");
        peers(&path, place.path());
    }
}

/// A file that is opened again keeps what it has, and grows by what it writes once.
#[test]
fn a_file_that_is_opened_again_is_written_further() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("again.nc");
    let first = rewrite(&path, 2, 10);
    Threads::new(2)
        .try_run(|comm| {
            let mode = OpenMode::ReadWrite;
            let mut data = Dataset::open(&comm, &path, mode, &Options::default())?;
            let variable = data.variable("v")?;
            for round in 10..110 {
                put(&mut data, comm.as_ref(), variable, round)?;
                data.sync()?;
            }
            data.close()
        })
        .unwrap();
    check(&path, 109);
    let second = std::fs::metadata(&path).unwrap().len();
    assert!(second < first + 4 * ROWS * COLUMNS * 4, "{first} {second}");
}

/// Others read it.
#[cfg(feature = "peers")]
fn peers(path: &Path, place: &Path) {
    let python = std::env::var_os("STRIATE_PYTHON").unwrap_or_else(|| "python3".into());
    let values = place.join("values");
    let script = "import h5py, sys; h5py.File(sys.argv[1])['v'][...].tofile(sys.argv[2])";
    let read = Command::new(python).args(["-c", script]).arg(path).arg(&values).status();
    assert!(read.unwrap().success());
    let due: Vec<u8> = (0..ROWS)
        .flat_map(|row| (0..COLUMNS).map(move |column| value(124, row, column)))
        .flat_map(i32::to_le_bytes)
        .collect();
    assert!(std::fs::read(&values).unwrap() == due, "h5py disagrees");
    let dump = Command::new("ncdump").arg(path).output().unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
}

#[cfg(not(feature = "peers"))]
fn peers(_: &Path, _: &Path) {}
