//! Elements of classic types as [`Values`], which the modules for classic files print.

use striate_hdf5::model::{ByteOrder, Class, Datatype};
use striate_hdf5::netcdf::{
    AttributeDefinition, FileDefinition, NetcdfFile, NetcdfKind, VariableDefinition,
};

use super::PrintedType;
use crate::format::{Attribute, Dimension, Format, Header, Type, Values, Variable};

/// Attributes that say how values are printed.
const INTERPRETED: [&str; 5] = ["_FillValue", "C_format", "units", "calendar", "bounds"];

/// Elements of an HDF5 type that is a classic type.
pub fn classic_values(external: Type, datatype: &Datatype, mut bytes: Vec<u8>) -> Values {
    let order = match &datatype.class {
        Class::FixedPoint(number) => number.order,
        Class::FloatingPoint(number) => number.order,
        _ => ByteOrder::Big,
    };
    let size = datatype.size as usize;
    if order != ByteOrder::Big && size > 1 {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Values::from_bytes(external, &bytes)
}

/// The values of an attribute of a classic type.
pub(super) fn attribute_values(external: Type, attribute: &AttributeDefinition) -> Values {
    let bytes = attribute.elements.as_bytes().to_vec();
    match attribute.datatype.class {
        // One text, of all its bytes.
        Class::String { .. } => Values::Char(bytes),
        _ => classic_values(external, &attribute.datatype, bytes),
    }
}

/// The definitions as those of a classic file; `None` if a classic file cannot have them.
pub fn classic_header(described: &NetcdfFile) -> Option<Header> {
    let definition = &described.definition;
    let unlimited = definition.dimensions.iter().filter(|dimension| dimension.unlimited);
    let records: Vec<u64> = unlimited.map(|dimension| dimension.length).collect();
    if described.kind != NetcdfKind::Netcdf4Classic
        || definition.groups.len() > 1
        || records.len() > 1
    {
        return None;
    }
    let mut header = Header::new(Format::Cdf5);
    header.records = records.first().copied().unwrap_or_default();
    for dimension in &definition.dimensions {
        let len = if dimension.unlimited { 0 } else { dimension.length };
        header.dimensions.push(Dimension::classic(dimension.name.to_string(), len));
    }
    let attribute = |own: &AttributeDefinition| {
        let Some(PrintedType::Classic(external)) = PrintedType::of_attribute(definition, own)
        else {
            return None;
        };
        let values = attribute_values(external, own);
        Some(Attribute { name: own.name.to_string(), values })
    };
    for own in definition.groups.first().map(|group| group.attributes.iter())? {
        header.attributes.push(attribute(own)?);
    }
    for variable in &definition.variables {
        let Some(PrintedType::Classic(external)) = PrintedType::of(definition, &variable.datatype)
        else {
            return None;
        };
        let attributes = variable.attributes.iter().map(attribute).collect::<Option<_>>()?;
        let dimensions = variable.dimensions.iter().map(|&number| number as u32).collect();
        let name = variable.name.to_string();
        header.variables.push(Variable { attributes, ..Variable::new(name, external, dimensions) });
    }
    Some(header)
}

/// What of a variable is interpreted as that of a classic variable.
pub(super) fn view(
    definition: &FileDefinition,
    variable: &VariableDefinition,
    of: PrintedType,
) -> Variable {
    let external = match of {
        PrintedType::Classic(external) => external,
        PrintedType::String | PrintedType::User(_) => Type::Byte,
    };
    let mut attributes = Vec::new();
    for own in &variable.attributes {
        let Some(&name) = INTERPRETED.iter().find(|name| own.name == **name) else { continue };
        if let Some(PrintedType::Classic(external)) = PrintedType::of_attribute(definition, own) {
            let values = attribute_values(external, own);
            attributes.push(Attribute { name: name.to_owned(), values });
        }
    }
    let name = variable.name.to_string();
    Variable { attributes, ..Variable::new(name, external, Vec::new()) }
}
