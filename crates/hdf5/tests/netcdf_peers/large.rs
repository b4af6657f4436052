//! Structures that generated files do not have: chunk indexes of several levels, attributes in
//! heaps, types within types.

use striate_hdf5::File;
use striate_hdf5::model::ByteOrder;
use striate_hdf5::write::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, Storage, TypeDefinition,
    VariableDefinition, VariableFill,
};
use striate_hdf5::write::{Elements, PlanOptions};

use super::generated::elements;
use super::kind::{Field, GeneratedValue, Kind};
use super::read_back::same;
use super::tools::{directory, peer, run};
use super::written::Written;

fn dimension(name: &str, length: u64, unlimited: bool) -> DimensionDefinition {
    DimensionDefinition { group: 0, name: name.into(), length, unlimited }
}

fn variable(name: &str, dimensions: &[usize], storage: Storage) -> VariableDefinition {
    VariableDefinition {
        group: 0,
        name: name.into(),
        datatype: AtomicType::Int.datatype(ByteOrder::Little),
        dimensions: dimensions.to_vec(),
        storage,
        filters: Vec::new(),
        fill: VariableFill::Value,
        attributes: Vec::new(),
    }
}

fn numbers(count: i32) -> Elements {
    Elements::fixed((0..count).flat_map(i32::to_le_bytes).collect::<Vec<u8>>())
}

#[test]
fn indexes_of_three_levels() {
    let directory = directory("levels");
    let file = FileDefinition {
        dimensions: vec![dimension("x", 300, true), dimension("y", 60, false)],
        variables: vec![variable("v", &[0, 1], Storage::Chunked(vec![2, 1]))],
        ..FileDefinition::default()
    };
    let mut written = Written::create(file, PlanOptions::default());
    written.put(0, &numbers(300 * 60));
    written.commit();
    // 9,000 chunks: more than 64 × 64.
    std::fs::write(directory.join("levels.nc"), &written.bytes).unwrap();
    peer("counting", &directory);
    run("h5ls", &["-r", "-v"], &directory.join("levels.nc"));

    let file = File::open(written.bytes).unwrap();
    let dataset = file.lookup(&file.root().unwrap(), b"v").unwrap();
    let dataset = file.dataset(&dataset).unwrap();
    let mut read = vec![0; 300 * 60 * 4];
    file.read(&dataset, &mut read).unwrap();
    assert_eq!(read, numbers(300 * 60).as_bytes());
}

#[test]
fn thousands_of_variables_of_one_dimension() {
    let directory = directory("many");
    let mut file = FileDefinition {
        dimensions: vec![dimension("x", 3, false), dimension("scale", 2, false)],
        ..FileDefinition::default()
    };
    file.variables.push(variable("scale", &[1], Storage::Contiguous));
    for number in 0..5000 {
        file.variables.push(variable(&format!("v{number}"), &[0, 1], Storage::Contiguous));
    }
    let mut written = Written::create(file, PlanOptions::default());
    for number in 0..=5000 {
        written.put(number, &numbers(if number == 0 { 2 } else { 6 }));
    }
    written.commit();
    std::fs::write(directory.join("many.nc"), &written.bytes).unwrap();
    // Reference lists of 80,000 bytes are in heaps, of which netCDF-C reads and to which it adds.
    peer("counting", &directory);
    peer("attach", &directory);
    peer("counting", &directory);
    run("h5dump", &["-H"], &directory.join("many.nc"));
    let file = File::open(std::fs::read(directory.join("many.nc")).unwrap()).unwrap();
    let scale = file.lookup(&file.root().unwrap(), b"scale").unwrap();
    let attributes = file.attributes(&scale).unwrap();
    let list = attributes.iter().find(|one| one.name == "REFERENCE_LIST").unwrap();
    assert_eq!(list.value.len(), 16 * 5001);
}

#[test]
fn attributes_of_64_kib_and_more() {
    let directory = directory("long");
    let mut file = FileDefinition {
        dimensions: vec![dimension("x", 5, false)],
        variables: vec![variable("v", &[0], Storage::Contiguous)],
        ..FileDefinition::default()
    };
    for number in 0..300 {
        let name = format!("number {number}");
        let value = AttributeDefinition::text(name.as_str(), &format!("value {number}"));
        file.variables[0].attributes.push(value.clone());
        file.groups[0].attributes.push(value);
    }
    let long = "0123456789".repeat(20_000);
    file.groups[0].attributes.push(AttributeDefinition::text("long", &long));
    file.variables[0].attributes.insert(7, AttributeDefinition::text("long", &long));
    file.variables[0].attributes.push(AttributeDefinition::strings("texts", ["a", "", "ü"]));
    let mut written = Written::create(file, PlanOptions::default());
    written.put(0, &numbers(5));
    written.commit();
    std::fs::write(directory.join("long.nc"), &written.bytes).unwrap();
    peer("counting", &directory);
    peer("long", &directory);
    run("h5dump", &["-d", "/v"], &directory.join("long.nc"));

    let file = File::open(std::fs::read(directory.join("long.nc")).unwrap()).unwrap();
    let object = file.lookup(&file.root().unwrap(), b"v").unwrap();
    let attributes = file.attributes(&object).unwrap();
    let long_read = attributes.iter().find(|one| one.name == "long").unwrap();
    assert_eq!(long_read.value, long.as_bytes());
}

#[test]
fn types_within_types() {
    let directory = directory("nested");
    let field = |name: &str, kind: &Kind, shape: &[u32]| Field {
        name: name.into(),
        kind: kind.clone(),
        shape: shape.to_vec(),
    };
    let color = Kind::Enumeration(AtomicType::UByte, vec![("RED".into(), 1), ("BLUE".into(), 2)]);
    let int = Kind::little(AtomicType::Int);
    let double = Kind::little(AtomicType::Double);
    let inner = Kind::Compound(vec![field("a", &int, &[]), field("b", &double, &[])]);
    let row = Kind::Sequence(Box::new(inner.clone()));
    let blob = Kind::Opaque(3);
    let outer = Kind::Compound(vec![
        field("c", &color, &[]),
        field("i", &inner, &[2]),
        field("r", &row, &[]),
        field("o", &blob, &[]),
        field("s", &Kind::little(AtomicType::String), &[]),
    ]);
    let pair = |a: i128, b| {
        GeneratedValue::List(vec![GeneratedValue::Integer(a), GeneratedValue::Float(b)])
    };
    let values = [
        GeneratedValue::List(vec![
            GeneratedValue::Integer(1),
            GeneratedValue::List(vec![pair(1, 2.5), pair(3, 4.5)]),
            GeneratedValue::List(vec![pair(5, 6.5), pair(7, 8.5), pair(9, 10.5)]),
            GeneratedValue::Bytes(vec![1, 2, 3]),
            GeneratedValue::Text("text".into()),
        ]),
        GeneratedValue::List(vec![
            GeneratedValue::Integer(2),
            GeneratedValue::List(vec![pair(10, 20.5), pair(30, 40.5)]),
            GeneratedValue::List(Vec::new()),
            GeneratedValue::Bytes(vec![4, 5, 6]),
            GeneratedValue::Text(String::new()),
        ]),
    ];
    let mut file = FileDefinition {
        dimensions: vec![dimension("x", 2, false)],
        variables: vec![variable("v", &[0], Storage::Chunked(vec![1]))],
        ..FileDefinition::default()
    };
    let kinds = [("color", &color), ("inner", &inner), ("row", &row), ("blob", &blob)];
    for (name, kind) in kinds.into_iter().chain([("outer", &outer)]) {
        let (name, datatype) = (name.into(), kind.datatype());
        file.types.push(TypeDefinition { group: 0, name, datatype });
    }
    file.variables[0].datatype = outer.datatype();
    let one = elements(&outer, &values[..1]);
    file.variables[0].attributes.push(AttributeDefinition::new("like", outer.datatype(), one));
    let mut written = Written::create(file, PlanOptions::default());
    written.put(0, &elements(&outer, &values));
    written.commit();
    let path = directory.join("nested.nc");
    std::fs::write(&path, &written.bytes).unwrap();
    peer("nested", &directory);
    let printed = run("ncdump", &["-h"], &path);
    for part in ["inner(*) row ;", "color c ;", "inner i(2) ;", "row r ;", "outer v(x) ;"] {
        assert!(printed.contains(part), "{printed}");
    }
    let file = File::open(written.bytes).unwrap();
    let object = file.lookup(&file.root().unwrap(), b"v").unwrap();
    let dataset = file.dataset(&object).unwrap();
    let mut bytes = vec![0; dataset.bytes().unwrap() as usize];
    file.read(&dataset, &mut bytes).unwrap();
    let found = file.values(&dataset.datatype, &bytes).unwrap();
    assert!(
        found.iter().zip(&values).all(|(found, value)| same(&outer, value, found)),
        "{found:?}"
    );
}
