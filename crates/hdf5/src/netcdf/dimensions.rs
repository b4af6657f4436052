//! [`Dimensions`]: which dimensions a file has, and which of them a variable has.
//!
//! A dimension is a dataset that is a scale. Its number is that of `_Netcdf4Dimid`, or the next one
//! in the order in which netCDF-C walks through the groups. The dimensions of a variable are those
//! that `_Netcdf4Coordinates` numbers, else the scales that are attached to it (`DIMENSION_LIST`),
//! else made-up ones, `phony_dim_N`, which variables of a group share if they are as long.

use std::collections::HashMap;

use super::definition::{DimensionDefinition, GroupDefinition};
use super::hidden::Hidden;
use crate::model::{Address, Dimension, Name};

/// The dimensions that were found so far.
#[derive(Debug, Default)]
pub(super) struct Dimensions {
    all: Vec<FoundDimension>,
    next_id: i64,
    by_id: HashMap<i64, usize>,
    by_address: HashMap<Address, usize>,
    /// Those of a group by their length and whether they can grow.
    by_length: HashMap<(usize, u64, bool), Vec<usize>>,
}

#[derive(Debug)]
struct FoundDimension {
    /// NetCDF-C's number.
    id: i64,
    definition: DimensionDefinition,
}

/// What a variable says about its dimensions.
#[derive(Debug)]
pub(super) struct VariableShape {
    pub(super) group: usize,
    /// Of the dataset.
    pub(super) extents: Vec<Dimension>,
    /// The dimension whose scale it is.
    pub(super) scale: Option<usize>,
    pub(super) hidden: Hidden,
}

/// The dimensions of all variables.
#[derive(Debug)]
pub(super) struct ResolvedDimensions {
    pub(super) dimensions: Vec<DimensionDefinition>,
    /// Of each variable.
    pub(super) of_variables: Vec<Vec<usize>>,
    /// The variables that have a made-up dimension.
    pub(super) phony: Vec<usize>,
}

impl Dimensions {
    /// Adds the dimension of a scale.
    pub(super) fn add_scale(
        &mut self,
        group: usize,
        name: Name,
        extent: Dimension,
        assigned: Option<i64>,
        address: Address,
    ) -> usize {
        let number = self.add(group, name, extent, assigned.filter(|&id| id >= 0));
        self.by_address.insert(address, number);
        number
    }

    /// Whether numbers say what all dimensions of a variable are; else the scales that are attached
    /// to it do, as far as they are there.
    pub(super) fn are_numbered(&self, variable: &VariableShape) -> bool {
        let rank = variable.extents.len();
        (variable.scale.is_some() && rank == 1)
            || rank == 0
            || variable.hidden.coordinates.as_ref().is_some_and(|ids| {
                ids.len() == rank && ids.iter().all(|id| self.by_id.contains_key(id))
            })
    }

    fn add(&mut self, group: usize, name: Name, extent: Dimension, assigned: Option<i64>) -> usize {
        let id = assigned.unwrap_or(self.next_id);
        self.next_id = self.next_id.max(id.saturating_add(1));
        let (length, unlimited) = (extent.size, extent.maximum.is_none());
        let number = self.all.len();
        let definition = DimensionDefinition { group, name, length, unlimited };
        self.all.push(FoundDimension { id, definition });
        self.by_id.insert(id, number);
        self.by_length.entry((group, length, unlimited)).or_default().push(number);
        number
    }

    /// Finds the dimensions of all variables, then numbers them as netCDF-C does.
    pub(super) fn resolve(
        mut self,
        groups: &[GroupDefinition],
        variables: &[VariableShape],
    ) -> ResolvedDimensions {
        let mut in_groups = vec![Vec::new(); groups.len()];
        for (number, variable) in variables.iter().enumerate() {
            if let Some(list) = in_groups.get_mut(variable.group) {
                list.push(number);
            }
        }
        let mut of_variables = vec![Vec::new(); variables.len()];
        let mut phony = Vec::new();
        // Made-up dimensions get their numbers in the groups below first.
        for group in children_first(groups) {
            for &number in &in_groups[group] {
                of_variables[number] = self.of_variable(&variables[number], &mut phony, number);
            }
        }
        phony.dedup();
        self.lengths(variables, &of_variables);
        self.numbered(of_variables, phony)
    }

    fn of_variable(
        &mut self,
        variable: &VariableShape,
        phony: &mut Vec<usize>,
        number: usize,
    ) -> Vec<usize> {
        let rank = variable.extents.len();
        if let Some(scale) = variable.scale.filter(|_| rank == 1) {
            return vec![scale];
        }
        if let Some(ids) = variable.hidden.coordinates.as_ref().filter(|ids| ids.len() == rank) {
            let found: Option<Vec<usize>> =
                ids.iter().map(|id| self.by_id.get(id).copied()).collect();
            if let Some(found) = found {
                return found;
            }
        }
        // NetCDF-C looks for a scale of the first dimension only.
        let attached = &variable.hidden.attached;
        let is_attached = attached.first().is_some_and(Option::is_some);
        let mut used = Vec::with_capacity(rank);
        for (at, extent) in variable.extents.iter().enumerate() {
            let scale = match variable.scale {
                Some(scale) if at == 0 => Some(scale),
                _ => {
                    let address = attached.get(at).copied().flatten().filter(|_| is_attached);
                    address.and_then(|address| self.by_address.get(&address).copied())
                }
            };
            let dimension = scale.unwrap_or_else(|| {
                phony.push(number);
                self.phony(variable.group, *extent, &used)
            });
            used.push(dimension);
        }
        used
    }

    /// A dimension of the group that is as long and that the variable does not have yet; a new one
    /// if there is none.
    fn phony(&mut self, group: usize, extent: Dimension, used: &[usize]) -> usize {
        let known = self.by_length.get(&(group, extent.size, extent.maximum.is_none()));
        let free = known.and_then(|known| known.iter().copied().find(|one| !used.contains(one)));
        free.unwrap_or_else(|| {
            let name = Name::from(format!("phony_dim_{}", self.next_id));
            self.add(group, name, extent, None)
        })
    }

    /// A dimension that can grow is as long as the longest of its variables.
    fn lengths(&mut self, variables: &[VariableShape], of_variables: &[Vec<usize>]) {
        for one in self.all.iter_mut().filter(|one| one.definition.unlimited) {
            one.definition.length = 0;
        }
        for (variable, dimensions) in variables.iter().zip(of_variables) {
            for (extent, &number) in variable.extents.iter().zip(dimensions) {
                let definition = &mut self.all[number].definition;
                if definition.unlimited {
                    definition.length = definition.length.max(extent.size);
                }
            }
        }
    }

    /// In the order of netCDF-C's numbers.
    fn numbered(self, mut of_variables: Vec<Vec<usize>>, phony: Vec<usize>) -> ResolvedDimensions {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|&number| (self.all[number].id, number));
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        for number in of_variables.iter_mut().flatten() {
            *number = place[*number];
        }
        let mut sorted: Vec<_> = self.all.into_iter().zip(place).collect();
        sorted.sort_by_key(|(_, new)| *new);
        let dimensions = sorted.into_iter().map(|(one, _)| one.definition).collect();
        ResolvedDimensions { dimensions, of_variables, phony }
    }
}

/// The numbers of groups, children before their parents and otherwise in their order.
fn children_first(groups: &[GroupDefinition]) -> Vec<usize> {
    let mut children = vec![Vec::new(); groups.len()];
    for (number, group) in groups.iter().enumerate().skip(1) {
        if let Some(list) = children.get_mut(group.parent) {
            list.push(number);
        }
    }
    let mut order = Vec::with_capacity(groups.len());
    // From the root to the present group: its number, and how many children are done.
    let mut path = vec![(0, 0)];
    while let Some((group, done)) = path.last_mut() {
        if let Some(&child) = children.get(*group).and_then(|list| list.get(*done)) {
            *done += 1;
            path.push((child, 0));
        } else {
            order.push(*group);
            path.pop();
        }
    }
    order
}
