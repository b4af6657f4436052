//! A killed writer leaves a dataset that contains what its header says, or a file that no reader
//! accepts.
//!
//! The writer is this program in another process, started with an environment variable. Every value
//! of its datasets can be computed. For each dataset it writes a log, durable line by line, of what
//! a sync has acknowledged and of redefinitions that it begins.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod killed_writer;

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use killed_writer::{append_line, complete_lines, kill_after, open_log, start_writer, value};

use striate_array::format::validate;
use striate_array::{
    ArrayError, Dataset, Format, OpenMode, Options, Owner, Pending, Slab, Type, VariableId,
};
use striate_comm::{Comm, Threads};

/// The directory of the writer's datasets, and whether it mainly redefines.
const PLACE: &str = "STRIATE_TEST_KILL";
const ONLY_REDEFINES: &str = "STRIATE_TEST_REDEFINES";
const KILLS: u64 = 60;
const RANKS: usize = 3;
const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];
/// Rows and columns of the fixed variables, and columns of the records: odd, so that they are
/// padded.
const ROWS: u64 = 48;
const COLUMNS: u64 = 997;
/// Records that are written at once.
const AT_A_TIME: u64 = 2;

fn row(file: u64, variable: u64, row: u64) -> impl Iterator<Item = i16> {
    (0..COLUMNS).map(move |column| value(file, variable, row, column))
}

/// The log of a dataset.
#[derive(Clone, Debug, Default, PartialEq)]
struct WriterLog {
    /// Records that a sync has acknowledged.
    records: Option<u64>,
    /// Whether the variable that a redefinition adds was written.
    more: bool,
    /// Redefinitions that were begun.
    begun: usize,
    /// Redefinitions that have ended.
    ended: usize,
}

impl WriterLog {
    fn of(path: &Path) -> Self {
        let mut log = Self::default();
        for line in complete_lines(path) {
            if line == "redefines" {
                log.begun += 1;
            } else {
                let (records, more) = line.split_once(' ').unwrap();
                log.records = Some(records.parse().unwrap());
                log.more = more == "true";
                log.ended = log.begun;
            }
        }
        log
    }

    fn redefines(&self) -> bool {
        self.begun > self.ended
    }
}

/// The writer of one dataset, as one of its ranks.
struct KilledWriter {
    comm: Arc<dyn Comm>,
    file: u64,
    log: Option<File>,
    records: u64,
    more: bool,
}

impl KilledWriter {
    fn log(&mut self, line: &str) {
        append_line(&mut self.log, line);
    }

    fn acknowledge(&mut self) {
        self.log(&format!("{} {}", self.records, self.more));
    }

    /// This rank's columns of some rows.
    fn part(&self, variable: u64, rows: std::ops::Range<u64>) -> (Slab, Vec<i16>) {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        let columns = COLUMNS * rank / ranks..COLUMNS * (rank + 1) / ranks;
        let count = [rows.end - rows.start, columns.end - columns.start];
        let slab = Slab::new(&[rows.start, columns.start], &count);
        let cell = |row, column| value(self.file, variable, row, column);
        let values = rows.flat_map(|row| columns.clone().map(move |column| cell(row, column)));
        (slab, values.collect())
    }

    fn put(&self, data: &mut Dataset, variable: u64, rows: std::ops::Range<u64>) {
        let (slab, values) = self.part(variable, rows);
        data.put_all(nth(data, variable), &slab, &values).unwrap();
    }

    /// Adds records: both variables by one call, by one call each, or independently.
    fn grow(&mut self, data: &mut Dataset, way: u64) -> Result<(), ArrayError> {
        let rows = self.records..self.records + AT_A_TIME;
        let parts = [1, 2].map(|variable| (variable, self.part(variable, rows.clone())));
        match way {
            0 => {
                let mut pending = Pending::new();
                for (variable, (slab, values)) in &parts {
                    data.iput(&mut pending, nth(data, *variable), slab, values)?;
                }
                data.wait_all(pending)?;
            }
            1 => {
                for (variable, (slab, values)) in &parts {
                    data.put_all(nth(data, *variable), slab, values)?;
                }
            }
            _ => {
                for (variable, (slab, values)) in &parts {
                    data.put(nth(data, *variable), slab, values)?;
                }
            }
        }
        self.records = rows.end;
        Ok(())
    }

    /// Adds records, and then attributes, each of which moves all data.
    fn only_redefine(&mut self, mut data: Dataset) -> Result<(), ArrayError> {
        self.grow(&mut data, 0)?;
        for round in 0..12 {
            self.log("redefines");
            self.comm.barrier()?;
            let mut define = data.redefine()?;
            define.attribute(Owner::Global, &format!("note{round}"), "x".repeat(3000))?;
            data = define.end()?;
            self.acknowledge();
        }
        data.close()?;
        self.acknowledge();
        Ok(())
    }

    fn write(&mut self, path: &Path) -> Result<(), ArrayError> {
        let format = FORMATS[self.file as usize % 3];
        let mut define = Dataset::create(&self.comm, path, format, &Options::default())?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", ROWS)?;
        let x = define.dimension("x", COLUMNS)?;
        define.variable("grid", Type::Int, &[y, x])?;
        define.variable("reals", Type::Double, &[time, x])?;
        define.variable("shorts", Type::Short, &[time, x])?;
        let mut data = define.end()?;
        self.put(&mut data, 0, 0..ROWS);
        data.sync()?;
        self.acknowledge();
        if std::env::var_os(ONLY_REDEFINES).is_some() {
            return self.only_redefine(data);
        }
        for round in 0..4 {
            self.grow(&mut data, way(self.file, round))?;
            if round % 2 == 0 {
                data.sync()?;
                self.acknowledge();
            }
            if round == 1 {
                data.sync()?;
                self.acknowledge();
                self.log("redefines");
                self.comm.barrier()?;
                // All data moves.
                let mut define = data.redefine()?;
                define.attribute(Owner::Global, "history", "x".repeat(3000))?;
                define.variable("more", Type::Float, &[y, x])?;
                data = define.end()?;
                self.acknowledge();
                self.put(&mut data, 3, 0..ROWS);
                data.sync()?;
                self.more = true;
                self.acknowledge();
            }
        }
        data.close()?;
        self.acknowledge();
        Ok(())
    }
}

/// How a round of records is written; the third way is independent.
const fn way(file: u64, round: u64) -> u64 {
    (file + round) % 3
}

fn nth(data: &Dataset, number: u64) -> VariableId {
    data.variables().nth(number as usize).unwrap()
}

/// The writer process: writes until it is killed. Without the environment variable it does nothing.
#[test]
fn writer() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    for file in 0.. {
        let path = Path::new(&place).join(format!("{file}.nc"));
        let written = Threads::new(RANKS).try_run(|comm| {
            let log = open_log(&path, comm.rank());
            KilledWriter { comm, file, log, records: 0, more: false }.write(&path)
        });
        written.unwrap();
    }
}

/// Numbers of datasets by the state in which they were found.
#[derive(Debug, Default)]
struct OutcomeCounts {
    nothing: u32,
    unfinished: u32,
    redefined: u32,
    growing: u32,
    whole: u32,
}

/// Whether `ncdump` accepts a file; false without the feature `peers`.
fn ncdump_accepts(path: &Path) -> bool {
    if !cfg!(feature = "peers") {
        return false;
    }
    let ncdump = Command::new("ncdump").arg("-h").arg(path).output();
    ncdump.expect("ncdump is there (Debian: netcdf-bin)").status.success()
}

fn check(path: &Path, file: u64, found: &mut OutcomeCounts) {
    let log = WriterLog::of(path);
    let bytes = std::fs::read(path).unwrap_or_default();
    if bytes.is_empty() {
        assert_eq!(log, WriterLog::default(), "{} is gone", path.display());
        found.nothing += 1;
        return;
    }
    let results = Threads::new(2).run(|comm| {
        let data = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default());
        data.and_then(|mut data| {
            check_values(&mut data, file, &log);
            data.close()
        })
    });
    if bytes.starts_with(b"cdf") {
        for result in results {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("is unfinished"), "{error}");
        }
        assert!(log.records.is_none() || log.redefines(), "{log:?}");
        assert!(!ncdump_accepts(path), "{log:?}");
        if log.redefines() {
            found.redefined += 1;
        } else {
            found.unfinished += 1;
        }
        return;
    }
    for result in results {
        result.unwrap_or_else(|error| panic!("{} ({log:?}): {error}", path.display()));
    }
    // Bytes of records that the header does not count yet may follow.
    let mut violations = validate(&bytes, bytes.len() as u64);
    violations.retain(|violation| !violation.warning);
    assert_eq!(violations, [], "{} ({log:?})", path.display());
    let (header, _) = striate_array::format::Header::decode(&bytes).unwrap();
    if Some(header.records) == log.records { found.whole += 1 } else { found.growing += 1 }
}

/// All acknowledged data is present, and every record that the header counts in both variables,
/// except where the writer writes one variable after the other and the first one has added the
/// record.
fn check_values(data: &mut Dataset, file: u64, log: &WriterLog) {
    let records = data.header().records;
    let acknowledged = log.records.unwrap_or(0);
    assert!(
        records >= acknowledged && records.is_multiple_of(AT_A_TIME),
        "{records} records, {log:?}"
    );
    let last_round = (records / AT_A_TIME).saturating_sub(1);
    let one_after_the_other = records > acknowledged && way(file, last_round) == 1;
    // All of the old definitions, or all of the new ones: each redefinition adds one attribute.
    let redefined = data.header().attributes.len();
    assert!((log.ended..=log.begun).contains(&redefined), "{redefined} attributes, {log:?}");
    let names: Vec<String> = data.header().variables.iter().map(|v| v.name.clone()).collect();
    for (variable, name) in (0..).zip(&names) {
        let rows = match name.as_str() {
            "more" if !log.more => continue,
            "grid" | "more" => ROWS,
            "shorts" if one_after_the_other => records - AT_A_TIME,
            _ => records,
        };
        let id = nth(data, variable);
        let mut values = vec![0_i16; (rows * COLUMNS) as usize];
        data.get(id, &Slab::new(&[0, 0], &[rows, COLUMNS]), &mut values).unwrap();
        for (number, chunk) in (0..).zip(values.chunks(COLUMNS as usize)) {
            assert!(
                chunk.iter().copied().eq(row(file, variable, number)),
                "row {number} of '{name}' in dataset {file} with {records} records, {log:?}"
            );
        }
    }
}

/// Kills writers after delays of up to `longest`, counted from their start or from the first file.
fn kill_writers(longest: Duration, only_redefines: bool) {
    let mut found = OutcomeCounts::default();
    let mut random = 7_u32;
    for kill in 0..KILLS {
        let directory = tempfile::tempdir().unwrap();
        let mut variables = vec![(PLACE, directory.path().as_os_str())];
        if only_redefines {
            variables.push((ONLY_REDEFINES, OsStr::new("1")));
        }
        let mut writer = start_writer("writer", &variables);
        let first = directory.path().join("0.nc");
        while kill % 4 > 0 && !first.exists() && writer.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        kill_after(&mut writer, longest, &mut random);
        for file in 0.. {
            let path = directory.path().join(format!("{file}.nc"));
            if !path.exists() && !path.with_extension("log").exists() {
                break;
            }
            check(&path, file, &mut found);
        }
    }
    println!("{KILLS} kills: {found:?}");
    assert!(found.unfinished + found.redefined + found.growing + found.whole > 0, "{found:?}");
}

#[test]
fn a_killed_writer_leaves_no_header_that_claims_missing_data() {
    kill_writers(Duration::from_millis(200), false);
}

#[test]
fn a_killed_redefinition_leaves_the_old_file_or_an_unfinished_one() {
    kill_writers(Duration::from_millis(100), true);
}

/// The state after a kill between two calls, for every kind of call.
#[test]
fn a_dataset_is_complete_between_calls() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.nc");
    let assert_whole = |call: &str, is_finished: bool| {
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.starts_with(b"CDF"), is_finished, "after {call}");
        if is_finished {
            let mut violations = validate(&bytes, bytes.len() as u64);
            violations.retain(|violation| !violation.warning);
            assert_eq!(violations, [], "after {call}");
        }
    };
    for format in FORMATS {
        Threads::new(2)
            .try_run(|comm| {
                let look = |call: &str, is_finished: bool| {
                    comm.barrier().unwrap();
                    assert_whole(call, is_finished);
                    comm.barrier().unwrap();
                };
                let mut define = Dataset::create(&comm, &path, format, &Options::default())?;
                let time = define.unlimited("time")?;
                let x = define.dimension("x", 5)?;
                let first = define.variable("first", Type::Int, &[time, x])?;
                define.variable("last", Type::Byte, &[time, x])?;
                let mut data = define.end()?;
                look("end", false);
                data.put_all(first, &Slab::new(&[0, 0], &[1, 5]), &[1; 5])?;
                look("put_all of a new dataset", false);
                data.sync()?;
                look("sync", true);
                let own = comm.rank() as u64;
                data.put_all(first, &Slab::element(&[3, own]), &[1])?;
                look("put_all", true);
                let mut pending = Pending::new();
                data.iput(&mut pending, first, &Slab::element(&[4, own]), &[1])?;
                data.wait_all(pending)?;
                look("wait_all", true);
                data.grow(10)?;
                look("grow", true);
                data.put(first, &Slab::element(&[12 + own, 0]), &[1])?;
                look("put", true);
                data.put_all(first, &Slab::element(&[0, own]), &[1])?;
                look("put_all after put", true);
                let mut define = data.redefine()?;
                define.variable("more", Type::Double, &[time, x])?;
                look("redefine", true);
                let data = define.end()?;
                look("end of the redefinition", true);
                data.close()
            })
            .unwrap_or_else(|error: ArrayError| panic!("{error}"));
    }
}
