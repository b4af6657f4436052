//! What a description says, as the JSON that `view.py` makes of what netCDF4 says.

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use striate_hdf5::model::{ByteOrder, Class, Datatype, Name};
use striate_hdf5::netcdf::{AtomicType, AttributeDefinition, FileDefinition, NetcdfFile, Storage};

/// Compares a description with what netCDF4 said about the file.
pub(crate) fn check(path: &Path, found: &NetcdfFile) {
    let expected = std::fs::read_to_string(path.with_extension("view")).unwrap();
    let expected: Json = serde_json::from_str(&expected).unwrap();
    let found = view(found);
    for part in ["classic", "groups", "dimensions", "variables"] {
        assert_eq!(found[part], expected[part], "{}: {part}", path.display());
    }
}

fn view(file: &NetcdfFile) -> Json {
    let definition = &file.definition;
    let mut groups = Map::new();
    for (number, group) in definition.groups.iter().enumerate() {
        let variables = definition.variables.iter().filter(|one| one.group == number);
        let variables = variables.filter(|one| is_known(&one.datatype));
        let children = definition.groups.iter().skip(1).filter(|one| one.parent == number);
        let types = definition.types.iter().filter(|one| one.group == number);
        let mut types: Vec<String> =
            types.filter(|one| is_known(&one.datatype)).map(|one| one.name.to_string()).collect();
        types.sort();
        let entry = json!({
            "attributes": attributes(&group.attributes),
            "variables": variables.map(|one| one.name.to_string()).collect::<Vec<_>>(),
            "groups": children.map(|one| one.name.to_string()).collect::<Vec<_>>(),
            "types": types,
        });
        groups.insert(path(definition, number), entry);
    }
    let mut variables = Map::new();
    for variable in definition.variables.iter().filter(|one| is_known(&one.datatype)) {
        let chunks = match &variable.storage {
            Storage::Chunked(chunk) => json!(chunk),
            _ => Json::Null,
        };
        let dimensions = variable.dimensions.iter().map(|&number| {
            let dimension = &definition.dimensions[number];
            json!([path(definition, dimension.group), dimension.name.to_string()])
        });
        let entry = json!({
            "type": kind(definition, &variable.datatype),
            "dimensions": dimensions.collect::<Vec<_>>(),
            "chunks": chunks,
            "attributes": attributes(&variable.attributes),
        });
        let group = path(definition, variable.group);
        variables.insert(format!("{}/{}", group.trim_end_matches('/'), variable.name), entry);
    }
    let dimensions = definition.dimensions.iter().map(|one| {
        let group = path(definition, one.group);
        json!([group, one.name.to_string(), one.length, one.unlimited])
    });
    json!({
        "classic": definition.classic_model,
        "groups": groups,
        "dimensions": dimensions.collect::<Vec<_>>(),
        "variables": variables,
    })
}

/// Whether netCDF4 has the type: it knows no opaque ones.
fn is_known(datatype: &Datatype) -> bool {
    !matches!(datatype.class, Class::Opaque { .. })
}

pub(crate) fn path(definition: &FileDefinition, group: usize) -> String {
    if group == 0 {
        return "/".into();
    }
    let one = &definition.groups[group];
    format!("{}/{}", path(definition, one.parent).trim_end_matches('/'), one.name)
}

fn kind(definition: &FileDefinition, datatype: &Datatype) -> Json {
    let mark = if is_big(datatype) { ">" } else { "<" };
    match AtomicType::of(datatype) {
        Some(AtomicType::String) => json!("str"),
        Some(AtomicType::Char) => json!("S1"),
        Some(atomic) if datatype.size == 1 => json!(code(atomic)),
        Some(atomic) => json!(format!("{mark}{}", code(atomic))),
        None => {
            let class = match datatype.class {
                Class::Compound { .. } => "compound",
                Class::Sequence { .. } => "vlen",
                _ => "enum",
            };
            let number = definition.type_of(datatype).expect("a type of the file");
            json!([class, definition.types[number].name.to_string()])
        }
    }
}

fn is_big(datatype: &Datatype) -> bool {
    match &datatype.class {
        Class::FixedPoint(number) => number.order == ByteOrder::Big,
        Class::FloatingPoint(number) => number.order == ByteOrder::Big,
        _ => false,
    }
}

fn code(atomic: AtomicType) -> &'static str {
    match atomic {
        AtomicType::Byte => "i1",
        AtomicType::Char => "S1",
        AtomicType::Short => "i2",
        AtomicType::Int => "i4",
        AtomicType::Float => "f4",
        AtomicType::Double => "f8",
        AtomicType::UByte => "u1",
        AtomicType::UShort => "u2",
        AtomicType::UInt => "u4",
        AtomicType::Int64 => "i8",
        AtomicType::UInt64 => "u8",
        AtomicType::String => "str",
    }
}

fn attributes(list: &[AttributeDefinition]) -> Json {
    let one = |attribute: &AttributeDefinition| {
        let value = match attribute.atomic_type() {
            Some(AtomicType::Char | AtomicType::String) => {
                // NetCDF4 leaves zeros out.
                let text = |name: &Name| name.to_string().replace('\0', "");
                let texts = attribute.texts().expect("text");
                json!(["text", texts.iter().map(text).collect::<Vec<_>>()])
            }
            Some(atomic) => json!([code(atomic), hex(attribute)]),
            None => match &attribute.datatype.class {
                Class::Enumeration { base, .. } => {
                    json!([code(AtomicType::of(base).unwrap()), hex(attribute)])
                }
                _ => json!(["user"]),
            },
        };
        (attribute.name.to_string(), value)
    };
    Json::Object(list.iter().map(one).collect())
}

/// The bytes of numbers, lowest first.
fn hex(attribute: &AttributeDefinition) -> String {
    let mut bytes = attribute.elements.as_bytes().to_vec();
    if is_big(&attribute.datatype) {
        bytes.chunks_exact_mut(attribute.datatype.size as usize).for_each(<[u8]>::reverse);
    }
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
