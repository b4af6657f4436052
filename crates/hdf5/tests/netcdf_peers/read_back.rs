//! Reading of files with this crate, and comparing them with what they should be.

use striate_hdf5::model::{Dataspace, Object};
use striate_hdf5::write::netcdf::Storage;
use striate_hdf5::{File, Source, Value as Read};

use super::generated::Generated;
use super::kind::{Field, GeneratedValue, Kind};

/// Compares all variables and attributes of a file. A file that others added to has more.
pub(crate) fn check<S: Source>(source: S, expected: &Generated, added: bool) {
    let file = File::open(source).unwrap();
    let root = file.root().unwrap();
    for (number, group) in expected.definition.groups.iter().enumerate() {
        let object = file.lookup(&root, expected.path(number).as_bytes()).unwrap();
        let hidden =
            if number > 0 { 0 } else { 1 + usize::from(expected.definition.classic_model) };
        let count = group.attributes.len() + hidden;
        attributes(&file, &object, &expected.group_attributes[number], (!added).then_some(count));
    }
    for (number, variable) in expected.definition.variables.iter().enumerate() {
        let path = expected.dataset_path(number);
        let object = file.lookup(&root, path.as_bytes()).unwrap();
        let dataset = file.dataset(&object).unwrap();
        assert_eq!(dataset.datatype, variable.datatype, "{path}");
        assert_eq!(dataset.filters, variable.filters, "{path}");
        let space = expected.definition.dataspace(variable);
        if !added {
            assert_eq!(dataset.dataspace, space, "{path}");
        }
        if space == Dataspace::Scalar || !matches!(variable.storage, Storage::Chunked(_)) {
            assert_eq!(dataset.dataspace, space, "{path}");
        }
        let (kind, values) = &expected.variables[number];
        let mut bytes = vec![0; values.len() * dataset.datatype.size as usize];
        let sizes = space.sizes();
        file.read_box(&dataset, &vec![0; sizes.len()], &sizes, &mut bytes).unwrap();
        let found = file.values(&dataset.datatype, &bytes).unwrap();
        assert_eq!(found.len(), values.len(), "{path}");
        for (found, value) in found.iter().zip(values) {
            assert!(same(kind, value, found), "{path}: {found:?} instead of {value:?}");
        }
        attributes(&file, &object, &expected.variable_attributes[number], None);
    }
}

fn attributes<S: Source>(
    file: &File<S>,
    object: &Object,
    expected: &[(String, Kind, Vec<GeneratedValue>)],
    count: Option<usize>,
) {
    let found = file.attributes(object).unwrap();
    if let Some(count) = count {
        assert_eq!(found.len(), count);
    }
    for (name, kind, values) in expected {
        let attribute = found.iter().find(|one| one.name == **name);
        let attribute = attribute.unwrap_or_else(|| panic!("no attribute {name}"));
        let read = file.values(&attribute.datatype, &attribute.value).unwrap();
        match (&read[..], &values[..]) {
            ([], [GeneratedValue::Text(text)]) => assert_eq!(text, ""),
            ([Read::String(found)], [GeneratedValue::Text(text)]) => assert_eq!(*found, **text),
            _ => {
                assert_eq!(read.len(), values.len(), "{name}");
                for (found, value) in read.iter().zip(values) {
                    assert!(same(kind, value, found), "{name}: {found:?} instead of {value:?}");
                }
            }
        }
    }
}

/// Whether a value was read.
pub(crate) fn same(kind: &Kind, expected: &GeneratedValue, found: &Read) -> bool {
    match (kind, expected, found) {
        (
            _,
            GeneratedValue::Integer(expected),
            Read::Integer(found) | Read::Enumeration(found, _),
        ) => expected == found,
        (_, GeneratedValue::Float(expected), Read::Float(found)) => {
            expected.to_bits() == found.to_bits()
        }
        (_, GeneratedValue::Text(expected), Read::String(found)) => *found == **expected,
        (_, GeneratedValue::Bytes(expected), Read::Opaque(found)) => expected == found,
        (Kind::Sequence(base), GeneratedValue::List(expected), Read::Sequence(found)) => {
            expected.len() == found.len()
                && expected.iter().zip(found).all(|(expected, found)| same(base, expected, found))
        }
        (Kind::Compound(fields), GeneratedValue::List(expected), Read::Compound(found)) => {
            let member = |(field, (expected, found)): (&Field, (&GeneratedValue, &Read))| match (
                expected, found,
            ) {
                (GeneratedValue::List(expected), Read::Array(found)) => {
                    expected.len() == found.len()
                        && expected.iter().zip(found).all(|(e, f)| same(&field.kind, e, f))
                }
                _ => same(&field.kind, expected, found),
            };
            fields.iter().zip(expected.iter().zip(found)).all(member)
        }
        _ => false,
    }
}
