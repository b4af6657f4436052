//! Files of the classic formats, through the array interface.

use std::sync::atomic::AtomicBool;

use striate_array::cdl::parse::{CdlAttribute, CdlDocument, CdlVariable, external_type};
use striate_array::{
    ArrayError, Char, Dataset, Definition, Format, Options, Owner, Partitioning, Slab, SlabBatches,
    Type, Values, VariableId,
};
use striate_comm::Threads;
use striate_hdf5::model::ByteOrder;
use striate_hdf5::write::Elements;

use super::output::Output;
use super::{go_on, in_text};
use crate::CommandError;
use crate::nc::{failed, options};

/// Bytes of a variable that are in memory at a time.
const BATCH: u64 = 4 << 20;

/// Writes a file.
pub(super) fn write(
    document: &CdlDocument<'_>,
    format: Format,
    output: &Output,
    from: &str,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let partitioning = Partitioning::default();
    let options = Options { exclusive: true, partitioning, ..options()? };
    let writing = |error| failed("cannot write the file", error);
    let mut made = Threads::new(1).try_run(|comm| {
        let mut definition =
            Dataset::create(&comm, output.part(), format, &options).map_err(writing)?;
        let defined = output.claim().and_then(|()| define(document, &mut definition, from));
        let variables = match defined {
            Ok(variables) => variables,
            Err(error) => {
                // The first error says more than one about what it left.
                let _ = definition.abort();
                return Err(error);
            }
        };
        let mut data = definition.end().map_err(writing)?;
        let pairs = document.variables.iter().zip(&variables);
        let written = pairs
            .into_iter()
            .try_for_each(|(variable, &id)| put(document, variable, id, &mut data, from, stop));
        let records = document.dimensions.iter().find(|one| one.unlimited);
        let written = written.and_then(|()| {
            data.grow(records.map_or(0, |one| one.length)).map_err(writing)?;
            data.sync().map_err(writing)
        });
        if let Err(error) = written {
            let _ = data.abort();
            return Err(error);
        }
        data.close().map_err(writing)
    })?;
    made.pop();
    Ok(())
}

/// Defines what the text defines.
fn define(
    document: &CdlDocument<'_>,
    definition: &mut Definition,
    from: &str,
) -> Result<Vec<VariableId>, CommandError> {
    let writing = |error: ArrayError| failed("cannot write the file", error);
    let mut dimensions = Vec::new();
    for dimension in &document.dimensions {
        let defined = if dimension.unlimited {
            definition.unlimited(&dimension.name)
        } else {
            definition.dimension(&dimension.name, dimension.length)
        };
        dimensions.push(defined.map_err(writing)?);
    }
    for attribute in document.groups.iter().flat_map(|group| &group.attributes) {
        let values = values(document, attribute, from)?;
        definition.attribute(Owner::Global, &attribute.name, values).map_err(writing)?;
    }
    let mut variables = Vec::new();
    for variable in &document.variables {
        let external = external_type(variable.of).unwrap_or(Type::Byte);
        let of = variable.dimensions.iter().filter_map(|&number| dimensions.get(number).copied());
        let of: Vec<_> = of.collect();
        let id = definition.variable(&variable.name, external, &of).map_err(writing)?;
        for attribute in &variable.attributes {
            let values = values(document, attribute, from)?;
            definition.attribute(id, &attribute.name, values).map_err(writing)?;
        }
        variables.push(id);
    }
    Ok(variables)
}

fn values(
    document: &CdlDocument<'_>,
    attribute: &CdlAttribute,
    from: &str,
) -> Result<Values, CommandError> {
    let elements = document.values(attribute, ByteOrder::Big).map_err(|it| in_text(from, it))?;
    let external = external_type(attribute.of).unwrap_or(Type::Byte);
    Ok(Values::from_bytes(external, elements.as_bytes()))
}

/// Writes the elements of a variable.
fn put(
    document: &CdlDocument<'_>,
    variable: &CdlVariable,
    id: VariableId,
    data: &mut Dataset,
    from: &str,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let external = external_type(variable.of).unwrap_or(Type::Byte);
    let mut reader =
        document.elements(variable, ByteOrder::Big).map_err(|error| in_text(from, error))?;
    let lengths = document.lengths(variable);
    for (start, count) in SlabBatches::new(&lengths, (BATCH / external.size()).max(1)) {
        go_on(stop)?;
        let mut elements = Elements::new();
        let read = reader.read(count.iter().product(), &mut elements);
        read.map_err(|error| in_text(from, error))?;
        let values = Values::from_bytes(external, elements.as_bytes());
        let slab = Slab::new(&start, &count);
        macro_rules! put {
            ($($variant:ident),+) => {
                match &values {
                    Values::Char(list) => data.put(id, &slab, Char::slice(list)),
                    Values::Stored(list) => data.put_elements(id, &slab, &list.elements),
                    $(Values::$variant(list) => data.put(id, &slab, list),)+
                }
            };
        }
        put!(Byte, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64)
            .map_err(|error| failed("cannot write the file", error))?;
    }
    Ok(())
}
