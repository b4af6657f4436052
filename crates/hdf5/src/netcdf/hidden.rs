//! [`Hidden`]: the attributes of a dataset that are not the user's: those of HDF5's dimension
//! scales, and those by which netCDF-C numbers dimensions.

use crate::file::File;
use crate::model::{Address, Attribute, Class};
use crate::value::Reference;
use crate::{Result, Source, Value};

/// Names that netCDF-C shows no attribute of, at whatever object.
const RESERVED: [&str; 17] = [
    "CLASS",
    "DIMENSION_LIST",
    "NAME",
    "REFERENCE_LIST",
    "_ARRAY_DIMENSIONS",
    "_Codecs",
    "_Format",
    "_IsNetcdf4",
    "_NCProperties",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
    "_SuperblockVersion",
    "_nc3_strict",
    "_nczarr_array",
    "_nczarr_attr",
    "_nczarr_group",
    "_nczarr_superblock",
];

/// Of those, the ones that a commit writes again where they are needed.
const WRITTEN_AGAIN: [&str; 6] = [
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_NCProperties",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
    "_nc3_strict",
];

/// The attribute with the numbers of the dimensions of a variable.
pub(super) const NUMBERED: &[u8] = b"_Netcdf4Coordinates";
/// The attribute with the scales of a variable.
pub(super) const ATTACHED: &[u8] = b"DIMENSION_LIST";

/// How the name of a scale begins that is a dimension and not a variable.
const WITHOUT_VARIABLE: &[u8] = b"This is a netCDF dimension but not a netCDF variable";

/// Whether netCDF-C shows no attribute of that name.
pub(super) fn is_reserved(name: &[u8]) -> bool {
    // Most names are told apart by their first byte.
    matches!(name.first(), Some(b'C' | b'D' | b'N' | b'R' | b'_'))
        && RESERVED.iter().any(|one| one.as_bytes() == name)
}

/// Whether a hidden attribute is in the file again after a commit.
pub(super) fn is_written_again(name: &[u8], is_scale: bool) -> bool {
    WRITTEN_AGAIN.iter().any(|one| one.as_bytes() == name)
        || (is_scale && (name == b"CLASS" || name == b"NAME"))
}

/// What hidden attributes say of a dataset.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// It is a dimension scale.
    pub(super) is_scale: bool,
    /// It is a dimension and no variable.
    pub(super) without_variable: bool,
    /// The number of the dimension (`_Netcdf4Dimid`).
    pub(super) dimension: Option<i64>,
    /// The numbers of its dimensions (`_Netcdf4Coordinates`).
    pub(super) coordinates: Option<Vec<i64>>,
    /// The scale of each dimension (`DIMENSION_LIST`); of several, the last. Empty until
    /// [`Hidden::attach`].
    pub(super) attached: Vec<Option<Address>>,
}

impl Hidden {
    pub(super) fn read<S: Source>(file: &File<S>, attributes: &[Attribute]) -> Result<Self> {
        let mut hidden = Self::default();
        for attribute in attributes {
            match attribute.name.as_bytes() {
                b"CLASS" => {
                    hidden.is_scale = fixed_text(attribute) == Some(b"DIMENSION_SCALE".as_slice());
                }
                b"NAME" => {
                    let name = fixed_text(attribute);
                    hidden.without_variable =
                        name.is_some_and(|name| name.starts_with(WITHOUT_VARIABLE));
                }
                b"_Netcdf4Dimid" => {
                    let numbers = integers(file, attribute)?;
                    hidden.dimension = numbers.and_then(|numbers| numbers.first().copied());
                }
                NUMBERED => hidden.coordinates = integers(file, attribute)?,
                _ => {}
            }
        }
        Ok(hidden)
    }

    /// Reads the scales that are attached to the dataset at an address, which are in heaps.
    pub(super) fn attach<S: Source>(&mut self, file: &File<S>, address: Address) -> Result<()> {
        let attributes = file.attributes_as_stored(&file.object(address)?)?;
        if let Some(list) = attributes.iter().find(|one| one.name.as_bytes() == ATTACHED) {
            self.attached = scales(file, list)?;
        }
        Ok(())
    }
}

/// A text of a fixed length, up to the zero that ends it.
pub(super) fn fixed_text(attribute: &Attribute) -> Option<&[u8]> {
    let Class::String { .. } = attribute.datatype.class else { return None };
    attribute.value.split(|&byte| byte == 0).next()
}

fn integers<S: Source>(file: &File<S>, attribute: &Attribute) -> Result<Option<Vec<i64>>> {
    let Class::FixedPoint(_) = attribute.datatype.class else { return Ok(None) };
    let values = file.values(&attribute.datatype, &attribute.value)?;
    let number = |value: Value| match value {
        Value::Integer(number) => i64::try_from(number).ok(),
        _ => None,
    };
    Ok(values.into_iter().map(number).collect())
}

fn scales<S: Source>(file: &File<S>, attribute: &Attribute) -> Result<Vec<Option<Address>>> {
    let Class::Sequence { .. } = attribute.datatype.class else { return Ok(Vec::new()) };
    let values = file.values(&attribute.datatype, &attribute.value)?;
    let scale = |value: Value| match value {
        Value::Sequence(references) => references.iter().rev().find_map(|one| match one {
            Value::Reference(Reference::Object(address)) => Some(*address),
            _ => None,
        }),
        _ => None,
    };
    Ok(values.into_iter().map(scale).collect())
}
