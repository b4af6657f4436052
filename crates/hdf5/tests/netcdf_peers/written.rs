//! [`Written`]: a simple writer: carries out commits and puts values where placements say.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use striate_hdf5::model::{Address, Filter};
use striate_hdf5::write::netcdf::{FileDefinition, Storage, default_fill};
use striate_hdf5::write::{Elements, FilePlan, HeapedElements, Placement, PlanOptions, Step, StoredChunk};

/// A file on disk and its plan.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) plan: FilePlan,
    file: File,
}

impl Written {
    /// A new file, committed without data.
    pub(crate) fn create(path: &Path, definition: FileDefinition, options: PlanOptions) -> Self {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let plan = FilePlan::create(definition, options).unwrap();
        let mut written = Self { plan, file: file.unwrap() };
        written.commit();
        written
    }

    /// Carries out the steps of a commit.
    pub(crate) fn commit(&mut self) {
        let commit = self.plan.commit().unwrap();
        for step in commit.steps {
            match step {
                Step::Write { address, bytes } => {
                    self.file.write_all_at(&bytes, address.0).unwrap();
                }
                Step::Extend { length } => {
                    if self.file.metadata().unwrap().len() < length {
                        self.file.set_len(length).unwrap();
                    }
                }
                Step::Sync => {}
            }
        }
        self.plan.committed();
    }

    /// Writes all values of a variable, with the lengths that dimensions have now.
    pub(crate) fn put(&mut self, variable: usize, elements: &Elements) {
        let bytes = if elements.is_fixed() {
            elements.as_bytes().to_vec()
        } else {
            let heaped = HeapedElements::new(elements);
            let address = self.plan.allocate(heaped.heap_len()).unwrap();
            let (bytes, heap) = heaped.link(address.0);
            self.file.write_all_at(&heap, address.0).unwrap();
            bytes
        };
        match self.plan.placement(variable).unwrap() {
            Placement::Compact => {}
            Placement::Contiguous { address, size } => {
                assert_eq!(bytes.len() as u64, *size);
                if let Some(Address(address)) = *address {
                    self.file.write_all_at(&bytes, address).unwrap();
                }
            }
            Placement::Chunked(_) => self.put_chunks(variable, &bytes),
        }
    }

    fn put_chunks(&mut self, variable: usize, bytes: &[u8]) {
        let definition = &self.plan.definition().variables[variable];
        let Storage::Chunked(chunk) = definition.storage.clone() else { panic!("no chunks") };
        let sizes = self.plan.definition().dataspace(definition).sizes();
        let filters = definition.filters.clone();
        let fill = default_fill(&definition.datatype).as_bytes().to_vec();
        let element = definition.datatype.size as usize;
        let chunks = self.plan.chunks_mut(variable).unwrap();
        let grid = chunks.grid(&sizes);
        let count = grid.iter().product::<u64>();
        for number in 0..count {
            let place = coordinates(number, &grid);
            let mut buffer = fill.repeat(chunk.iter().product::<u64>() as usize);
            for (at, target) in buffer.chunks_exact_mut(element).enumerate() {
                let within = coordinates(at as u64, &chunk);
                let whole: Vec<u64> = (0..chunk.len()).map(|d| place[d] * chunk[d] + within[d]).collect();
                if whole.iter().zip(&sizes).all(|(at, size)| at < size) {
                    let from = whole.iter().zip(&sizes).fold(0, |all, (at, size)| all * size + at);
                    let from = from as usize * element;
                    target.copy_from_slice(&bytes[from..from + element]);
                }
            }
            if filters.is_empty() {
                let chunks = self.plan.chunks_mut(variable).unwrap();
                let Address(address) = chunks.chunk(&place).unwrap().address;
                self.file.write_all_at(&buffer, address).unwrap();
            } else {
                let stored = apply(&filters, buffer);
                let address = self.plan.allocate(stored.len() as u64).unwrap();
                self.file.write_all_at(&stored, address.0).unwrap();
                let one = StoredChunk { address, size: stored.len() as u32, filter_mask: 0 };
                self.plan.chunks_mut(variable).unwrap().set(&place, one);
            }
        }
    }
}

/// The coordinates of an element in row-major order.
pub(crate) fn coordinates(mut number: u64, shape: &[u64]) -> Vec<u64> {
    let mut out = vec![0; shape.len()];
    for (at, &len) in out.iter_mut().zip(shape).rev() {
        *at = number % len;
        number /= len;
    }
    out
}

/// A chunk as filters leave it.
fn apply(filters: &[Filter], mut bytes: Vec<u8>) -> Vec<u8> {
    for filter in filters {
        bytes = match filter.id {
            1 => {
                let level = flate2::Compression::new(filter.parameters[0]);
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(&bytes).unwrap();
                encoder.finish().unwrap()
            }
            2 => shuffle(&bytes, filter.parameters[0] as usize),
            3 => {
                let sum = fletcher32(&bytes);
                bytes.extend(sum.to_le_bytes());
                bytes
            }
            other => panic!("filter {other}"),
        };
    }
    bytes
}

fn shuffle(bytes: &[u8], size: usize) -> Vec<u8> {
    let whole = bytes.len() / size;
    let mut out = Vec::with_capacity(bytes.len());
    for byte in 0..size {
        out.extend((0..whole).map(|element| bytes[element * size + byte]));
    }
    out.extend(&bytes[whole * size..]);
    out
}

/// HDF5's Fletcher-32: over pairs of bytes, the first of a pair being the higher one. Sums are
/// reduced to 1..=65535, so they become 0 only if all is 0.
fn fletcher32(bytes: &[u8]) -> u32 {
    let reduce = |sum: u64| if sum == 0 { 0 } else { (sum - 1) % 65535 + 1 };
    let (mut low, mut high) = (0_u64, 0_u64);
    for pair in bytes.chunks(2) {
        let second = pair.get(1).copied().unwrap_or(0);
        low = reduce(low + u64::from(u16::from_be_bytes([pair[0], second])));
        high = reduce(high + low);
    }
    (high << 16 | low) as u32
}
