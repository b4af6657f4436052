//! Adding to a file that others wrote.

use striate_hdf5::File;
use striate_hdf5::model::{Address, ByteOrder, Class};
use striate_hdf5::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, NetcdfFile, Storage,
    VariableDefinition, VariableFill, describe,
};
use striate_hdf5::write::{Elements, FilePlan, PlanOptions};

use crate::written::{Written, coordinates};

/// What a file is, and its plan.
fn resumed(bytes: &[u8]) -> (NetcdfFile, Written) {
    let file = File::open(bytes).unwrap();
    let found = describe(&file).unwrap();
    assert_eq!(found.rewritable(), Ok(()));
    let placements = found.placements(&file).unwrap();
    let (end, options) = (Address(bytes.len() as u64), PlanOptions::default());
    let plan = FilePlan::resume(found.definition.clone(), placements, end, options).unwrap();
    (found, Written { plan, bytes: bytes.to_vec() })
}

fn int(name: &str, values: &[i32]) -> AttributeDefinition {
    let datatype = AtomicType::Int.datatype(ByteOrder::Little);
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    AttributeDefinition::new(name, datatype, Elements::fixed(bytes))
}

/// Adds attributes everywhere, a dimension and a variable.
pub(crate) fn with_more(bytes: &[u8]) -> Vec<u8> {
    let (found, mut written) = resumed(bytes);
    let mut definition = found.definition;
    let root = &mut definition.groups[0].attributes;
    root.extend([AttributeDefinition::text("added", "text"), int("grown", &[0])]);
    for variable in &mut definition.variables {
        variable.attributes.push(int("added", &[1, 2, 3]));
    }
    let dimension = definition.dimensions.len();
    definition.dimensions.push(DimensionDefinition {
        group: 0,
        name: "added".into(),
        length: 3,
        unlimited: false,
    });
    definition.variables.push(VariableDefinition {
        group: 0,
        name: "added".into(),
        datatype: AtomicType::Double.datatype(ByteOrder::Little),
        dimensions: vec![dimension],
        storage: Storage::Contiguous,
        filters: Vec::new(),
        fill: VariableFill::Value,
        attributes: Vec::new(),
    });
    let variable = definition.variables.len() - 1;
    written.plan.redefine(definition).unwrap();
    let values: Vec<u8> = [1.5_f64, 2.5, 3.5].iter().flat_map(|one| one.to_le_bytes()).collect();
    written.put(variable, &Elements::fixed(values));
    written.commit();
    written.bytes
}

/// Makes all dimensions that can grow longer by 1; what is new is 7 where it is a number. The old
/// values are written again, also those that nobody wrote.
pub(crate) fn grown(bytes: &[u8]) -> Vec<u8> {
    let (found, mut written) = resumed(bytes);
    let mut definition = found.definition.clone();
    for attribute in &mut definition.groups[0].attributes {
        if attribute.name == "grown" {
            *attribute = int("grown", &[1]);
        }
    }
    written.plan.redefine(definition).unwrap();
    let file = File::open(bytes).unwrap();
    for (number, dimension) in found.definition.dimensions.iter().enumerate() {
        let mut users = found.definition.variables.iter();
        if dimension.unlimited && users.any(|one| one.dimensions.contains(&number)) {
            written.plan.grow(number, dimension.length + 1).unwrap();
        }
    }
    for (number, variable) in found.definition.variables.iter().enumerate() {
        if variable.datatype.has_descriptors() {
            continue;
        }
        let dataset = &found.objects[number];
        let mut old = vec![0; dataset.bytes().unwrap() as usize];
        file.read(dataset, &mut old).unwrap();
        let sizes = written.plan.definition().dataspace(variable).sizes();
        let mut new = seven(variable).repeat(sizes.iter().product::<u64>() as usize);
        let element = variable.datatype.size as usize;
        let before = dataset.dataspace.sizes();
        for at in 0..before.iter().product::<u64>() {
            let place = coordinates(at, &before);
            let to = place.iter().zip(&sizes).fold(0, |all, (at, size)| all * size + at) as usize;
            let from = at as usize * element;
            new[to * element..][..element].copy_from_slice(&old[from..from + element]);
        }
        written.put(number, &Elements::fixed(new));
    }
    written.commit();
    written.bytes
}

/// The number 7 in the type of a variable; zeros if that is none of numbers.
fn seven(variable: &VariableDefinition) -> Vec<u8> {
    let size = variable.datatype.size as usize;
    let (mut bytes, order) = match &variable.datatype.class {
        Class::FixedPoint(number) => (7_u64.to_le_bytes()[..size].to_vec(), number.order),
        Class::FloatingPoint(number) if size == 4 => (7_f32.to_le_bytes().to_vec(), number.order),
        Class::FloatingPoint(number) => (7_f64.to_le_bytes().to_vec(), number.order),
        _ => (vec![0; size], ByteOrder::Little),
    };
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    bytes
}

/// Describes a file that may be damaged, and writes it further if that is possible. Returns whether
/// it was.
pub(crate) fn rewritten(bytes: &[u8]) -> striate_hdf5::Result<bool> {
    let file = File::open(bytes)?;
    let found = describe(&file)?;
    assert_eq!(found, describe(&file)?);
    if found.rewritable().is_err() {
        return Ok(false);
    }
    let placements = found.placements(&file)?;
    let definition: FileDefinition = found.definition;
    let end = Address(bytes.len() as u64);
    let mut plan = FilePlan::resume(definition.clone(), placements, end, PlanOptions::default())?;
    plan.redefine(definition)?;
    plan.commit()?;
    Ok(true)
}
