//! Writers that are killed leave the old dataset, or a whole new one, or one that is refused because a
//! redefinition was under way; never one that says what is not there.
//!
//! The writer is this program once more. It writes datasets over each other, of which every value can be
//! computed, and logs what was acknowledged. `STRIATE_ROUNDS` says how often it is killed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use striate_array::{ArrayError, Dataset, Format, Options, Owner, Slab, Type, VariableId};
use striate_comm::{Comm, Threads};

use crate::{divided, names};

const PLACE: &str = "STRIATE_TEST_PARTITIONS_KILL";
const RANKS: usize = 3;
const ROWS: u64 = 31;
const COLUMNS: u64 = 53;

fn value(dataset: u64, variable: u64, row: u64, column: u64) -> i16 {
    let mixed = (dataset * 31 + variable) * 1_000_003 + row * 8191 + column;
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50) as i16 + 1
}

/// The writer of one dataset, as one of its ranks.
struct Writer {
    comm: Arc<dyn Comm>,
    dataset: u64,
    log: Option<File>,
}

impl Writer {
    /// A line, durable before anybody goes on.
    fn log(&mut self, line: &str) -> Result<(), ArrayError> {
        self.comm.barrier()?;
        if let Some(log) = &mut self.log {
            log.write_all(format!("{line}\n").as_bytes()).unwrap();
            log.sync_data().unwrap();
        }
        Ok(self.comm.barrier()?)
    }

    /// Columns of some rows, of which each rank has some.
    fn put(
        &self,
        data: &mut Dataset,
        id: VariableId,
        rows: std::ops::Range<u64>,
        together: bool,
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
        if together { data.put_all(id, &slab, &values) } else { data.put(id, &slab, &values) }
    }

    fn write(&mut self, path: &Path) -> Result<(), ArrayError> {
        let dataset = self.dataset;
        let format = [Format::Cdf1, Format::Cdf2, Format::Cdf5][dataset as usize % 3];
        let options = divided(2 + dataset % 5);
        self.log(&format!("begins {dataset}"))?;
        let mut define = Dataset::create(&self.comm, path, format, &options)?;
        define.attribute(Owner::Global, "dataset", dataset as i32)?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", ROWS)?;
        let x = define.dimension("x", COLUMNS)?;
        let grid = define.variable("grid", Type::Int, &[y, x])?;
        let series = define.variable("series", Type::Short, &[time, x])?;
        let mut data = define.end()?;
        self.put(&mut data, grid, 0..ROWS, true)?;
        self.put(&mut data, series, 0..2, true)?;
        data.sync()?;
        self.log(&format!("has {dataset} 2"))?;
        self.put(&mut data, series, 2..4, true)?;
        self.put(&mut data, series, 4..6, false)?;
        data.sync()?;
        self.log(&format!("has {dataset} 6"))?;
        self.log(&format!("redefines {dataset}"))?;
        let mut define = data.redefine()?;
        define.attribute(Owner::Global, "note", "x".repeat(3000))?;
        define.attribute(grid, "note", "x".repeat(3000))?;
        let mut data = define.end()?;
        self.log(&format!("has {dataset} 6"))?;
        self.put(&mut data, series, 6..8, true)?;
        data.close()?;
        self.log(&format!("has {dataset} 8"))
    }
}

/// The writer: writes until it is killed. As a test of its own it does nothing.
#[test]
fn writer() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let path = Path::new(&place).join("data.nc");
    let first = std::fs::read_to_string(path.with_extension("log")).unwrap_or_default();
    let first = first.lines().filter(|line| line.starts_with("begins")).count() as u64;
    for dataset in first.. {
        let written = Threads::new(RANKS).try_run(|comm| {
            let log = (comm.rank() == 0).then(|| {
                OpenOptions::new().create(true).append(true).open(path.with_extension("log"))
            });
            Writer { comm, dataset, log: log.transpose().unwrap() }.write(&path)
        });
        written.unwrap();
    }
}

/// What was acknowledged: a dataset and its records, and whether a redefinition is under way.
#[derive(Debug, Default)]
struct Log {
    begun: u64,
    has: Option<(u64, u64)>,
    redefines: bool,
}

impl Log {
    fn of(path: &Path) -> Self {
        let mut log = Self::default();
        let text = std::fs::read_to_string(path.with_extension("log")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
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

/// Whether there is a dataset, after a check that it holds what it says and what was acknowledged.
fn check(path: &Path, log: &Log) -> bool {
    let opened = Threads::new(2).run(|comm| {
        let mut data = Dataset::open(&comm, path, false, &Options::default())?;
        let header = data.header();
        let records = header.records;
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
        data.close()
    });
    let mut there = true;
    for result in opened {
        let Err(error) = result else { continue };
        let told = error.to_string();
        // Only a redefinition may have made it unusable; before the first one there is nothing.
        let allowed = (log.redefines && told.contains("is unfinished"))
            || (log.has.is_none() && told.contains("No such file"));
        assert!(allowed, "{log:?}: {told}");
        there = false;
    }
    there
}

#[test]
fn what_killed_writers_leave() {
    let rounds = std::env::var("STRIATE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let mut draw = 7_u32;
    let mut whole = 0;
    for round in 0..rounds {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data.nc");
        // Each writer finds what the one before has left.
        for _ in 0..3 {
            let mut writer = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "kill::writer"])
                .env(PLACE, directory.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            draw = draw.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            std::thread::sleep(Duration::from_millis(150) * (draw >> 16) / (1 << 16));
            writer.kill().unwrap();
            let status = writer.wait().unwrap();
            assert!(status.code().is_none(), "round {round}: the writer ended: {status}");
            whole += u32::from(check(&path, &Log::of(&path)));
        }
        // Whoever writes next is not hindered, and removes what was never published.
        Threads::new(2)
            .try_run(|comm| Writer { comm, dataset: 1, log: None }.write(&path))
            .unwrap_or_else(|error: ArrayError| panic!("{error}"));
        assert!(!names(directory.path()).iter().any(|name| name.ends_with(".unpublished")));
        check(&path, &Log { begun: 1, has: Some((1, 8)), redefines: false });
    }
    println!("{rounds} rounds of 3 kills: {whole} times there was a whole dataset");
}
