//! Attributes of a file as definitions: those that netCDF shows, by its rules.
//!
//! NetCDF has attributes of one dimension. A string of a fixed length is text; an array of them are
//! strings. What it does not show is noted by name, unless a commit writes it again.

use super::AtomicType;
use super::class::{check_user_type, find, name};
use super::definition::{AttributeDefinition, TypeDefinition};
use super::findings::{Findings, attribute_path, weight};
use super::hidden::{is_reserved, is_written_again};
use crate::file::File;
use crate::model::{Attribute, Class, Name};
use crate::{Reason, Result, Source};

/// The attributes of an object that netCDF shows.
pub(super) fn shown<S: Source>(
    file: &File<S>,
    types: &[TypeDefinition],
    path: &dyn Fn() -> Name,
    is_scale: bool,
    attributes: Vec<Attribute>,
    findings: &mut Findings,
) -> Result<Vec<AttributeDefinition>> {
    let hidden = attributes.iter().filter(|one| is_reserved(one.name.as_bytes())).count();
    let mut shown = Vec::with_capacity(attributes.len() - hidden);
    for attribute in attributes {
        let bytes = attribute.name.as_bytes();
        if is_reserved(bytes) {
            if !is_written_again(bytes, is_scale) {
                let reason = "has a name that is reserved in netCDF files".into();
                findings.unrepresented(attribute_path(&path(), &attribute.name), reason)?;
            }
            continue;
        }
        if let Err(reason) = check(types, &attribute) {
            findings.unrepresented(attribute_path(&path(), &attribute.name), reason)?;
            continue;
        }
        let Attribute { name, mut datatype, dataspace, value, .. } = attribute;
        let elements = match file.owned_elements(&datatype, value) {
            Ok(elements) => elements,
            Err(error) if matches!(error.reason, Reason::Unsupported(_)) => {
                let reason = error.reason.to_string();
                findings.unrepresented(attribute_path(&path(), &name), reason)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        datatype.committed = None;
        findings.keep(name.len() as u64 + weight(&datatype) + elements.retained())?;
        shown.push(AttributeDefinition { name, datatype, dataspace, elements });
    }
    Ok(shown)
}

/// Whether netCDF shows an attribute: the reason if not.
fn check(types: &[TypeDefinition], attribute: &Attribute) -> std::result::Result<(), String> {
    let datatype = &attribute.datatype;
    if let Class::String { .. } | Class::VariableString { .. } = datatype.class {
        return Ok(());
    }
    if attribute.dataspace.rank() > 1 {
        return Err(format!("has {} dimensions", attribute.dataspace.rank()));
    }
    if AtomicType::of(datatype).is_some() || find(types, datatype).is_some() {
        return Ok(());
    }
    check_user_type(types, datatype)?;
    Err(format!("has a type of {} that is not committed", name(datatype)))
}
