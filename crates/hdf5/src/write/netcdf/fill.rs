//! [`fill_of`]: the fill value of a variable as HDF5 stores it.

use crate::model::{AllocationTime, ByteOrder, Class, Datatype, Fill, FillTime, FillValue};
use crate::netcdf::{Storage, VariableDefinition, VariableFill, default_fill};
use crate::write::Elements;
use crate::{Error, Reason, Result, Structure};

/// The fill value message and its element. An attribute `_FillValue` of another byte order than the
/// variable is converted, as netCDF-C does it.
pub(crate) fn fill_of(variable: &VariableDefinition) -> Result<(FillValue, Option<Elements>)> {
    let allocation = match variable.storage {
        Storage::Compact(_) => AllocationTime::Early,
        Storage::Contiguous => AllocationTime::Late,
        Storage::Chunked(_) => AllocationTime::Incremental,
    };
    let time = match variable.fill {
        VariableFill::Value => None,
        VariableFill::Nothing => Some(FillTime::Never),
        VariableFill::Zeros => Some(FillTime::IfSet),
    };
    if let Some(time) = time {
        return Ok((FillValue { allocation, time, value: Fill::Default }, None));
    }
    let mut attributes = variable.attributes.iter();
    let mut value = match attributes.find(|attribute| attribute.name == "_FillValue") {
        None => default_fill(&variable.datatype),
        Some(attribute) => {
            if attribute.elements.len() != variable.datatype.size as usize {
                let reason = Reason::Invalid("_FillValue is not one element of the variable");
                return Err(Error::of(Structure::FillValue, reason));
            }
            let mut value = attribute.elements.clone();
            let orders = (order(&attribute.datatype), order(&variable.datatype));
            if let (Some(from), Some(to)) = orders
                && from != to
            {
                let mut bytes = value.as_bytes().to_vec();
                bytes.reverse();
                value = Elements::fixed(bytes);
            }
            value
        }
    };
    // HDF5 cannot read a chunk that is not there from a file that is open for reading only if the
    // fill value is in a heap: it wants to write a copy. No string at all reads as the empty one.
    let is_empty_string = matches!(variable.datatype.class, Class::VariableString { .. })
        && value.heap_value(0).is_some_and(|(_, text)| text.is_empty());
    if is_empty_string {
        value = Elements::fixed(vec![0; variable.datatype.size as usize]);
    }
    let stored = Fill::Value(value.as_bytes().to_vec());
    let fill = FillValue { allocation, time: FillTime::IfSet, value: stored };
    Ok((fill, Some(value)))
}

/// The byte order of a number.
fn order(datatype: &Datatype) -> Option<ByteOrder> {
    match &datatype.class {
        Class::FixedPoint(number) => Some(number.order),
        Class::FloatingPoint(number) => Some(number.order),
        Class::Enumeration { base, .. } => order(base),
        _ => None,
    }
}
