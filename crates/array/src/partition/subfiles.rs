//! Sub-files of PnetCDF (its hint `nc_num_subfiles`), opened read-only as one dataset.
//!
//! PnetCDF's sub-filing also follows \[SON\]: a master in which divided variables are scalars, and
//! files `<master>.subfile_<k>.nc` with a part of each. The ranges are read from attributes of the
//! master, not from those of the sub-files: PnetCDF writes the ends of the latter as 0 and may
//! rename their dimensions. It stores the number of records of divided variables nowhere, so the
//! lengths of the sub-files determine it. If a program uses calls that sub-filing does not support,
//! PnetCDF leaves sub-files without data and reports no error. Since data that was never written
//! cannot be distinguished from data that was lost, a sub-file that is too short is an error.
//!
//! They are never written, because PnetCDF could not detect the change.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use striate_comm::{Comm, CommExt, Reduction};
use striate_file::File;

use super::headers::{
    self, PartitionSize, PartitionTable, dimensions_of_scalar, find, number, numbers_of,
    restore_variables,
};
use super::open::{check_length, same_shape};
use super::scheme::{Division, PartitionScheme};
use super::{OpenPartition, Partitioned};
use crate::file_state::FileState;
use crate::format::{Header, Values, Variable};
use crate::header_reading::{UnfinishedFile, read_header};
use crate::{ArrayError, Dataset, OpenMode, Options};

/// Prefix of its attributes.
const PREFIX: &str = "_PnetCDF_SubFiling.";
/// Set by programs: the id of the dimension along which a variable is to be divided.
const PAR_DIM_ID: &str = "_PnetCDF_SubFiling.par_dim_id";
const COUNT: &str = "_PnetCDF_SubFiling.num_subfiles";
const RANK: &str = "_PnetCDF_SubFiling.ndims_org";
const DIMENSIONS: &str = "_PnetCDF_SubFiling.dimids_org";
const DIMENSION: &str = "_PnetCDF_SubFiling.par_dim_index";
const INDEX: &str = "_PnetCDF_SubFiling.subfile_index";

/// Sub-files of a dataset at most.
const MAX_SUBFILES: u64 = 1 << 16;

/// The file name of sub-file `k` of a master.
pub(super) fn name(master: &str, k: usize) -> String {
    format!("{master}.subfile_{k}.nc")
}

/// The number of sub-files of a master; `None` for the header of a plain file.
pub(super) fn count(header: &Header) -> Option<u64> {
    let count =
        number(&header.attributes, COUNT).filter(|count| (2..=MAX_SUBFILES).contains(count))?;
    let is_divided = |variable: &Variable| find(&variable.attributes, DIMENSIONS).is_some();
    header.variables.iter().any(is_divided).then_some(count)
}

/// The number of a sub-file with that header; `None` for the header of another file.
pub(super) fn index_of(header: &Header) -> Option<u64> {
    header.variables.iter().find_map(|variable| number(&variable.attributes, INDEX))
}

/// The logical header of a master, its scheme and its table; `None` for the header of a plain file.
/// The error is a reason.
pub(super) fn logical_of(
    master: &Header,
    own_name: &str,
) -> Result<Option<(Header, PartitionScheme, PartitionTable)>, String> {
    let Some(count) = count(master) else { return Ok(None) };
    let mut logical = master.clone();
    logical.attributes.retain(|attribute| !is_own(&attribute.name));
    let division_of = |variable: &Variable| division_of(master, variable, count);
    let variables = restore_variables(&mut logical, division_of, is_own)?;
    for variable in &mut logical.variables {
        variable.attributes.retain(|attribute| !is_own(&attribute.name));
    }
    let count = count as usize;
    let table = PartitionTable {
        probe: None,
        id: String::new(),
        generation: 0,
        master: own_name.into(),
        files: (0..count).map(|k| name(own_name, k)).collect(),
        // Known when the sub-files are open.
        sizes: vec![PartitionSize::default(); count],
    };
    Ok(Some((logical, PartitionScheme { count, variables, coordinates: Vec::new() }, table)))
}

/// Whether the name of an attribute is reserved by PnetCDF.
fn is_own(name: &str) -> bool {
    name.starts_with(PREFIX) && name != PAR_DIM_ID
}

/// The division of a variable of a master. The error is the attribute at fault.
fn division_of(
    master: &Header,
    variable: &Variable,
    count: u64,
) -> Result<Option<(Vec<u32>, Division)>, String> {
    let attributes = &variable.attributes;
    let Some(ids) = find(attributes, DIMENSIONS) else { return Ok(None) };
    let dimensions = dimensions_of_scalar(master, variable, ids).ok_or(DIMENSIONS)?;
    let is_unlimited = |&id: &u32| master.dimensions[id as usize].is_unlimited();
    if number(attributes, RANK) != Some(dimensions.len() as u64) {
        return Err(RANK.into());
    }
    if number(attributes, COUNT) != Some(count) {
        return Err(COUNT.into());
    }
    let dimension = number(attributes, DIMENSION).and_then(|n| usize::try_from(n).ok());
    let id = dimension.and_then(|n| dimensions.get(n)).filter(|id| !is_unlimited(id));
    let (Some(dimension), Some(&id)) = (dimension, id) else { return Err(DIMENSION.into()) };
    let divided = &master.dimensions[id as usize];
    let ranges = stated_ranges(variable, &divided.name, count)?;
    let whole = ranges
        .iter()
        .try_fold(0, |next, range| (range.start == next && range.end > next).then_some(range.end));
    if whole != Some(divided.len) {
        return Err(range_of(&divided.name, 0));
    }
    Ok(Some((dimensions, Division { dimension, ranges })))
}

fn range_of(dimension: &str, k: u64) -> String {
    format!("{PREFIX}range({dimension}).subfile.{k}")
}

/// The ranges in the attributes of a variable.
fn stated_ranges(
    variable: &Variable,
    dimension: &str,
    count: u64,
) -> Result<Vec<Range<u64>>, String> {
    let attributes = variable.attributes.iter();
    let known: HashMap<&str, &Values> =
        attributes.map(|attribute| (attribute.name.as_str(), &attribute.values)).collect();
    let range = |k| {
        let name = range_of(dimension, k);
        match known.get(name.as_str()).and_then(|&values| numbers_of(values)).as_deref() {
            Some(&[first, last]) => Ok(first..last.saturating_add(1)),
            _ => Err(name),
        }
    };
    (0..count).map(range).collect()
}

impl Partitioned {
    /// An opened sub-file, after checking it against the master. Collective in the group.
    pub(super) fn checked_subfile(
        &self,
        k: usize,
        mut file: File,
        path: &Path,
        master: &FileState,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        let mut header = read_header(&mut file, UnfinishedFile::Refuse)?;
        let file_len = file.size();
        let complete = file_len.as_ref().map_or(0, |&len| header.records_in(len));
        header.records = header.records.max(complete);
        let state = FileState::new(file, path.into(), header.clone(), options, OpenMode::ReadOnly)?;
        let fault = |reason: String| {
            Err(ArrayError::Partition { file: path.display().to_string(), reason })
        };
        let identity = self.table.identity_of(k, None);
        let expected = headers::partition(&self.logical, &self.scheme, k, &identity)?;
        let end = end_of_data(&header);
        header.records = master.header.records;
        let checked = match index_of(&header) {
            None => fault("it is no sub-file".into()),
            Some(own) if own != k as u64 => fault(format!("it is sub-file {own}, not {k}")),
            Some(_) if !same_shape(&header, &expected) => {
                fault("its variables are not those that the master states".into())
            }
            Some(_) => check_length(path, file_len, end, |len, end| {
                format!(
                    "it has {len} bytes of {end}: not all of its data was written, or it was lost"
                )
            }),
        };
        state.agree(checked)?;
        Ok(Dataset::new(state, options.clone()))
    }

    /// Determines the number of records, which the master may not have. Returns which of this
    /// rank's sub-files have fewer. Collective.
    pub(super) fn count_records(
        &self,
        comm: &dyn Comm,
        in_master: u64,
    ) -> Result<(u64, Vec<(usize, String)>), ArrayError> {
        let stated = |part: &OpenPartition| part.data.state.stated_records;
        let own = self.own.iter().map(stated).max().unwrap_or(0).max(in_master);
        let records = comm.reduce_u64(Reduction::Max, own)?;
        let grows = |part: &&OpenPartition| part.data.state.header.records_begin().is_some();
        let fewer = self.own.iter().filter(grows).filter(|part| stated(part) < records);
        let problem = |part: &OpenPartition| {
            let has = stated(part);
            (part.index, format!("it has {has} records, others have {records}"))
        };
        Ok((records, fewer.map(problem).collect()))
    }
}

/// The end of the last value; PnetCDF does not write the padding that follows it.
fn end_of_data(header: &Header) -> Option<u64> {
    let mut end = header.encoded_len();
    for variable in &header.variables {
        let last = match (header.is_record(variable), header.records.checked_sub(1)) {
            (false, _) => 0,
            (true, Some(last)) => header.record_size()?.checked_mul(last)?,
            (true, None) => continue,
        };
        let size = header.slab_size(variable)?;
        end = end.max(variable.begin.checked_add(last)?.checked_add(size)?);
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::{Attribute, Dimension, Format, Type};

    fn attribute(name: &str, numbers: &[i32]) -> Attribute {
        Attribute { name: name.into(), values: Values::Int(numbers.to_vec()) }
    }

    /// A master with one variable of two dimensions, as PnetCDF writes it.
    fn master(len: u64, count: u64, position: usize) -> (Header, Vec<Range<u64>>) {
        let mut header = Header::new(Format::Cdf2);
        for (name, len) in [("x", 3), ("y", len)] {
            header.dimensions.push(Dimension::classic(name, len));
        }
        let dimensions = if position == 0 { [1, 0] } else { [0, 1] };
        // The ranges that PnetCDF chooses.
        let each = len as f64 / count as f64;
        let cut = |k: u64| (each * k as f64).ceil() as u64;
        let ranges: Vec<_> = (0..count).map(|k| cut(k)..cut(k + 1).min(len)).collect();
        let mut attributes = vec![
            attribute("units", &[1]),
            attribute(PAR_DIM_ID, &[1]),
            attribute(DIMENSION, &[position as i32]),
            attribute(RANK, &[2]),
            attribute(DIMENSIONS, &dimensions),
            attribute(COUNT, &[count as i32]),
        ];
        for (k, range) in (0..).zip(&ranges) {
            let ends = [range.start as i32, range.end as i32 - 1];
            attributes.push(attribute(&range_of("y", k), &ends));
            attributes.push(attribute(&range_of("x", k), &[0, 2]));
        }
        header.variables.push(Variable {
            attributes,
            stated_size: 4,
            begin: 1000,
            ..Variable::new("v", Type::Float, Vec::new())
        });
        header.attributes = vec![attribute("title", &[7]), attribute(COUNT, &[count as i32])];
        (header, ranges)
    }

    proptest! {
        #[test]
        fn masters_of_pnetcdf_are_decoded(
            count in 2u64..9, more in 0u64..50, position in 0usize..2,
        ) {
            let (header, ranges) = master(count + more, count, position);
            let (logical, scheme, table) = logical_of(&header, "a.nc").unwrap().unwrap();
            let own = &logical.variables[0];
            prop_assert_eq!(&own.dimensions, if position == 0 { &[1, 0] } else { &[0, 1] });
            let names: Vec<_> = own.attributes.iter().map(|it| it.name.as_str()).collect();
            prop_assert_eq!(names, ["units", PAR_DIM_ID]);
            prop_assert_eq!(logical.attributes.len(), 1);
            let expected = Division { dimension: position, ranges };
            prop_assert_eq!(&scheme.variables, &[Some(expected)]);
            prop_assert_eq!(table.files.last().unwrap(), &name("a.nc", count as usize - 1));
        }

        #[test]
        fn damaged_attributes_are_refused_or_harmless(
            which in any::<prop::sample::Index>(),
            numbers in proptest::collection::vec(-3i32..20, 0..4),
        ) {
            let (mut header, _) = master(11, 3, 1);
            let list = &mut header.variables[0].attributes;
            let which = which.index(list.len());
            list[which].values = Values::Int(numbers);
            // The damage is refused, or the ranges still have no gaps.
            if let Ok(Some((logical, scheme, _))) = logical_of(&header, "a.nc") {
                let division = scheme.variables[0].clone().unwrap();
                let id = logical.variables[0].dimensions[division.dimension] as usize;
                let mut next = 0;
                for range in &division.ranges {
                    prop_assert!(range.start == next && range.end > next);
                    next = range.end;
                }
                prop_assert_eq!((division.ranges.len(), next), (3, logical.dimensions[id].len));
            }
        }
    }

    #[test]
    fn plain_files_have_no_subfiles() {
        let (mut header, _) = master(6, 2, 0);
        header.attributes.clear();
        assert!(logical_of(&header, "a.nc").unwrap().is_none());
        // No variable is divided.
        let (mut header, _) = master(6, 2, 0);
        header.variables.clear();
        assert!(logical_of(&header, "a.nc").unwrap().is_none());
    }
}
