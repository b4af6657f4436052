//! [`Access`]: one access of one rank, made of a call's arguments: a placement in the file, and the
//! memory that produces or consumes its stream.
//!
//! Arguments are checked here, before any collective step, so that a wrong argument costs no I/O.

use ndarray::{ArrayViewD, ArrayViewMutD, Axis};
use striate_datatype::Packer;
use striate_file::Placement;

use crate::ArrayError;
use crate::format::{ByteOrder, Header, Variable};
use crate::memory::{Elements, ElementsMut, ResolvedLayout};
use crate::partition::Hyperslab;
use crate::slab::{CheckedSlab, Direction, Slab, SlabCall};
use crate::stream::{ReadMemory, ReadStream, RowSink, RowSource, WriteMemory, WriteStream};
use crate::value::{Conversion, Value};
use crate::{Sink, Source};

/// Whether other ranks take part in an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoMode {
    Independent,
    Collective,
}

/// One access of one rank.
#[derive(Debug)]
pub(crate) struct Access<M> {
    pub(crate) variable: usize,
    pub(crate) placement: Placement,
    /// Which elements, if their placement is found later: for a variable that is divided into
    /// partitions or stored in chunks.
    pub(crate) hyperslab: Option<Hyperslab>,
    /// Number of records that it needs.
    pub(crate) records: u64,
    /// Lengths of unlimited dimensions of a netCDF-4 file that it needs, beyond those they have.
    pub(crate) growth: Vec<(u32, u64)>,
    /// Whether a value may turn out to be out of range of its type.
    pub(crate) may_be_out_of_range: bool,
    pub(crate) memory: M,
}

impl<M> Access<M> {
    /// The same access with other memory.
    pub(crate) fn try_map_memory<N, E>(
        self,
        map: impl FnOnce(M) -> Result<N, E>,
    ) -> Result<Access<N>, E> {
        let Self { variable, placement, hyperslab, records, growth, may_be_out_of_range, memory } =
            self;
        let memory = map(memory)?;
        Ok(Access { variable, placement, hyperslab, records, growth, may_be_out_of_range, memory })
    }
}

/// The variable of a call.
pub(crate) struct AccessedVariable<'h> {
    pub(crate) header: &'h Header,
    pub(crate) record_size: Option<u64>,
    pub(crate) index: usize,
    pub(crate) fill: [u8; 8],
    /// Whether it is divided into partitions, or stored in chunks.
    pub(crate) is_placed_later: bool,
}

impl AccessedVariable<'_> {
    fn variable(&self) -> &Variable {
        &self.header.variables[self.index]
    }

    fn begin<T: Value>(
        &self,
        call: SlabCall,
        slab: &Slab,
    ) -> Result<(CheckedSlab, Conversion), ArrayError> {
        let variable = self.variable();
        let (memory, external) = (T::KIND, variable.external);
        if !memory.converts(external) {
            return Err(ArrayError::Kind { variable: variable.name.clone(), external, memory });
        }
        let checked = slab.check(call, self.header, variable, self.record_size)?;
        let format = self.header.format;
        let byte_order =
            if format.is_hdf5() { variable.storage.byte_order } else { ByteOrder::Big };
        let fill = self.fill;
        Ok((checked, Conversion { memory, external, format, fill, byte_order }))
    }

    /// The number of elements of a slab to be read, per dimension.
    pub(crate) fn count(&self, call: &'static str, slab: &Slab) -> Result<Vec<u64>, ArrayError> {
        let call = SlabCall {
            name: call,
            direction: Direction::Read,
            is_placed_later: self.is_placed_later,
        };
        Ok(slab.check(call, self.header, self.variable(), self.record_size)?.hyperslab.count)
    }

    fn refuse(&self, call: SlabCall, reason: String) -> ArrayError {
        ArrayError::Access { call: call.name, variable: self.variable().name.clone(), reason }
    }

    fn access<M>(&self, slab: CheckedSlab, conversion: &Conversion, memory: M) -> Access<M> {
        Access {
            variable: self.index,
            placement: slab.placement,
            hyperslab: self.is_placed_later.then_some(slab.hyperslab),
            records: slab.records,
            growth: slab.growth,
            may_be_out_of_range: !conversion.memory.is_same(conversion.external),
            memory,
        }
    }

    /// A write.
    pub(crate) fn put<'m, T: Value>(
        &self,
        call: &'static str,
        slab: &Slab,
        from: Source<'m, T>,
    ) -> Result<Access<WriteStream<'m>>, ArrayError> {
        let call = SlabCall {
            name: call,
            direction: Direction::Write,
            is_placed_later: self.is_placed_later,
        };
        let (checked, conversion) = self.begin::<T>(call, slab)?;
        let size = size_of::<T>();
        let bytes = match from.0 {
            Elements::View(view) => {
                self.check_shape(call, view.shape(), &checked)?;
                WriteMemory::RowSource(Box::new(view))
            }
            Elements::Slice(elements, layout) => {
                let resolved = layout.resolve(&checked.hyperslab.count, size, elements.len());
                let bytes: &'m [u8] = bytemuck::cast_slice(elements);
                match resolved.map_err(|reason| self.refuse(call, reason))? {
                    ResolvedLayout::Dense => WriteMemory::Dense(bytes),
                    ResolvedLayout::Typed { origin, datatype } => {
                        let packer = Packer::new(&datatype, 1)?;
                        WriteMemory::Typed { bytes, origin, datatype, packer }
                    }
                }
            }
        };
        let memory = WriteStream::new(bytes, conversion, checked.elements);
        Ok(self.access(checked, &conversion, memory))
    }

    /// A read.
    pub(crate) fn get<'m, T: Value>(
        &self,
        call: &'static str,
        slab: &Slab,
        to: Sink<'m, T>,
    ) -> Result<Access<ReadStream<'m>>, ArrayError> {
        let call = SlabCall {
            name: call,
            direction: Direction::Read,
            is_placed_later: self.is_placed_later,
        };
        let (checked, conversion) = self.begin::<T>(call, slab)?;
        let size = size_of::<T>();
        let bytes = match to.0 {
            ElementsMut::View(view) => {
                self.check_shape(call, view.shape(), &checked)?;
                ReadMemory::RowSource(Box::new(view))
            }
            ElementsMut::Slice(elements, layout) => {
                let resolved = layout.resolve(&checked.hyperslab.count, size, elements.len());
                let bytes: &'m mut [u8] = bytemuck::cast_slice_mut(elements);
                match resolved.map_err(|reason| self.refuse(call, reason))? {
                    ResolvedLayout::Dense => ReadMemory::Dense(bytes),
                    ResolvedLayout::Typed { origin, datatype } => {
                        let packer = Packer::new(&datatype, 1)?;
                        ReadMemory::Typed { bytes, origin, datatype, packer }
                    }
                }
            }
        };
        let memory = ReadStream::new(bytes, conversion, checked.elements);
        Ok(self.access(checked, &conversion, memory))
    }

    fn check_shape(
        &self,
        call: SlabCall,
        shape: &[usize],
        slab: &CheckedSlab,
    ) -> Result<(), ArrayError> {
        if shape.iter().map(|&len| len as u64).eq(slab.hyperslab.count.iter().copied()) {
            return Ok(());
        }
        let reason = format!("a view of shape {shape:?} for {:?} elements", slab.hyperslab.count);
        Err(self.refuse(call, reason))
    }
}

/// Calls `visit` for each row with elements from number `first` on: the index of the row in the
/// outer dimensions, the range of columns, and how many elements were visited before.
fn walk_rows(
    shape: &[usize],
    first: u64,
    count: usize,
    mut visit: impl FnMut(&[usize], std::ops::Range<usize>, usize),
) {
    let (row, outer) = shape.split_last().map_or((1, shape), |(&row, outer)| (row.max(1), outer));
    let mut done = 0;
    while done < count {
        let element = first as usize + done;
        let (mut number, column) = (element / row, element % row);
        let len = (row - column).min(count - done);
        let mut index = vec![0; outer.len()];
        for (index, &len) in index.iter_mut().zip(outer).rev() {
            *index = number % len;
            number /= len;
        }
        visit(&index, column..column + len, done);
        done += len;
    }
}

impl<T: Value> RowSource for ArrayViewD<'_, T> {
    fn fetch(&self, first: u64, packed: &mut [u8]) {
        let size = size_of::<T>();
        walk_rows(self.shape(), first, packed.len() / size, |index, columns, done| {
            let mut row = self.view();
            for &i in index {
                row.index_axis_inplace(Axis(0), i);
            }
            let packed = packed[done * size..].chunks_exact_mut(size);
            for (value, packed) in row.iter().skip(columns.start).take(columns.len()).zip(packed) {
                packed.copy_from_slice(bytemuck::bytes_of(value));
            }
        });
    }
}

impl<T: Value> RowSink for ArrayViewMutD<'_, T> {
    fn store(&mut self, first: u64, packed: &[u8]) {
        let size = size_of::<T>();
        let shape = self.shape().to_vec();
        walk_rows(&shape, first, packed.len() / size, |index, columns, done| {
            let mut row = self.view_mut();
            for &i in index {
                row.index_axis_inplace(Axis(0), i);
            }
            let values = packed[done * size..].chunks_exact(size);
            let elements = row.iter_mut().skip(columns.start).take(columns.len());
            for (element, value) in elements.zip(values) {
                *element = bytemuck::pod_read_unaligned(value);
            }
        });
    }
}
