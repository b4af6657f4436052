//! [`AttributeReader`]: the values of attributes, also those of variable length, which are in the
//! heaps of the file.

use striate_hdf5::model::Attribute;
use striate_hdf5::netcdf::{AttributeDefinition, NetcdfFile};
use striate_hdf5::{File, Result, Source};

use super::{Datum, DatumDecoder, GroupTree};

/// Reads the attributes of a variable or a group.
#[derive(Debug)]
pub struct AttributeReader<'f, S> {
    file: &'f File<S>,
    /// As they are in the file, if one of them has values of variable length.
    stored: Vec<Attribute>,
}

impl<'f, S: Source> AttributeReader<'f, S> {
    /// For the attributes of a variable, by its number.
    pub fn of_variable(file: &'f File<S>, described: &NetcdfFile, index: usize) -> Result<Self> {
        let attributes = described.definition.variables.get(index).map(|it| &it.attributes);
        let mut stored = Vec::new();
        if needs_heaps(attributes.map(Vec::as_slice))
            && let Some(dataset) = described.objects.get(index)
        {
            stored = file.attributes(&file.object(dataset.address)?)?;
        }
        Ok(Self { file, stored })
    }

    /// For the attributes of a group, by its number.
    pub fn of_group(
        file: &'f File<S>,
        described: &NetcdfFile,
        tree: &GroupTree,
        group: usize,
    ) -> Result<Self> {
        let attributes = described.definition.groups.get(group).map(|it| &it.attributes);
        let mut stored = Vec::new();
        if needs_heaps(attributes.map(Vec::as_slice)) {
            let object = file.lookup(&file.root()?, &tree.group_bytes(group))?;
            stored = file.attributes(&object)?;
        }
        Ok(Self { file, stored })
    }

    /// The values of an attribute.
    pub fn data(&self, attribute: &AttributeDefinition) -> Result<Vec<Datum>> {
        let stored = self.stored.iter().find(|one| one.name == attribute.name);
        let bytes = match stored.filter(|_| attribute.datatype.has_descriptors()) {
            Some(stored) => stored.value.as_slice(),
            None => attribute.elements.as_bytes(),
        };
        DatumDecoder::new(self.file).list(&attribute.datatype, bytes)
    }
}

fn needs_heaps(attributes: Option<&[AttributeDefinition]>) -> bool {
    let mut attributes = attributes.unwrap_or_default().iter();
    attributes.any(|attribute| attribute.datatype.has_descriptors())
}
