//! The order of variables, dimensions and groups in netCDF-4 partitions.
//!
//! A request to a partition names a variable by its number among those that follow from the
//! definitions. A netCDF-4 file has its own order, group by group, and other programs may have
//! added to it; here the one is found in the other, by names.

use std::collections::HashMap;

use crate::file_state::FileState;
use crate::format::{Dimension, Header, Variable};

/// Puts the variables of an opened partition into the order of the expected header; whether it has
/// all of them, with their types and shapes.
pub(super) fn arrange_variables(state: &mut FileState, expected: &Header) -> bool {
    let path_of = |header: &Header, it: &Variable| header.path(it.group, &it.name);
    let header = &state.header;
    let known: HashMap<String, usize> =
        header.variables.iter().enumerate().map(|(at, it)| (path_of(header, it), at)).collect();
    let found = expected.variables.iter().map(|it| known.get(&path_of(expected, it)).copied());
    let Some(order) = found.collect::<Option<Vec<usize>>>() else { return false };
    state.header.variables = order.iter().map(|&at| state.header.variables[at].clone()).collect();
    state.filled = order.iter().map(|&at| state.filled[at]).collect();
    if let Some(netcdf4) = &mut state.netcdf4 {
        netcdf4.reorder(&order);
    }
    state.header.variables.iter().zip(&expected.variables).all(|(own, other)| {
        own.external == other.external
            // A single byte has no order.
            && (own.external.size() == 1
                || own.storage.byte_order == other.storage.byte_order)
            && same_lengths(&state.header, own, expected, other)
    })
}

/// Whether a variable has the lengths that are expected; unlimited dimensions may be longer.
fn same_lengths(header: &Header, own: &Variable, expected: &Header, other: &Variable) -> bool {
    let each = own.dimensions.iter().zip(&other.dimensions);
    own.dimensions.len() == other.dimensions.len()
        && each.into_iter().all(|(&own, &other)| {
            let own = &header.dimensions[own as usize];
            let other = &expected.dimensions[other as usize];
            let same = own.len == other.len || other.is_unlimited() && own.len > other.len;
            own.is_unlimited() == other.is_unlimited() && same
        })
}

/// New definitions of a partition, with the groups and dimensions that its file has in their places
/// there, and new ones behind them. The variables of `before` are the first of the new ones.
pub(super) fn in_order_of_file(new: Header, before: &Header) -> Header {
    // Where each group of the new header is in the file; the root group is number 0 in both.
    let mut groups = before.groups.clone();
    let mut group_of = vec![0];
    for group in &new.groups {
        let parent = group_of.get(group.parent as usize).copied().unwrap_or(0);
        let known = groups.iter().position(|it| it.parent == parent && it.name == group.name);
        let at = known.unwrap_or_else(|| {
            groups.push(crate::format::Group { parent, ..group.clone() });
            groups.len() - 1
        });
        group_of.push(at as u32 + 1);
    }
    // Where each dimension is: those of variables that are in the file are known by their use,
    // since they may have new names.
    let mut dimensions = before.dimensions.clone();
    let mut dimension_of: Vec<Option<u32>> = vec![None; new.dimensions.len()];
    for (variable, known) in new.variables.iter().zip(&before.variables) {
        for (&id, &at) in variable.dimensions.iter().zip(&known.dimensions) {
            dimension_of[id as usize] = Some(at);
        }
    }
    let mut places = Vec::new();
    for (dimension, known) in new.dimensions.iter().zip(&dimension_of) {
        let group = group_of[dimension.group as usize];
        let dimension = Dimension { group, ..dimension.clone() };
        places.push(if let &Some(at) = known {
            let old = &mut dimensions[at as usize];
            let len = if old.is_unlimited() { old.len.max(dimension.len) } else { dimension.len };
            *old = Dimension { len, ..dimension };
            at
        } else {
            dimensions.push(dimension);
            dimensions.len() as u32 - 1
        });
    }
    let mut ordered = Header { dimensions, groups, ..new };
    for variable in &mut ordered.variables {
        variable.group = group_of[variable.group as usize];
        for id in &mut variable.dimensions {
            *id = places[*id as usize];
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, Group, Type};

    fn group(name: &str, parent: u32) -> Group {
        Group { name: name.into(), parent, attributes: Vec::new() }
    }

    fn header(dimensions: &[(&str, u64)], variables: &[(&str, &[u32])]) -> Header {
        let mut header = Header::new(Format::Netcdf4);
        header.dimensions =
            dimensions.iter().map(|&(name, len)| Dimension::classic(name, len)).collect();
        header.variables = variables
            .iter()
            .map(|&(name, ids)| Variable::new(name, Type::Int, ids.to_vec()))
            .collect();
        header
    }

    #[test]
    fn what_a_file_has_keeps_its_place() {
        // The file has dimensions in another order, and one that grew since.
        let mut before = header(&[("x", 4), ("t", 0)], &[("v", &[1, 0])]);
        before.dimensions[1].len = 9;
        before.groups = vec![group("b", 0)];
        let mut new = header(&[("time", 0), ("x", 4), ("y", 7)], &[("v", &[0, 1]), ("w", &[2, 0])]);
        new.dimensions[0].len = 5;
        new.groups = vec![group("a", 0), group("b", 0), group("c", 2)];
        new.variables[1].group = 3;
        new.dimensions[2].group = 2;
        let ordered = in_order_of_file(new, &before);
        let names: Vec<_> =
            ordered.dimensions.iter().map(|it| (it.name.as_str(), it.len)).collect();
        assert_eq!(names, [("x", 4), ("time", 9), ("y", 7)]);
        assert_eq!(ordered.variables[0].dimensions, [1, 0]);
        assert_eq!(ordered.variables[1].dimensions, [2, 1]);
        assert_eq!(ordered.path(ordered.variables[1].group, "w"), "b/c/w");
        assert_eq!(ordered.path(ordered.dimensions[2].group, "y"), "b/y");
    }
}
