//! Dimension scales: how a dimension of netCDF is a dataset of HDF5.
//!
//! A variable with the name of a dimension of its group that is its first dimension is that
//! dimension's scale, its coordinate variable. Other dimensions get a dataset without data. Every
//! scale has the attribute `_Netcdf4Dimid`, so that numbers of dimensions do not depend on the
//! order of objects.

use std::collections::HashMap;

use crate::Result;
use crate::model::{ByteOrder, Class, Dataspace, Datatype, Member, Name, ReferenceKind};
use crate::netcdf::{AtomicType, AttributeDefinition, FileDefinition, VariableDefinition};
use crate::write::elements::{DESCRIPTOR, descriptor};
use crate::write::fragment::{BlockId, Fragment};
use crate::write::global_heap::HeapBuilder;
use crate::write::image::Image;
use crate::write::message;

/// The variable of each dimension, if it has one.
pub(super) struct Scales {
    of_dimensions: Vec<Option<usize>>,
    /// The dimension of a variable that is a scale.
    of_variables: HashMap<usize, usize>,
    /// Which names of dimensions there are in a group.
    names: HashMap<(usize, Name), usize>,
}

impl Scales {
    pub(super) fn new(file: &FileDefinition) -> Self {
        let dimensions = file.dimensions.iter().enumerate();
        let names: HashMap<_, _> = dimensions
            .map(|(number, dimension)| ((dimension.group, dimension.name.clone()), number))
            .collect();
        let mut of_dimensions = vec![None; file.dimensions.len()];
        let mut of_variables = HashMap::new();
        for (number, variable) in file.variables.iter().enumerate() {
            let named = names.get(&(variable.group, variable.name.clone()));
            if let Some(&dimension) =
                named.filter(|named| variable.dimensions.first() == Some(named))
            {
                of_dimensions[dimension] = Some(number);
                of_variables.insert(number, dimension);
            }
        }
        Self { of_dimensions, of_variables, names }
    }

    /// The coordinate variable of a dimension.
    pub(super) fn coordinate_variable(&self, dimension: usize) -> Option<usize> {
        self.of_dimensions[dimension]
    }

    /// The dimension whose coordinate variable a variable is.
    pub(super) fn dimension_of(&self, variable: usize) -> Option<usize> {
        self.of_variables.get(&variable).copied()
    }

    /// The name of a variable's dataset: another one where a dimension has the name.
    pub(super) fn dataset_name(&self, number: usize, variable: &VariableDefinition) -> Name {
        let taken = self.names.contains_key(&(variable.group, variable.name.clone()));
        if taken && self.dimension_of(number).is_none() {
            Name::from([b"_nc4_non_coord_", variable.name.as_bytes()].concat())
        } else {
            variable.name.clone()
        }
    }
}

/// The attributes that make a dataset the scale of a dimension. `name` is that of the variable;
/// without one, a text that says so.
pub(super) fn scale_attributes(
    number: usize,
    length: u64,
    name: Option<&Name>,
) -> [AttributeDefinition; 3] {
    let without = format!("This is a netCDF dimension but not a netCDF variable. {length:10}");
    let name = name.map_or(without.as_bytes(), Name::as_bytes);
    [
        AttributeDefinition::terminated("CLASS", b"DIMENSION_SCALE"),
        AttributeDefinition::terminated("NAME", name),
        AttributeDefinition::int("_Netcdf4Dimid", number as i32),
    ]
}

/// The numbers of a variable's dimensions.
pub(super) fn coordinates_attribute(variable: &VariableDefinition) -> AttributeDefinition {
    let numbers: Vec<i32> = variable.dimensions.iter().map(|&number| number as i32).collect();
    AttributeDefinition::ints("_Netcdf4Coordinates", &numbers)
}

fn object_reference() -> Datatype {
    Datatype::new(8, Class::Reference(ReferenceKind::Object))
}

/// `DIMENSION_LIST`: for each dimension of a variable a sequence of one scale. Sequences are not
/// shared among variables, because the library frees them when a scale is detached.
pub(super) fn dimension_list(
    scales: impl Iterator<Item = BlockId>,
    image: &mut Image,
    heap: &mut HeapBuilder,
) -> Result<(Name, Fragment)> {
    let mut values = Fragment::new();
    for scale in scales {
        let mut object = Fragment::new();
        object.reference(scale, 0);
        descriptor(&mut values, 1, heap.insert(image, &object));
    }
    let class = Class::Sequence { base: Box::new(object_reference()) };
    let datatype = Datatype::new(DESCRIPTOR as u32, class);
    let space = Dataspace::fixed(&[(values.len() / DESCRIPTOR) as u64]);
    let name = Name::from("DIMENSION_LIST");
    let body = message::attribute(&name, &datatype, &space, &values)?;
    Ok((name, body))
}

/// `REFERENCE_LIST`: the variables that a scale is attached to, and as which dimension.
pub(super) fn reference_list(users: &[(BlockId, u32)]) -> Result<(Name, Fragment)> {
    let mut values = Fragment::with_capacity(16 * users.len());
    for &(variable, position) in users {
        values.reference(variable, 0);
        values.u32(position);
        values.u32(0);
    }
    let position = AtomicType::Int.datatype(ByteOrder::Little);
    let members = vec![
        Member { name: "dataset".into(), offset: 0, datatype: object_reference() },
        Member { name: "dimension".into(), offset: 8, datatype: position },
    ];
    let datatype = Datatype::new(16, Class::Compound { members });
    let space = Dataspace::fixed(&[users.len() as u64]);
    let name = Name::from("REFERENCE_LIST");
    let body = message::attribute(&name, &datatype, &space, &values)?;
    Ok((name, body))
}
