//! [`Written`]: a simple writer that carries out commits in memory and places values.

use striate_hdf5::filter::{Pipeline, Scratch};
use striate_hdf5::model::Address;
use striate_hdf5::write::netcdf::{FileDefinition, Storage, default_fill};
use striate_hdf5::write::{
    CommitStep, Elements, FilePlan, HeapedElements, Placement, PlanOptions, StoredChunk,
};

/// The bytes of a file and its plan.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) plan: FilePlan,
    pub(crate) bytes: Vec<u8>,
}

impl Written {
    /// A new file, committed without data.
    pub(crate) fn create(definition: FileDefinition, options: PlanOptions) -> Self {
        let plan = FilePlan::create(definition, options).unwrap();
        let mut written = Self { plan, bytes: Vec::new() };
        written.commit();
        written
    }

    pub(crate) fn write_at(&mut self, address: u64, bytes: &[u8]) {
        let end = address as usize + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[address as usize..end].copy_from_slice(bytes);
    }

    /// Carries out a step of a commit.
    pub(crate) fn step(&mut self, step: &CommitStep) {
        match step {
            CommitStep::Write { address, bytes } => self.write_at(address.0, bytes),
            CommitStep::Extend { length } => {
                let length = (*length as usize).max(self.bytes.len());
                self.bytes.resize(length, 0);
            }
            CommitStep::Sync => {}
        }
    }

    /// Carries out the steps of a commit.
    pub(crate) fn commit(&mut self) {
        for step in self.plan.commit().unwrap().steps {
            self.step(&step);
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
            self.write_at(address.0, &heap);
            bytes
        };
        match *self.plan.placement(variable).unwrap() {
            Placement::Compact => {}
            Placement::Contiguous { size, .. } => {
                assert_eq!(bytes.len() as u64, size);
                if size > 0 {
                    let Address(address) = self.plan.claim(variable, &[]).unwrap();
                    self.write_at(address, &bytes);
                }
            }
            Placement::Chunked(_) => self.put_chunks(variable, &bytes),
        }
    }

    fn put_chunks(&mut self, variable: usize, bytes: &[u8]) {
        let definition = &self.plan.definition().variables[variable];
        let Storage::Chunked(chunk) = definition.storage.clone() else { panic!("no chunks") };
        let sizes = self.plan.definition().dataspace(definition).sizes();
        let pipeline = Pipeline::new(&definition.filters);
        let mut scratch = Scratch::new();
        let fill = default_fill(&definition.datatype).as_bytes().to_vec();
        let element = definition.datatype.size as usize;
        let grid: Vec<u64> =
            sizes.iter().zip(&chunk).map(|(&size, &chunk)| size.div_ceil(chunk)).collect();
        for number in 0..grid.iter().product::<u64>() {
            let place = coordinates(number, &grid);
            let mut buffer = fill.repeat(chunk.iter().product::<u64>() as usize);
            for (at, target) in buffer.chunks_exact_mut(element).enumerate() {
                let within = coordinates(at as u64, &chunk);
                let in_array = place.iter().zip(&chunk).zip(&within);
                let whole: Vec<u64> =
                    in_array.map(|((at, len), within)| at * len + within).collect();
                if whole.iter().zip(&sizes).all(|(at, size)| at < size) {
                    let from = whole.iter().zip(&sizes).fold(0, |all, (at, size)| all * size + at);
                    let from = from as usize * element;
                    target.copy_from_slice(&bytes[from..from + element]);
                }
            }
            if pipeline.is_empty() {
                let Address(address) = self.plan.claim(variable, &place).unwrap();
                self.write_at(address, &buffer);
            } else {
                let stored = pipeline.encode(&buffer, &mut scratch).unwrap();
                let address = self.plan.allocate(stored.bytes.len() as u64).unwrap();
                let (size, filter_mask) = (stored.bytes.len() as u32, stored.filter_mask);
                self.write_at(address.0, stored.bytes);
                let one = StoredChunk { address, size, filter_mask };
                self.plan.set_chunk(variable, &place, one);
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
