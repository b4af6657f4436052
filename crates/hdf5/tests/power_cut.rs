//! Power cuts: of what was written since the last sync, any sectors may be on storage. The file is
//! then the state of the last commit, or of the one that was under way, with all of its data.
//!
//! A case is a file that grows by commits, and whose filtered chunks are written again, on a
//! simulated disk that loses power after any of its operations. `STRIATE_CASES` is the number of
//! cases.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use striate_hdf5::File;
use striate_hdf5::filter::{Pipeline, Scratch};
use striate_hdf5::model::{ByteOrder, Filter};
use striate_hdf5::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, Storage,
    VariableDefinition, VariableFill, describe,
};
use striate_hdf5::write::{CommitStep, DataAlignment, FilePlan, PlanOptions, StoredChunk};
use striate_testing::splitmix::SplitMix64;

const SECTOR: usize = 512;
const WIDTH: u64 = 40;

/// A disk with a cache: what was written since the last sync is lost sector by sector.
#[derive(Default)]
struct SimulatedDisk {
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
    /// Operations until the power is cut.
    left: u64,
}

/// The power was cut.
struct PowerCut;

impl SimulatedDisk {
    fn operate(&mut self) -> Result<(), PowerCut> {
        self.left = self.left.checked_sub(1).ok_or(PowerCut)?;
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), PowerCut> {
        // What is being written when the power is cut may be on storage as well.
        self.pending.push((offset as usize, bytes.to_vec()));
        self.operate()
    }

    fn sync(&mut self) -> Result<(), PowerCut> {
        self.operate()?;
        for (offset, bytes) in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, offset, &bytes);
        }
        Ok(())
    }

    /// What is on storage after the cut.
    fn survivors(mut self, random: &mut SplitMix64) -> Vec<u8> {
        let share = random.below(5);
        for (offset, bytes) in std::mem::take(&mut self.pending) {
            let end = offset + bytes.len();
            let mut at = offset;
            while at < end {
                let next = (at / SECTOR + 1) * SECTOR;
                let part = &bytes[at - offset..next.min(end) - offset];
                if random.below(4) < share {
                    apply(&mut self.durable, at, part);
                }
                at = next;
            }
        }
        self.durable
    }
}

fn apply(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if file.len() < offset + bytes.len() {
        file.resize(offset + bytes.len(), 0);
    }
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// A file that grows.
struct GrowingFile {
    plan: FilePlan,
    disk: SimulatedDisk,
    pipeline: Pipeline,
    scratch: Scratch,
    filtered_rows: u64,
    /// How often the filtered variable was written anew.
    version: u64,
}

/// What a commit makes the state of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CommittedState {
    rows: u64,
    version: u64,
}

/// An element of the filtered variable. Versions need chunks of other sizes.
fn filtered_value(version: u64, row: u64, column: u64) -> i32 {
    let noise = (version * 8191 + row * 31 + column).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let noise = noise % (1 << (version * 5 % 24));
    (value(1, row, column) as u64 * 64 + noise) as i32
}

fn value(variable: u64, row: u64, column: u64) -> i32 {
    (variable * 1_000_000 + row * 1000 + column + 1) as i32
}

impl GrowingFile {
    fn new(random: &mut SplitMix64, left: u64) -> Self {
        let deflate = Filter { id: 1, name: "".into(), optional: true, parameters: vec![1] };
        let filtered_rows = 1 + random.below(2);
        let variable = |name: &str, chunk: Vec<u64>, filters: Vec<Filter>| VariableDefinition {
            group: 0,
            name: name.into(),
            datatype: AtomicType::Int.datatype(ByteOrder::Little),
            dimensions: vec![0, 1],
            storage: Storage::Chunked(chunk),
            filters,
            fill: VariableFill::Value,
            attributes: Vec::new(),
        };
        let dimension = |name: &str, length, unlimited| DimensionDefinition {
            group: 0,
            name: name.into(),
            length,
            unlimited,
        };
        let chunk = 8 << random.below(3);
        let definition = FileDefinition {
            dimensions: vec![dimension("t", 0, true), dimension("x", WIDTH, false)],
            variables: vec![
                variable("plain", vec![1, chunk], Vec::new()),
                variable("filtered", vec![filtered_rows, WIDTH], vec![deflate.clone()]),
            ],
            ..FileDefinition::default()
        };
        let alignment = *random.pick(&[1, 1, 64, 512]);
        let options = PlanOptions {
            alignment: DataAlignment { threshold: 1, alignment },
            growth_reserve: *random.pick(&[0, 1 << 12]),
        };
        Self {
            plan: FilePlan::create(definition, options).unwrap(),
            disk: SimulatedDisk { left, ..SimulatedDisk::default() },
            pipeline: Pipeline::new(&[deflate]),
            scratch: Scratch::new(),
            filtered_rows,
            version: 0,
        }
    }

    /// Adds rows, of which none is in the file's state yet.
    fn grow(&mut self, rows: std::ops::Range<u64>) -> Result<(), PowerCut> {
        self.plan.grow(0, rows.end).unwrap();
        let chunk = match &self.plan.definition().variables[0].storage {
            Storage::Chunked(chunk) => chunk[1],
            _ => WIDTH,
        };
        for row in rows.clone() {
            for first in (0..WIDTH).step_by(chunk as usize) {
                let address = self.plan.claim(0, &[row, first / chunk]).unwrap();
                let columns = first..(first + chunk).min(WIDTH);
                let bytes: Vec<u8> =
                    columns.flat_map(|column| value(0, row, column).to_le_bytes()).collect();
                self.disk.write(address.0, &bytes)?;
            }
        }
        // Filtered chunks with the rows that they had before.
        self.write_filtered(rows.start, rows.end)
    }

    /// Writes the filtered chunks from that of a row on.
    fn write_filtered(&mut self, first: u64, end: u64) -> Result<(), PowerCut> {
        let version = self.version;
        for place in first / self.filtered_rows..end.div_ceil(self.filtered_rows) {
            let in_chunk = place * self.filtered_rows..(place + 1) * self.filtered_rows;
            let bytes: Vec<u8> = in_chunk
                .flat_map(|row| (0..WIDTH).map(move |column| (row, column)))
                .flat_map(|(row, column)| {
                    let shown = if row < end { filtered_value(version, row, column) } else { 0 };
                    shown.to_le_bytes()
                })
                .collect();
            let encoded = self.pipeline.encode(&bytes, &mut self.scratch).unwrap();
            let (size, filter_mask) = (encoded.bytes.len() as u32, encoded.filter_mask);
            let address = self.plan.allocate(size.into()).unwrap();
            self.disk.write(address.0, encoded.bytes)?;
            let stored = StoredChunk { address, size, filter_mask };
            self.plan.set_chunk(1, &[place, 0], stored);
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), PowerCut> {
        for step in self.plan.commit().unwrap().steps {
            match step {
                CommitStep::Write { address, bytes } => self.disk.write(address.0, &bytes)?,
                CommitStep::Extend { length } => {
                    self.disk.write(length.saturating_sub(1), &[])?;
                    let end = self.disk.pending.iter().map(|(at, bytes)| at + bytes.len()).max();
                    let known = self.disk.durable.len().max(end.unwrap_or(0)) as u64;
                    if known < length {
                        self.disk.write(length - 1, &[0])?;
                    }
                }
                CommitStep::Sync => self.disk.sync()?,
            }
        }
        self.plan.committed();
        Ok(())
    }

    /// Writes until it ends, or the power is cut: the rows that are due, and those that may be.
    fn run(
        &mut self,
        random: &mut SplitMix64,
        acknowledged: &mut Option<CommittedState>,
        begun: &mut CommittedState,
    ) {
        let mut all = || {
            self.commit()?;
            *acknowledged = Some(*begun);
            for _ in 0..=random.below(8) {
                let rows = begun.rows..begun.rows + random.below(3);
                begun.rows = rows.end;
                // Also twice between two commits.
                for _ in 0..random.below(3) {
                    self.version += 1;
                    begun.version = self.version;
                    self.write_filtered(0, rows.start)?;
                }
                self.grow(rows)?;
                if random.once_in(3) {
                    let mut definition = self.plan.definition().clone();
                    let text = "x".repeat(random.below(900) as usize + 1);
                    let note = AttributeDefinition::text("note", &text);
                    definition.groups[0].attributes = vec![note];
                    self.plan.redefine(definition).unwrap();
                }
                self.commit()?;
                *acknowledged = Some(*begun);
            }
            Ok::<(), PowerCut>(())
        };
        let _ = all();
    }
}

fn check(seed: u64) -> bool {
    let random = &mut SplitMix64::new(seed);
    let left = random.below(120);
    let mut file = GrowingFile::new(random, left);
    let (mut acknowledged, mut begun) = (None, CommittedState::default());
    file.run(random, &mut acknowledged, &mut begun);
    let bytes = file.disk.survivors(random);
    let opened = File::open(bytes).and_then(|file| Ok((describe(&file)?, file)));
    let (described, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            assert!(acknowledged.is_none(), "case {seed}: {error}");
            return false;
        }
    };
    let rows = described.definition.dimensions[0].length;
    let possible = [acknowledged.unwrap_or_default(), begun];
    let possible: Vec<CommittedState> =
        possible.into_iter().filter(|state| state.rows == rows).collect();
    assert!(!possible.is_empty(), "case {seed}: {rows} rows, {acknowledged:?}, {begun:?}");
    let elements = |value: &dyn Fn(u64, u64) -> i32| -> Vec<u8> {
        (0..rows)
            .flat_map(|row| (0..WIDTH).map(move |column| (row, column)))
            .flat_map(|(row, column)| value(row, column).to_le_bytes())
            .collect()
    };
    let read = |number: usize| {
        let mut found = vec![0; (rows * WIDTH * 4) as usize];
        let read = file.read(&described.objects[number], &mut found);
        read.unwrap_or_else(|error| panic!("case {seed}: {error}"));
        found
    };
    assert_eq!(read(0), elements(&|row, column| value(0, row, column)), "case {seed}");
    let found = read(1);
    let is_due = |state: &CommittedState| {
        found == elements(&|row, column| filtered_value(state.version, row, column))
    };
    assert!(possible.iter().any(is_due), "case {seed}: {acknowledged:?}, {begun:?}");
    true
}

#[test]
fn every_state_is_whole() {
    let cases = std::env::var("STRIATE_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = cases.unwrap_or(10_000);
    let opened = (0..cases).filter(|&seed| check(seed)).count();
    println!("{opened} of {cases} files could be opened");
    assert!(opened as u64 > cases / 2, "{opened} of {cases}");
}
