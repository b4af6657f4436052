//! [`Access`]: one access of one rank, made of a call's arguments: a placement in the file, and the
//! memory that produces or consumes its stream.
//!
//! Arguments are checked here, before any collective step, so that a wrong argument costs no I/O.

use std::sync::Arc;

use ndarray::{ArrayViewD, ArrayViewMutD, Axis};
use striate_datatype::Packer;
use striate_file::Placement;

use crate::ArrayError;
use crate::format::{ByteOrder, Header, Variable};
use crate::memory::{Elements, ElementsMut, ResolvedLayout};
use crate::partition::Hyperslab;
use crate::slab::{CheckedSlab, Direction, Slab, SlabCall};
use crate::stream::{RAW, ReadMemory, ReadStream, RowSink, RowSource, WriteMemory, WriteStream};
use crate::value::{Conversion, Kind, Value};
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
    /// Where each byte of an element in the file is in memory, if not in the same place.
    pub(crate) byte_positions: Option<Arc<[u32]>>,
}

/// Elements of memory and of the stream: single bytes if they are raw.
struct Units {
    conversion: Conversion,
    /// Bytes of an element in memory.
    size: usize,
    /// Elements of the stream for each of the slab.
    each: u64,
}

impl AccessedVariable<'_> {
    fn variable(&self) -> &Variable {
        &self.header.variables[self.index]
    }

    fn begin<T: Value>(
        &self,
        call: SlabCall,
        slab: &Slab,
    ) -> Result<(CheckedSlab, Units), ArrayError> {
        let variable = self.variable();
        let memory = T::KIND;
        let external = match memory {
            Kind::Raw => variable.external,
            _ => self.header.base_type(variable.external),
        };
        if !memory.converts(external) {
            let external = variable.external;
            return Err(ArrayError::Kind { variable: variable.name.clone(), external, memory });
        }
        let checked = slab.check(call, self.header, variable, self.record_size)?;
        if memory == Kind::Raw {
            let size = external.size();
            let units = Units { conversion: RAW, size: size as usize, each: size };
            return Ok((checked, units));
        }
        let format = self.header.format;
        let byte_order =
            if format.is_hdf5() { variable.storage.byte_order } else { ByteOrder::Big };
        let fill = self.fill;
        let conversion = Conversion { memory, external, format, fill, byte_order };
        Ok((checked, Units { conversion, size: size_of::<T>(), each: 1 }))
    }

    /// The number of elements of a slab to be read, per dimension.
    pub(crate) fn count(&self, call: &'static str, slab: &Slab) -> Result<Vec<u64>, ArrayError> {
        Ok(self.checked(call, Direction::Read, slab)?.hyperslab.count)
    }

    /// A slab that was checked against the variable.
    pub(crate) fn checked(
        &self,
        name: &'static str,
        direction: Direction,
        slab: &Slab,
    ) -> Result<CheckedSlab, ArrayError> {
        let call = SlabCall { name, direction, is_placed_later: self.is_placed_later };
        slab.check(call, self.header, self.variable(), self.record_size)
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
        let (checked, units) = self.begin::<T>(call, slab)?;
        let bytes = match from.0 {
            Elements::View(view) => {
                self.check_shape(call, view.shape(), &units, &checked)?;
                WriteMemory::RowSource(Box::new(view))
            }
            Elements::Slice(elements, layout) => {
                let len = self.len_in_memory::<T>(call, &units, elements.len())?;
                let resolved = layout.resolve(&checked.hyperslab.count, units.size, len);
                let bytes: &'m [u8] = bytemuck::cast_slice(elements);
                match resolved.map_err(|reason| self.refuse(call, reason))? {
                    ResolvedLayout::Dense => match self.positions(&units) {
                        None => WriteMemory::Dense(bytes),
                        Some(positions) => {
                            WriteMemory::RowSource(Box::new(ReorderedBytes { bytes, positions }))
                        }
                    },
                    ResolvedLayout::Typed { .. } if self.positions(&units).is_some() => {
                        return Err(self.refuse(call, FOREIGN.into()));
                    }
                    ResolvedLayout::Typed { origin, datatype } => {
                        let packer = Packer::new(&datatype, 1)?;
                        WriteMemory::Typed { bytes, origin, datatype, packer }
                    }
                }
            }
        };
        let memory = WriteStream::new(bytes, units.conversion, checked.elements * units.each);
        Ok(self.access(checked, &units.conversion, memory))
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
        let (checked, units) = self.begin::<T>(call, slab)?;
        let bytes = match to.0 {
            ElementsMut::View(view) => {
                self.check_shape(call, view.shape(), &units, &checked)?;
                ReadMemory::RowSource(Box::new(view))
            }
            ElementsMut::Slice(elements, layout) => {
                let len = self.len_in_memory::<T>(call, &units, elements.len())?;
                let resolved = layout.resolve(&checked.hyperslab.count, units.size, len);
                let bytes: &'m mut [u8] = bytemuck::cast_slice_mut(elements);
                match resolved.map_err(|reason| self.refuse(call, reason))? {
                    ResolvedLayout::Dense => match self.positions(&units) {
                        None => ReadMemory::Dense(bytes),
                        Some(positions) => {
                            ReadMemory::RowSource(Box::new(ReorderedBytes { bytes, positions }))
                        }
                    },
                    ResolvedLayout::Typed { .. } if self.positions(&units).is_some() => {
                        return Err(self.refuse(call, FOREIGN.into()));
                    }
                    ResolvedLayout::Typed { origin, datatype } => {
                        let packer = Packer::new(&datatype, 1)?;
                        ReadMemory::Typed { bytes, origin, datatype, packer }
                    }
                }
            }
        };
        let memory = ReadStream::new(bytes, units.conversion, checked.elements * units.each);
        Ok(self.access(checked, &units.conversion, memory))
    }

    /// Elements in memory of so many values.
    fn len_in_memory<T: Value>(
        &self,
        call: SlabCall,
        units: &Units,
        values: usize,
    ) -> Result<usize, ArrayError> {
        let (bytes, size) = (values * size_of::<T>(), units.size.max(1));
        if bytes.is_multiple_of(size) {
            return Ok(bytes / size);
        }
        let reason = format!("{bytes} bytes are not whole elements of {}", units.size);
        Err(self.refuse(call, reason))
    }

    /// Where bytes of raw elements are, if not where they are in the file.
    fn positions(&self, units: &Units) -> Option<Arc<[u32]>> {
        self.byte_positions.clone().filter(|_| units.each > 1)
    }

    fn check_shape(
        &self,
        call: SlabCall,
        shape: &[usize],
        units: &Units,
        slab: &CheckedSlab,
    ) -> Result<(), ArrayError> {
        if units.conversion.memory == Kind::Raw {
            return Err(self.refuse(call, "a view has single bytes and no whole elements".into()));
        }
        if shape.iter().map(|&len| len as u64).eq(slab.hyperslab.count.iter().copied()) {
            return Ok(());
        }
        let reason = format!("a view of shape {shape:?} for {:?} elements", slab.hyperslab.count);
        Err(self.refuse(call, reason))
    }
}

/// Why raw elements are refused.
const FOREIGN: &str =
    "elements of another byte order than that of the machine must be dense in memory";

/// Dense elements whose bytes are in another order than in the file.
#[derive(Debug)]
struct ReorderedBytes<B> {
    bytes: B,
    positions: Arc<[u32]>,
}

impl<B> ReorderedBytes<B> {
    /// Where a byte of the stream is in memory.
    fn place(&self, position: usize) -> usize {
        let size = self.positions.len();
        position / size * size + self.positions[position % size] as usize
    }
}

impl RowSource for ReorderedBytes<&[u8]> {
    fn fetch(&self, first: u64, packed: &mut [u8]) {
        for (at, byte) in packed.iter_mut().enumerate() {
            *byte = self.bytes[self.place(first as usize + at)];
        }
    }
}

impl RowSink for ReorderedBytes<&mut [u8]> {
    fn store(&mut self, first: u64, packed: &[u8]) {
        for (at, &byte) in packed.iter().enumerate() {
            let place = self.place(first as usize + at);
            self.bytes[place] = byte;
        }
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
