//! [`Attribute`]: a small array with a name, at an object.

use super::{CharacterSet, Dataspace, Datatype, Name};

/// An attribute of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attribute {
    /// Its name.
    pub name: Name,
    /// Encoding of the name.
    pub charset: CharacterSet,
    /// The number in the order of creation, if the object tracks that.
    pub creation_order: Option<u16>,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its shape.
    pub dataspace: Dataspace,
    /// All elements, as stored. Variable-length values are descriptors of objects in global heaps.
    pub value: Vec<u8>,
}
