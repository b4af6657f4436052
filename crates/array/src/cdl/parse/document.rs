//! [`CdlDocument`]: what a text defines.
//!
//! All definitions are in lists, in the order of the text, and name the group that they are in, as
//! in `striate_hdf5::write::netcdf::FileDefinition`.

use std::fmt;
use std::str::FromStr;

use striate_hdf5::write::netcdf::AtomicType;

use super::special::VariableSettings;

/// A file as a text describes it.
#[derive(Clone, Debug)]
pub struct CdlDocument<'t> {
    pub(super) text: &'t [u8],
    /// The name of the dataset.
    pub name: String,
    /// The format that the text asks for (`_Format`).
    pub format: Option<CdlFormat>,
    /// The groups; the first is the root group, and parents are before their children.
    pub groups: Vec<CdlGroup>,
    /// The dimensions.
    pub dimensions: Vec<CdlDimension>,
    /// The types that the text defines.
    pub types: Vec<CdlUserType>,
    /// The variables.
    pub variables: Vec<CdlVariable>,
}

/// A format of files that a text can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CdlFormat {
    /// CDF-1, CDF-2 or CDF-5.
    Classic(crate::Format),
    /// HDF5 with all that netCDF-4 has.
    Netcdf4,
    /// HDF5 with what the classic model has.
    Netcdf4Classic,
}

impl fmt::Display for CdlFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Classic(format) => format.fmt(f),
            Self::Netcdf4 => f.write_str("netCDF-4"),
            Self::Netcdf4Classic => f.write_str("netCDF-4 classic model"),
        }
    }
}

impl FromStr for CdlFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let formats = "there are cdf1, cdf2, cdf5, netcdf4 and netcdf4-classic";
        match text.to_ascii_lowercase().as_str() {
            "netcdf4" | "netcdf-4" => Ok(Self::Netcdf4),
            "netcdf4-classic" | "netcdf-4-classic" => Ok(Self::Netcdf4Classic),
            other => match other.parse() {
                Ok(format) => Ok(Self::Classic(format)),
                Err(_) => Err(format!("'{text}' is no format; {formats}")),
            },
        }
    }
}

/// A group.
#[derive(Clone, Debug)]
pub struct CdlGroup {
    /// Its name; that of the root group is empty.
    pub name: String,
    /// The group that it is in; that of the root group is itself.
    pub parent: usize,
    /// Its attributes.
    pub attributes: Vec<CdlAttribute>,
}

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CdlDimension {
    /// The group that it is in.
    pub group: usize,
    /// Its name.
    pub name: String,
    /// Its length; that of an unlimited one is the longest that values need.
    pub length: u64,
    /// Whether it is unlimited.
    pub unlimited: bool,
}

/// The type of a variable, an attribute or a part of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CdlType {
    /// One of netCDF's own.
    Atomic(AtomicType),
    /// One of [`CdlDocument::types`].
    User(usize),
}

/// A type that the text defines.
#[derive(Clone, Debug)]
pub struct CdlUserType {
    /// The group that it is in.
    pub group: usize,
    /// Its name.
    pub name: String,
    /// What it is.
    pub shape: CdlShape,
    /// Bytes of an element in a file.
    pub size: u32,
    /// What the offset of a member of the type is a multiple of.
    pub alignment: u32,
    /// How many types are in each other.
    pub(super) depth: usize,
}

/// What a type is.
#[derive(Clone, Debug)]
pub enum CdlShape {
    /// Names for integers.
    Enumeration {
        /// The type of the integers.
        base: AtomicType,
        /// The names.
        members: Vec<(String, i128)>,
    },
    /// So many bytes as [`CdlUserType::size`] says.
    Opaque,
    /// Any number of values.
    Sequence(CdlType),
    /// Fields, each with a type of its own.
    Compound(Vec<CdlField>),
}

/// A field of a compound type.
#[derive(Clone, Debug)]
pub struct CdlField {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub of: CdlType,
    /// Its lengths, if it is an array.
    pub dimensions: Vec<u32>,
    /// Where it begins in an element.
    pub offset: u32,
}

impl CdlField {
    /// Values in the field.
    pub fn count(&self) -> u64 {
        self.dimensions.iter().map(|&length| u64::from(length)).product()
    }
}

/// A variable.
#[derive(Clone, Debug)]
pub struct CdlVariable {
    /// The group that it is in.
    pub group: usize,
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub of: CdlType,
    /// Its dimensions, slowest first.
    pub dimensions: Vec<usize>,
    /// Its attributes, without those that say how it is stored.
    pub attributes: Vec<CdlAttribute>,
    /// How it is to be stored.
    pub settings: VariableSettings,
    /// Its values, if the text gives some.
    pub data: Option<ValueList>,
    /// Where it is defined.
    pub(super) at: usize,
}

/// An attribute.
#[derive(Clone, Debug)]
pub struct CdlAttribute {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub of: CdlType,
    /// Its values.
    pub values: ValueList,
}

/// The place of a list of values in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueList {
    /// Where the first value is.
    pub(super) at: usize,
    /// Values, or lists of values in braces.
    pub(super) items: u64,
}

impl CdlDocument<'_> {
    /// Bytes of an element of a type in a file.
    pub fn size(&self, of: CdlType) -> u32 {
        match of {
            CdlType::Atomic(atomic) => atomic_size(atomic),
            CdlType::User(number) => self.types.get(number).map_or(1, |one| one.size),
        }
    }

    /// The lengths of a variable's dimensions.
    pub fn lengths(&self, variable: &CdlVariable) -> Vec<u64> {
        let length = |&number: &usize| self.dimensions.get(number).map_or(0, |one| one.length);
        variable.dimensions.iter().map(length).collect()
    }

    /// Whether a dimension is unlimited.
    pub(super) fn is_unlimited(&self, number: usize) -> bool {
        self.dimensions.get(number).is_some_and(|one| one.unlimited)
    }

    /// The format of the text: what it asks for, else the simplest that holds what it defines, as
    /// `ncgen` chooses it.
    pub fn needed_format(&self) -> CdlFormat {
        if let Some(format) = self.format {
            return format;
        }
        if self.needs_netcdf4() || self.variables.iter().any(|one| one.settings.is_set()) {
            return CdlFormat::Netcdf4;
        }
        let of_variables = self.variables.iter().map(|one| one.of);
        let of_attributes = self.attributes().map(|one| one.of);
        let is_large = |of: CdlType| {
            let classic = |external: crate::Type| external.is_in(crate::Format::Cdf1);
            external_type(of).is_some_and(|external| !classic(external))
        };
        let large = of_variables.chain(of_attributes).any(is_large);
        CdlFormat::Classic(if large { crate::Format::Cdf5 } else { crate::Format::Cdf1 })
    }

    /// Whether the classic formats cannot hold it, other than for their limits of size.
    fn needs_netcdf4(&self) -> bool {
        let unlimited = self.dimensions.iter().filter(|one| one.unlimited).count();
        let grows_inside = |variable: &CdlVariable| {
            variable.dimensions.iter().skip(1).any(|&number| self.is_unlimited(number))
        };
        self.groups.len() > 1
            || !self.types.is_empty()
            || unlimited > 1
            || self.variables.iter().any(grows_inside)
            || self.variables.iter().any(|one| external_type(one.of).is_none())
            || self.attributes().any(|one| external_type(one.of).is_none())
    }

    /// All attributes, of groups and variables.
    fn attributes(&self) -> impl Iterator<Item = &CdlAttribute> {
        let of_groups = self.groups.iter().flat_map(|group| &group.attributes);
        of_groups.chain(self.variables.iter().flat_map(|variable| &variable.attributes))
    }
}

/// Bytes of an element in a file.
pub(super) const fn atomic_size(atomic: AtomicType) -> u32 {
    match atomic {
        AtomicType::Byte | AtomicType::Char | AtomicType::UByte => 1,
        AtomicType::Short | AtomicType::UShort => 2,
        AtomicType::Int | AtomicType::UInt | AtomicType::Float => 4,
        AtomicType::Double | AtomicType::Int64 | AtomicType::UInt64 => 8,
        AtomicType::String => 16,
    }
}

/// The type of the classic formats, if it is one.
pub fn external_type(of: CdlType) -> Option<crate::Type> {
    let CdlType::Atomic(atomic) = of else { return None };
    Some(match atomic {
        AtomicType::Byte => crate::Type::Byte,
        AtomicType::Char => crate::Type::Char,
        AtomicType::Short => crate::Type::Short,
        AtomicType::Int => crate::Type::Int,
        AtomicType::Float => crate::Type::Float,
        AtomicType::Double => crate::Type::Double,
        AtomicType::UByte => crate::Type::UByte,
        AtomicType::UShort => crate::Type::UShort,
        AtomicType::UInt => crate::Type::UInt,
        AtomicType::Int64 => crate::Type::Int64,
        AtomicType::UInt64 => crate::Type::UInt64,
        AtomicType::String => return None,
    })
}
