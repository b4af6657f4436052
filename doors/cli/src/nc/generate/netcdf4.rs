//! Files of netCDF-4: what the text defines as `striate_hdf5` writes it.

use std::sync::atomic::AtomicBool;

use striate_array::cdl::parse::{
    CdlAttribute, CdlDocument, CdlFormat, CdlType, CdlVariable, StorageKind,
};
use striate_hdf5::chunk_shape::ChunkRule;
use striate_hdf5::filter::Pipeline;
use striate_hdf5::model::{
    ByteOrder, CharacterSet, Class, Dataspace, Datatype, Filter, StringPadding,
};
use striate_hdf5::write::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, GroupDefinition, Storage,
    TypeDefinition, VariableDefinition, VariableFill,
};
use striate_hdf5::write::{CommitStep, Elements, FilePlan, PlanOptions};
use striate_store::Store;

use super::contents::Contents;
use super::output::Output;
use super::{cannot, in_text, size};
use crate::CommandError;

/// Elements of a chunk along an unlimited dimension at most, unless the dimension is longer: what
/// is written at once is often all there will be.
const FEW: u64 = 1024;

/// Bytes of a chunk at most: each is in memory once.
const LARGEST_CHUNK: u64 = 1 << 30;

/// A variable that is in the header has less than this many bytes.
const COMPACT: u64 = 1 << 16;

/// Writes a file.
pub(super) fn write(
    document: &CdlDocument<'_>,
    format: CdlFormat,
    output: &Output,
    from: &str,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let definition = Definer { document, from }.file(format)?;
    let failed = |error| CommandError::failed(cannot(from), error, "");
    let plan = FilePlan::create(definition, PlanOptions::default()).map_err(failed)?;
    let store = output.create()?;
    let mut contents = Contents { document, from, plan, store: store.as_ref(), stop };
    for number in 0..document.variables.len() {
        contents.put(number)?;
    }
    let commit = contents.plan.commit().map_err(failed)?;
    for step in &commit.steps {
        carry_out(step, store.as_ref())?;
    }
    Ok(())
}

fn carry_out(step: &CommitStep, store: &dyn Store) -> Result<(), CommandError> {
    match step {
        CommitStep::Write { address, bytes } => store.write_at(address.0, bytes)?,
        CommitStep::Extend { length } => {
            if store.len()? < *length {
                store.set_len(*length)?;
            }
        }
        CommitStep::Sync => store.sync()?,
    }
    Ok(())
}

/// Turns what a text defines into definitions of a file.
struct Definer<'d, 't> {
    document: &'d CdlDocument<'t>,
    from: &'d str,
}

impl Definer<'_, '_> {
    fn file(&self, format: CdlFormat) -> Result<FileDefinition, CommandError> {
        let document = self.document;
        let group = |group: &striate_array::cdl::parse::CdlGroup| {
            Ok(GroupDefinition {
                name: group.name.as_str().into(),
                parent: group.parent,
                attributes: self.attributes(&group.attributes)?,
            })
        };
        let groups: Result<_, CommandError> = document.groups.iter().map(group).collect();
        let dimensions = document.dimensions.iter().map(|one| DimensionDefinition {
            group: one.group,
            name: one.name.as_str().into(),
            length: one.length,
            unlimited: one.unlimited,
        });
        let types = document.types.iter().enumerate().map(|(number, one)| TypeDefinition {
            group: one.group,
            name: one.name.as_str().into(),
            datatype: document.datatype(CdlType::User(number), ByteOrder::Little),
        });
        let variables: Result<_, _> =
            document.variables.iter().map(|variable| self.variable(variable)).collect();
        Ok(FileDefinition {
            classic_model: format == CdlFormat::Netcdf4Classic,
            groups: groups?,
            dimensions: dimensions.collect(),
            types: types.collect(),
            variables: variables?,
            ..FileDefinition::default()
        })
    }

    fn attributes(&self, all: &[CdlAttribute]) -> Result<Vec<AttributeDefinition>, CommandError> {
        all.iter().map(|attribute| self.attribute(attribute)).collect()
    }

    fn attribute(&self, attribute: &CdlAttribute) -> Result<AttributeDefinition, CommandError> {
        let elements = self.document.values(attribute, ByteOrder::Little);
        let elements = elements.map_err(|error| in_text(self.from, error))?;
        let name = attribute.name.as_str();
        if attribute.of == CdlType::Atomic(AtomicType::Char) {
            return Ok(text(name, elements));
        }
        let datatype = self.document.datatype(attribute.of, ByteOrder::Little);
        Ok(AttributeDefinition::new(name, datatype, elements))
    }

    fn variable(&self, variable: &CdlVariable) -> Result<VariableDefinition, CommandError> {
        let settings = &variable.settings;
        let order = settings.order.unwrap_or(ByteOrder::Little);
        let datatype = self.document.datatype(variable.of, order);
        let filters = filters(variable, datatype.size);
        let no_fill = settings.no_fill == Some(true);
        Ok(VariableDefinition {
            group: variable.group,
            name: variable.name.as_str().into(),
            dimensions: variable.dimensions.clone(),
            storage: self.storage(variable, &filters)?,
            filters,
            fill: if no_fill { VariableFill::Nothing } else { VariableFill::Value },
            attributes: self.attributes(&variable.attributes)?,
            datatype,
        })
    }

    fn storage(&self, variable: &CdlVariable, filters: &[Filter]) -> Result<Storage, CommandError> {
        let document = self.document;
        let refuse = |why: String| {
            let why = format!("variable '{}': {why}", variable.name);
            Err(CommandError::failed(cannot(self.from), why, ""))
        };
        if let Err(error) = Pipeline::new(filters).check_encoding() {
            return refuse(error.to_string());
        }
        let dimensions = variable.dimensions.iter();
        let dimensions = dimensions.filter_map(|&number| document.dimensions.get(number));
        let grows = dimensions.clone().any(|one| one.unlimited);
        let settings = &variable.settings;
        let needed = grows || !filters.is_empty();
        let kind = match settings.storage {
            _ if variable.dimensions.is_empty() => StorageKind::Contiguous,
            // A shape of chunks comes before all else, as in ncgen.
            _ if settings.chunk.is_some() => StorageKind::Chunked,
            Some(StorageKind::Contiguous | StorageKind::Compact) if needed => {
                return refuse("an unlimited dimension or a filter needs chunks".into());
            }
            Some(kind) => kind,
            None if needed => StorageKind::Chunked,
            None => StorageKind::Contiguous,
        };
        match kind {
            StorageKind::Contiguous => Ok(Storage::Contiguous),
            StorageKind::Compact => {
                if size(document, variable) >= COMPACT {
                    return refuse("compact storage has less than 64 KiB".into());
                }
                let order = settings.order.unwrap_or(ByteOrder::Little);
                let mut elements = Elements::new();
                let read = document.elements(variable, order).and_then(|mut reader| {
                    let total = reader.total();
                    reader.read(total, &mut elements)
                });
                read.map_err(|error| in_text(self.from, error))?;
                Ok(Storage::Compact(elements))
            }
            StorageKind::Chunked => {
                let lengths = dimensions.clone().map(|one| (!one.unlimited).then_some(one.length));
                let lengths: Vec<Option<u64>> = lengths.collect();
                let element = u64::from(document.size(variable.of));
                let chunk = match &settings.chunk {
                    Some(chunk) => chunk.clone(),
                    None => default_chunk(&lengths, &document.lengths(variable), element),
                };
                let longer = |(edge, length): (&u64, &Option<u64>)| {
                    length.is_some_and(|length| *edge > length)
                };
                if chunk.iter().zip(&lengths).any(longer) {
                    return refuse(
                        "a chunk is longer than a dimension that is not unlimited".into(),
                    );
                }
                let bytes = chunk.iter().try_fold(element, |all, &one| all.checked_mul(one));
                if bytes.is_none_or(|bytes| bytes > LARGEST_CHUNK) {
                    return refuse("a chunk has more than 1 GiB".into());
                }
                Ok(Storage::Chunked(chunk))
            }
        }
    }
}

/// The chunk of a variable whose definition gives none.
fn default_chunk(lengths: &[Option<u64>], now: &[u64], element: u64) -> Vec<u64> {
    let shape = ChunkRule::default().shape(lengths, element);
    let edges = shape.iter().map(|&edge| u64::from(edge)).zip(lengths).zip(now);
    let edge = |((edge, length), &now): ((u64, &Option<u64>), &u64)| match length {
        Some(_) => edge,
        None => edge.min(now.max(FEW)),
    };
    edges.map(edge).collect()
}

/// The filters of a variable. A scalar has none, as in netCDF-C.
fn filters(variable: &CdlVariable, element: u32) -> Vec<Filter> {
    let settings = &variable.settings;
    let filter = |id, optional, parameters| Filter { id, name: "".into(), optional, parameters };
    let mut filters = Vec::new();
    if variable.dimensions.is_empty() {
        return filters;
    }
    if settings.shuffle == Some(true) {
        filters.push(filter(2, true, vec![element]));
    }
    if let Some(level) = settings.deflate {
        filters.push(filter(1, true, vec![level]));
    }
    filters.extend(settings.filters.iter().cloned());
    if settings.fletcher32 == Some(true) {
        filters.push(filter(3, false, Vec::new()));
    }
    filters
}

/// A text, which may be of any bytes.
fn text(name: &str, elements: Elements) -> AttributeDefinition {
    let bytes = elements.as_bytes();
    let charset = if bytes.is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
    let class = Class::String { padding: StringPadding::NullTerminated, charset };
    // HDF5 has no type of size 0; the null dataspace says that there is nothing.
    let datatype = Datatype::new(bytes.len().max(1) as u32, class);
    let dataspace = if bytes.is_empty() { Dataspace::Null } else { Dataspace::Scalar };
    AttributeDefinition { name: name.into(), datatype, dataspace, elements }
}
