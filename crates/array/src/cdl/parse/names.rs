//! [`NameTable`]: which names a group has, and which definition a name means.
//!
//! A name without a path is searched in its group and then in the groups around it.

use std::collections::HashMap;

/// What a name can be the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameKind {
    Group,
    Dimension,
    Type,
    Variable,
    AttributeOfGroup,
    AttributeOfVariable,
}

impl NameKind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Dimension => "dimension",
            Self::Type => "type",
            Self::Variable => "variable",
            Self::AttributeOfGroup | Self::AttributeOfVariable => "attribute",
        }
    }
}

/// In the place of a group: anywhere.
pub(super) const ANYWHERE: usize = usize::MAX;

/// Names and the numbers of what they name.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    numbers: HashMap<(usize, NameKind), HashMap<String, usize>>,
}

impl NameTable {
    /// Adds a name; `false` if its owner, a group or a variable, has one of the kind already.
    pub(super) fn add(&mut self, owner: usize, kind: NameKind, name: &str, number: usize) -> bool {
        let names = self.numbers.entry((owner, kind)).or_default();
        names.insert(name.to_owned(), number).is_none()
    }

    /// What a name of a group means.
    pub(super) fn in_group(&self, group: usize, kind: NameKind, name: &str) -> Option<usize> {
        self.numbers.get(&(group, kind))?.get(name).copied()
    }
}
