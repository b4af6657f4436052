//! [`Link`]: a name in a group.

use super::{Address, CharacterSet, Name};

/// A name in a group, and what it leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    /// The name, without slashes.
    pub name: Name,
    /// Encoding of the name.
    pub charset: CharacterSet,
    /// The number of the link in the order of creation, if the group tracks that.
    pub creation_order: Option<i64>,
    /// Where it leads.
    pub target: LinkTarget,
}

/// Where a link leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkTarget {
    /// An object: the address of its header.
    Hard(Address),
    /// A path in this file.
    Soft(Name),
    /// A path in another file.
    External {
        /// The name of that file.
        file: Name,
        /// The path in it.
        path: Name,
    },
    /// What a program defined.
    UserDefined {
        /// The class, 65 to 255.
        class: u8,
        /// What that class needs.
        data: Vec<u8>,
    },
}
