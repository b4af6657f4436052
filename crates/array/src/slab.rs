//! [`Slab`]: a selection of elements of a variable (start, count, stride), and its placement in the
//! file.
//!
//! A slab is checked against the header when a call uses it ([`CheckedSlab`]). Its placement is a
//! datatype with one loop for each dimension; loops over whole dimensions are fused by the normal
//! form.

use striate_datatype::{Datatype, TypeError};
use striate_file::Placement;

use crate::ArrayError;
use crate::format::{Dimension, Header, Variable};
use crate::partition::Hyperslab;
use crate::placement;

/// A selection of elements of a variable: start, count and stride per dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slab {
    bounds: Option<(Vec<u64>, Vec<u64>)>,
    stride: Option<Vec<u64>>,
}

impl Slab {
    /// All elements; of a record variable, those of all records.
    pub const fn all() -> Self {
        Self { bounds: None, stride: None }
    }

    /// `count` elements per dimension from `start` on.
    pub fn new(start: &[u64], count: &[u64]) -> Self {
        Self { bounds: Some((start.to_vec(), count.to_vec())), stride: None }
    }

    /// One element.
    pub fn element(index: &[u64]) -> Self {
        Self::new(index, &vec![1; index.len()])
    }

    /// Takes only every `stride`-th element per dimension; counts do not change. Strides are at
    /// least 1.
    #[must_use]
    pub fn stride(mut self, stride: &[u64]) -> Self {
        self.stride = Some(stride.to_vec());
        self
    }
}

impl From<&Hyperslab> for Slab {
    fn from(hyperslab: &Hyperslab) -> Self {
        Self::new(&hyperslab.start, &hyperslab.count).stride(&hyperslab.stride)
    }
}

/// The direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    /// May add records.
    Write,
}

/// The call that uses a slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabCall {
    pub(crate) name: &'static str,
    pub(crate) direction: Direction,
    /// Whether the placement is found later, as that of a variable that is divided into partitions
    /// or stored in chunks.
    pub(crate) is_placed_later: bool,
}

/// A slab that was checked against its variable.
#[derive(Clone, Debug)]
pub(crate) struct CheckedSlab {
    pub(crate) hyperslab: Hyperslab,
    /// Number of records that it needs.
    pub(crate) records: u64,
    /// Lengths of unlimited dimensions of a netCDF-4 file that it needs, beyond those they have.
    pub(crate) growth: Vec<(u32, u64)>,
    pub(crate) elements: u64,
    /// Where its elements lie in the file; empty if that is found later.
    pub(crate) placement: Placement,
}

impl Slab {
    /// Checks it against the variable, and finds its placement in the file.
    pub(crate) fn check(
        &self,
        call: SlabCall,
        header: &Header,
        variable: &Variable,
        record_size: Option<u64>,
    ) -> Result<CheckedSlab, ArrayError> {
        let refuse = |reason: String| {
            Err(ArrayError::Access { call: call.name, variable: variable.name.clone(), reason })
        };
        let shape = header.shape(variable);
        let (start, count) = match &self.bounds {
            Some(bounds) => bounds.clone(),
            None => (vec![0; shape.len()], shape.clone()),
        };
        let stride = self.stride.clone().unwrap_or_else(|| vec![1; shape.len()]);
        for (what, given) in [("starts", &start), ("counts", &count), ("strides", &stride)] {
            if given.len() != shape.len() {
                let (given, has) = (given.len(), shape.len());
                return refuse(format!("{given} {what} for {has} dimensions"));
            }
        }
        let is_record = header.is_record(variable);
        let mut records = 0;
        let mut growth = Vec::new();
        for (i, &len) in shape.iter().enumerate() {
            if stride[i] == 0 {
                return refuse(format!("the stride of dimension {i} is 0"));
            }
            let end = match count[i].checked_sub(1) {
                None => Some(start[i]),
                Some(last) => last
                    .checked_mul(stride[i])
                    .and_then(|span| span.checked_add(start[i])?.checked_add(1)),
            };
            let writes = call.direction == Direction::Write;
            let dimension = variable.dimensions[i];
            let is_unlimited = header.format.is_hdf5()
                && header.dimensions.get(dimension as usize).is_some_and(Dimension::is_unlimited);
            match end {
                Some(end) if writes && i == 0 && is_record => {
                    records = if count[i] > 0 { end } else { 0 };
                }
                Some(end) if end > len && writes && is_unlimited => growth.push((dimension, end)),
                Some(end) if end <= len => {}
                _ => {
                    let (start, count, stride) = (start[i], count[i], stride[i]);
                    return refuse(format!(
                        "start {start}, count {count}, stride {stride} reach beyond the length \
                         {len} of dimension {i}"
                    ));
                }
            }
        }
        if count.contains(&0) {
            records = 0;
            growth.clear();
        } else if records > header.format.max_records() {
            let format = header.format;
            return refuse(format!("{records} records are more than {format} can count"));
        }
        let elements = if count.contains(&0) {
            Some(0)
        } else {
            count.iter().try_fold(1_u64, |all, &count| all.checked_mul(count))
        };
        let Some(elements) = elements else {
            return refuse(format!("{count:?} elements are more than can be counted"));
        };
        let hyperslab = Hyperslab { start, count, stride };
        let placed = if call.is_placed_later {
            let bytes = elements.checked_mul(variable.external.size());
            match bytes.and_then(|bytes| i64::try_from(bytes).ok()) {
                Some(_) => placement::empty(),
                None => Err(TypeError::Overflow { what: "its size" }),
            }
        } else {
            placement_of(header, variable, record_size, &hyperslab)
        };
        let placement = placed.map_err(|source| {
            let reason = format!("its place in the file cannot be described: {source}");
            ArrayError::Access { call: call.name, variable: variable.name.clone(), reason }
        })?;
        Ok(CheckedSlab { hyperslab, records, growth, elements, placement })
    }
}

/// The placement of a hyperslab of a variable.
pub(crate) fn placement_of(
    header: &Header,
    variable: &Variable,
    record_size: Option<u64>,
    hyperslab: &Hyperslab,
) -> Result<Placement, TypeError> {
    let size = variable.external.size();
    let shape = header.shape(variable);
    let outermost = if header.is_record(variable) { Some(record_size.ok_or(FAR)?) } else { None };
    strided_placement(&shape, size, variable.begin, outermost, hyperslab)
}

/// The placement of a hyperslab of an array of that shape in one piece, from `begin` on.
pub(crate) fn contiguous_placement(
    shape: &[u64],
    size: u64,
    begin: u64,
    hyperslab: &Hyperslab,
) -> Result<Placement, TypeError> {
    strided_placement(shape, size, begin, None, hyperslab)
}

const FAR: TypeError = TypeError::Overflow { what: "an offset in the file" };

/// The same, with a given distance from one index of the first dimension to the next.
fn strided_placement(
    shape: &[u64],
    size: u64,
    begin: u64,
    outermost: Option<u64>,
    hyperslab: &Hyperslab,
) -> Result<Placement, TypeError> {
    let Hyperslab { start, count, stride } = hyperslab;
    if count.contains(&0) {
        let datatype = Datatype::bytes(size)?;
        return Ok(Placement { displacement: begin, datatype, start: 0, len: 0 });
    }
    let mut datatype = Datatype::bytes(size)?;
    let mut displacement = begin;
    // Bytes from one index of the dimension to the next.
    let mut step = size;
    for i in (0..shape.len()).rev() {
        if i == 0 {
            step = outermost.unwrap_or(step);
        }
        let first = start[i].checked_mul(step).ok_or(FAR)?;
        displacement = displacement.checked_add(first).ok_or(FAR)?;
        let distance = stride[i].checked_mul(step).and_then(|n| i64::try_from(n).ok());
        // The stride of a single element has no meaning, and may overflow.
        let distance = if count[i] == 1 { 0 } else { distance.ok_or(FAR)? };
        datatype = Datatype::hvector(count[i], 1, distance, &datatype)?;
        step = step.checked_mul(shape[i].max(1)).ok_or(FAR)?;
    }
    let len = datatype.size();
    Ok(Placement { displacement, datatype, start: 0, len })
}
