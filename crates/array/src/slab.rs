//! [`Slab`]: which elements of a variable; and where they lie in the file, as a datatype.

use striate_datatype::{Datatype, TypeError};
use striate_file::Placement;

use crate::ArrayError;
use crate::format::{Header, Variable};
use crate::partition::Extent;
use crate::pending::nowhere;

/// Which elements of a variable: start, count and stride per dimension.
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

    /// Only every `stride`-th element per dimension; counts stay what they are. Strides are at least 1.
    #[must_use]
    pub fn stride(mut self, stride: &[u64]) -> Self {
        self.stride = Some(stride.to_vec());
        self
    }
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// Whether it may make new records.
    pub(crate) write: bool,
    /// Whether the variable's data is in partitions.
    pub(crate) divided: bool,
}

/// A slab of a variable, checked.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) extent: Extent,
    /// Records there must be for it.
    pub(crate) records: u64,
    pub(crate) elements: u64,
    /// Where its elements lie; nowhere if they are in partitions.
    pub(crate) place: Placement,
}

impl Slab {
    /// Checks it against the variable, and finds its place in the file.
    pub(crate) fn of(
        &self,
        call: Call,
        header: &Header,
        variable: &Variable,
        record_size: Option<u64>,
    ) -> Result<Region, ArrayError> {
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
            let grows = i == 0 && is_record && call.write;
            match end {
                Some(end) if grows => records = if count[i] > 0 { end } else { 0 },
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
        let extent = Extent { start, count, stride };
        let placed = if call.divided {
            let bytes = elements.checked_mul(variable.external.size());
            match bytes.and_then(|bytes| i64::try_from(bytes).ok()) {
                Some(_) => nowhere(),
                None => Err(TypeError::Overflow { what: "its size" }),
            }
        } else {
            place(header, variable, record_size, &extent)
        };
        let place = placed.map_err(|source| {
            let reason = format!("its place in the file cannot be described: {source}");
            ArrayError::Access { call: call.name, variable: variable.name.clone(), reason }
        })?;
        Ok(Region { extent, records, elements, place })
    }
}

/// Where elements of a variable lie: loops over its dimensions, whole ones fused by normalisation.
pub(crate) fn place(
    header: &Header,
    variable: &Variable,
    record_size: Option<u64>,
    extent: &Extent,
) -> Result<Placement, TypeError> {
    let far = || TypeError::Overflow { what: "an offset in the file" };
    let size = variable.external.size();
    let Extent { start, count, stride } = extent;
    if count.contains(&0) {
        let datatype = Datatype::bytes(size)?;
        return Ok(Placement { displacement: variable.begin, datatype, start: 0, len: 0 });
    }
    let shape = header.shape(variable);
    let is_record = header.is_record(variable);
    let mut datatype = Datatype::bytes(size)?;
    let mut displacement = variable.begin;
    // Bytes from one index to the next.
    let mut step = size;
    for i in (0..shape.len()).rev() {
        if i == 0 && is_record {
            step = record_size.ok_or_else(far)?;
        }
        let first = start[i].checked_mul(step).ok_or_else(far)?;
        displacement = displacement.checked_add(first).ok_or_else(far)?;
        let apart = stride[i].checked_mul(step).and_then(|n| i64::try_from(n).ok());
        // The distance of a single element does not matter, and may be anything.
        let apart = if count[i] == 1 { 0 } else { apart.ok_or_else(far)? };
        datatype = Datatype::hvector(count[i], 1, apart, &datatype)?;
        step = step.checked_mul(shape[i].max(1)).ok_or_else(far)?;
    }
    let len = datatype.size();
    Ok(Placement { displacement, datatype, start: 0, len })
}
