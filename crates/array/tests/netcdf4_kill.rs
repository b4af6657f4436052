//! A killed writer of a netCDF-4 file leaves the state of the last sync, or of the one before that
//! was under way, for us and for h5py: every value that a reader sees is right.
//!
//! The writer is this program in another process, started with an environment variable. Every value
//! of its datasets can be computed. It logs, durable line by line, what a sync has acknowledged.
//! `STRIATE_KILLS` is the number of kills at random times.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod killed_writer;

use std::fs::File;
use std::path::{Path, PathBuf};
#[cfg(feature = "peers")]
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use killed_writer::{append_line, complete_lines, kill_after, open_log, start_writer, value};
use striate_array::format::{ByteOrder, ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{
    ArrayError, CompoundMember, Dataset, Elements, Format, OpenMode, Options, Owner, Slab, Type,
    VariableId,
};
use striate_comm::{Comm, Threads};

/// The directory of the writer's datasets, and how many it writes.
const PLACE: &str = "STRIATE_TEST_NETCDF4_KILL";
const DATASETS: &str = "STRIATE_TEST_DATASETS";
const RANKS: usize = 3;
const ROWS: u64 = 6;
const COLUMNS: u64 = 201;
/// Records that are added between two syncs.
const AT_A_TIME: u64 = 2;
const ROUNDS: u64 = 4;
/// The variables: fixed, of records without filters, of records with filters, of records that are
/// written independently, and one that is added.
const NAMES: [&str; 5] = ["grid", "plain", "filtered", "scattered", "packed_grid"];

/// Variables of strings: in chunks, and in one piece.
const WORDS: [&str; 2] = ["words", "words_in_place"];
const WORDS_COUNT: u64 = 50;
/// Variables of users' types: sequences in compressed chunks, compounds with a string in chunks and
/// in one piece.
const LISTS: &str = "lists";
const RECORDS: [&str; 2] = ["records", "records_in_place"];

fn word(file: u64, round: u64, number: u64) -> String {
    format!("{file} {round} {number}").repeat(1 + (number % 9) as usize)
}

fn list(file: u64, round: u64, number: u64) -> Vec<i32> {
    (0..=number % 7).map(|at| value(file, round, number, at).into()).collect()
}

/// A number and a string.
fn compounds(file: u64, round: u64, numbers: impl Iterator<Item = u64>) -> Elements {
    let mut all = Elements::new();
    for number in numbers {
        let text = word(file, round, number);
        all.push_fixed(&i64::from(value(file, round, number, 0)).to_ne_bytes());
        all.push_string(text.as_bytes());
    }
    all
}

/// Each element is one that was written. In chunks all are of the last sync or the one after it; in
/// place they may be newer, and older only if no sync has acknowledged the round. `due` is element
/// `number` of a round.
fn check_rounds<T: PartialEq + std::fmt::Debug>(
    elements: &[T],
    due: impl Fn(u64, u64) -> T,
    name: &str,
    acknowledged: Option<u64>,
) {
    let Some(rows) = acknowledged else { return };
    let synced = rows / AT_A_TIME;
    let rounds = synced..=ROUNDS.min(synced + 1);
    let mut found = std::collections::BTreeSet::new();
    for (number, element) in elements.iter().enumerate() {
        let round = rounds.clone().find(|&round| due(round, number as u64) == *element);
        found.insert(round.unwrap_or_else(|| panic!("{name} {number}: {element:?}, {rows} rows")));
    }
    let in_place = name.ends_with("in_place");
    assert!(in_place || found.len() == 1, "{name} is of several states: {found:?}");
}

fn storage(chunks: &[u64], filters: &[ChunkFilter]) -> StorageOptions {
    let layout = StorageLayout::Chunked(chunks.to_vec());
    StorageOptions { layout, filters: filters.to_vec(), byte_order: ByteOrder::Little }
}

struct Netcdf4Writer {
    comm: Arc<dyn Comm>,
    file: u64,
    log: Option<File>,
}

impl Netcdf4Writer {
    fn put(
        &self,
        data: &mut Dataset,
        variable: VariableId,
        rows: std::ops::Range<u64>,
    ) -> Result<(), ArrayError> {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        let columns = COLUMNS * rank / ranks..COLUMNS * (rank + 1) / ranks;
        let count = [rows.end - rows.start, columns.end - columns.start];
        let slab = Slab::new(&[rows.start, columns.start], &count);
        let name = &data.header().variables[variable.index()].name;
        let number = NAMES.iter().position(|one| one == name).unwrap() as u64;
        let values: Vec<i16> = rows
            .flat_map(|row| columns.clone().map(move |column| (row, column)))
            .map(|(row, column)| value(self.file, number, row, column))
            .collect();
        data.put_all(variable, &slab, &values)
    }

    /// Writes independently, row by row and then all at once: far more than may wait in memory.
    fn scatter(
        &self,
        data: &mut Dataset,
        variable: VariableId,
        rows: std::ops::Range<u64>,
    ) -> Result<(), ArrayError> {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        let columns = COLUMNS * rank / ranks..COLUMNS * (rank + 1) / ranks;
        let width = columns.end - columns.start;
        let number = variable.index() as u64;
        let of_row = |row| -> Vec<i16> {
            columns.clone().map(|column| value(self.file, number, row, column)).collect()
        };
        for row in rows.clone() {
            // Replaced before the next sync.
            let wrong: Vec<i16> = of_row(row).iter().map(|value| value ^ 0x4d).collect();
            data.put(variable, &Slab::new(&[row, columns.start], &[1, width]), &wrong)?;
        }
        let all: Vec<i16> = rows.clone().flat_map(of_row).collect();
        let slab = Slab::new(&[rows.start, columns.start], &[rows.end - rows.start, width]);
        data.put(variable, &slab, &all)
    }

    /// Replaces all strings: each is of the round, or of one of those before it. The first ones are
    /// in chunks, whose descriptors are written elsewhere each time, the others in place.
    fn put_words(&self, data: &mut Dataset, round: u64) -> Result<(), ArrayError> {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        for name in WORDS {
            let (start, end) = (WORDS_COUNT * rank / ranks, WORDS_COUNT * (rank + 1) / ranks);
            let words: Vec<String> =
                (start..end).map(|number| word(self.file, round, number)).collect();
            let slab = Slab::new(&[start], &[end - start]);
            data.put_strings_all(data.variable(name)?, &slab, &words)?;
        }
        Ok(())
    }

    /// The same for the variables of users' types.
    fn put_user_types(&self, data: &mut Dataset, round: u64) -> Result<(), ArrayError> {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        let (start, end) = (WORDS_COUNT * rank / ranks, WORDS_COUNT * (rank + 1) / ranks);
        let slab = Slab::new(&[start], &[end - start]);
        let lists: Vec<Vec<i32>> =
            (start..end).map(|number| list(self.file, round, number)).collect();
        data.put_sequences_all(data.variable(LISTS)?, &slab, &lists)?;
        for name in RECORDS {
            let records = compounds(self.file, round, start..end);
            data.put_elements_all(data.variable(name)?, &slab, &records)?;
        }
        Ok(())
    }

    fn write(&mut self, path: &Path) -> Result<(), ArrayError> {
        let deflate = [ChunkFilter::Shuffle, ChunkFilter::Deflate(1)];
        let options = Options::default().with("nc_chunk_cache", "300")?;
        let mut define = Dataset::create(&self.comm, path, Format::Netcdf4, &options)?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", ROWS)?;
        let x = define.dimension("x", COLUMNS)?;
        let grid = define.variable(NAMES[0], Type::Short, &[y, x])?;
        let plain = define.variable(NAMES[1], Type::Short, &[time, x])?;
        define.storage(plain, storage(&[1, 64], &[]))?;
        let filtered = define.variable(NAMES[2], Type::Short, &[time, x])?;
        // Chunks of several rounds: the last one is written again and again.
        define.storage(filtered, storage(&[3, 64], &deflate))?;
        let scattered = define.variable(NAMES[3], Type::Short, &[time, x])?;
        define.storage(scattered, storage(&[3, 64], &deflate))?;
        let number = define.dimension("word", WORDS_COUNT)?;
        for (name, layout) in WORDS.iter().zip([StorageLayout::Default, StorageLayout::Contiguous])
        {
            let words = define.variable(name, Type::String, &[number])?;
            define.storage(words, StorageOptions { layout, ..StorageOptions::default() })?;
        }
        let sequence = define.sequence("sequence", Type::Int)?;
        let lists = define.variable(LISTS, sequence, &[number])?;
        define.storage(lists, storage(&[20], &deflate))?;
        let record = define.compound(
            "record",
            24,
            &[
                CompoundMember::new("number", 0, Type::Int64),
                CompoundMember::new("text", 8, Type::String),
            ],
        )?;
        for (name, layout) in
            RECORDS.iter().zip([StorageLayout::Default, StorageLayout::Contiguous])
        {
            let records = define.variable(name, record, &[number])?;
            define.storage(records, StorageOptions { layout, ..StorageOptions::default() })?;
        }
        let mut data = define.end()?;
        self.put(&mut data, grid, 0..ROWS)?;
        self.put_words(&mut data, 0)?;
        self.put_user_types(&mut data, 0)?;
        data.sync()?;
        append_line(&mut self.log, "0");
        for round in 0..ROUNDS {
            let rows = round * AT_A_TIME..(round + 1) * AT_A_TIME;
            self.put(&mut data, plain, rows.clone())?;
            self.put(&mut data, filtered, rows.clone())?;
            self.scatter(&mut data, scattered, rows.clone())?;
            self.put_words(&mut data, round + 1)?;
            self.put_user_types(&mut data, round + 1)?;
            if round == 1 {
                let mut define = data.redefine()?;
                let packed = define.variable(NAMES[4], Type::Short, &[y, x])?;
                define.storage(packed, storage(&[4, 100], &deflate))?;
                define.attribute(Owner::Global, "history", "x".repeat(3000))?;
                data = define.end()?;
                self.put(&mut data, packed, 0..ROWS)?;
            }
            if round == 2 {
                // A writer that goes on with a file that exists.
                data.close()?;
                data = Dataset::open(&self.comm, path, OpenMode::ReadWrite, &options)?;
            }
            data.sync()?;
            append_line(&mut self.log, &rows.end.to_string());
        }
        data.close()
    }
}

/// The writer process. Without the environment variable it does nothing.
#[test]
fn writer() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let count = std::env::var(DATASETS).ok().and_then(|count| count.parse().ok());
    for file in 0..count.unwrap_or(u64::MAX) {
        let path = Path::new(&place).join(format!("{file}.nc"));
        let written = Threads::new(RANKS).try_run(|comm| {
            let log = open_log(&path, comm.rank());
            Netcdf4Writer { comm, file, log }.write(&path)
        });
        written.unwrap();
    }
}

/// Checks a file that a killed writer left; returns the records that it has, if it is one.
fn check(path: &Path, file: u64) -> Option<u64> {
    let lines = complete_lines(path);
    let acknowledged: Option<u64> = lines.last().map(|line| line.parse().unwrap());
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if acknowledged.is_none() && length == 0 {
        return None;
    }
    let results = Threads::new(2).run(|comm| {
        let mut data = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default())?;
        let records = data.dimension_len(data.dimension("time")?)?;
        for variable in data.variables() {
            let name = data.header().variables[variable.index()].name.clone();
            let rows = data.shape(variable)[0];
            if WORDS.contains(&name.as_str()) {
                let words = data.strings(variable, &Slab::all())?;
                let due = |round, number| word(file, round, number);
                check_rounds(&words, due, &name, acknowledged);
                continue;
            }
            if name == LISTS {
                let lists: Vec<Vec<i32>> = data.sequences(variable, &Slab::all())?;
                let due = |round, number| list(file, round, number);
                check_rounds(&lists, due, &name, acknowledged);
                continue;
            }
            if RECORDS.contains(&name.as_str()) {
                let elements = |number| data.elements(variable, &Slab::element(&[number]));
                let records: Vec<Elements> =
                    (0..WORDS_COUNT).map(elements).collect::<Result<_, _>>()?;
                let due = |round, number: u64| compounds(file, round, number..=number);
                check_rounds(&records, due, &name, acknowledged);
                continue;
            }
            // Fixed variables are complete with the sync that follows their definition.
            let is_fixed = name.ends_with("grid");
            if is_fixed && acknowledged.is_none_or(|rows| name == NAMES[4] && rows < 4) {
                continue;
            }
            let mut values = vec![0_i16; (rows * COLUMNS) as usize];
            data.get(variable, &Slab::all(), &mut values)?;
            for (at, found) in values.iter().enumerate() {
                let (row, column) = (at as u64 / COLUMNS, at as u64 % COLUMNS);
                // What was written after the last sync may be visible in place, never wrong.
                let number = NAMES.iter().position(|one| *one == name).unwrap();
                let expected = value(file, number as u64, row, column);
                assert_eq!(*found, expected, "{}: {name}, row {row}, {lines:?}", path.display());
            }
        }
        data.close()?;
        Ok::<_, ArrayError>(records)
    });
    let mut found = None;
    for result in results {
        match result {
            Ok(records) => found = Some(records),
            // Nothing was acknowledged: the first commit was not done.
            Err(_) if acknowledged.is_none() => {}
            Err(error) => panic!("{} {lines:?}: {error}", path.display()),
        }
    }
    if let (Some(found), Some(acknowledged)) = (found, acknowledged) {
        let possible = [acknowledged, acknowledged + AT_A_TIME];
        assert!(possible.contains(&found), "{}: {found} records, {lines:?}", path.display());
    }
    found
}

/// h5py sees in these files the values that are due.
#[cfg(feature = "peers")]
fn check_with_h5py(files: &[(PathBuf, u64, u64)]) {
    const SCRIPT: &str = r#"
import sys, h5py, numpy
for line in sys.stdin:
    path, file, records = line.rstrip("\n").split("\t")
    file, records = int(file), int(records)
    with h5py.File(path) as data:
        for number, name in enumerate(["grid", "plain", "filtered", "scattered", "packed_grid"]):
            if name not in data:
                continue
            found = data[name][...]
            if number in (1, 2, 3):
                assert found.shape[0] == records, (path, name, found.shape, records)
            elif number == 4 and records < 4:
                continue
            row, column = numpy.indices(found.shape, dtype="u8")
            mixed = numpy.uint64((file * 31 + number) * 1000003) + row * numpy.uint64(8191) + column
            mixed = mixed * numpy.uint64(0x9E3779B97F4A7C15)
            due = (mixed >> numpy.uint64(50)).astype("i2") + numpy.int16(1)
            assert (found == due).all(), (path, name)
        for name in ["words", "words_in_place"]:
            for number, found in enumerate(data[name].asstr()[...]):
                due = [f"{file} {round} {number}" * (1 + number % 9) for round in range(5)]
                assert found in due, (path, name, number, found)
        for name in ["records", "records_in_place"]:
            for number, found in enumerate(data[name][...]):
                due = [f"{file} {round} {number}" * (1 + number % 9) for round in range(5)]
                assert found["text"].decode() in due, (path, name, number, found)
        assert all(len(found) == number % 7 + 1 for number, found in enumerate(data["lists"][...])), path
"#;
    use std::io::Write;
    let python = std::env::var_os("STRIATE_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for (path, file, records) in files {
        writeln!(input, "{}\t{file}\t{records}", path.display()).unwrap();
    }
    drop(input);
    assert!(child.wait().unwrap().success(), "h5py disagrees");
}

#[cfg(not(feature = "peers"))]
fn check_with_h5py(_: &[(PathBuf, u64, u64)]) {}

/// Checks all files of a directory.
fn check_all(directory: &Path) -> usize {
    let mut files = Vec::new();
    for file in 0.. {
        let path = directory.join(format!("{file}.nc"));
        if !path.exists() {
            break;
        }
        let acknowledged = complete_lines(&path).last().is_some();
        if let Some(records) = check(&path, file).filter(|_| acknowledged) {
            files.push((path, file, records));
        }
    }
    check_with_h5py(&files);
    files.len()
}

#[test]
fn killed_at_any_time() {
    let kills = std::env::var("STRIATE_KILLS").ok().and_then(|kills| kills.parse().ok());
    let mut random = 11_u32;
    let mut files = 0;
    for _ in 0..kills.unwrap_or(12) {
        let directory = tempfile::tempdir().unwrap();
        let variables = [(PLACE, directory.path().as_os_str())];
        let mut writer = start_writer("writer", &variables);
        kill_after(&mut writer, Duration::from_millis(400), &mut random);
        files += check_all(directory.path());
    }
    println!("{files} files");
}

/// The writer is killed before each call that changes a file, in turn.
#[cfg(feature = "peers")]
#[test]
fn killed_before_every_change() {
    // All in the tests of a soak, a share of them otherwise.
    let step = if std::env::var_os("STRIATE_KILLS").is_some() { 1 } else { 7 };
    let mut kills = 0;
    for call in ["pwrite64", "pwritev", "pwritev2", "fsync", "fdatasync", "ftruncate"] {
        for nth in (1..).step_by(step) {
            let directory = tempfile::tempdir().unwrap();
            let output = Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
                .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "writer"])
                .envs([(PLACE, directory.path().as_os_str()), (DATASETS, "1".as_ref())])
                .output()
                .expect("strace is there");
            if output.status.success() {
                break;
            }
            check_all(directory.path());
            kills += 1;
        }
    }
    println!("{kills} kills");
    assert!(kills > 5, "{kills}");
}
