//! Independent writes to filtered chunks, far beyond what may wait in memory: values against a
//! model, memory, and the length of the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use striate_array::format::{ByteOrder, ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{
    ArrayError, Dataset, DimensionId, Format, OpenMode, Options, Pending, Slab, Type, VariableId,
};
use striate_comm::{Comm, Threads};
use striate_testing::peak_memory::{PeakAllocator, peak_of};
use striate_testing::splitmix::SplitMix64;
use tempfile::TempDir;

#[global_allocator]
static MEMORY: PeakAllocator = PeakAllocator;

/// One test at a time, as memory is that of all threads.
static ALONE: Mutex<()> = Mutex::new(());

const Y: u64 = 40;
const X: u64 = 60;
/// Records at most.
const T: u64 = 9;

fn storage(chunks: &[u64], filters: &[ChunkFilter]) -> StorageOptions {
    StorageOptions {
        layout: StorageLayout::Chunked(chunks.to_vec()),
        filters: filters.to_vec(),
        byte_order: ByteOrder::Little,
    }
}

fn cache(bytes: u64) -> Options {
    Options::default().with("nc_chunk_cache", &bytes.to_string()).unwrap()
}

/// How rows belong to ranks: no two ranks write the same element, so that every value is known.
#[derive(Clone, Copy, Debug)]
enum Rows {
    Block,
    InTurn,
}

/// The variables: name, shape of chunks, filters, ownership.
fn variables() -> Vec<(&'static str, Vec<u64>, Vec<ChunkFilter>, Rows)> {
    let deflate = vec![ChunkFilter::Shuffle, ChunkFilter::Deflate(1)];
    vec![
        ("whole", vec![1, 5, 16], deflate.clone(), Rows::Block),
        ("partial", vec![2, 7, 16], deflate.clone(), Rows::Block),
        ("mixed", vec![2, 9, 31], vec![ChunkFilter::Fletcher32], Rows::InTurn),
        ("large", vec![4, 40, 60], deflate, Rows::InTurn),
        ("plain", vec![1, 8, 20], Vec::new(), Rows::Block),
    ]
}

/// All values, of each variable in the order of the file.
type Model = Arc<Mutex<Vec<Vec<i32>>>>;

struct Program {
    comm: Arc<dyn Comm>,
    /// The same on all ranks.
    common: SplitMix64,
    /// Another one on each.
    own: SplitMix64,
    model: Model,
    variables: Vec<(VariableId, Rows)>,
    records: u64,
}

impl Program {
    /// A slab of this rank within the records that there are, from record `from` on.
    fn slab(&mut self, rows: Rows, from: u64) -> ([u64; 3], [u64; 3], [u64; 3]) {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        let mut pick = |low: u64, high: u64| {
            // All of it, often.
            if low >= high || self.own.once_in(2) {
                return (low, high.saturating_sub(low));
            }
            let start = low + self.own.below(high - low);
            (start, 1 + self.own.below(high - start))
        };
        let (t, nt) = pick(from, self.records);
        let (y, ny, step) = match rows {
            Rows::Block => {
                let (y, ny) = pick(Y * rank / ranks, Y * (rank + 1) / ranks);
                (y, ny, 1)
            }
            Rows::InTurn => {
                let (first, count) = pick(0, (Y - rank).div_ceil(ranks));
                (rank + first * ranks, count, ranks)
            }
        };
        let (x, nx) = pick(0, X);
        let step_x = if nx > 4 && self.own.once_in(4) { 3 } else { 1 };
        ([t, y, x], [nt, ny, nx.div_ceil(step_x)], [1, step, step_x])
    }

    /// New values for a slab, which the model has then.
    fn values(&mut self, variable: usize, slab: &([u64; 3], [u64; 3], [u64; 3])) -> Vec<i32> {
        let base = self.own.draw() as i32 >> 8;
        let noisy = self.own.once_in(2);
        let mut model = self.model.lock().unwrap();
        let places = offsets(slab);
        let of = |at: usize| {
            let noise = (at as i32).wrapping_mul(0x9E37_79B9_u32 as i32) >> 7;
            base.wrapping_add(if noisy { noise } else { at as i32 / 50 })
        };
        places
            .into_iter()
            .enumerate()
            .map(|(number, place)| {
                model[variable][place] = of(number);
                of(number)
            })
            .collect()
    }

    fn check(
        &self,
        variable: usize,
        slab: &([u64; 3], [u64; 3], [u64; 3]),
        found: &[i32],
        when: &str,
    ) {
        let model = self.model.lock().unwrap();
        for (place, &found) in offsets(slab).into_iter().zip(found) {
            assert_eq!(found, model[variable][place], "variable {variable}, {place}, {when}");
        }
    }

    fn run(&mut self, path: &Path, options: &Options, steps: u64) -> Result<(), ArrayError> {
        let mut define = Dataset::create(&self.comm, path, Format::Netcdf4, options)?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", Y)?;
        let x = define.dimension("x", X)?;
        for (name, chunks, filters, rows) in variables() {
            let variable = define.variable(name, Type::Int, &[time, y, x])?;
            define.storage(variable, storage(&chunks, &filters))?;
            self.variables.push((variable, rows));
        }
        let mut data = define.end()?;
        self.grow(&mut data, time, 2)?;
        for step in 0..steps {
            match self.common.below(12) {
                0 => data.sync()?,
                1 => self.check_all(&mut data, &format!("step {step}"))?,
                2 if self.records < T => {
                    let to = self.records + 1;
                    self.grow(&mut data, time, to)?;
                }
                3 | 4 => {
                    // Collective, and new records now and then.
                    let variable = self.common.below(5) as usize;
                    let before = self.records;
                    if self.common.once_in(3) && self.records < T {
                        self.records += 1;
                    }
                    let from = if before < self.records { before } else { 0 };
                    let (id, rows) = self.variables[variable];
                    let slab = self.slab(rows, from);
                    let values = self.values(variable, &slab);
                    data.put_all(id, &of(&slab), &values)?;
                    self.records = data.dimension_len(time)?;
                }
                5 => {
                    let mut define = data.redefine()?;
                    define.attribute(self.variables[0].0, "step", step as i32)?;
                    data = define.end()?;
                }
                _ => self.independent(&mut data, step)?,
            }
        }
        self.check_all(&mut data, "at the end")?;
        self.independent(&mut data, steps)?;
        data.close()
    }

    fn grow(&mut self, data: &mut Dataset, time: DimensionId, to: u64) -> Result<(), ArrayError> {
        data.grow_dimension(time, to)?;
        self.records = data.dimension_len(time)?;
        Ok(())
    }

    /// Writes, and reads what this rank wrote, as many as it likes.
    fn independent(&mut self, data: &mut Dataset, step: u64) -> Result<(), ArrayError> {
        for _ in 0..self.own.below(6) {
            let variable = self.own.below(5) as usize;
            let (id, rows) = self.variables[variable];
            let slab = self.slab(rows, 0);
            match self.own.below(4) {
                0 => {
                    let mut found = vec![0; slab.1.iter().product::<u64>() as usize];
                    data.get(id, &of(&slab), &mut found)?;
                    self.check(variable, &slab, &found, &format!("read in step {step}"));
                }
                1 => {
                    let values = self.values(variable, &slab);
                    let mut pending = Pending::new();
                    data.iput(&mut pending, id, &of(&slab), &values)?;
                    // Row by row, in order.
                    let rows_of =
                        (slab.0[1]..).step_by(slab.2[1] as usize).take(slab.1[1] as usize);
                    let mut later = Vec::new();
                    for row in rows_of {
                        let one = ([slab.0[0], row, 0], [slab.1[0], 1, X], [1, 1, 1]);
                        later.push((one, self.values(variable, &one)));
                    }
                    data.wait(pending)?;
                    for (one, values) in &later {
                        data.put(id, &of(one), values)?;
                    }
                }
                _ => {
                    let values = self.values(variable, &slab);
                    data.put(id, &of(&slab), &values)?;
                }
            }
        }
        Ok(())
    }

    /// All ranks see all values after a sync.
    fn check_all(&mut self, data: &mut Dataset, when: &str) -> Result<(), ArrayError> {
        data.sync()?;
        for (number, &(id, _)) in self.variables.iter().enumerate() {
            let slab = ([0, 0, 0], [self.records, Y, X], [1, 1, 1]);
            let mut found = vec![0; (self.records * Y * X) as usize];
            data.get_all(id, &Slab::all(), &mut found)?;
            self.check(number, &slab, &found, when);
        }
        self.comm.barrier()?;
        Ok(())
    }
}

fn of(slab: &([u64; 3], [u64; 3], [u64; 3])) -> Slab {
    Slab::new(&slab.0, &slab.1).stride(&slab.2)
}

/// The places of the elements of a slab, in its order.
fn offsets((start, count, step): &([u64; 3], [u64; 3], [u64; 3])) -> Vec<usize> {
    let mut all = Vec::new();
    for t in 0..count[0] {
        for y in 0..count[1] {
            for x in 0..count[2] {
                let at = |d: usize, i: u64| start[d] + i * step[d];
                all.push(((at(0, t) * Y + at(1, y)) * X + at(2, x)) as usize);
            }
        }
    }
    all
}

/// Other ranks, and h5py, read what the model has.
fn check_file(path: &Path, ranks: usize, model: &Model) {
    let model = model.lock().unwrap();
    Threads::new(ranks)
        .try_run(|comm| {
            let mut data = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default())?;
            for (number, (name, ..)) in variables().into_iter().enumerate() {
                let variable = data.variable(name)?;
                let mut found = vec![0; data.shape(variable).iter().product::<u64>() as usize];
                data.get_all(variable, &Slab::all(), &mut found)?;
                assert!(found[..] == model[number][..found.len()], "{}: {name}", path.display());
            }
            data.close()
        })
        .unwrap();
    peers(path, &model);
}

#[cfg(feature = "peers")]
fn peers(path: &Path, model: &[Vec<i32>]) {
    let python = std::env::var_os("STRIATE_PYTHON").unwrap_or_else(|| "python3".into());
    let values = |name: &str| path.with_extension(name);
    let script = "import h5py, sys\n\
        with h5py.File(sys.argv[1] + '.nc') as file:\n\
        \x20   for name in file:\n\
        \x20       file[name][...].tofile(sys.argv[1] + '.' + name)";
    let read = std::process::Command::new(python)
        .args(["-c", script])
        .arg(path.with_extension(""))
        .status();
    assert!(read.unwrap().success());
    for (number, (name, ..)) in variables().into_iter().enumerate() {
        let found = std::fs::read(values(name)).unwrap();
        let due: Vec<u8> = model[number].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert!(!found.is_empty() && found[..] == due[..found.len()], "{}: {name}", path.display());
    }
}

#[cfg(not(feature = "peers"))]
fn peers(_: &Path, _: &[Vec<i32>]) {}

#[test]
fn programs_against_a_model() {
    let _alone = ALONE.lock().unwrap();
    let place = TempDir::new().unwrap();
    let cases = std::env::var("STRIATE_CASES").ok().and_then(|cases| cases.parse().ok());
    for case in 0..cases.unwrap_or(16_u64) {
        let ranks = 1 + (case % 8) as usize;
        let limit = [1, 3_000, 40_000][case as usize % 3];
        let path = place.path().join(format!("{case}.nc"));
        let model = Arc::new(Mutex::new(vec![vec![0; (T * Y * X) as usize]; variables().len()]));
        Threads::new(ranks)
            .try_run(|comm| {
                let own = SplitMix64::new(case * 100 + comm.rank() as u64);
                let common = SplitMix64::new(case);
                let (model, variables) = (Arc::clone(&model), Vec::new());
                let mut program = Program { comm, common, own, model, variables, records: 0 };
                program.run(&path, &cache(limit), 20)
            })
            .unwrap_or_else(|error| panic!("case {case}: {error:?}"));
        if case % 3 == 0 {
            check_file(&path, 1 + (case % 3) as usize, &model);
        }
    }
}

/// Elements of a chunk of 64 KiB.
const CHUNK: u64 = 16 << 10;

fn noise(element: u64) -> i32 {
    (element.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as i32
}

/// Ranks write chunks in turn, whole or with one element missing, each several times.
fn write_much(path: &Path, ranks: usize, chunks: u64, whole: bool, rounds: u64) {
    Threads::new(ranks)
        .try_run(|comm| {
            let rank = comm.rank() as u64;
            let mut define = Dataset::create(&comm, path, Format::Netcdf4, &cache(1 << 20))?;
            let x = define.dimension("x", chunks * CHUNK)?;
            let variable = define.variable("v", Type::Int, &[x])?;
            define.storage(variable, storage(&[CHUNK], &[ChunkFilter::Fletcher32]))?;
            let mut data = define.end()?;
            for round in 0..rounds {
                for chunk in (rank..chunks).step_by(ranks) {
                    let start = chunk * CHUNK;
                    let count = if whole { CHUNK } else { CHUNK - 1 };
                    let values: Vec<i32> =
                        (start..start + count).map(|at| noise(at + round)).collect();
                    data.put(variable, &Slab::new(&[start], &[count]), &values)?;
                }
                data.sync()?;
            }
            let mut found = vec![0; CHUNK as usize];
            for chunk in 0..chunks {
                let start = chunk * CHUNK;
                data.get(variable, &Slab::new(&[start], &[CHUNK]), &mut found)?;
                for (at, &found) in found.iter().enumerate() {
                    let is_written = whole || at as u64 + 1 < CHUNK;
                    let due = if is_written { noise(start + at as u64 + rounds - 1) } else { 0 };
                    assert_eq!(found, due, "chunk {chunk}, {at}");
                }
            }
            data.close()
        })
        .unwrap();
}

/// 96 MiB, of which 1 MiB of each rank may wait in memory.
#[test]
fn memory_is_bounded() {
    let _alone = ALONE.lock().unwrap();
    let place = TempDir::new().unwrap();
    let path = place.path().join("much.nc");
    // Whole chunks only leave their addresses in memory. Parts of chunks are merged in rounds of
    // 16 MiB of each rank, which are sent, decoded and encoded.
    for (ranks, whole, most) in [(2, true, 8 << 20), (1, false, 64 << 20)] {
        let ((), peak) = peak_of(|| write_much(&path, ranks, 1536, whole, 1));
        println!("whole {whole}: {peak} bytes");
        assert!(peak < most, "whole {whole}: {peak} bytes");
    }
}

/// What a settlement frees is used by the next ones.
#[test]
fn space_is_used_again() {
    let _alone = ALONE.lock().unwrap();
    let place = TempDir::new().unwrap();
    let path = place.path().join("again.nc");
    for whole in [true, false] {
        let data = 100 * CHUNK * 4;
        let len = |rounds| {
            write_much(&path, 2, 100, whole, rounds);
            std::fs::metadata(&path).unwrap().len()
        };
        let (one, few, many) = (len(1), len(4), len(10));
        println!("{data} bytes of data, whole {whole}: {one}, {few}, {many} bytes of file");
        // Two states, the arenas of a round, and their unused ends.
        assert!(one < data + data / 4 + (9 << 20), "{one}");
        assert!(many < 4 * data + (8 << 20), "{many}");
        assert!(many <= few + few / 8, "{many} bytes after {few}");
    }
}
