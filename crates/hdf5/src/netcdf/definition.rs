//! [`FileDefinition`]: a netCDF-4 file without its data: groups, dimensions, types, variables.
//!
//! All are in lists of the file, in the order of their definition, and name the group that they are
//! in. So a dimension's number is netCDF's `dimid`, and the same definitions in the same order are
//! the same file.

use super::atomic_type::{AtomicType, text};
use crate::model::{ByteOrder, CharacterSet, Dataspace, Datatype, Dimension, Filter, Name};
use crate::write::Elements;

/// The definitions of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileDefinition {
    /// The classic model: one group, no user-defined types, one unlimited dimension.
    pub classic_model: bool,
    /// What wrote the file (`_NCProperties`), for example `version=2,striate=0.1.0`.
    pub properties: Option<String>,
    /// The groups; the first is the root group, and parents are before their children.
    pub groups: Vec<GroupDefinition>,
    /// The dimensions.
    pub dimensions: Vec<DimensionDefinition>,
    /// The types of users.
    pub types: Vec<TypeDefinition>,
    /// The variables.
    pub variables: Vec<VariableDefinition>,
}

impl Default for FileDefinition {
    fn default() -> Self {
        let root = GroupDefinition { name: Name::from(""), parent: 0, attributes: Vec::new() };
        Self {
            classic_model: false,
            properties: Some(concat!("version=2,striate=", env!("CARGO_PKG_VERSION")).into()),
            groups: vec![root],
            dimensions: Vec::new(),
            types: Vec::new(),
            variables: Vec::new(),
        }
    }
}

impl FileDefinition {
    /// The shape of a variable.
    pub fn dataspace(&self, variable: &VariableDefinition) -> Dataspace {
        if variable.dimensions.is_empty() {
            return Dataspace::Scalar;
        }
        let dimensions = variable.dimensions.iter();
        let extents = dimensions.map(|&number| {
            self.dimensions.get(number).map_or(Dimension::fixed(0), DimensionDefinition::extent)
        });
        Dataspace::Simple(extents.collect())
    }

    /// Bytes of all elements of a variable; `None` beyond 64 bits.
    pub fn bytes(&self, variable: &VariableDefinition) -> Option<u64> {
        let elements = self.dataspace(variable).elements()?;
        elements.checked_mul(variable.datatype.size.into())
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupDefinition {
    /// Its name; that of the root group is not used.
    pub name: Name,
    /// The group that it is in; that of the root group is not used.
    pub parent: usize,
    /// Its attributes.
    pub attributes: Vec<AttributeDefinition>,
}

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DimensionDefinition {
    /// The group that it is in.
    pub group: usize,
    /// Its name.
    pub name: Name,
    /// Its length, at present if it is unlimited.
    pub length: u64,
    /// Whether it can grow.
    pub unlimited: bool,
}

impl DimensionDefinition {
    /// Its length and how long it can become.
    pub const fn extent(&self) -> Dimension {
        if self.unlimited {
            Dimension::unlimited(self.length)
        } else {
            Dimension::fixed(self.length)
        }
    }
}

/// A type that a user defined: a compound, enumeration, opaque or variable-length type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeDefinition {
    /// The group that it is in.
    pub group: usize,
    /// Its name.
    pub name: Name,
    /// What it is.
    pub datatype: Datatype,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VariableDefinition {
    /// The group that it is in.
    pub group: usize,
    /// Its name.
    pub name: Name,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its dimensions, slowest first, as numbers of [`FileDefinition::dimensions`].
    pub dimensions: Vec<usize>,
    /// How its elements are stored.
    pub storage: Storage,
    /// The filters of its chunks, in the order of writing.
    pub filters: Vec<Filter>,
    /// What elements are that nobody wrote.
    pub fill: VariableFill,
    /// Its attributes.
    pub attributes: Vec<AttributeDefinition>,
}

impl VariableDefinition {
    /// Whether its chunks pass filters.
    pub(crate) const fn is_filtered(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Whether its chunks get their places when they are written, and others when they are written
    /// again: filtered ones, whose sizes nobody can compute, and those of values of variable
    /// length, so that a state of the file that was committed never refers to heap collections of a
    /// later one.
    pub(crate) fn is_indexed(&self) -> bool {
        self.is_filtered() || self.datatype.has_descriptors()
    }
}

/// How the elements of a variable are stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// In one piece.
    Contiguous,
    /// In the header, less than 64 KiB. These are all elements.
    Compact(Elements),
    /// In chunks of this shape.
    Chunked(Vec<u64>),
}

/// What elements are that nobody wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VariableFill {
    /// The attribute `_FillValue`, or netCDF's default for the type.
    #[default]
    Value,
    /// Anything (`NC_NOFILL`).
    Nothing,
    /// Zeros, HDF5's own value: of files that other libraries made, and of netCDF-C's variables of
    /// types of users. NetCDF calls that not filled, too.
    Zeros,
}

/// An attribute of a group or a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttributeDefinition {
    /// Its name.
    pub name: Name,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its shape.
    pub dataspace: Dataspace,
    /// Its elements.
    pub elements: Elements,
}

impl AttributeDefinition {
    /// An attribute of some elements of a type.
    pub fn new(name: impl Into<Name>, datatype: Datatype, elements: Elements) -> Self {
        let count = elements.len() as u64 / u64::from(datatype.size.max(1));
        let dataspace = match count {
            0 => Dataspace::Null,
            count => Dataspace::fixed(&[count]),
        };
        Self { name: name.into(), datatype, dataspace, elements }
    }

    /// A text (`NC_CHAR`), which has a fixed length.
    pub fn text(name: impl Into<Name>, value: &str) -> Self {
        Self::bytes(name, value.as_bytes())
    }

    /// A text (`NC_CHAR`) that need not be UTF-8.
    pub fn bytes(name: impl Into<Name>, value: &[u8]) -> Self {
        let charset = if value.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
        // HDF5 has no type of size 0; the null dataspace says that there is nothing.
        let datatype = text(value.len().max(1) as u32, charset);
        let dataspace = if value.is_empty() { Dataspace::Null } else { Dataspace::Scalar };
        Self { name: name.into(), datatype, dataspace, elements: Elements::fixed(value) }
    }

    /// Strings (`NC_STRING`).
    pub fn strings<S: AsRef<[u8]>>(
        name: impl Into<Name>,
        strings: impl IntoIterator<Item = S>,
    ) -> Self {
        let datatype = AtomicType::String.datatype(ByteOrder::Little);
        Self::new(name, datatype, Elements::strings(strings))
    }

    /// One 32-bit integer.
    pub(crate) fn int(name: &str, value: i32) -> Self {
        Self { dataspace: Dataspace::Scalar, ..Self::ints(name, &[value]) }
    }

    /// 32-bit integers.
    pub(crate) fn ints(name: &str, values: &[i32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::new(name, AtomicType::Int.datatype(ByteOrder::Little), Elements::fixed(bytes))
    }

    /// A text with the zero that ends it, as the library for dimension scales writes it.
    pub(crate) fn terminated(name: &str, value: &[u8]) -> Self {
        let charset = if value.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
        let bytes = [value, &[0]].concat();
        Self {
            name: name.into(),
            datatype: text(bytes.len() as u32, charset),
            dataspace: Dataspace::Scalar,
            elements: Elements::fixed(bytes),
        }
    }
}
