//! The model that datasets are compared with: every element of every variable in a list, and random
//! draws that are equal on all ranks.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use striate_array::format::{ByteOrder, ChunkFilter, Header, StorageLayout, StorageOptions, Type};
use striate_array::{Char, Sink, Slab, Source, Value};
use striate_datatype::{Datatype, Order};
use striate_testing::splitmix::SplitMix64;

/// Random numbers, equal on all ranks.
#[derive(Clone)]
pub(crate) struct Draw(SplitMix64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed ^ 0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// A value in range of every type: a letter, which is also a small number.
pub(crate) fn letter(draw: u64) -> i64 {
    65 + (draw % 26) as i64
}

/// The slab of a rank.
#[derive(Clone, Debug)]
pub(crate) struct RankSlab {
    pub(crate) start: Vec<u64>,
    pub(crate) count: Vec<u64>,
    pub(crate) stride: Vec<u64>,
}

impl RankSlab {
    pub(crate) fn slab(&self) -> Slab {
        if self.stride.iter().all(|&stride| stride == 1) {
            Slab::new(&self.start, &self.count)
        } else {
            Slab::new(&self.start, &self.count).stride(&self.stride)
        }
    }

    pub(crate) fn elements(&self) -> u64 {
        self.count.iter().product()
    }

    /// The indices in the variable, in order.
    pub(crate) fn indices(&self) -> Vec<Vec<u64>> {
        each_index(&self.count)
            .into_iter()
            .map(|index| {
                let at = |i: usize| self.start[i] + index[i] * self.stride[i];
                (0..index.len()).map(at).collect()
            })
            .collect()
    }
}

/// All indices of a shape, the last dimension varying fastest.
pub(crate) fn each_index(shape: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![vec![]];
    for &len in shape {
        all = all
            .into_iter()
            .flat_map(|index: Vec<u64>| {
                (0..len).map(move |i| index.iter().copied().chain([i]).collect())
            })
            .collect();
    }
    all
}

/// Disjoint parts of a variable of that shape, one for each rank: one dimension is distributed in
/// blocks or round robin; in the others a random range is selected, strided or not.
pub(crate) fn parts(draw: &mut Draw, shape: &[u64], ranks: u64) -> Vec<RankSlab> {
    let n = shape.len();
    let dealt = draw.below(n as u64) as usize;
    let in_turn = draw.chance(40);
    let mut common = RankSlab { start: vec![0; n], count: vec![1; n], stride: vec![1; n] };
    for (i, &len) in shape.iter().enumerate() {
        common.start[i] = if draw.chance(50) { 0 } else { draw.below(len) };
        common.stride[i] = if draw.chance(70) { 1 } else { 1 + draw.below(3) };
        let most = (len - common.start[i]).div_ceil(common.stride[i]);
        common.count[i] = if draw.chance(60) { most } else { draw.below(most + 1) };
    }
    if n == 0 {
        // A scalar has no empty slab: all ranks write the same value.
        return (0..ranks).map(|_| common.clone()).collect();
    }
    (0..ranks)
        .map(|rank| {
            let mut part = common.clone();
            let len = shape[dealt];
            if in_turn {
                part.start[dealt] = rank;
                part.stride[dealt] = ranks;
                part.count[dealt] = len.saturating_sub(rank).div_ceil(ranks);
            } else {
                part.start[dealt] = len * rank / ranks;
                part.count[dealt] = len * (rank + 1) / ranks - part.start[dealt];
                part.stride[dealt] = 1;
            }
            if part.count[dealt] == 0 {
                part.start[dealt] = 0;
            }
            part
        })
        .collect()
}

/// The expected content of a variable.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) external: Type,
    /// The lengths of unlimited dimensions are those of the model.
    pub(crate) shape: Vec<u64>,
    /// The numbers of its dimensions, and whether they are unlimited.
    pub(crate) dimensions: Vec<(u32, bool)>,
    /// `None` was never written: any value is accepted, unless it is filled.
    pub(crate) values: Vec<Option<i64>>,
    pub(crate) fill: Option<i64>,
}

impl Expected {
    pub(crate) fn new(header: &Header, index: usize) -> Self {
        let variable = &header.variables[index];
        let shape = header.shape(variable);
        let values = vec![None; shape.iter().product::<u64>() as usize];
        let dimensions = variable.dimensions.iter();
        let dimensions = dimensions
            .map(|&dimension| (dimension, header.dimensions[dimension as usize].is_unlimited()))
            .collect();
        let name = variable.name.clone();
        Self { name, external: variable.external, shape, dimensions, values, fill: None }
    }

    /// Whether it can grow.
    pub(crate) fn grows(&self) -> bool {
        self.dimensions.iter().any(|&(_, unlimited)| unlimited)
    }

    pub(crate) fn at(&self, index: &[u64]) -> usize {
        let next = |at, (&i, &len): (&u64, &u64)| at * len + i;
        index.iter().zip(&self.shape).fold(0, next) as usize
    }

    /// Makes a dimension longer, if the variable has it.
    pub(crate) fn grow(&mut self, dimension: u32, len: u64) {
        let mut new = self.clone();
        for (own, &(number, _)) in new.shape.iter_mut().zip(&self.dimensions) {
            if number == dimension {
                *own = (*own).max(len);
            }
        }
        if new.shape == self.shape {
            return;
        }
        new.values = vec![self.fill; new.shape.iter().product::<u64>() as usize];
        for index in each_index(&self.shape) {
            let at = new.at(&index);
            new.values[at] = self.values[self.at(&index)];
        }
        *self = new;
    }
}

/// Draws how a variable of a netCDF-4 file is stored.
pub(crate) fn storage(draw: &mut Draw, header: &Header, variable: usize) -> StorageOptions {
    let dimensions = &header.variables[variable].dimensions;
    let byte_order = draw.pick(&[ByteOrder::Little, ByteOrder::Little, ByteOrder::Big]);
    let mut storage = StorageOptions { byte_order, ..StorageOptions::default() };
    if dimensions.is_empty() {
        return storage;
    }
    if draw.chance(60) {
        let shape = dimensions.iter().map(|&dimension| {
            let dimension = &header.dimensions[dimension as usize];
            1 + draw.below(if dimension.is_unlimited() { 3 } else { dimension.len })
        });
        storage.layout = StorageLayout::Chunked(shape.collect());
    }
    if draw.chance(40) {
        if draw.chance(50) {
            storage.filters.push(ChunkFilter::Shuffle);
        }
        storage.filters.push(draw.pick(&[
            ChunkFilter::Deflate(1),
            ChunkFilter::Zstd(0),
            ChunkFilter::Zstd(1),
        ]));
        if draw.chance(30) {
            storage.filters.push(ChunkFilter::Fletcher32);
        }
    }
    storage
}

/// Numbers in memory.
pub(crate) trait TestNumber: Value {
    fn of(value: i64) -> Self;
    fn back(self) -> i64;
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        #[allow(clippy::cast_lossless, reason = "the same for all types")]
        impl TestNumber for $type {
            fn of(value: i64) -> Self {
                value as Self
            }
            fn back(self) -> i64 {
                self as i64
            }
        }
    )+};
}

numbers!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

impl TestNumber for Char {
    fn of(value: i64) -> Self {
        Self(value as u8)
    }
    fn back(self) -> i64 {
        i64::from(self.0)
    }
}

/// The layout of memory.
#[derive(Clone, Debug)]
pub(crate) enum MemoryForm {
    Dense,
    Permuted(Vec<usize>),
    Mapped(Vec<u64>),
    /// A frame of ghost cells, by a datatype.
    Typed(u64),
    /// A view of the inner part of an array with a frame.
    Framed(u64),
    /// A view with permuted dimensions, some of them reversed.
    Turned(Vec<usize>, Vec<bool>),
}

pub(crate) const GAP: i64 = 37;

impl MemoryForm {
    pub(crate) fn draw(draw: &mut Draw, dimensions: usize) -> Self {
        let mut axes: Vec<usize> = (0..dimensions).collect();
        for i in (1..dimensions).rev() {
            axes.swap(i, draw.below(i as u64 + 1) as usize);
        }
        match draw.below(6) {
            0 => Self::Dense,
            1 => Self::Permuted(axes),
            2 => Self::Mapped((0..dimensions).map(|_| draw.below(3)).collect()),
            3 => Self::Typed(1 + draw.below(2)),
            4 => Self::Framed(draw.below(3)),
            _ => Self::Turned(axes, (0..dimensions).map(|_| draw.chance(30)).collect()),
        }
    }

    /// Length of the memory, and the index of each element of the access.
    fn places(&self, count: &[u64]) -> (usize, Vec<usize>) {
        let dense = |shape: &[u64], index: &[u64]| {
            index.iter().zip(shape).fold(0, |at, (&i, &len)| at * len + i) as usize
        };
        let total = |shape: &[u64]| shape.iter().product::<u64>() as usize;
        let indices = each_index(count);
        match self {
            Self::Dense => (indices.len(), (0..indices.len()).collect()),
            Self::Permuted(axes) => {
                let shape: Vec<u64> = axes.iter().map(|&axis| count[axis]).collect();
                let at = |index: &Vec<u64>| {
                    let index: Vec<u64> = axes.iter().map(|&axis| index[axis]).collect();
                    dense(&shape, &index)
                };
                (total(&shape), indices.iter().map(at).collect())
            }
            Self::Mapped(_) => {
                let map = self.map(count);
                let at = |index: &Vec<u64>| {
                    index.iter().zip(&map).map(|(&i, &step)| i as usize * step as usize).sum()
                };
                let places: Vec<usize> = indices.iter().map(at).collect();
                (places.iter().max().map_or(0, |max| max + 1), places)
            }
            Self::Typed(frame) | Self::Framed(frame) => {
                let shape: Vec<u64> = count.iter().map(|&count| count + 2 * frame).collect();
                let at = |index: &Vec<u64>| {
                    let index: Vec<u64> = index.iter().map(|&i| i + frame).collect();
                    dense(&shape, &index)
                };
                (total(&shape), indices.iter().map(at).collect())
            }
            Self::Turned(axes, backwards) => {
                let shape: Vec<u64> = axes.iter().map(|&axis| count[axis]).collect();
                let at = |index: &Vec<u64>| {
                    let of = |&axis: &usize| {
                        let turned = count[axis] - 1 - index[axis];
                        if backwards[axis] { turned } else { index[axis] }
                    };
                    let index: Vec<u64> = axes.iter().map(of).collect();
                    dense(&shape, &index)
                };
                (total(&shape), indices.iter().map(at).collect())
            }
        }
    }

    /// Strides with gaps.
    fn map(&self, count: &[u64]) -> Vec<i64> {
        let Self::Mapped(gaps) = self else { return Vec::new() };
        let mut map = vec![0; count.len()];
        let mut step = 1;
        for i in (0..count.len()).rev() {
            map[i] = (step + gaps[i]) as i64;
            step = (step + gaps[i]) * count[i].max(1);
        }
        map
    }

    /// Memory with the values of an access, and the gap value elsewhere.
    pub(crate) fn fill<T: TestNumber>(&self, count: &[u64], values: &[i64]) -> Vec<T> {
        let (len, places) = self.places(count);
        let mut memory = vec![T::of(GAP); len];
        for (&place, &value) in places.iter().zip(values) {
            memory[place] = T::of(value);
        }
        memory
    }

    /// The values of an access; fails if a gap was written.
    pub(crate) fn check<T: TestNumber>(&self, count: &[u64], memory: &[T]) -> Vec<i64> {
        let (_, places) = self.places(count);
        let mut gap = vec![true; memory.len()];
        for &place in &places {
            gap[place] = false;
        }
        for (value, gap) in memory.iter().zip(gap) {
            assert!(!gap || value.back() == GAP, "a gap was touched");
        }
        places.iter().map(|&place| memory[place].back()).collect()
    }

    pub(crate) fn source<'m, T: TestNumber>(
        &self,
        count: &[u64],
        memory: &'m [T],
    ) -> Source<'m, T> {
        match self {
            Self::Dense => Source::new(memory),
            Self::Permuted(axes) => Source::permuted(memory, axes),
            Self::Mapped(_) => Source::mapped(memory, &self.map(count)),
            Self::Typed(frame) => Source::typed(memory, 0, 1, &framed::<T>(count, *frame)),
            Self::Framed(frame) => {
                let shape: Vec<usize> = count.iter().map(|&n| (n + 2 * frame) as usize).collect();
                let mut view = ndarray::ArrayViewD::from_shape(shape, memory).unwrap();
                view.slice_each_axis_inplace(|axis| inside(axis.len, *frame));
                view.into()
            }
            Self::Turned(axes, backwards) => {
                let shape: Vec<usize> = axes.iter().map(|&axis| count[axis] as usize).collect();
                let view = ndarray::ArrayViewD::from_shape(shape, memory).unwrap();
                let mut view = view.permuted_axes(inverse(axes));
                for (axis, &backwards) in backwards.iter().enumerate() {
                    if backwards {
                        view.invert_axis(ndarray::Axis(axis));
                    }
                }
                view.into()
            }
        }
    }

    pub(crate) fn sink<'m, T: TestNumber>(
        &self,
        count: &[u64],
        memory: &'m mut [T],
    ) -> Sink<'m, T> {
        match self {
            Self::Dense => Sink::new(memory),
            Self::Permuted(axes) => Sink::permuted(memory, axes),
            Self::Mapped(_) => Sink::mapped(memory, &self.map(count)),
            Self::Typed(frame) => Sink::typed(memory, 0, 1, &framed::<T>(count, *frame)),
            Self::Framed(frame) => {
                let shape: Vec<usize> = count.iter().map(|&n| (n + 2 * frame) as usize).collect();
                let mut view = ndarray::ArrayViewMutD::from_shape(shape, memory).unwrap();
                view.slice_each_axis_inplace(|axis| inside(axis.len, *frame));
                view.into()
            }
            Self::Turned(axes, backwards) => {
                let shape: Vec<usize> = axes.iter().map(|&axis| count[axis] as usize).collect();
                let view = ndarray::ArrayViewMutD::from_shape(shape, memory).unwrap();
                let mut view = view.permuted_axes(inverse(axes));
                for (axis, &backwards) in backwards.iter().enumerate() {
                    if backwards {
                        view.invert_axis(ndarray::Axis(axis));
                    }
                }
                view.into()
            }
        }
    }
}

fn inside(len: usize, frame: u64) -> ndarray::Slice {
    ndarray::Slice::from(frame as usize..len - frame as usize)
}

fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; axes.len()];
    for (k, &axis) in axes.iter().enumerate() {
        inverse[axis] = k;
    }
    inverse
}

fn framed<T>(count: &[u64], frame: u64) -> Datatype {
    let element = Datatype::bytes(size_of::<T>() as u64).unwrap();
    if count.is_empty() || count.contains(&0) {
        return Datatype::contiguous(u64::from(count.is_empty()), &element).unwrap();
    }
    let sizes: Vec<u64> = count.iter().map(|&count| count + 2 * frame).collect();
    let starts = vec![frame; count.len()];
    Datatype::subarray(&sizes, count, &starts, Order::C, &element).unwrap()
}
