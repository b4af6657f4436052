//! Partitioned datasets: the file that is printed is the master, in which scalars represent the
//! variables that are divided into partitions.

use striate_hdf5::Result;
use striate_hdf5::netcdf::{AttributeDefinition, NetcdfFile};

use crate::format::{Attribute, Header};
use crate::netcdf4::attribute_values;
use crate::partition::is_reserved;
use crate::{Dataset, Owner, VariableId};

/// Reads elements of variables that are not in the file itself.
pub trait DividedElements {
    /// The bytes of a part of a variable, as they are in partitions; `None` for a variable that is
    /// in the file. The number of the variable is that in the file.
    fn read(&self, variable: usize, start: &[u64], count: &[u64]) -> Option<Result<Vec<u8>>>;
}

/// Replaces what a master says by what the dataset is: variables have their dimensions, and
/// attributes that link the files are left out. Returns the number in the dataset of each variable
/// that is divided, by its number in the file.
pub fn as_whole(described: &mut NetcdfFile, dataset: &Dataset) -> Vec<Option<usize>> {
    let header: &Header = dataset.header();
    let infos = dataset.partitions().unwrap_or_default();
    let divides = |index: usize| {
        infos.iter().flat_map(|info| &info.variables).any(|range| range.variable == index)
    };
    let definition = &mut described.definition;
    for (dimension, known) in definition.dimensions.iter_mut().zip(&header.dimensions) {
        dimension.length = known.len;
    }
    let definition = &described.definition;
    let kept = |own: &AttributeDefinition, list: &[Attribute], owner: Owner| {
        let Some(name) = own.name.as_str() else { return true };
        !is_reserved(name, owner)
            || attribute_values(definition, own).is_none()
            || list.iter().any(|known| known.name == name)
    };
    let root = definition.groups.first().map(|root| {
        let mut own = root.attributes.clone();
        own.retain(|own| kept(own, &header.attributes, Owner::Global));
        own
    });
    let divided: Vec<_> = definition
        .variables
        .iter()
        .map(|variable| {
            let is_it = |known: &crate::format::Variable| {
                known.group as usize == variable.group
                    && variable.name.as_str() == Some(known.name.as_str())
            };
            let index = header.variables.iter().position(is_it).filter(|&index| divides(index))?;
            let owner = Owner::Variable(VariableId(index as u32));
            let mut attributes = variable.attributes.clone();
            attributes.retain(|own| kept(own, &header.variables[index].attributes, owner));
            Some((index, attributes))
        })
        .collect();
    let definition = &mut described.definition;
    if let (Some(root), Some(attributes)) = (definition.groups.first_mut(), root) {
        root.attributes = attributes;
    }
    let mut numbers = vec![None; definition.variables.len()];
    for ((variable, number), divided) in
        definition.variables.iter_mut().zip(&mut numbers).zip(divided)
    {
        let Some((index, attributes)) = divided else { continue };
        let dimensions = &header.variables[index].dimensions;
        *number = Some(index);
        variable.dimensions = dimensions.iter().map(|&id| id as usize).collect();
        variable.attributes = attributes;
    }
    numbers
}
