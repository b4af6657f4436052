//! [`GroupTree`]: what is in which group, and what names mean there.

use striate_hdf5::model::Name;
use striate_hdf5::netcdf::{FileDefinition, VariableDefinition};

/// Bytes of a path that people see.
const SHOWN: usize = 4096;

/// The contents of groups, as numbers of the lists of a [`FileDefinition`].
#[derive(Clone, Debug)]
pub struct GroupTree {
    groups: Vec<GroupContents>,
}

#[derive(Clone, Debug, Default)]
struct GroupContents {
    /// The group that it is in; the root group has none.
    parent: Option<usize>,
    /// Its name: empty for the root group.
    name: Name,
    children: Vec<usize>,
    dimensions: Vec<usize>,
    types: Vec<usize>,
    variables: Vec<usize>,
}

impl GroupTree {
    /// The groups of a file.
    pub fn new(definition: &FileDefinition) -> Self {
        let mut groups: Vec<GroupContents> = Vec::new();
        for (index, group) in definition.groups.iter().enumerate() {
            let mut contents = GroupContents::default();
            if let Some(parent) = groups.get_mut(group.parent).filter(|_| index > 0) {
                parent.children.push(index);
                contents.name = group.name.clone();
                contents.parent = Some(group.parent);
            }
            groups.push(contents);
        }
        let mut tree = Self { groups };
        for (index, dimension) in definition.dimensions.iter().enumerate() {
            tree.with(dimension.group, |group| group.dimensions.push(index));
        }
        for (index, of_user) in definition.types.iter().enumerate() {
            tree.with(of_user.group, |group| group.types.push(index));
        }
        for (index, variable) in definition.variables.iter().enumerate() {
            tree.with(variable.group, |group| group.variables.push(index));
        }
        tree
    }

    fn with(&mut self, group: usize, add: impl FnOnce(&mut GroupContents)) {
        if let Some(group) = self.groups.get_mut(group) {
            add(group);
        }
    }

    /// The groups in a group.
    pub fn children(&self, group: usize) -> &[usize] {
        self.groups.get(group).map_or(&[], |group| &group.children)
    }

    /// The dimensions of a group.
    pub fn dimensions(&self, group: usize) -> &[usize] {
        self.groups.get(group).map_or(&[], |group| &group.dimensions)
    }

    /// The types of users in a group.
    pub fn types(&self, group: usize) -> &[usize] {
        self.groups.get(group).map_or(&[], |group| &group.types)
    }

    /// The variables of a group.
    pub fn variables(&self, group: usize) -> &[usize] {
        self.groups.get(group).map_or(&[], |group| &group.variables)
    }

    /// A group and those that it is in, up to the root.
    pub(super) fn ancestors(&self, group: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(group), |&group| {
            self.groups.get(group).and_then(|group| group.parent)
        })
    }

    /// The path of a group, as netCDF has it.
    pub fn group_path(&self, group: usize) -> String {
        String::from_utf8_lossy(&self.group_bytes(group)).into_owned()
    }

    /// The bytes of the path of a group. They are not kept: together, the paths of groups in groups
    /// are much longer than the file.
    pub(super) fn group_bytes(&self, group: usize) -> Vec<u8> {
        let names: Vec<usize> = self.ancestors(group).collect();
        let mut path = Vec::new();
        // The last is the root.
        for group in names.iter().rev().skip(1).filter_map(|&group| self.groups.get(group)) {
            path.push(b'/');
            path.extend_from_slice(group.name.as_bytes());
        }
        if path.is_empty() { b"/".to_vec() } else { path }
    }

    /// The path of something in a group, for people: without its beginning if it is very long.
    pub fn path(&self, definition: &FileDefinition, group: usize, name: &Name) -> String {
        // In the root group, the name is sufficient if there are no other groups.
        if definition.groups.len() <= 1 {
            return name.to_string();
        }
        let path = self.group_bytes(group);
        let skipped = path.len().saturating_sub(SHOWN);
        let shown = String::from_utf8_lossy(path.get(skipped..).unwrap_or_default()).into_owned();
        let begin = if skipped > 0 { "…" } else { "" };
        format!("{begin}{}/{name}", shown.trim_end_matches('/'))
    }

    /// The dimension that a name means in a group.
    fn dimension(&self, definition: &FileDefinition, group: usize, name: &Name) -> Option<usize> {
        let named = |&&index: &&usize| {
            definition.dimensions.get(index).is_some_and(|dimension| dimension.name == *name)
        };
        self.ancestors(group).find_map(|group| self.dimensions(group).iter().find(named).copied())
    }

    /// The path of a group that a dimension's name needs in front of it, to mean that dimension.
    pub(super) fn dimension_prefix(
        &self,
        definition: &FileDefinition,
        group: usize,
        index: usize,
    ) -> Option<Vec<u8>> {
        let dimension = definition.dimensions.get(index)?;
        let means_it =
            |&group: &usize| self.dimension(definition, group, &dimension.name) == Some(index);
        match self.ancestors(group).find(means_it) {
            Some(found) if found == group => None,
            // Nearer dimensions have the same name, or the dimension is elsewhere.
            Some(found) => Some(self.group_bytes(found)),
            None => Some(self.group_bytes(dimension.group)),
        }
    }

    /// Whether a variable has the name of a dimension that it can use, and one dimension.
    pub(super) fn is_coordinate(
        &self,
        definition: &FileDefinition,
        variable: &VariableDefinition,
    ) -> bool {
        variable.dimensions.len() == 1
            && self.dimension(definition, variable.group, &variable.name).is_some()
    }

    /// Whether a user means a variable that there is.
    pub fn has_variable(&self, definition: &FileDefinition, wanted: &str) -> bool {
        definition.variables.iter().any(|variable| self.is_named(variable, wanted))
    }

    /// Whether a user means a variable: by its name alone, by its path, or by the end of its path.
    pub(super) fn is_named(&self, variable: &VariableDefinition, wanted: &str) -> bool {
        let Some((group, name)) = wanted.rsplit_once('/') else {
            return variable.name == *wanted;
        };
        let path = self.group_bytes(variable.group);
        let is_group = if wanted.starts_with('/') {
            // The root group's own path ends with the slash that was cut off.
            path == group.as_bytes() || (group.is_empty() && path == b"/")
        } else {
            path.ends_with(group.as_bytes())
        };
        is_group && variable.name == *name
    }
}
