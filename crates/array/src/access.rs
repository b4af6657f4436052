//! From a call's arguments to an access: a place in the file, and memory that makes or takes its stream.

use ndarray::{ArrayViewD, ArrayViewMutD, Axis};
use striate_datatype::Packer;
use striate_file::Placement;

use crate::ArrayError;
use crate::format::{Header, Variable};
use crate::memory::{Elements, ElementsMut, Lie};
use crate::partition::Extent;
use crate::slab::{Call, Region, Slab};
use crate::stream::{Bytes, BytesMut, Incoming, Outgoing, Rows, RowsMut};
use crate::value::{Conversion, Value};
use crate::{Sink, Source};

/// One access of one rank.
#[derive(Debug)]
pub(crate) struct Access<M> {
    pub(crate) variable: usize,
    pub(crate) place: Placement,
    /// Which elements, of a variable whose data is in partitions.
    pub(crate) extent: Option<Extent>,
    /// Records there must be.
    pub(crate) records: u64,
    /// Whether a value may turn out not to fit.
    pub(crate) may_miss: bool,
    pub(crate) memory: M,
}

/// What a variable is for a call.
pub(crate) struct Subject<'h> {
    pub(crate) header: &'h Header,
    pub(crate) record_size: Option<u64>,
    pub(crate) index: usize,
    pub(crate) fill: [u8; 8],
    /// Whether its data is in partitions.
    pub(crate) divided: bool,
}

impl Subject<'_> {
    fn variable(&self) -> &Variable {
        &self.header.variables[self.index]
    }

    fn begin<T: Value>(&self, call: Call, slab: &Slab) -> Result<(Region, Conversion), ArrayError> {
        let variable = self.variable();
        let (memory, external) = (T::KIND, variable.external);
        if !memory.converts(external) {
            return Err(ArrayError::Kind { variable: variable.name.clone(), external, memory });
        }
        let region = slab.of(call, self.header, variable, self.record_size)?;
        let format = self.header.format;
        Ok((region, Conversion { memory, external, format, fill: self.fill }))
    }

    /// How many elements a slab to be read has in each dimension.
    pub(crate) fn count(&self, call: &'static str, slab: &Slab) -> Result<Vec<u64>, ArrayError> {
        let call = Call { name: call, write: false, divided: self.divided };
        Ok(slab.of(call, self.header, self.variable(), self.record_size)?.extent.count)
    }

    fn refuse(&self, call: Call, reason: String) -> ArrayError {
        ArrayError::Access { call: call.name, variable: self.variable().name.clone(), reason }
    }

    fn access<M>(&self, region: Region, conversion: &Conversion, memory: M) -> Access<M> {
        Access {
            variable: self.index,
            place: region.place,
            extent: self.divided.then_some(region.extent),
            records: region.records,
            may_miss: !conversion.memory.is_same(conversion.external),
            memory,
        }
    }

    /// An access that writes.
    pub(crate) fn put<'m, T: Value>(
        &self,
        call: &'static str,
        slab: &Slab,
        from: Source<'m, T>,
    ) -> Result<Access<Outgoing<'m>>, ArrayError> {
        let call = Call { name: call, write: true, divided: self.divided };
        let (region, conversion) = self.begin::<T>(call, slab)?;
        let size = size_of::<T>();
        let bytes = match from.0 {
            Elements::View(view) => {
                self.check_shape(call, view.shape(), &region)?;
                Bytes::Rows(Box::new(view))
            }
            Elements::Slice(elements, lay) => {
                let lie = lay.of(&region.extent.count, size, elements.len());
                let bytes: &'m [u8] = bytemuck::cast_slice(elements);
                match lie.map_err(|reason| self.refuse(call, reason))? {
                    Lie::Dense => Bytes::Dense(bytes),
                    Lie::Typed { origin, datatype } => {
                        Bytes::Typed { bytes, origin, packer: Packer::new(&datatype, 1)? }
                    }
                }
            }
        };
        let memory = Outgoing::new(bytes, conversion, region.elements);
        Ok(self.access(region, &conversion, memory))
    }

    /// An access that reads.
    pub(crate) fn get<'m, T: Value>(
        &self,
        call: &'static str,
        slab: &Slab,
        to: Sink<'m, T>,
    ) -> Result<Access<Incoming<'m>>, ArrayError> {
        let call = Call { name: call, write: false, divided: self.divided };
        let (region, conversion) = self.begin::<T>(call, slab)?;
        let size = size_of::<T>();
        let bytes = match to.0 {
            ElementsMut::View(view) => {
                self.check_shape(call, view.shape(), &region)?;
                BytesMut::Rows(Box::new(view))
            }
            ElementsMut::Slice(elements, lay) => {
                let lie = lay.of(&region.extent.count, size, elements.len());
                let bytes: &'m mut [u8] = bytemuck::cast_slice_mut(elements);
                match lie.map_err(|reason| self.refuse(call, reason))? {
                    Lie::Dense => BytesMut::Dense(bytes),
                    Lie::Typed { origin, datatype } => {
                        BytesMut::Typed { bytes, origin, packer: Packer::new(&datatype, 1)? }
                    }
                }
            }
        };
        let memory = Incoming::new(bytes, conversion, region.elements);
        Ok(self.access(region, &conversion, memory))
    }

    fn check_shape(&self, call: Call, shape: &[usize], region: &Region) -> Result<(), ArrayError> {
        if shape.iter().map(|&len| len as u64).eq(region.extent.count.iter().copied()) {
            return Ok(());
        }
        let reason = format!("a view of shape {shape:?} for {:?} elements", region.extent.count);
        Err(self.refuse(call, reason))
    }
}

/// The rows that elements from `first` on lie in: the index of each in the outer dimensions, from where
/// in it, and how many.
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

impl<T: Value> Rows for ArrayViewD<'_, T> {
    fn fetch(&self, first: u64, packed: &mut [u8]) {
        let size = size_of::<T>();
        walk_rows(self.shape(), first, packed.len() / size, |index, columns, done| {
            let mut row = self.view();
            for &i in index {
                row.index_axis_inplace(Axis(0), i);
            }
            let room = packed[done * size..].chunks_exact_mut(size);
            for (value, room) in row.iter().skip(columns.start).take(columns.len()).zip(room) {
                room.copy_from_slice(bytemuck::bytes_of(value));
            }
        });
    }
}

impl<T: Value> RowsMut for ArrayViewMutD<'_, T> {
    fn store(&mut self, first: u64, packed: &[u8]) {
        let size = size_of::<T>();
        let shape = self.shape().to_vec();
        walk_rows(&shape, first, packed.len() / size, |index, columns, done| {
            let mut row = self.view_mut();
            for &i in index {
                row.index_axis_inplace(Axis(0), i);
            }
            let values = packed[done * size..].chunks_exact(size);
            let room = row.iter_mut().skip(columns.start).take(columns.len());
            for (room, value) in room.zip(values) {
                *room = bytemuck::pod_read_unaligned(value);
            }
        });
    }
}
