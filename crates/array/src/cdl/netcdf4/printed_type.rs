//! [`PrintedType`]: the netCDF type that an HDF5 type is, as CDL names it.

use striate_hdf5::model::Datatype;
use striate_hdf5::netcdf::{AtomicType, AttributeDefinition, FileDefinition};

use crate::format::Type;

/// A type of netCDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintedType {
    /// One that classic files have as well.
    Classic(Type),
    /// Text of any length.
    String,
    /// One that a user defined, by its number in the file.
    User(usize),
}

impl PrintedType {
    /// The type of a variable or of a part of a user's type; `None` if netCDF has none.
    pub fn of(definition: &FileDefinition, datatype: &Datatype) -> Option<Self> {
        match AtomicType::of(datatype) {
            Some(atomic) => Some(atomic.into()),
            None => definition.type_of(datatype).map(Self::User),
        }
    }

    /// The type of an attribute.
    pub fn of_attribute(
        definition: &FileDefinition,
        attribute: &AttributeDefinition,
    ) -> Option<Self> {
        match attribute.atomic_type() {
            Some(atomic) => Some(atomic.into()),
            None => definition.type_of(&attribute.datatype).map(Self::User),
        }
    }
}

impl From<AtomicType> for PrintedType {
    fn from(atomic: AtomicType) -> Self {
        Self::Classic(match atomic {
            AtomicType::Byte => Type::Byte,
            AtomicType::Char => Type::Char,
            AtomicType::Short => Type::Short,
            AtomicType::Int => Type::Int,
            AtomicType::Float => Type::Float,
            AtomicType::Double => Type::Double,
            AtomicType::UByte => Type::UByte,
            AtomicType::UShort => Type::UShort,
            AtomicType::UInt => Type::UInt,
            AtomicType::Int64 => Type::Int64,
            AtomicType::UInt64 => Type::UInt64,
            AtomicType::String => return Self::String,
        })
    }
}
