//! Datasets that PnetCDF has divided into sub-files (its hint `nc_num_subfiles`): they are read as one.
//!
//! Such a dataset is \[SON\]'s, too: a master in which divided variables are scalars, and files
//! `<master>.subfile_<k>.nc` with a part of each. Attributes of the master say what is where. Those of
//! the sub-files are not asked: PnetCDF writes the ends of their ranges as 0 and renames their
//! dimensions when it likes. It does not count records of divided variables anywhere, so the lengths of
//! the sub-files tell how many there are. And it leaves sub-files without data, and without a word, if a
//! program uses calls that it does not support with them: what is shorter than it should be is an error,
//! because what was never written cannot be told from what was lost.
//!
//! Nothing is written: a program with PnetCDF could not tell what became of its files.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use striate_comm::{Comm, CommExt, Reduction};
use striate_file::File;

use super::headers::{self, PartTies, Ties, find, number, numbers_of};
use super::open::same_shape;
use super::scheme::{Along, Scheme};
use super::{Part, Parted};
use crate::format::{Header, Values, Variable};
use crate::state::{State, read_header};
use crate::{ArrayError, Dataset, Options};

/// What all of its attributes begin with.
const PREFIX: &str = "_PnetCDF_SubFiling.";
/// The one that programs set: the id of the dimension along which a variable is to be divided.
const ASKED: &str = "_PnetCDF_SubFiling.par_dim_id";
const COUNT: &str = "_PnetCDF_SubFiling.num_subfiles";
const RANK: &str = "_PnetCDF_SubFiling.ndims_org";
const DIMENSIONS: &str = "_PnetCDF_SubFiling.dimids_org";
const DIMENSION: &str = "_PnetCDF_SubFiling.par_dim_index";
const INDEX: &str = "_PnetCDF_SubFiling.subfile_index";

/// More sub-files than this are no sub-files.
const MOST: u64 = 1 << 16;

/// The name of a sub-file, beside a master of that name.
pub(super) fn name(master: &str, k: usize) -> String {
    format!("{master}.subfile_{k}.nc")
}

/// How many sub-files a master has; `None` if it is a plain file's header.
pub(super) fn count(header: &Header) -> Option<u64> {
    let count = number(&header.attributes, COUNT).filter(|count| (2..=MOST).contains(count))?;
    let is_divided = |variable: &Variable| find(&variable.attributes, DIMENSIONS).is_some();
    header.variables.iter().any(is_divided).then_some(count)
}

/// The number of a sub-file of that header; `None` if it is another file's.
pub(super) fn index_of(header: &Header) -> Option<u64> {
    header.variables.iter().find_map(|variable| number(&variable.attributes, INDEX))
}

/// What a program sees of a master, and how it is divided; `None` if it is a plain file's header. The
/// error is a reason.
pub(super) fn logical_of(
    master: &Header,
    own_name: &str,
) -> Result<Option<(Header, Scheme, Ties)>, String> {
    let Some(count) = count(master) else { return Ok(None) };
    let mut logical = master.clone();
    logical.attributes.retain(|attribute| !is_own(&attribute.name));
    let mut variables = Vec::new();
    for variable in &mut logical.variables {
        let along = along_of(master, variable, count).map_err(|attribute| {
            format!(
                "attribute '{attribute}' of variable '{}' is not as it should be",
                variable.name
            )
        })?;
        variable.attributes.retain(|attribute| !is_own(&attribute.name));
        if let Some((dimensions, _)) = &along {
            variable.dimensions.clone_from(dimensions);
            (variable.begin, variable.stated_size) = (0, 0);
        }
        variables.push(along.map(|(_, along)| along));
    }
    let count = count as usize;
    let ties = Ties {
        probe: None,
        id: String::new(),
        generation: 0,
        master: own_name.into(),
        files: (0..count).map(|k| name(own_name, k)).collect(),
        // They are known when the sub-files are open.
        sizes: vec![[0, 0]; count],
    };
    Ok(Some((logical, Scheme { count, variables, coordinates: Vec::new() }, ties)))
}

/// Whether PnetCDF has an attribute of that name for itself.
fn is_own(name: &str) -> bool {
    name.starts_with(PREFIX) && name != ASKED
}

/// How a variable is divided. The error is the attribute that is at fault.
fn along_of(
    master: &Header,
    variable: &Variable,
    count: u64,
) -> Result<Option<(Vec<u32>, Along)>, String> {
    let attributes = &variable.attributes;
    let Some(dimensions) = find(attributes, DIMENSIONS) else { return Ok(None) };
    let known =
        |id: u64| u32::try_from(id).ok().filter(|&id| (id as usize) < master.dimensions.len());
    let dimensions = numbers_of(dimensions)
        .and_then(|ids| ids.into_iter().map(known).collect::<Option<Vec<u32>>>())
        .ok_or(DIMENSIONS)?;
    let is_unlimited = |&id: &u32| master.dimensions[id as usize].is_unlimited();
    if !variable.dimensions.is_empty() || dimensions.iter().skip(1).any(is_unlimited) {
        return Err(DIMENSIONS.into());
    }
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
    let ranges = stated(variable, &divided.name, count)?;
    let whole = ranges
        .iter()
        .try_fold(0, |next, range| (range.start == next && range.end > next).then_some(range.end));
    if whole != Some(divided.len) {
        return Err(range_of(&divided.name, 0));
    }
    Ok(Some((dimensions, Along { dimension, ranges })))
}

fn range_of(dimension: &str, k: u64) -> String {
    format!("{PREFIX}range({dimension}).subfile.{k}")
}

/// The ranges that a variable's attributes state.
fn stated(variable: &Variable, dimension: &str, count: u64) -> Result<Vec<Range<u64>>, String> {
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

impl Parted {
    /// A sub-file that was opened, if it is what the master says. Collective in the group.
    pub(super) fn checked_subfile(
        &self,
        k: usize,
        mut file: File,
        path: &Path,
        master: &State,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        let mut header = read_header(&mut file, false)?;
        let file_len = file.size();
        let held = file_len.as_ref().map_or(0, |&len| header.records_in(len));
        header.records = header.records.max(held);
        let state = State::new(file, path.into(), header.clone(), options, false)?;
        let fault = |reason: String| {
            Err(ArrayError::Partition { file: path.display().to_string(), reason })
        };
        let ties = PartTies {
            id: String::new(),
            generation: 0,
            master: String::new(),
            index: k as u64,
            count: self.scheme.count as u64,
            size: [0, 0],
            home: None,
        };
        let expected = headers::part(&self.logical, &self.scheme, k, &ties)?;
        let end = end_of_data(&header);
        header.records = master.header.records;
        let checked = match index_of(&header) {
            None => fault("it is no sub-file".into()),
            Some(own) if own != k as u64 => fault(format!("it is sub-file {own}, not {k}")),
            Some(_) if !same_shape(&header, &expected) => {
                fault("its variables are not those that the master states".into())
            }
            Some(_) => match (file_len, end) {
                (Ok(len), Some(end)) if len >= end => Ok(()),
                (Ok(len), Some(end)) => fault(format!(
                    "it has {len} bytes of {end}: not all of its data was written, or it was lost"
                )),
                (Ok(_), None) => fault("it ends beyond what a file can hold".into()),
                (Err(error), _) => Err(error.into()),
            },
        };
        state.agree(checked)?;
        Ok(Dataset::new(state, options.clone()))
    }

    /// Finds how many records there are: the master may know of none.
    /// Returns which of this rank's sub-files have fewer. Collective.
    pub(super) fn count_records(
        &self,
        comm: &dyn Comm,
        in_master: u64,
    ) -> Result<(u64, Vec<(usize, String)>), ArrayError> {
        let stated = |part: &Part| part.data.state.stated_records;
        let own = self.parts.iter().map(stated).max().unwrap_or(0).max(in_master);
        let records = comm.reduce_u64(Reduction::Max, own)?;
        let grows = |part: &&Part| part.data.state.header.records_begin().is_some();
        let fewer = self.parts.iter().filter(grows).filter(|part| stated(part) < records);
        let told = |part: &Part| {
            let has = stated(part);
            (part.index, format!("it has {has} records, others have {records}"))
        };
        Ok((records, fewer.map(told).collect()))
    }
}

/// Where the last value ends; PnetCDF does not write the padding behind it.
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
    fn master(len: u64, count: u64, along: usize) -> (Header, Vec<Range<u64>>) {
        let mut header = Header::new(Format::Cdf2);
        for (name, len) in [("x", 3), ("y", len)] {
            header.dimensions.push(Dimension { name: name.into(), len });
        }
        let dimensions = if along == 0 { [1, 0] } else { [0, 1] };
        // As it deals them.
        let each = len as f64 / count as f64;
        let cut = |k: u64| (each * k as f64).ceil() as u64;
        let ranges: Vec<_> = (0..count).map(|k| cut(k)..cut(k + 1).min(len)).collect();
        let mut attributes = vec![
            attribute("units", &[1]),
            attribute(ASKED, &[1]),
            attribute(DIMENSION, &[along as i32]),
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
            name: "v".into(),
            dimensions: Vec::new(),
            attributes,
            external: Type::Float,
            stated_size: 4,
            begin: 1000,
        });
        header.attributes = vec![attribute("title", &[7]), attribute(COUNT, &[count as i32])];
        (header, ranges)
    }

    proptest! {
        #[test]
        fn what_it_says_is_understood(count in 2u64..9, more in 0u64..50, along in 0usize..2) {
            let (header, ranges) = master(count + more, count, along);
            let (logical, scheme, ties) = logical_of(&header, "a.nc").unwrap().unwrap();
            let own = &logical.variables[0];
            prop_assert_eq!(&own.dimensions, if along == 0 { &[1, 0] } else { &[0, 1] });
            let names: Vec<_> = own.attributes.iter().map(|it| it.name.as_str()).collect();
            prop_assert_eq!(names, ["units", ASKED]);
            prop_assert_eq!(logical.attributes.len(), 1);
            let expected = Along { dimension: along, ranges };
            prop_assert_eq!(&scheme.variables, &[Some(expected)]);
            prop_assert_eq!(ties.files.last().unwrap(), &name("a.nc", count as usize - 1));
        }

        #[test]
        fn what_is_damaged_is_told(
            which in any::<prop::sample::Index>(),
            numbers in proptest::collection::vec(-3i32..20, 0..4),
        ) {
            let (mut header, _) = master(11, 3, 1);
            let list = &mut header.variables[0].attributes;
            let which = which.index(list.len());
            list[which].values = Values::Int(numbers);
            // It is found out, or what is left is divided without gaps all the same.
            if let Ok(Some((logical, scheme, _))) = logical_of(&header, "a.nc") {
                let along = scheme.variables[0].clone().unwrap();
                let id = logical.variables[0].dimensions[along.dimension] as usize;
                let mut next = 0;
                for range in &along.ranges {
                    prop_assert!(range.start == next && range.end > next);
                    next = range.end;
                }
                prop_assert_eq!((along.ranges.len(), next), (3, logical.dimensions[id].len));
            }
        }
    }

    #[test]
    fn plain_files_are_none() {
        let (mut header, _) = master(6, 2, 0);
        header.attributes.clear();
        assert!(logical_of(&header, "a.nc").unwrap().is_none());
        // Nothing of it is elsewhere.
        let (mut header, _) = master(6, 2, 0);
        header.variables.clear();
        assert!(logical_of(&header, "a.nc").unwrap().is_none());
    }
}
