//! B-trees, versions 1 and 2: walks in the order of keys, from any key on.

pub(crate) mod version_1;
pub(crate) mod version_2;
