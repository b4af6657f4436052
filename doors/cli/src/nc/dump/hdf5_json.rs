//! The same content as JSON: [`Hdf5FileRow`], definitions and, if asked for, data of a file.
//!
//! The root group's contents are those of the row itself, as for a classic file; other groups are
//! in a list, with their paths. Values are written as they are read. A compound is an object, a
//! value of an enumeration its name, opaque bytes are hexadecimal digits, and a string that is not
//! there is `null`.

use std::cell::RefCell;
use std::fmt::Write as _;

use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use striate_array::Values;
use striate_array::cdl::netcdf4::{
    AttributeReader, Datum, GroupTree, PrintedType, VariableData, is_wanted, kind,
};
use striate_array::cdl::{CdlError, Data, DumpOptions};
use striate_hdf5::Error;
use striate_hdf5::model::{Class, Datatype};
use striate_hdf5::netcdf::{AttributeDefinition, FileDefinition};

use super::hdf5::ended;
use super::json::add_numbers;
use crate::CommandError;
use crate::document::Document;
use crate::nc::hdf5_file::{Hdf5File, StoreSource, unreadable};

/// A file.
#[derive(Serialize)]
struct Hdf5FileRow<'f> {
    name: String,
    format: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    root: GroupRow<'f>,
    groups: Vec<GroupRow<'f>>,
}

/// What is in a group.
#[derive(Serialize)]
struct GroupRow<'f> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    dimensions: Vec<Value>,
    types: Vec<Value>,
    attributes: Vec<Value>,
    variables: Vec<Hdf5VariableRow<'f>>,
}

#[derive(Serialize)]
struct Hdf5VariableRow<'f> {
    name: String,
    r#type: String,
    dimensions: Vec<String>,
    shape: Vec<u64>,
    attributes: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<StoredValues<'f>>,
}

/// The values of a variable, read when they are written.
struct StoredValues<'f> {
    reader: VariableData<'f, StoreSource>,
    datatype: &'f Datatype,
    of: PrintedType,
    failed: &'f RefCell<Option<Error>>,
}

/// Prints a file.
pub(super) fn print_json(
    opened: &Hdf5File,
    name: String,
    options: &DumpOptions,
) -> Result<(), CommandError> {
    let definition = &opened.described.definition;
    let tree = GroupTree::new(definition);
    for wanted in &options.variables {
        if !tree.has_variable(definition, wanted) {
            let path = std::path::Path::new(&opened.name);
            return ended(path, CdlError::Unknown(wanted.clone()));
        }
    }
    let failed = RefCell::new(None);
    let group = |index| {
        group_row(opened, &tree, index, options, &failed)
            .map_err(|error| unreadable("cannot read the attributes", error))
    };
    let format = match opened.described.kind {
        striate_hdf5::netcdf::NetcdfKind::Hdf5 => "HDF5",
        _ => "netCDF-4",
    };
    let row = Hdf5FileRow {
        name,
        format,
        kind: kind(opened.described.kind),
        root: group(0)?,
        groups: (1..definition.groups.len()).map(group).collect::<Result<_, _>>()?,
    };
    let document = Document::new(vec![row], Vec::new());
    if options.data == Data::None {
        return document.print();
    }
    let written = document.write_to_stdout();
    match failed.take() {
        Some(error) => Err(unreadable("cannot read the data", error)),
        None => written,
    }
}

fn group_row<'f>(
    opened: &'f Hdf5File,
    tree: &GroupTree,
    group: usize,
    options: &DumpOptions,
    failed: &'f RefCell<Option<Error>>,
) -> Result<GroupRow<'f>, Error> {
    let definition = &opened.described.definition;
    let dimensions = tree.dimensions(group).iter().filter_map(|&at| definition.dimensions.get(at));
    let dimensions = dimensions.map(|dimension| {
        let (len, unlimited) = (dimension.length, dimension.unlimited);
        serde_json::json!({"name": dimension.name.to_string(), "len": len, "unlimited": unlimited})
    });
    let types = tree.types(group).iter().filter_map(|&at| definition.types.get(at));
    let types = types.map(|of_user| {
        let class = described(definition, &of_user.datatype);
        serde_json::json!({"name": of_user.name.to_string(), "class": class})
    });
    let attributes = definition.groups.get(group).map(|group| group.attributes.as_slice());
    let mut variables = Vec::new();
    for &index in tree.variables(group) {
        let Some(variable) = definition.variables.get(index) else { continue };
        let names = variable.dimensions.iter().filter_map(|&at| definition.dimensions.get(at));
        let of = PrintedType::of(definition, &variable.datatype);
        let values = of.filter(|_| is_wanted(definition, tree, index, options)).and_then(|of| {
            let reader = VariableData::new(&opened.file, &opened.described, index)?
                .with_divided(opened.divided());
            Some(StoredValues { reader, datatype: &variable.datatype, of, failed })
        });
        let reader = AttributeReader::of_variable(&opened.file, &opened.described, index)?;
        variables.push(Hdf5VariableRow {
            name: variable.name.to_string(),
            r#type: type_name(definition, &variable.datatype),
            dimensions: names.map(|dimension| dimension.name.to_string()).collect(),
            shape: definition.dataspace(variable).sizes(),
            attributes: attribute_rows(definition, &reader, &variable.attributes)?,
            values,
        });
    }
    let reader = AttributeReader::of_group(&opened.file, &opened.described, tree, group)?;
    Ok(GroupRow {
        path: (group > 0).then(|| tree.group_path(group)),
        dimensions: dimensions.collect(),
        types: types.collect(),
        attributes: attribute_rows(definition, &reader, attributes.unwrap_or_default())?,
        variables,
    })
}

/// The name of a type.
pub(in crate::nc) fn type_name(definition: &FileDefinition, datatype: &Datatype) -> String {
    match PrintedType::of(definition, datatype) {
        Some(PrintedType::Classic(external)) => external.to_string(),
        Some(PrintedType::String) => "string".into(),
        Some(PrintedType::User(index)) => {
            definition.types.get(index).map_or_else(String::new, |of_user| of_user.name.to_string())
        }
        None => "unknown".into(),
    }
}

/// What a user's type consists of, in CDL's words.
fn described(definition: &FileDefinition, datatype: &Datatype) -> Value {
    match &datatype.class {
        Class::Compound { members } => {
            let member = |member: &striate_hdf5::model::Member| {
                serde_json::json!({
                    "name": member.name.to_string(), "type": described(definition, &member.datatype),
                })
            };
            serde_json::json!({"compound": members.iter().map(member).collect::<Vec<_>>()})
        }
        Class::Enumeration { base, members } => {
            let names: Vec<String> = members.iter().map(|member| member.name.to_string()).collect();
            serde_json::json!({"enum": names, "type": type_name(definition, base)})
        }
        Class::Opaque { .. } => serde_json::json!({"opaque": datatype.size}),
        Class::Sequence { base } => serde_json::json!({"vlen": type_name(definition, base)}),
        Class::Array { base, dimensions } => {
            serde_json::json!({"array": dimensions, "type": type_name(definition, base)})
        }
        _ => type_name(definition, datatype).into(),
    }
}

fn attribute_rows(
    definition: &FileDefinition,
    reader: &AttributeReader<'_, StoreSource>,
    attributes: &[AttributeDefinition],
) -> Result<Vec<Value>, Error> {
    let mut rows = Vec::new();
    for attribute in attributes {
        let of = PrintedType::of_attribute(definition, attribute);
        let (name, value) = if of == Some(PrintedType::Classic(striate_array::Type::Char)) {
            let bytes = attribute.elements.as_bytes();
            ("char".to_owned(), String::from_utf8_lossy(bytes).into_owned().into())
        } else {
            let data = reader.data(attribute)?;
            let list = data.iter().map(|datum| plain(&attribute.datatype, datum));
            let name = match of {
                Some(PrintedType::String) => "string".to_owned(),
                _ => type_name(definition, &attribute.datatype),
            };
            (name, Value::Array(list.collect()))
        };
        let own = attribute.name.to_string();
        rows.push(serde_json::json!({"name": own, "type": name, "value": value}));
    }
    Ok(rows)
}

/// An element as JSON.
pub(in crate::nc) fn plain(datatype: &Datatype, datum: &Datum) -> Value {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    match (datum, &datatype.class) {
        (Datum::Integer(number) | Datum::Enumeration(number, None), _) => {
            i64::try_from(*number).map_or_else(|_| Value::from(*number as u64), Value::from)
        }
        (Datum::Float(number), _) => real(f64::from(*number), number),
        (Datum::Double(number), _) => real(*number, number),
        (Datum::Char(byte), _) => text(&[*byte]),
        (Datum::String(Some(bytes)), _) => text(bytes),
        (Datum::Opaque(bytes), _) => {
            let mut digits = String::new();
            for byte in bytes {
                // Writing to memory does not fail.
                let _ = write!(digits, "{byte:02X}");
            }
            digits.into()
        }
        (Datum::Enumeration(_, Some(name)), _) => name.to_string().into(),
        (Datum::Compound(values), Class::Compound { members }) => {
            let both = members.iter().zip(values);
            let named = both
                .map(|(member, value)| (member.name.to_string(), plain(&member.datatype, value)));
            Value::Object(named.collect::<Map<_, _>>())
        }
        (
            Datum::Array { values, .. } | Datum::Sequence(values),
            Class::Array { base, .. } | Class::Sequence { base },
        ) => Value::Array(values.iter().map(|value| plain(base, value)).collect()),
        // A string that is not there.
        _ => Value::Null,
    }
}

/// Numbers of a classic type as JSON.
pub(in crate::nc) fn number_values(values: &Values) -> Vec<Value> {
    match values {
        Values::Float(list) => list.iter().map(|number| real((*number).into(), number)).collect(),
        Values::Double(list) => list.iter().map(|number| real(*number, number)).collect(),
        Values::Byte(list) => list.iter().copied().map(Value::from).collect(),
        Values::Char(list) | Values::UByte(list) => list.iter().copied().map(Value::from).collect(),
        Values::Short(list) => list.iter().copied().map(Value::from).collect(),
        Values::UShort(list) => list.iter().copied().map(Value::from).collect(),
        Values::Int(list) => list.iter().copied().map(Value::from).collect(),
        Values::UInt(list) => list.iter().copied().map(Value::from).collect(),
        Values::Int64(list) => list.iter().copied().map(Value::from).collect(),
        Values::UInt64(list) => list.iter().copied().map(Value::from).collect(),
        Values::Stored(stored) => {
            (0..stored.len()).map(|number| stored.shown(number).into()).collect()
        }
    }
}

/// A number, or the name of one that JSON does not know.
fn real<T: Serialize>(number: f64, own: &T) -> Value {
    if number.is_finite() {
        return serde_json::to_value(own).unwrap_or(Value::Null);
    }
    super::json::unknown_to_json(number).into()
}

impl Serialize for StoredValues<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let told = |error: Error| {
            let text = error.to_string();
            *self.failed.borrow_mut() = Some(error);
            S::Error::custom(text)
        };
        let mut list = serializer.serialize_seq(None)?;
        let row = self.reader.shape().last().copied().unwrap_or(1).max(1);
        let mut text = Vec::new();
        for slab in self.reader.slabs() {
            let PrintedType::Classic(external) = self.of else {
                for datum in self.reader.data(&slab).map_err(told)? {
                    list.serialize_element(&plain(self.datatype, &datum))?;
                }
                continue;
            };
            match self.reader.values(&slab, external).map_err(told)? {
                Values::Char(bytes) => {
                    for byte in bytes {
                        text.push(byte);
                        if text.len() as u64 == row {
                            list.serialize_element(&String::from_utf8_lossy(&text))?;
                            text.clear();
                        }
                    }
                }
                numbers => add_numbers(&mut list, &numbers, u64::MAX)?,
            }
        }
        list.end()
    }
}
