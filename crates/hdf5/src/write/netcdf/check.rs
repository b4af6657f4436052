//! What definitions must hold so that the file that comes of them can be read.

use std::collections::HashSet;

use super::scales::Scales;
use crate::model::Name;
use crate::netcdf::{FileDefinition, Storage, VariableDefinition};
use crate::write::message;
use crate::{Error, Reason, Result, Structure};

fn refuse<T>(structure: Structure, why: &'static str) -> Result<T> {
    Err(Error::of(structure, Reason::Invalid(why)))
}

/// Checks definitions before anything of them gets a place.
pub(crate) fn check_definition(file: &FileDefinition) -> Result<()> {
    check_numbers(file)?;
    check(file, &Scales::new(file))
}

/// Checks numbers, names and storage. What only encoding finds is found there.
fn check(file: &FileDefinition, scales: &Scales) -> Result<()> {
    for variable in &file.variables {
        check_variable(file, variable)?;
    }
    check_names(file, scales)
}

/// Checks that all numbers of groups and dimensions are those of some.
fn check_numbers(file: &FileDefinition) -> Result<()> {
    let groups = file.groups.len();
    if groups == 0 {
        return refuse(Structure::File, "has no root group");
    }
    let parents = file.groups.iter().enumerate().skip(1);
    for (number, group) in parents {
        if group.parent >= number {
            return refuse(Structure::Group, "is defined before its parent");
        }
    }
    let of_dimensions = file.dimensions.iter().map(|one| one.group);
    let of_types = file.types.iter().map(|one| one.group);
    let of_variables = file.variables.iter().map(|one| one.group);
    if of_dimensions.chain(of_types).chain(of_variables).any(|group| group >= groups) {
        return refuse(Structure::Group, "is not defined");
    }
    let mut used = file.variables.iter().flat_map(|variable| &variable.dimensions);
    if used.any(|&number| number >= file.dimensions.len()) {
        return refuse(Structure::Dataspace, "has a dimension that is not defined");
    }
    Ok(())
}

fn check_variable(file: &FileDefinition, variable: &VariableDefinition) -> Result<()> {
    let dimensions = &variable.dimensions;
    let grows = dimensions.iter().any(|&number| file.dimensions[number].unlimited);
    match &variable.storage {
        Storage::Chunked(chunk) => {
            if chunk.is_empty() || chunk.len() != dimensions.len() {
                return refuse(Structure::Layout, "has chunks of another rank than the variable");
            }
            message::chunked_layout(chunk, variable.datatype.size, None)?;
        }
        _ if grows => {
            return refuse(Structure::Layout, "of a variable that can grow must have chunks");
        }
        _ if !variable.filters.is_empty() => {
            return refuse(Structure::Layout, "of a variable with filters must have chunks");
        }
        _ => {}
    }
    Ok(())
}

/// Names are not empty, have no slash and no zero, and are there once per group.
fn check_names(file: &FileDefinition, scales: &Scales) -> Result<()> {
    let mut seen: HashSet<(usize, Name)> = HashSet::new();
    let mut add = |group: usize, name: Name| {
        let bad = name.is_empty() || name.as_bytes().iter().any(|byte| matches!(byte, b'/' | 0));
        if bad || name == "." {
            return refuse(Structure::Link, "has a name that is empty, '.' or contains '/'");
        }
        if !seen.insert((group, name)) {
            return refuse(Structure::Link, "has a name that another object of the group has");
        }
        Ok(())
    };
    for group in &file.groups[1..] {
        add(group.parent, group.name.clone())?;
    }
    for one in &file.types {
        add(one.group, one.name.clone())?;
    }
    for (number, variable) in file.variables.iter().enumerate() {
        add(variable.group, scales.dataset_name(number, variable))?;
    }
    for (number, dimension) in file.dimensions.iter().enumerate() {
        if scales.coordinate_variable(number).is_none() {
            add(dimension.group, dimension.name.clone())?;
        }
    }
    let of_groups = file.groups.iter().map(|group| &group.attributes);
    for attributes in of_groups.chain(file.variables.iter().map(|one| &one.attributes)) {
        let mut names = HashSet::new();
        for attribute in attributes {
            let name = attribute.name.as_bytes();
            if name.is_empty() || name.contains(&0) || !names.insert(name) {
                return refuse(Structure::Attribute, "has no name, or that of another");
            }
        }
    }
    Ok(())
}
