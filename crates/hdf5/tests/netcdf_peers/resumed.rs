//! Generated files that are described and written further: with attributes, a variable and
//! records.

use std::collections::BTreeMap;

use striate_hdf5::File;
use striate_hdf5::model::{Address, Class, Datatype};
use striate_hdf5::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, NetcdfFile, Storage,
    VariableDefinition, VariableFill, describe,
};
use striate_hdf5::write::{Elements, FilePlan, PlanOptions};
use striate_testing::splitmix::SplitMix64;

use super::generated::{Generated, elements};
use super::kind::{GeneratedValue, Kind};
use super::written::{Written, coordinates};

/// A definition in an order that does not depend on that of groups and of variables of different
/// groups.
#[derive(Debug, PartialEq)]
pub(crate) struct Canonical {
    classic: bool,
    groups: BTreeMap<String, Vec<AttributeDefinition>>,
    dimensions: Vec<(String, DimensionDefinition)>,
    types: BTreeMap<String, String>,
    variables: BTreeMap<String, VariableDefinition>,
    order: BTreeMap<String, Vec<String>>,
}

pub(crate) fn path(file: &FileDefinition, group: usize) -> String {
    if group == 0 {
        return String::new();
    }
    format!("{}/{}", path(file, file.groups[group].parent), file.groups[group].name)
}

/// As netCDF sees it: an unlimited dimension without variables has no length.
pub(crate) fn canonical(file: &FileDefinition) -> Canonical {
    let groups = file.groups.iter().enumerate();
    let mut order: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for variable in &file.variables {
        order.entry(path(file, variable.group)).or_default().push(variable.name.to_string());
    }
    let is_used = |number| file.variables.iter().any(|one| one.dimensions.contains(&number));
    let dimensions = file.dimensions.iter().enumerate().map(|(number, one)| {
        let length = if one.unlimited && !is_used(number) { 0 } else { one.length };
        (path(file, one.group), DimensionDefinition { group: 0, length, ..one.clone() })
    });
    let in_group = |group, name: &dyn std::fmt::Display| format!("{}/{name}", path(file, group));
    Canonical {
        classic: file.classic_model,
        groups: groups.map(|(number, one)| (path(file, number), one.attributes.clone())).collect(),
        dimensions: dimensions.collect(),
        types: file
            .types
            .iter()
            .map(|one| (in_group(one.group, &one.name), format!("{:?}", one.datatype)))
            .collect(),
        variables: file
            .variables
            .iter()
            .map(|one| {
                let variable = VariableDefinition { group: 0, ..one.clone() };
                (in_group(one.group, &one.name), variable)
            })
            .collect(),
        order,
    }
}

/// What a file is, which must be one that can be written again.
pub(crate) fn described(bytes: &[u8]) -> NetcdfFile {
    let file = File::open(bytes).unwrap();
    let found = describe(&file).unwrap();
    assert_eq!(found, describe(&File::open(bytes).unwrap()).unwrap());
    assert_eq!(found.rewritable(), Ok(()));
    assert_eq!(found.unrepresented, []);
    found
}

/// A file with the filters that others gave it.
pub(crate) fn with_filters_of(bytes: &[u8], mut file: Generated) -> Generated {
    let found = described(bytes).definition;
    for number in 0..file.definition.variables.len() {
        let in_file = position(&found, &file.definition, number);
        let filters = &mut file.definition.variables[number].filters;
        filters.clone_from(&found.variables[in_file].filters);
    }
    file
}

/// The number of a variable in another definition.
fn position(of: &FileDefinition, file: &FileDefinition, variable: usize) -> usize {
    let wanted = &file.variables[variable];
    let group = path(file, wanted.group);
    let is_wanted =
        |one: &VariableDefinition| one.name == wanted.name && path(of, one.group) == group;
    of.variables.iter().position(is_wanted).unwrap()
}

/// Adds attributes, a dimension, a variable, and records; returns what the file is then.
pub(crate) fn extend(file: &Generated, bytes: &[u8], seed: u64) -> (Generated, Written) {
    let found = described(bytes);
    let placements = found.placements(&File::open(bytes).unwrap()).unwrap();
    let (end, options) = (Address(bytes.len() as u64), PlanOptions::default());
    let plan = FilePlan::resume(found.definition.clone(), placements, end, options).unwrap();
    let mut written = Written { plan, bytes: bytes.to_vec() };
    let mut next = file.clone();
    let random = &mut SplitMix64::new(seed);

    let values: Vec<GeneratedValue> = (1..4).map(GeneratedValue::Integer).collect();
    let kind = Kind::little(AtomicType::Int);
    let attribute = AttributeDefinition::new("added", kind.datatype(), elements(&kind, &values));
    let added = ("added".to_string(), kind, values);
    let mut definition = found.definition;
    next.group_attributes[0].push(added.clone());
    for list in &mut next.variable_attributes {
        list.push(added.clone());
    }
    for one in [&mut definition, &mut next.definition] {
        one.groups[0].attributes.push(attribute.clone());
        for variable in &mut one.variables {
            variable.attributes.push(attribute.clone());
        }
        let dimension = one.dimensions.len();
        let (name, length) = ("added_length".into(), 3);
        one.dimensions.push(DimensionDefinition { group: 0, name, length, unlimited: false });
        one.variables.push(VariableDefinition {
            group: 0,
            name: "added_values".into(),
            datatype: Kind::little(AtomicType::Double).datatype(),
            dimensions: vec![dimension],
            storage: Storage::Chunked(vec![2]),
            filters: Vec::new(),
            fill: VariableFill::Value,
            attributes: Vec::new(),
        });
    }
    let values = [1.5, -2.5, 3.5].map(GeneratedValue::Float).to_vec();
    next.variables.push((Kind::little(AtomicType::Double), values));
    next.variable_attributes.push(Vec::new());
    written.plan.redefine(definition).unwrap();
    written.commit();

    let before = next.definition.clone();
    for number in 0..before.dimensions.len() {
        let is_used = before.variables.iter().any(|one| one.dimensions.contains(&number));
        if before.dimensions[number].unlimited && is_used {
            let length = before.dimensions[number].length + 1 + random.below(3);
            next.definition.dimensions[number].length = length;
            written.plan.grow(number, length).unwrap();
        }
    }
    for number in 0..next.variables.len() {
        let (old, new) = (sizes(&before, number), sizes(&next.definition, number));
        let is_new = number + 1 == next.variables.len();
        if old == new && !is_new {
            continue;
        }
        let (kind, values) = &next.variables[number];
        let values: Vec<GeneratedValue> = (0..new.iter().product::<u64>())
            .map(|at| {
                let place = coordinates(at, &new);
                let inside = place.iter().zip(&old).all(|(at, size)| at < size);
                let from = place.iter().zip(&old).fold(0, |all, (at, size)| all * size + at);
                if inside { values[from as usize].clone() } else { kind.random(random) }
            })
            .collect();
        let stored = elements(kind, &values);
        next.variables[number].1 = values;
        let wanted = &next.definition.variables[number];
        let resumed = written.plan.definition();
        let in_file = position(resumed, &next.definition, number);
        let stored = laid_out(&wanted.datatype, &resumed.variables[in_file].datatype, stored);
        written.put(in_file, &stored);
    }
    written.commit();
    (next, written)
}

/// Elements of one type in the layout of another, whose members may be at other offsets.
fn laid_out(from: &Datatype, to: &Datatype, elements: Elements) -> Elements {
    let (Class::Compound { members: old }, Class::Compound { members: new }) =
        (&from.class, &to.class)
    else {
        return elements;
    };
    let mut out = Vec::new();
    for element in elements.as_bytes().chunks_exact(from.size as usize) {
        let begin = out.len();
        out.resize(begin + to.size as usize, 0);
        for (old, new) in old.iter().zip(new) {
            let part = &element[old.offset as usize..][..old.datatype.size as usize];
            out[begin + new.offset as usize..][..part.len()].copy_from_slice(part);
        }
    }
    Elements::fixed(out)
}

fn sizes(file: &FileDefinition, variable: usize) -> Vec<u64> {
    file.dataspace(&file.variables[variable]).sizes()
}
