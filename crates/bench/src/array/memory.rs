//! The memory of a rank: filled with values that depend on their position in the file, packed and
//! unpacked for the libraries that need contiguous elements, and verified.

use bytemuck::Pod;
use striate_store::AlignedBuffer;

use super::plan::{
    Access, Area, ArrayPlan, MemoryLayout, Number, Schema, StridedElements, ValueKind, number,
};

/// What memory holds where nothing was read.
const UNTOUCHED: u8 = 0xA5;

/// Areas begin at a large page, for all engines alike.
const LARGE_PAGE: usize = 2 << 20;

/// Bytes at the start of a page, of a large one if they are many.
pub(super) fn buffer(len: usize) -> AlignedBuffer {
    let align = if len >= LARGE_PAGE { LARGE_PAGE } else { AlignedBuffer::PAGE };
    let mut buffer = AlignedBuffer::with_alignment(len, align);
    // Pages are touched before a clock runs.
    buffer.fill(UNTOUCHED);
    buffer
}

/// The areas of a plan.
#[derive(Debug)]
pub(super) struct Memory {
    areas: Vec<Area>,
    pub(super) buffers: Vec<AlignedBuffer>,
}

/// An element with a wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementMismatch {
    /// Which variable; none if memory outside the elements was changed.
    pub variable: Option<String>,
    /// Which element of the variable in the file, or which byte of memory.
    pub index: u64,
    /// What is there.
    pub found: String,
    /// What should be.
    pub expected: String,
}

/// What elements can be.
pub(super) trait Element: Pod + std::fmt::Debug {
    /// The value with that hash.
    fn from_hash(hash: u64, values: ValueKind) -> Self;

    /// The value of a slowly varying field.
    fn from_field(value: f64) -> Self;
}

impl Element for i32 {
    fn from_hash(hash: u64, _: ValueKind) -> Self {
        (hash >> 32) as Self
    }

    fn from_field(value: f64) -> Self {
        value as Self
    }
}

impl Element for f32 {
    fn from_hash(hash: u64, _: ValueKind) -> Self {
        (hash >> 41) as Self
    }

    fn from_field(value: f64) -> Self {
        value as Self
    }
}

impl Element for f64 {
    fn from_hash(hash: u64, values: ValueKind) -> Self {
        match values {
            ValueKind::Single => Self::from(f32::from_hash(hash, values)),
            _ => (hash >> 11) as Self / 1024.0,
        }
    }

    fn from_field(value: f64) -> Self {
        value
    }
}

/// The value of an element.
fn value<T: Element>(values: ValueKind, seed: u64, index: u64) -> T {
    let hash = hash(seed, index);
    match values {
        ValueKind::Any | ValueKind::Single => T::from_hash(hash, values),
        ValueKind::Smooth => {
            // Temperatures in hundredths: slopes of 40 K up and down, and noise of 0.07 K.
            let (period, place) = (8192, index % 8192);
            let slope = place.min(period - place);
            T::from_field((26_000 + slope + (hash >> 61)) as f64 / 100.0)
        }
    }
}

/// `splitmix64` of an element's place.
const fn hash(seed: u64, index: u64) -> u64 {
    let mut word = (seed << 48 ^ index).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

/// A row of an access: elements that follow each other in the file.
struct ElementRun {
    /// The first in the file.
    index: u64,
    /// The first in memory.
    first: usize,
    /// From one to the next in memory.
    stride: usize,
    len: usize,
}

/// The rows of an access.
fn rows(access: &Access, schema: &Schema) -> Vec<ElementRun> {
    let shape = schema.shape(access.variable);
    let Some(last) = shape.len().checked_sub(1) else { return Vec::new() };
    let len = access.count[last] as usize;
    let mut rows = Vec::new();
    for row in 0..access.elements() / len.max(1) {
        let (mut index, mut weight, mut rest) = (access.start[last], shape[last], row as u64);
        let mut steps = [0; 4];
        for dimension in (0..last).rev() {
            let step = rest % access.count[dimension];
            rest /= access.count[dimension];
            index += (access.start[dimension] + step) * weight;
            weight *= shape[dimension];
            if dimension < 3 {
                steps[dimension] = step as usize;
            }
        }
        let (first, stride) = match &access.lay {
            MemoryLayout::Dense { first } => (first + row * len, 1),
            MemoryLayout::Strided(StridedElements { first, strides, .. }) => {
                let outer: usize = steps.iter().zip(strides).map(|(step, by)| step * by).sum();
                (first + outer, strides[3])
            }
        };
        rows.push(ElementRun { index, first, stride, len });
    }
    rows
}

impl Memory {
    /// Memory for a plan, untouched.
    pub(super) fn new(plan: &ArrayPlan) -> Self {
        let areas = plan.areas.clone();
        let buffers = areas.iter().map(|area| buffer(area.len * area.number.size())).collect();
        Self { areas, buffers }
    }

    /// An area's elements.
    pub(super) fn elements<T: Pod>(&self, area: usize) -> &[T] {
        bytemuck::cast_slice(&self.buffers[area])
    }

    /// An area's elements.
    fn elements_mut<T: Pod>(&mut self, area: usize) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.buffers[area])
    }

    /// What an area holds.
    pub(super) fn number(&self, area: usize) -> Number {
        self.areas[area].number
    }

    /// The bytes of an access that can be given as they are: those of its type, one after the
    /// other.
    pub(super) fn dense(&self, access: &Access, number: Number) -> Option<std::ops::Range<usize>> {
        match access.lay {
            MemoryLayout::Dense { first } if self.number(access.area) == number => {
                let size = number.size();
                Some(first * size..(first + access.elements()) * size)
            }
            _ => None,
        }
    }

    /// Puts the values of an access into memory.
    pub(super) fn fill(&mut self, access: &Access, schema: &Schema) {
        let Area { number, values, .. } = self.areas[access.area];
        number!(number, T => {
            let elements = self.elements_mut::<T>(access.area);
            for row in rows(access, schema) {
                let places = elements[row.first..].iter_mut().step_by(row.stride);
                for (place, index) in places.take(row.len).zip(row.index..) {
                    *place = value(values, access.seed, index);
                }
            }
        });
    }

    /// Compares the elements of an access with what they should be, and makes them untouched again.
    pub(super) fn take(&mut self, access: &Access, schema: &Schema) -> Result<(), ElementMismatch> {
        let Area { number, values, .. } = self.areas[access.area];
        number!(number, T => {
            let elements = self.elements_mut::<T>(access.area);
            let untouched: T = bytemuck::pod_read_unaligned(&[UNTOUCHED; 8][..size_of::<T>()]);
            for row in rows(access, schema) {
                let places = elements[row.first..].iter_mut().step_by(row.stride);
                for (place, index) in places.take(row.len).zip(row.index..) {
                    let expected: T = value(values, access.seed, index);
                    if bytemuck::bytes_of(place) != bytemuck::bytes_of(&expected) {
                        return Err(ElementMismatch {
                            variable: Some(schema.variables[access.variable].name.clone()),
                            index,
                            found: format!("{place:?}"),
                            expected: format!("{expected:?}"),
                        });
                    }
                    *place = untouched;
                }
            }
        });
        Ok(())
    }

    /// Whether all is untouched.
    pub(super) fn is_untouched(&self) -> Result<(), ElementMismatch> {
        let same = |bytes: &[u8]| bytes.iter().position(|byte| *byte != UNTOUCHED);
        for buffer in &self.buffers {
            if let Some(index) = same(buffer) {
                let (found, expected) = (buffer[index], UNTOUCHED);
                return Err(ElementMismatch {
                    variable: None,
                    index: index as u64,
                    found: format!("{found:#04x}"),
                    expected: format!("{expected:#04x}"),
                });
            }
        }
        Ok(())
    }

    /// Makes all untouched.
    pub(super) fn clear(&mut self) {
        for buffer in &mut self.buffers {
            buffer.fill(UNTOUCHED);
        }
    }

    /// Copies the elements of an access to a buffer, one after the other and as `number`, as
    /// programs do by hand before they call a library.
    pub(super) fn pack(&self, access: &Access, number: Number, packed: &mut [u8]) {
        match (self.number(access.area), number) {
            (Number::Double, Number::Float) => {
                let from = self.elements::<f64>(access.area);
                pack(from, access, bytemuck::cast_slice_mut(packed), |value| value as f32);
            }
            (memory, _) => number!(memory, T => {
                let packed: &mut [T] = bytemuck::cast_slice_mut(packed);
                pack(self.elements::<T>(access.area), access, packed, |value| value);
            }),
        }
    }

    /// The way back.
    pub(super) fn unpack(&mut self, access: &Access, number: Number, packed: &[u8]) {
        match (self.number(access.area), number) {
            (Number::Double, Number::Float) => {
                let packed: &[f32] = bytemuck::cast_slice(packed);
                unpack(packed, access, self.elements_mut::<f64>(access.area), f64::from);
            }
            (memory, _) => number!(memory, T => {
                let packed: &[T] = bytemuck::cast_slice(packed);
                unpack(packed, access, self.elements_mut::<T>(access.area), |value| value);
            }),
        }
    }
}

fn pack<S: Copy, D>(from: &[S], access: &Access, to: &mut [D], convert: impl Fn(S) -> D) {
    match &access.lay {
        MemoryLayout::Dense { first } => {
            for (to, from) in to.iter_mut().zip(&from[*first..]) {
                *to = convert(*from);
            }
        }
        MemoryLayout::Strided(lay) => {
            let mut rows = to.chunks_exact_mut(lay.counts[3].max(1));
            each_row(lay, |first| {
                let from = from[first..].iter().step_by(lay.strides[3]);
                for (to, from) in rows.next().into_iter().flatten().zip(from) {
                    *to = convert(*from);
                }
            });
        }
    }
}

fn unpack<S: Copy, D>(from: &[S], access: &Access, to: &mut [D], convert: impl Fn(S) -> D) {
    match &access.lay {
        MemoryLayout::Dense { first } => {
            for (to, from) in to[*first..].iter_mut().zip(from) {
                *to = convert(*from);
            }
        }
        MemoryLayout::Strided(lay) => {
            let mut rows = from.chunks_exact(lay.counts[3].max(1));
            each_row(lay, |first| {
                let to = to[first..].iter_mut().step_by(lay.strides[3]);
                for (from, to) in rows.next().into_iter().flatten().zip(to) {
                    *to = convert(*from);
                }
            });
        }
    }
}

fn each_row(lay: &StridedElements, mut row: impl FnMut(usize)) {
    let ([blocks, planes, lines, _], strides) = (lay.counts, lay.strides);
    for block in 0..blocks {
        for plane in 0..planes {
            for line in 0..lines {
                row(lay.first + block * strides[0] + plane * strides[1] + line * strides[2]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::{ArrayWorkload as _, FlashFile, FlashIo};
    use super::*;

    /// Two ranks' plans; memory has gaps, and the file of plots holds floats of its doubles.
    fn plans(file: FlashFile) -> [ArrayPlan; 2] {
        let flash = FlashIo { blocks: 2, zones: 3, guard: 1, variables: 3, ..FlashIo::new(2) };
        let flash = FlashIo { files: vec![file], ..flash };
        [0, 1].map(|rank| flash.plan(rank).unwrap())
    }

    fn filled(plan: &ArrayPlan) -> Memory {
        let mut memory = Memory::new(plan);
        let file = &plan.files[0];
        file.accesses().for_each(|access| memory.fill(access, &file.schema));
        memory
    }

    /// Carries everything from one memory to another, packed.
    fn carry(from: &Memory, to: &mut Memory, plan: &ArrayPlan) {
        let file = &plan.files[0];
        for access in file.accesses() {
            let number = file.schema.variables[access.variable].number;
            let mut packed = buffer(access.bytes(&file.schema) as usize);
            from.pack(access, number, &mut packed);
            to.unpack(access, number, &packed);
        }
    }

    fn take_all(memory: &mut Memory, plan: &ArrayPlan) -> Result<(), ElementMismatch> {
        let file = &plan.files[0];
        file.accesses().try_for_each(|access| memory.take(access, &file.schema))?;
        memory.is_untouched()
    }

    #[test]
    fn what_is_packed_and_unpacked_is_the_same_and_gaps_stay() {
        for file in FlashFile::ALL {
            for plan in plans(file) {
                let mut back = Memory::new(&plan);
                carry(&filled(&plan), &mut back, &plan);
                assert_eq!(take_all(&mut back, &plan), Ok(()), "{file:?}");
                // It can be used again.
                carry(&filled(&plan), &mut back, &plan);
                assert_eq!(take_all(&mut back, &plan), Ok(()), "{file:?}");
            }
        }
    }

    #[test]
    fn the_datatype_says_the_same_as_the_loops() {
        let [plan, _] = plans(FlashFile::Checkpoint);
        let memory = filled(&plan);
        let Some(access) = plan.files[0].accesses().last() else { panic!("there are calls") };
        let MemoryLayout::Strided(lay) = &access.lay else { panic!("the cells have gaps") };
        let mut packed = buffer(access.bytes(&plan.files[0].schema) as usize);
        memory.pack(access, Number::Double, &mut packed);
        let packer = striate_datatype::Packer::new(&lay.datatype, 1).unwrap();
        let mut stream = vec![0; packer.size() as usize];
        packer.pack(&memory.buffers[access.area], lay.first * 8, &mut stream).unwrap();
        assert!(stream == packed[..]);
    }

    #[test]
    fn what_is_wrong_is_found() {
        let [plan, other] = plans(FlashFile::Checkpoint);
        // Another rank's part is not this one's.
        let mut wrong = filled(&other);
        assert!(take_all(&mut wrong, &plan).unwrap_err().variable.is_some());
        // A byte that no element has.
        let mut touched = filled(&plan);
        let cells = plan.areas.len() - 2;
        touched.buffers[cells][5] ^= 1;
        let mismatch = take_all(&mut touched, &plan).unwrap_err();
        assert_eq!((mismatch.variable, mismatch.index), (None, 5));
        // One bit of one element.
        let mut flipped = filled(&plan);
        flipped.buffers[0][0] ^= 1;
        let mismatch = take_all(&mut flipped, &plan).unwrap_err();
        assert_eq!((mismatch.variable.as_deref(), mismatch.index), (Some("lrefine"), 0));
    }
}
