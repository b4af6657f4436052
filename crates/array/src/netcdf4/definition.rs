//! From the definitions of a dataset to those of an HDF5 file, and their plan.
//!
//! What a program leaves open is decided here, in the same way on all ranks: contiguous or chunks,
//! the shape of chunks, alignment.

use std::collections::HashMap;

use striate_hdf5::model::{self, Class, Filter};
use striate_hdf5::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, GroupDefinition, Storage,
    TypeDefinition, VariableDefinition, VariableFill,
};
use striate_hdf5::write::{DataAlignment, Elements, FilePlan, Placement, PlanOptions};

use super::user_types::{hdf5_datatype, hdf5_user_type, type_of_elements};
use super::{Netcdf4State, growth, hdf5_error};
use crate::file_state::{Durability, FileState};
use crate::format::{
    Attribute, ByteOrder, ChunkFilter, Header, StorageLayout, Type, Values, Variable,
};
use crate::{ArrayError, Options};

/// Room for growth of a variable along its first dimension at most.
pub(super) const GROWTH_RESERVE: u64 = 16 << 20;

/// Applies new definitions: every variable gets a place, new ones in fill mode are filled, and a
/// new file becomes one that can be opened. Collective; all ranks have the same definitions.
pub(crate) fn define(state: &mut FileState, options: &Options) -> Result<(), ArrayError> {
    let resolved = resolve_layouts(&mut state.header, options);
    state.agree(resolved)?;
    let is_new = state.netcdf4.is_none();
    let old = state.netcdf4.as_ref().map_or(0, |netcdf4| netcdf4.pipelines.len());
    let (definition, numbers) = file_definition(state);
    let planned = plan(state, definition, numbers, options);
    state.agree(planned)?;
    state.share_cores(options)?;
    for variable in old..state.header.variables.len() {
        if state.filled[variable] {
            growth::fill_new(state, variable, None)?;
        }
    }
    if is_new {
        state.unfinished = true;
        super::commit::finish(state, Durability::Buffered)?;
        // Until its data is synced or closed, an aborted file is deleted.
        state.unfinished = true;
    }
    Ok(())
}

fn plan(
    state: &mut FileState,
    definition: FileDefinition,
    numbers: Vec<usize>,
    options: &Options,
) -> Result<(), ArrayError> {
    let mut fills: Vec<Vec<u8>> = Vec::new();
    let mut hidden = Vec::new();
    let plan = if let Some(netcdf4) = &mut state.netcdf4 {
        let redefined = netcdf4.plan.redefine(definition);
        redefined.map_err(|error| hdf5_error(&state.file, error))?;
        fills.clone_from(&netcdf4.fills);
        hidden.clone_from(&netcdf4.hidden);
        netcdf4.plan.clone()
    } else {
        let alignment = DataAlignment {
            threshold: state.alignment.fixed_from,
            alignment: state.alignment.fixed,
        };
        let options = PlanOptions { alignment, growth_reserve: GROWTH_RESERVE };
        FilePlan::create(definition, options).map_err(|error| hdf5_error(&state.file, error))?
    };
    for (variable, &number) in state.header.variables.iter_mut().zip(&numbers) {
        variable.begin = match plan.placement(number) {
            Some(Placement::Contiguous { address: Some(address), .. }) => address.0,
            _ => 0,
        };
    }
    for variable in fills.len()..numbers.len() {
        fills.push(fill_element(state, variable));
    }
    let mut netcdf4 = Netcdf4State::new(plan, numbers, fills, options);
    netcdf4.hidden = hidden;
    state.netcdf4 = Some(Box::new(netcdf4));
    Ok(())
}

/// An element of a variable that was never written, as in the file.
fn fill_element(state: &FileState, variable: usize) -> Vec<u8> {
    let of = &state.header.variables[variable];
    let size = of.external.size() as usize;
    if !state.filled[variable] || state.header.has_variable_length(of.external) {
        return vec![0; size];
    }
    if let Type::User(_) | Type::Text(_) = of.external {
        let given = of.attributes.iter().find(|attribute| attribute.name == "_FillValue");
        return match given.map(|given| &given.values) {
            Some(Values::Stored(stored)) if stored.elements.len() == size => {
                let order = match of.storage.byte_order {
                    ByteOrder::Little => model::ByteOrder::Little,
                    ByteOrder::Big => model::ByteOrder::Big,
                };
                let datatype = hdf5_datatype(&state.header, of.external, order);
                in_file(&stored.elements, &datatype).as_bytes().to_vec()
            }
            _ => vec![0; size],
        };
    }
    let mut element = state.fill_value(variable)[..size].to_vec();
    if of.storage.byte_order == ByteOrder::Little {
        element.reverse();
    }
    element
}

/// Decides what the program left open about the storage of variables.
fn resolve_layouts(header: &mut Header, options: &Options) -> Result<(), ArrayError> {
    for index in 0..header.variables.len() {
        let layout = layout_of(header, &header.variables[index], options)?;
        header.variables[index].storage.layout = layout;
    }
    Ok(())
}

/// An error if variables cannot be stored as the program wants. Pure.
pub(crate) fn check_layouts(header: &Header, options: &Options) -> Result<(), ArrayError> {
    header.variables.iter().try_for_each(|variable| layout_of(header, variable, options).map(drop))
}

/// Applies changed attributes, which the next commit writes. All ranks have the same.
pub(crate) fn write_attributes(state: &mut FileState) -> Result<(), ArrayError> {
    let (definition, _) = file_definition(state);
    let Some(netcdf4) = &mut state.netcdf4 else { return Ok(()) };
    netcdf4.plan.redefine(definition).map_err(|error| hdf5_error(&state.file, error))
}

fn layout_of(
    header: &Header,
    variable: &Variable,
    options: &Options,
) -> Result<StorageLayout, ArrayError> {
    let refuse = |reason: String| {
        let what = format!("variable '{}'", header.path(variable.group, &variable.name));
        Err(ArrayError::Definition { what, reason })
    };
    let lengths: Vec<Option<u64>> = variable
        .dimensions
        .iter()
        .map(|&dimension| {
            let dimension = &header.dimensions[dimension as usize];
            (!dimension.is_unlimited()).then_some(dimension.len)
        })
        .collect();
    let grows = lengths.contains(&None);
    let filtered = !variable.storage.filters.is_empty();
    let has_variable_length = !lengths.is_empty() && header.has_variable_length(variable.external);
    match &variable.storage.layout {
        StorageLayout::Contiguous if grows => {
            refuse("it can grow, so it cannot be contiguous".into())
        }
        StorageLayout::Contiguous if filtered => {
            refuse("it has filters, so it cannot be contiguous".into())
        }
        StorageLayout::Chunked(shape) => {
            if shape.is_empty() || shape.len() != lengths.len() {
                let (has, given) = (lengths.len(), shape.len());
                return refuse(format!("a shape of chunks of {given} dimensions for {has}"));
            }
            let fits = |(&chunk, &len): (&u64, &Option<u64>)| {
                chunk > 0 && len.is_none_or(|len| chunk <= len)
            };
            if !shape.iter().zip(&lengths).all(fits) {
                return refuse(format!(
                    "chunks of {shape:?} elements: they must be at least 1, and not longer than a \
                     dimension that cannot grow"
                ));
            }
            let bytes = shape
                .iter()
                .try_fold(variable.external.size(), |bytes, &len| bytes.checked_mul(len));
            if bytes.is_none_or(|bytes| bytes > u64::from(u32::MAX)) {
                return refuse(format!("chunks of {shape:?} elements have 4 GiB or more"));
            }
            Ok(StorageLayout::Chunked(shape.clone()))
        }
        StorageLayout::Default if lengths.is_empty() && filtered => {
            refuse("it has no dimensions, so it cannot have filters".into())
        }
        // Chunks of values of variable length are never overwritten; what is contiguous is.
        StorageLayout::Default if grows || filtered || has_variable_length => {
            let shape = options.chunk_rule.shape(&lengths, variable.external.size());
            Ok(StorageLayout::Chunked(shape.into_iter().map(u64::from).collect()))
        }
        StorageLayout::Contiguous | StorageLayout::Default => Ok(StorageLayout::Contiguous),
    }
}

/// The definitions of the file, and the number of each variable. Variables and attributes that a
/// dataset cannot represent stay as they are.
fn file_definition(state: &FileState) -> (FileDefinition, Vec<usize>) {
    let header = &state.header;
    let base = state.netcdf4.as_ref().map(|netcdf4| netcdf4.plan.definition());
    let attributes = |of: Option<&[AttributeDefinition]>, wanted: &[Attribute]| {
        merged(header, base, of.unwrap_or_default(), wanted)
    };
    let group_attributes = |number: usize| {
        base.and_then(|base| base.groups.get(number)).map(|group| group.attributes.as_slice())
    };
    let mut definition = FileDefinition {
        classic_model: header.format.is_classic_model(),
        types: base.map(|base| base.types.clone()).unwrap_or_default(),
        ..FileDefinition::default()
    };
    if let Some(base) = base {
        definition.properties.clone_from(&base.properties);
    }
    definition.groups[0].attributes = attributes(group_attributes(0), &header.attributes);
    for (group, number) in header.groups.iter().zip(1..) {
        definition.groups.push(GroupDefinition {
            name: group.name.as_str().into(),
            parent: group.parent as usize,
            attributes: attributes(group_attributes(number), &group.attributes),
        });
    }
    for dimension in &header.dimensions {
        definition.dimensions.push(DimensionDefinition {
            group: dimension.group as usize,
            name: dimension.name.as_str().into(),
            length: dimension.len,
            unlimited: dimension.unlimited,
        });
    }
    definition.variables = base.map(|base| base.variables.clone()).unwrap_or_default();
    for one in header.types.iter().skip(definition.types.len()) {
        definition.types.push(TypeDefinition {
            group: one.group as usize,
            name: one.name.as_str().into(),
            datatype: hdf5_user_type(header, one, model::ByteOrder::Little),
        });
    }
    let mut numbers =
        state.netcdf4.as_ref().map(|netcdf4| netcdf4.numbers.clone()).unwrap_or_default();
    for (index, variable) in header.variables.iter().enumerate() {
        let mut one = variable_definition(header, variable, state.filled[index]);
        let number = *numbers.get(index).unwrap_or(&definition.variables.len());
        if let Some(old) = definition.variables.get_mut(number) {
            // Its data stay as they are.
            old.attributes = attributes(Some(&old.attributes), &variable.attributes);
            (old.name, old.fill) = (one.name, one.fill);
        } else {
            one.attributes = attributes(None, &variable.attributes);
            definition.variables.push(one);
            numbers.push(number);
        }
    }
    (definition, numbers)
}

fn variable_definition(header: &Header, variable: &Variable, filled: bool) -> VariableDefinition {
    let storage = match &variable.storage.layout {
        StorageLayout::Chunked(shape) => Storage::Chunked(shape.clone()),
        _ => Storage::Contiguous,
    };
    let order = match variable.storage.byte_order {
        ByteOrder::Little => model::ByteOrder::Little,
        ByteOrder::Big => model::ByteOrder::Big,
    };
    VariableDefinition {
        group: variable.group as usize,
        name: variable.name.as_str().into(),
        datatype: hdf5_datatype(header, variable.external, order),
        dimensions: variable.dimensions.iter().map(|&dimension| dimension as usize).collect(),
        storage,
        filters: variable
            .storage
            .filters
            .iter()
            .map(|filter| hdf5_filter(*filter, variable.external))
            .collect(),
        fill: fill_of(variable, filled),
        attributes: Vec::new(),
    }
}

/// What elements are that nobody wrote. HDF5 has no values of variable length without a fill value,
/// and those of types of users are zeros unless the variable says something else.
fn fill_of(variable: &Variable, filled: bool) -> VariableFill {
    let is_given = || variable.attributes.iter().any(|attribute| attribute.name == "_FillValue");
    match variable.external {
        Type::User(_) | Type::Text(_) if !filled || !is_given() => VariableFill::Zeros,
        Type::String if !filled => VariableFill::Zeros,
        _ if filled => VariableFill::Value,
        _ => VariableFill::Nothing,
    }
}

/// A filter as the file names it. Compressors may leave out a chunk that they do not make shorter.
fn hdf5_filter(filter: ChunkFilter, external: Type) -> Filter {
    let (id, optional, parameters) = match filter {
        ChunkFilter::Deflate(level) => (1, true, vec![u32::from(level)]),
        ChunkFilter::Shuffle => (2, true, vec![external.size() as u32]),
        ChunkFilter::Fletcher32 => (3, false, Vec::new()),
        ChunkFilter::Zstd(level) => (32015, true, vec![u32::from(level)]),
        ChunkFilter::Other(id) => (id, false, Vec::new()),
    };
    Filter { id, name: "".into(), optional, parameters }
}

/// A filter that a file names.
pub(super) fn chunk_filter(filter: &Filter) -> ChunkFilter {
    let level = || filter.parameters.first().and_then(|&level| u8::try_from(level).ok());
    match filter.id {
        1 => ChunkFilter::Deflate(level().unwrap_or(0)),
        2 => ChunkFilter::Shuffle,
        3 => ChunkFilter::Fletcher32,
        32015 => ChunkFilter::Zstd(level().unwrap_or(0)),
        id => ChunkFilter::Other(id),
    }
}

pub(super) const fn atomic(external: Type) -> AtomicType {
    match external {
        Type::Byte => AtomicType::Byte,
        Type::Char => AtomicType::Char,
        Type::Short => AtomicType::Short,
        Type::Int => AtomicType::Int,
        Type::Float => AtomicType::Float,
        Type::Double => AtomicType::Double,
        Type::UByte => AtomicType::UByte,
        Type::UShort => AtomicType::UShort,
        Type::UInt => AtomicType::UInt,
        Type::Int64 => AtomicType::Int64,
        Type::UInt64 => AtomicType::UInt64,
        // Those of users have no atomic type, and are not asked for one.
        Type::String | Type::Text(_) | Type::User(_) => AtomicType::String,
    }
}

/// The attributes of an object: those that are wanted, in their order, and in the place of each
/// that the file has with the same values that one.
fn merged(
    header: &Header,
    base: Option<&FileDefinition>,
    old: &[AttributeDefinition],
    wanted: &[Attribute],
) -> Vec<AttributeDefinition> {
    let values = |of: &AttributeDefinition| base.and_then(|base| attribute_values(base, of));
    let known: HashMap<&str, &AttributeDefinition> =
        old.iter().filter_map(|attribute| Some((attribute.name.as_str()?, attribute))).collect();
    let kept = old.iter().filter(|attribute| values(attribute).is_none()).cloned();
    let given = wanted.iter().map(|attribute| {
        let same = known
            .get(attribute.name.as_str())
            .filter(|old| values(old).is_some_and(|values| values.is_same(&attribute.values)));
        same.map_or_else(|| attribute_definition(header, attribute), |&same| same.clone())
    });
    kept.chain(given).collect()
}

fn attribute_definition(header: &Header, attribute: &Attribute) -> AttributeDefinition {
    let name = attribute.name.as_str();
    let external = attribute.values.external();
    let datatype = hdf5_datatype(header, external, model::ByteOrder::Little);
    match &attribute.values {
        Values::Char(text) => AttributeDefinition::bytes(name, text),
        Values::Stored(stored) => {
            AttributeDefinition::new(name, datatype.clone(), in_file(&stored.elements, &datatype))
        }
        numbers => {
            let mut bytes = numbers.to_bytes();
            striate_datatype::swap_in_place(&mut bytes, external.size() as usize);
            AttributeDefinition::new(name, datatype, Elements::fixed(bytes))
        }
    }
}

/// Elements in the byte order of their type in a file.
fn in_file(elements: &Elements, datatype: &model::Datatype) -> Elements {
    let mut elements = elements.clone();
    // It fails for types that cannot be defined.
    let _ = elements.to_native(datatype);
    elements
}

/// The values of an attribute of a file; `None` if a dataset cannot represent them.
pub(crate) fn attribute_values(
    definition: &FileDefinition,
    attribute: &AttributeDefinition,
) -> Option<Values> {
    let AttributeDefinition { datatype, dataspace, elements, .. } = attribute;
    element_values(definition, datatype, dataspace, elements.clone())
}

/// The values that are these elements.
pub(super) fn element_values(
    definition: &FileDefinition,
    datatype: &model::Datatype,
    dataspace: &model::Dataspace,
    mut elements: Elements,
) -> Option<Values> {
    if let Class::String { .. } = datatype.class
        && dataspace.elements().is_some_and(|elements| elements <= 1)
    {
        return Some(Values::Char(elements.into_bytes()));
    }
    let (external, order) = type_of_elements(definition, datatype)?;
    if matches!(external, Type::String | Type::Text(_) | Type::User(_)) {
        elements.to_native(datatype).ok()?;
        return Some(Values::stored(external, elements));
    }
    let mut bytes = elements.into_bytes();
    if order == ByteOrder::Little {
        striate_datatype::swap_in_place(&mut bytes, external.size() as usize);
    }
    Some(Values::from_bytes(external, &bytes))
}

/// What must be equal on all ranks, one definition in each line.
pub(crate) fn definition_lines(header: &Header, filled: &[bool]) -> Vec<String> {
    let mut lines = vec![format!("format {}", header.format)];
    lines.extend(header.groups.iter().map(|group| format!("group {group:?}")));
    lines.extend(header.types.iter().map(|one| format!("type {one:?}")));
    lines.extend(header.dimensions.iter().map(|dimension| format!("dimension {dimension:?}")));
    lines.extend(header.attributes.iter().map(|attribute| format!("attribute {attribute:?}")));
    for (variable, filled) in header.variables.iter().zip(filled) {
        let whole = Variable { begin: 0, stated_size: 0, ..variable.clone() };
        lines.push(format!("variable {whole:?}, filled: {filled}"));
    }
    lines
}
