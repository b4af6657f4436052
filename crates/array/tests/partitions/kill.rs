//! A killed writer leaves the old dataset, a complete new one, or one that is refused because a
//! redefinition was in progress; never one that claims missing data.
//!
//! The writer is this program in another process. It overwrites one dataset again and again, with
//! values that can be computed, and logs what was acknowledged. `STRIATE_ROUNDS` is the number of
//! rounds.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use striate_array::format::{ByteOrder, ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{
    ArrayError, Dataset, Format, OpenMode, Options, Owner, Slab, Type, VariableId,
};
use striate_comm::{Comm, Threads};

use crate::killed_writer::{
    append_line, complete_lines, kill_after, open_log, start_writer, value,
};
use crate::{divided, names};

const PLACE: &str = "STRIATE_TEST_PARTITIONS_KILL";
/// How many datasets it writes, if it is not killed before.
const DATASETS: &str = "STRIATE_TEST_PARTITIONS_KILL_DATASETS";
const RANKS: usize = 3;
const FORMATS: [Format; 5] =
    [Format::Netcdf4, Format::Cdf1, Format::Netcdf4Classic, Format::Cdf5, Format::Cdf2];
const ROWS: u64 = 31;
const COLUMNS: u64 = 53;

/// Which call writes.
#[derive(Clone, Copy)]
enum PutCall {
    Collective,
    Independent,
}

/// The writer of one dataset, as one of its ranks.
struct PartitionWriter {
    comm: Arc<dyn Comm>,
    dataset: u64,
    log: Option<File>,
}

impl PartitionWriter {
    /// Logs a line, durable before any rank continues.
    fn log(&mut self, line: &str) -> Result<(), ArrayError> {
        self.comm.barrier()?;
        append_line(&mut self.log, line);
        Ok(self.comm.barrier()?)
    }

    /// Writes some rows; each rank writes its columns.
    fn put(
        &self,
        data: &mut Dataset,
        id: VariableId,
        rows: std::ops::Range<u64>,
        call: PutCall,
    ) -> Result<(), ArrayError> {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        let columns = COLUMNS * rank / ranks..COLUMNS * (rank + 1) / ranks;
        let count = [rows.end - rows.start, columns.end - columns.start];
        let slab = Slab::new(&[rows.start, columns.start], &count);
        let variable = id.index() as u64;
        let values: Vec<i16> = rows
            .flat_map(|row| columns.clone().map(move |column| (row, column)))
            .map(|(row, column)| value(self.dataset, variable, row, column))
            .collect();
        match call {
            PutCall::Collective => data.put_all(id, &slab, &values),
            PutCall::Independent => data.put(id, &slab, &values),
        }
    }

    fn write(&mut self, path: &Path) -> Result<(), ArrayError> {
        let dataset = self.dataset;
        let format = FORMATS[dataset as usize % FORMATS.len()];
        let netcdf4 = format.is_hdf5();
        let options = divided(2 + dataset % 5);
        self.log(&format!("begins {dataset}"))?;
        let mut define = Dataset::create(&self.comm, path, format, &options)?;
        define.attribute(Owner::Global, "dataset", dataset as i32)?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", ROWS)?;
        let x = define.dimension("x", COLUMNS)?;
        let grid = define.variable("grid", Type::Int, &[y, x])?;
        let series = define.variable("series", Type::Short, &[time, x])?;
        if netcdf4 && dataset.is_multiple_of(2) {
            for (variable, chunks) in [(grid, vec![3, 10]), (series, vec![2, 9])] {
                let layout = StorageLayout::Chunked(chunks);
                let filters = vec![ChunkFilter::Shuffle, ChunkFilter::Deflate(1)];
                let storage = StorageOptions { layout, filters, byte_order: ByteOrder::Big };
                define.storage(variable, storage)?;
            }
        }
        let mut data = define.end()?;
        self.put(&mut data, grid, 0..ROWS, PutCall::Collective)?;
        self.put(&mut data, series, 0..2, PutCall::Collective)?;
        data.sync()?;
        self.log(&format!("has {dataset} 2"))?;
        self.put(&mut data, series, 2..4, PutCall::Collective)?;
        // Independent writes make no records in netCDF-4 files.
        let call = if netcdf4 { PutCall::Collective } else { PutCall::Independent };
        self.put(&mut data, series, 4..6, call)?;
        data.sync()?;
        self.log(&format!("has {dataset} 6"))?;
        self.put(&mut data, series, 1..3, PutCall::Independent)?;
        self.log(&format!("redefines {dataset}"))?;
        let mut define = data.redefine()?;
        define.attribute(Owner::Global, "note", "x".repeat(3000))?;
        define.attribute(grid, "note", "x".repeat(3000))?;
        let mut data = define.end()?;
        self.log(&format!("has {dataset} 6"))?;
        self.put(&mut data, series, 6..8, PutCall::Collective)?;
        data.close()?;
        self.log(&format!("has {dataset} 8"))
    }
}

/// The writer process: writes until it is killed. Without the environment variable it does nothing.
#[test]
fn writer() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let path = Path::new(&place).join("data.nc");
    let lines = complete_lines(&path);
    let first = lines.iter().filter(|line| line.starts_with("begins")).count() as u64;
    let count = std::env::var(DATASETS).ok().and_then(|count| count.parse().ok());
    for dataset in first..count.unwrap_or(u64::MAX) {
        let written = Threads::new(RANKS).try_run(|comm| {
            let log = open_log(&path, comm.rank());
            PartitionWriter { comm, dataset, log }.write(&path)
        });
        written.unwrap();
    }
}

/// What was acknowledged: a dataset and its records, and whether a redefinition is in progress.
#[derive(Debug, Default)]
struct AcknowledgedLog {
    begun: u64,
    has: Option<(u64, u64)>,
    redefines: bool,
}

impl AcknowledgedLog {
    fn of(path: &Path) -> Self {
        let mut log = Self::default();
        for line in complete_lines(path) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |n: usize| words[n].parse::<u64>().unwrap();
            match words[0] {
                "begins" => log.begun = number(1),
                "redefines" => log.redefines = true,
                _ => {
                    log.has = Some((number(1), number(2)));
                    log.redefines = false;
                }
            }
        }
        log
    }
}

/// Whether there is a dataset, after checking that it contains what its header says and what was
/// acknowledged.
fn check(path: &Path, log: &AcknowledgedLog) -> bool {
    let opened = Threads::new(2).run(|comm| {
        let mut data = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default())?;
        let records = data.dimension_len(data.dimension("time")?)?;
        let dataset = data.attribute(Owner::Global, "dataset")?.clone();
        let dataset =
            u64::from_be_bytes([&[0; 4][..], &dataset.to_bytes()].concat().try_into().unwrap());
        let found = (dataset, records);
        // It may have been published, or grown, before that was acknowledged.
        assert!(found >= log.has.unwrap_or_default() && dataset <= log.begun, "{found:?} {log:?}");
        for (variable, rows) in [(0, ROWS), (1, records)] {
            let id = data.variables().nth(variable as usize).unwrap();
            let mut values = vec![0_i16; (rows * COLUMNS) as usize];
            data.get_all(id, &Slab::new(&[0, 0], &[rows, COLUMNS]), &mut values)?;
            let cells = (0..rows).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
            for ((row, column), found) in cells.zip(values) {
                let expected = value(dataset, variable, row, column);
                assert_eq!(found, expected, "{variable} at {row}, {column}: {log:?}");
            }
        }
        for part in data.partitions().unwrap_or_default() {
            Dataset::open_raw(&striate_comm::alone(), &part.file, &Options::default())?.close()?;
        }
        data.close()
    });
    let mut there = true;
    for result in opened {
        let Err(error) = result else { continue };
        let text = error.to_string();
        // Only a redefinition may have made it unusable; before the first dataset there is no file.
        let allowed = (log.redefines && text.contains("is unfinished"))
            || (log.has.is_none() && text.contains("No such file"));
        assert!(allowed, "{log:?}: {text}");
        there = false;
    }
    there
}

#[test]
fn killed_writers_leave_complete_datasets_or_none() {
    let rounds = std::env::var("STRIATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut random = 7_u32;
    let mut whole = 0;
    for _ in 0..rounds {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.nc");
        // Each writer starts with the files of the previous one.
        for _ in 0..3 {
            let variables = [(PLACE, directory.path().as_os_str())];
            let mut writer = start_writer("kill::writer", &variables);
            kill_after(&mut writer, Duration::from_millis(150), &mut random);
            whole += u32::from(check(&path, &AcknowledgedLog::of(&path)));
        }
        // The next writer succeeds, and removes the unpublished files.
        Threads::new(2)
            .try_run(|comm| PartitionWriter { comm, dataset: 1, log: None }.write(&path))
            .unwrap_or_else(|error: ArrayError| panic!("{error}"));
        assert!(!names(directory.path()).iter().any(|name| name.ends_with(".unpublished")));
        check(&path, &AcknowledgedLog { begun: 1, has: Some((1, 8)), redefines: false });
    }
    println!("{rounds} rounds of 3 kills: {whole} times there was a whole dataset");
}

/// The writer of a netCDF-4 dataset is killed before each call that changes a file, in turn.
#[cfg(feature = "peers")]
#[test]
fn killed_before_every_change_of_netcdf4_files() {
    // All in the tests of a soak, a share of them otherwise.
    let step = if std::env::var_os("STRIATE_ROUNDS").is_some() { 1 } else { 9 };
    let (mut kills, mut whole) = (0, 0);
    for call in ["pwrite64", "pwritev", "pwritev2", "fsync", "fdatasync", "rename"] {
        for nth in (1..).step_by(step) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("data.nc");
            let output = std::process::Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
                .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "kill::writer"])
                .envs([(PLACE, directory.path().as_os_str()), (DATASETS, "1".as_ref())])
                .output()
                .expect("strace is there");
            if output.status.success() {
                break;
            }
            let log = AcknowledgedLog::of(&path);
            if check(&path, &log) {
                whole += 1;
                check_with_h5py(directory.path());
            }
            // The next writer goes on with the same dataset, or replaces it.
            let goes_on = Threads::new(2).try_run(|comm| {
                let mode = OpenMode::ReadWrite;
                if !path.exists() {
                    return PartitionWriter { comm, dataset: 0, log: None }.write(&path);
                }
                let writer = PartitionWriter { comm, dataset: 0, log: None };
                let options = Options::default();
                let mut data = Dataset::open(&writer.comm, &path, mode, &options)?;
                let series = data.variable("series")?;
                writer.put(&mut data, series, 0..8, PutCall::Collective)?;
                data.close()
            });
            goes_on.unwrap_or_else(|error: ArrayError| panic!("{call} {nth}: {error}"));
            check(&path, &AcknowledgedLog { begun: 1, has: Some((0, 8)), redefines: false });
            kills += 1;
        }
    }
    println!("{kills} kills, after {whole} of which there was a whole dataset");
    assert!(kills > 6 && whole > 1, "{kills} {whole}");
}

/// h5py opens every file of a dataset by itself, and finds what it says of itself.
#[cfg(feature = "peers")]
fn check_with_h5py(directory: &Path) {
    const SCRIPT: &str = r#"
import glob, sys, h5py
master = h5py.File(sys.argv[1] + "/data.nc")
names = master.attrs["partition_files"].decode().split("\n")
for number, name in enumerate(names):
    with h5py.File(sys.argv[1] + "/" + name) as part:
        assert part.attrs["partition_index"][0] == number, name
        first, last = part["grid"].attrs["range(y)"]
        assert part["grid"][...].shape == (last - first + 1, master["x"].shape[0]), name
        part["series"][...]
"#;
    let python = std::env::var_os("STRIATE_PYTHON").unwrap_or_else(|| "python3".into());
    let status = std::process::Command::new(python).args(["-c", SCRIPT]).arg(directory).status();
    assert!(status.unwrap().success(), "h5py disagrees");
}
