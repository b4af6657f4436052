//! [`PartitionScheme`]: which variables are divided, along which dimension, and into which ranges
//! of indices \[SON\].
//!
//! It is pure: definitions and settings in, ranges of indices out. Ranges are balanced, so that
//! targets differ by at most one index; partition `k` of every variable is in the same file.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Partitioning;
use crate::ArrayError;
use crate::format::{Dimension, Header, Type, Values, Variable};

/// The attribute of a variable that selects the dimension along which it is divided.
pub(crate) const PAR_DIM_ID: &str = "par_dim_id";

/// How a variable is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Position of the divided dimension in the variable's list.
    pub(crate) dimension: usize,
    /// The indices of each partition that contains some.
    pub(crate) ranges: Vec<Range<u64>>,
}

/// How the variables of a dataset are divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionScheme {
    /// Number of partitions.
    pub(crate) count: usize,
    /// The division of each variable; `None` for one that stays in the master.
    pub(crate) variables: Vec<Option<Division>>,
    /// Coordinate variables in the master that are copied to partitions. Whether a variable is one
    /// is decided when it is defined, and does not change: the order of a partition's variables
    /// depends on it.
    pub(crate) coordinates: Vec<usize>,
}

/// The indices of a divided dimension that a partition contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DividedIndices {
    /// Position of the dimension in the variable's list.
    pub(crate) position: usize,
    pub(crate) range: Range<u64>,
}

/// A variable of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionVariable {
    /// Index of the variable of the dataset of which it is a part or a copy.
    pub(crate) variable: usize,
    /// The indices that it has of the divided dimension; `None` for a copy along an undivided one.
    pub(crate) indices: Option<DividedIndices>,
    /// Whether it is a copy of a coordinate variable in the master.
    pub(crate) is_copy: bool,
}

/// Whether a variable is a coordinate variable: it has one dimension, and the name of that
/// dimension.
fn is_coordinate(header: &Header, variable: &Variable) -> bool {
    match variable.dimensions.as_slice() {
        [id] => header
            .dimensions
            .get(*id as usize)
            .is_some_and(|it| it.name == variable.name && it.group == variable.group),
        _ => false,
    }
}

/// The coordinate variables from `first` on that are not divided.
fn coordinates(header: &Header, variables: &[Option<Division>], first: usize) -> Vec<usize> {
    let all = header.variables.iter().zip(variables).enumerate().skip(first);
    all.filter(|(_, (variable, division))| division.is_none() && is_coordinate(header, variable))
        .map(|(index, _)| index)
        .collect()
}

/// `len` indices split into `count` ranges, or fewer: no range is empty.
pub(crate) fn balanced(len: u64, count: u64) -> Vec<Range<u64>> {
    let count = count.clamp(1, len.max(1));
    let cut = |k: u64| (u128::from(len) * u128::from(k) / u128::from(count)) as u64;
    (0..count).map(|k| cut(k)..cut(k + 1)).collect()
}

impl PartitionScheme {
    /// Divides variables into at most `count` partitions; `None` if there is nothing to divide, and
    /// the dataset is a plain file.
    pub(crate) fn new(
        header: &Header,
        asked: &Partitioning,
        count: u64,
    ) -> Result<Option<Self>, ArrayError> {
        let divide = |variable| division_of(header, variable, asked, count, true);
        let variables: Vec<_> = header.variables.iter().map(divide).collect::<Result<_, _>>()?;
        let of_each = variables.iter().flatten().map(|division| division.ranges.len());
        let count = of_each.max().unwrap_or(0);
        let coordinates = coordinates(header, &variables, 0);
        Ok((count > 1).then_some(Self { count, variables, coordinates }))
    }

    /// The scheme extended by new variables; existing divisions do not change.
    pub(crate) fn extended(
        &self,
        header: &Header,
        asked: &Partitioning,
    ) -> Result<Self, ArrayError> {
        let mut variables = self.variables.clone();
        let known = variables.len();
        for variable in &header.variables[variables.len().min(header.variables.len())..] {
            variables.push(division_of(header, variable, asked, self.count as u64, asked.enabled)?);
        }
        let mut all = self.coordinates.clone();
        all.extend(coordinates(header, &variables, known));
        Ok(Self { count: self.count, variables, coordinates: all })
    }

    /// All variables of partition `k` in their order: those that are defined later come last. A
    /// coordinate follows the first variable that uses its dimension, or keeps its position if it
    /// was defined later.
    pub(crate) fn members(&self, header: &Header, k: usize) -> Vec<PartitionVariable> {
        let mut members = Vec::new();
        // The first variable that uses a dimension undivided, and the first that uses it divided.
        let mut users: BTreeMap<(u32, bool), (usize, Range<u64>)> = BTreeMap::new();
        for (variable, division, range) in self.part(k) {
            let indices = DividedIndices { position: division.dimension, range: range.clone() };
            let member = PartitionVariable { variable, indices: Some(indices), is_copy: false };
            members.push(((variable, 0), member));
            let Some(whole) = header.variables.get(variable) else { continue };
            for (position, &id) in whole.dimensions.iter().enumerate() {
                let divided = position == division.dimension;
                users.entry((id, divided)).or_insert_with(|| (variable, range.clone()));
            }
        }
        for &variable in &self.coordinates {
            let Some(&[id]) = header.variables.get(variable).map(|it| it.dimensions.as_slice())
            else {
                continue;
            };
            for divided in [false, true] {
                let Some((user, range)) = users.get(&(id, divided)) else { continue };
                let indices = divided.then(|| DividedIndices { position: 0, range: range.clone() });
                let place = (*user.max(&variable), 1 + usize::from(divided));
                members.push((place, PartitionVariable { variable, indices, is_copy: true }));
            }
        }
        members.sort_by_key(|(place, member)| (*place, member.variable));
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// The index of a variable in partition `k`; `None` if it has nothing there.
    #[cfg(test)]
    pub(crate) fn index_in(&self, header: &Header, variable: usize, k: usize) -> Option<usize> {
        let is_it = |member: &PartitionVariable| member.variable == variable && !member.is_copy;
        self.members(header, k).iter().position(is_it)
    }

    /// The divided variables of partition `k`, and the indices it has of each.
    pub(crate) fn part(&self, k: usize) -> impl Iterator<Item = (usize, &Division, &Range<u64>)> {
        let each = self.variables.iter().enumerate();
        each.filter_map(move |(index, division)| {
            let division = division.as_ref()?;
            Some((index, division, division.ranges.get(k)?))
        })
    }
}

/// Which dimension of a variable is divided.
enum DimensionChoice {
    /// No choice was made.
    Default,
    Master,
    Dimension(usize),
}

fn division_of(
    header: &Header,
    variable: &Variable,
    asked: &Partitioning,
    count: u64,
    by_default: bool,
) -> Result<Option<Division>, ArrayError> {
    let is_unlimited =
        |&id: &u32| header.dimensions.get(id as usize).is_some_and(Dimension::is_unlimited);
    let has_numbers = !matches!(variable.external, Type::String | Type::Text(_) | Type::User(_));
    let dimension = match choice(header, variable, asked)? {
        DimensionChoice::Master => return Ok(None),
        DimensionChoice::Dimension(_) if !has_numbers => {
            let what = format!("the division of variable '{}'", variable.name);
            let reason = "strings and elements of user-defined types stay in the master".into();
            return Err(ArrayError::Definition { what, reason });
        }
        DimensionChoice::Dimension(dimension) => dimension,
        DimensionChoice::Default if !has_numbers => return Ok(None),
        DimensionChoice::Default if !by_default => return Ok(None),
        DimensionChoice::Default if variable.dimensions.len() as u64 <= asked.min_ndims => {
            return Ok(None);
        }
        // The most significant dimension that is not unlimited; a variable that has none stays in
        // the master.
        DimensionChoice::Default => {
            let mut dimensions = variable.dimensions.iter();
            dimensions.position(|id| !is_unlimited(id)).unwrap_or(usize::MAX)
        }
    };
    let Some(&id) = variable.dimensions.get(dimension) else { return Ok(None) };
    let Some(known) = header.dimensions.get(id as usize) else { return Ok(None) };
    Ok(Some(Division { dimension, ranges: balanced(known.len, count) }))
}

fn choice(
    header: &Header,
    variable: &Variable,
    asked: &Partitioning,
) -> Result<DimensionChoice, ArrayError> {
    let refuse = |hint: &str, reason: String| ArrayError::Definition {
        what: format!("{hint} of variable '{}'", variable.name),
        reason,
    };
    let at = |hint: &str, position: usize| {
        let name = |&id: &u32| header.dimensions.get(id as usize);
        match variable.dimensions.get(position).and_then(name) {
            Some(dimension) if dimension.is_unlimited() => {
                let reason = format!("'{}' is unlimited and cannot be divided", dimension.name);
                Err(refuse(hint, reason))
            }
            Some(_) => Ok(DimensionChoice::Dimension(position)),
            None => {
                let has = variable.dimensions.len();
                Err(refuse(
                    hint,
                    format!("{position} is no position in a list of {has} dimensions"),
                ))
            }
        }
    };
    let named = |hint: &str, name: &str| {
        if name.is_empty() || name == "none" {
            return Ok(DimensionChoice::Master);
        }
        let is_it = |&id: &u32| header.dimensions.get(id as usize).is_some_and(|d| d.name == name);
        match variable.dimensions.iter().position(is_it) {
            Some(position) => at(hint, position),
            None => Err(refuse(hint, format!("it has no dimension '{name}'"))),
        }
    };
    let path = header.path(variable.group, &variable.name);
    if let Some((_, name)) = asked.dimensions.iter().find(|(name, _)| *name == path) {
        return named("nc_partition_dims", name);
    }
    let set = variable.attributes.iter().find(|attribute| attribute.name == PAR_DIM_ID);
    match set.map(|attribute| &attribute.values) {
        None => Ok(DimensionChoice::Default),
        Some(Values::Char(text)) => {
            let text = String::from_utf8_lossy(text);
            named(PAR_DIM_ID, text.trim_end_matches('\0'))
        }
        Some(values) => {
            let number = super::headers::numbers_of(values).filter(|numbers| numbers.len() == 1);
            let position = number.and_then(|numbers| usize::try_from(numbers[0]).ok());
            let reason = "it must be a dimension's name, or its position".into();
            at(PAR_DIM_ID, position.ok_or_else(|| refuse(PAR_DIM_ID, reason))?)
        }
    }
}
