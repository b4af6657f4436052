//! [`CopySelection`]: which variables and groups a copy has, with the meaning of `nccopy`'s options
//! `-V` and `-G`.

use std::collections::BTreeMap;

use clap::Args;
use striate_array::format::Header;

/// Options that select a part of a dataset.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct CopySelection {
    /// Only these variables, with all dimensions and attributes; a name or the end of a path stands
    /// for all variables that have it, a path from the root for one
    #[arg(short = 'V', long, value_name = "NAME,...", value_delimiter = ',')]
    variables: Vec<String>,

    /// All variables but these
    #[arg(short = 'x', long, value_name = "NAME,...", value_delimiter = ',')]
    exclude: Vec<String>,

    /// Only these groups, with all that is in them, and the dimensions and attributes of the groups
    /// that they are in (netCDF-4)
    #[arg(short = 'G', long, value_name = "NAME,...", value_delimiter = ',')]
    groups: Vec<String>,
}

/// A part of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SelectedHeader {
    /// Its definitions.
    pub(super) header: Header,
    /// The index in the whole dataset of each of its variables.
    pub(super) variables: Vec<usize>,
}

impl CopySelection {
    /// Whether the copy has everything.
    pub(super) fn is_whole(&self) -> bool {
        self.variables.is_empty() && self.exclude.is_empty() && self.groups.is_empty()
    }

    /// The first name that nothing in the dataset has, of those that it cannot show as well.
    pub(super) fn unknown(&self, header: &Header, hidden: &[(String, String)]) -> Option<&str> {
        let variables = header.variables.iter().map(|one| header.path(one.group, &one.name));
        let paths: Vec<String> =
            variables.chain(hidden.iter().map(|(path, _)| path.clone())).collect();
        let groups: Vec<String> =
            (1..=header.groups.len() as u32).map(|number| group_path(header, number)).collect();
        let named = |names: &[String], name: &&String| !names.iter().any(|path| has(path, name));
        let mut of_variables = self.variables.iter().chain(&self.exclude);
        let mut of_groups = self.groups.iter();
        of_variables
            .find(|name| named(&paths, name))
            .or_else(|| of_groups.find(|name| name.as_str() != "/" && named(&groups, name)))
            .map(String::as_str)
    }

    /// Whether a variable with a path is copied.
    pub(super) fn has_variable(&self, path: &str) -> bool {
        let among = |names: &[String]| names.iter().any(|name| has(path, name));
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        (self.variables.is_empty() || among(&self.variables))
            && !among(&self.exclude)
            && (self.groups.is_empty() || self.has_group(group))
    }

    /// Whether a group is in one that was named, or is one.
    fn has_group(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        let mut above = Some(path);
        while let Some(group) = above {
            if self.groups.iter().any(|name| has(group, name)) {
                return true;
            }
            above = match group.rsplit_once('/') {
                Some((above, _)) => Some(above),
                None => (!group.is_empty()).then_some(""),
            };
        }
        false
    }

    /// The part of a dataset that is copied.
    pub(super) fn of(&self, header: &Header) -> SelectedHeader {
        let is_kept = |index: &usize| {
            let variable = &header.variables[*index];
            self.has_variable(&header.path(variable.group, &variable.name))
        };
        let variables: Vec<usize> = (0..header.variables.len()).filter(is_kept).collect();
        let mut selected = header.clone();
        selected.variables = variables.iter().map(|&at| header.variables[at].clone()).collect();
        if !self.groups.is_empty() {
            self.keep_groups(header, &mut selected);
        }
        SelectedHeader { header: selected, variables }
    }

    /// Leaves the groups that were named, those in them, and those that they are in.
    fn keep_groups(&self, header: &Header, selected: &mut Header) {
        let count = header.groups.len();
        let mut kept: Vec<bool> = (0..=count as u32)
            .map(|number| number == 0 || self.has_group(&group_path(header, number)))
            .collect();
        // Groups come after those that they are in.
        for number in (1..=count).rev() {
            if kept[number] {
                kept[header.groups[number - 1].parent as usize] = true;
            }
        }
        let mut numbers = BTreeMap::new();
        for number in (0..=count).filter(|&number| kept[number]) {
            numbers.insert(number as u32, numbers.len() as u32);
        }
        selected.groups.clear();
        for (at, group) in header.groups.iter().enumerate().filter(|(at, _)| kept[at + 1]) {
            let mut group = group.clone();
            group.parent = numbers[&header.groups[at].parent];
            selected.groups.push(group);
        }
        let mut dimensions = BTreeMap::new();
        selected.dimensions.clear();
        for (at, dimension) in header.dimensions.iter().enumerate() {
            if let Some(&group) = numbers.get(&dimension.group) {
                dimensions.insert(at as u32, selected.dimensions.len() as u32);
                let mut dimension = dimension.clone();
                dimension.group = group;
                selected.dimensions.push(dimension);
            }
        }
        // Types are defined in the group of theirs that is left, so that variables of it find them.
        for of in &mut selected.types {
            while !kept[of.group as usize] {
                of.group = header.groups[of.group as usize - 1].parent;
            }
            of.group = numbers[&of.group];
        }
        for variable in &mut selected.variables {
            variable.group = numbers[&variable.group];
            for dimension in &mut variable.dimensions {
                *dimension = dimensions[dimension];
            }
        }
    }
}

/// The path of a group, by its number.
fn group_path(header: &Header, number: u32) -> String {
    match number.checked_sub(1).and_then(|at| header.groups.get(at as usize)) {
        Some(group) => header.path(group.parent, &group.name),
        None => String::new(),
    }
}

/// Whether a path is the one that was named, from the root, or ends with it.
fn has(path: &str, name: &str) -> bool {
    let path = path.trim_start_matches('/');
    match name.strip_prefix('/') {
        Some(absolute) => path == absolute,
        None => {
            path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        }
    }
}

#[cfg(test)]
mod tests {
    use striate_array::format::{Dimension, Group, Variable};
    use striate_array::{Format, Type};

    use super::*;

    fn header() -> Header {
        let mut header = Header::new(Format::Netcdf4);
        for (name, parent) in [("a", 0), ("b", 0), ("c", 2)] {
            header.groups.push(Group { name: name.into(), parent, attributes: Vec::new() });
        }
        for (name, group) in [("x", 0), ("y", 1), ("z", 2)] {
            let dimension = Dimension::classic(name, 3);
            header.dimensions.push(Dimension { group, ..dimension });
        }
        for (name, group, dimensions) in
            [("v", 0, vec![0]), ("v", 1, vec![1]), ("w", 2, vec![2, 0]), ("v", 3, vec![2])]
        {
            let variable = Variable::new(name.to_owned(), Type::Int, dimensions);
            header.variables.push(Variable { group, ..variable });
        }
        header
    }

    fn select(variables: &[&str], exclude: &[&str], groups: &[&str]) -> CopySelection {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        CopySelection { variables: list(variables), exclude: list(exclude), groups: list(groups) }
    }

    #[test]
    fn names_and_paths_select() {
        let header = header();
        for (selection, expected) in [
            (select(&[], &[], &[]), vec![0, 1, 2, 3]),
            (select(&["v"], &[], &[]), vec![0, 1, 3]),
            (select(&["/v"], &[], &[]), vec![0]),
            (select(&["c/v", "/b/w"], &[], &[]), vec![2, 3]),
            (select(&[], &["v"], &[]), vec![2]),
            (select(&[], &[], &["b"]), vec![2, 3]),
            (select(&["v"], &[], &["/b"]), vec![3]),
            (select(&[], &[], &["c"]), vec![3]),
        ] {
            assert_eq!(selection.of(&header).variables, expected, "{selection:?}");
            assert_eq!(selection.unknown(&header, &[]), None, "{selection:?}");
        }
        for (selection, unknown) in [
            (select(&["u"], &[], &[]), "u"),
            (select(&["/w"], &[], &[]), "/w"),
            (select(&[], &[], &["d"]), "d"),
            (select(&["v"], &["/c/v"], &[]), "/c/v"),
        ] {
            assert_eq!(selection.unknown(&header, &[]), Some(unknown));
        }
        let hidden = [("/b/text".to_owned(), String::new())];
        assert_eq!(select(&["text"], &[], &[]).unknown(&header, &hidden), None);
    }

    #[test]
    fn groups_keep_what_they_are_in() {
        let selected = select(&[], &[], &["c"]).of(&header()).header;
        let names: Vec<_> = selected.groups.iter().map(|one| (&*one.name, one.parent)).collect();
        assert_eq!(names, [("b", 0), ("c", 1)]);
        let names: Vec<_> = selected.dimensions.iter().map(|one| (&*one.name, one.group)).collect();
        assert_eq!(names, [("x", 0), ("z", 1)]);
        let variable = &selected.variables[0];
        assert_eq!((variable.group, &*variable.dimensions), (2, &[1][..]));
    }
}
