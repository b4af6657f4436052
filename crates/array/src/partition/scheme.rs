//! [`Scheme`]: which variables are divided, along which dimension, and who has what of it \[SON\].
//!
//! It is pure: definitions and what is asked for in, ranges of indices out. Ranges are balanced, so that
//! no target has more than one index more than another; partition `k` of every variable lies in the
//! same file.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Partitioning;
use crate::ArrayError;
use crate::format::{Header, Values, Variable};

/// The attribute by which a variable says along which dimension it is divided.
pub(crate) const PAR_DIM_ID: &str = "par_dim_id";

/// How a variable is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Along {
    /// Which of its dimensions is, by its position in the variable's list.
    pub(crate) dimension: usize,
    /// The indices of each partition that has some.
    pub(crate) ranges: Vec<Range<u64>>,
}

/// How the variables of a dataset are divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// How many partitions there are.
    pub(crate) count: usize,
    /// Of each variable; `None` stays in the master.
    pub(crate) variables: Vec<Option<Along>>,
    /// Coordinate variables in the master, of which partitions have copies. What was a coordinate when it
    /// was defined stays one: the order of a partition's variables depends on it.
    pub(crate) coordinates: Vec<usize>,
}

/// A variable of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Which one of the dataset it is a part of, or a copy.
    pub(crate) variable: usize,
    /// The position of the divided dimension in its list, and the indices that are here.
    pub(crate) along: Option<(usize, Range<u64>)>,
    /// Whether it is a copy of a coordinate variable in the master.
    pub(crate) is_copy: bool,
}

/// Whether a variable says where the indices of a dimension are: it has that dimension only, and its name.
fn is_coordinate(header: &Header, variable: &Variable) -> bool {
    match variable.dimensions.as_slice() {
        [id] => header.dimensions.get(*id as usize).is_some_and(|it| it.name == variable.name),
        _ => false,
    }
}

/// The coordinate variables from `first` on that are not divided.
fn coordinates(header: &Header, variables: &[Option<Along>], first: usize) -> Vec<usize> {
    let all = header.variables.iter().zip(variables).enumerate().skip(first);
    all.filter(|(_, (variable, along))| along.is_none() && is_coordinate(header, variable))
        .map(|(index, _)| index)
        .collect()
}

/// `len` indices dealt to `count` partitions; no partition is empty, so there may be fewer.
pub(crate) fn balanced(len: u64, count: u64) -> Vec<Range<u64>> {
    let count = count.clamp(1, len.max(1));
    let cut = |k: u64| (u128::from(len) * u128::from(k) / u128::from(count)) as u64;
    (0..count).map(|k| cut(k)..cut(k + 1)).collect()
}

impl Scheme {
    /// Divides variables into at most `count` partitions. `None` if there is nothing to divide: the
    /// dataset is a plain file.
    pub(crate) fn new(
        header: &Header,
        asked: &Partitioning,
        count: u64,
    ) -> Result<Option<Self>, ArrayError> {
        let divide = |variable| along(header, variable, asked, count, true);
        let variables: Vec<_> = header.variables.iter().map(divide).collect::<Result<_, _>>()?;
        let of_each = variables.iter().flatten().map(|along| along.ranges.len());
        let count = of_each.max().unwrap_or(0);
        let coordinates = coordinates(header, &variables, 0);
        Ok((count > 1).then_some(Self { count, variables, coordinates }))
    }

    /// The scheme with the variables that were added: what is there stays as it is.
    pub(crate) fn extended(
        &self,
        header: &Header,
        asked: &Partitioning,
    ) -> Result<Self, ArrayError> {
        let mut variables = self.variables.clone();
        let known = variables.len();
        for variable in &header.variables[variables.len().min(header.variables.len())..] {
            variables.push(along(header, variable, asked, self.count as u64, asked.enabled)?);
        }
        let mut all = self.coordinates.clone();
        all.extend(coordinates(header, &variables, known));
        Ok(Self { count: self.count, variables, coordinates: all })
    }

    /// All variables of partition `k`, in their order: those that are added later come last. A coordinate
    /// stands behind the first variable that uses its dimension, or where it was defined if that was later.
    pub(crate) fn members(&self, header: &Header, k: usize) -> Vec<Member> {
        let mut members = Vec::new();
        // Of the dimensions that are used undivided and divided here, the first variable that does.
        let mut users: BTreeMap<(u32, bool), (usize, Range<u64>)> = BTreeMap::new();
        for (variable, along, range) in self.part(k) {
            let own = Some((along.dimension, range.clone()));
            members.push(((variable, 0), Member { variable, along: own, is_copy: false }));
            let Some(whole) = header.variables.get(variable) else { continue };
            for (position, &id) in whole.dimensions.iter().enumerate() {
                let divided = position == along.dimension;
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
                let along = divided.then(|| (0, range.clone()));
                let place = (*user.max(&variable), 1 + usize::from(divided));
                members.push((place, Member { variable, along, is_copy: true }));
            }
        }
        members.sort_by_key(|(place, member)| (*place, member.variable));
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// Which of partition `k`'s variables a variable is; `None` if it has nothing there.
    #[cfg(test)]
    pub(crate) fn index_in(&self, header: &Header, variable: usize, k: usize) -> Option<usize> {
        let is_it = |member: &Member| member.variable == variable && !member.is_copy;
        self.members(header, k).iter().position(is_it)
    }

    /// The variables of partition `k`, and the indices it has of each.
    pub(crate) fn part(&self, k: usize) -> impl Iterator<Item = (usize, &Along, &Range<u64>)> {
        let each = self.variables.iter().enumerate();
        each.filter_map(move |(index, along)| {
            let along = along.as_ref()?;
            Some((index, along, along.ranges.get(k)?))
        })
    }
}

/// What is asked for a variable.
enum Choice {
    /// Nothing.
    Default,
    Master,
    Dimension(usize),
}

fn along(
    header: &Header,
    variable: &Variable,
    asked: &Partitioning,
    count: u64,
    by_default: bool,
) -> Result<Option<Along>, ArrayError> {
    let is_record = header.is_record(variable);
    let dimension = match choice(header, variable, asked)? {
        Choice::Master => return Ok(None),
        Choice::Dimension(dimension) => dimension,
        Choice::Default if !by_default => return Ok(None),
        Choice::Default if variable.dimensions.len() as u64 <= asked.min_ndims => return Ok(None),
        Choice::Default => usize::from(is_record),
    };
    let Some(&id) = variable.dimensions.get(dimension) else { return Ok(None) };
    let Some(known) = header.dimensions.get(id as usize) else { return Ok(None) };
    Ok(Some(Along { dimension, ranges: balanced(known.len, count) }))
}

fn choice(
    header: &Header,
    variable: &Variable,
    asked: &Partitioning,
) -> Result<Choice, ArrayError> {
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
            Some(_) => Ok(Choice::Dimension(position)),
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
            return Ok(Choice::Master);
        }
        let is_it = |&id: &u32| header.dimensions.get(id as usize).is_some_and(|d| d.name == name);
        match variable.dimensions.iter().position(is_it) {
            Some(position) => at(hint, position),
            None => Err(refuse(hint, format!("it has no dimension '{name}'"))),
        }
    };
    if let Some((_, name)) = asked.dimensions.iter().find(|(name, _)| *name == variable.name) {
        return named("nc_partition_dims", name);
    }
    let set = variable.attributes.iter().find(|attribute| attribute.name == PAR_DIM_ID);
    match set.map(|attribute| &attribute.values) {
        None => Ok(Choice::Default),
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
