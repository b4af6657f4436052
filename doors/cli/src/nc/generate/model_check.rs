//! Whether a format holds what a text defines.

use std::collections::HashMap;

use striate_array::Format;
use striate_array::cdl::parse::{CdlDocument, CdlFormat, CdlType, external_type};

/// Why not, and what to do.
type Refusal = (String, &'static str);

/// Finds out before anything is written what a format does not have.
pub(super) fn check(document: &CdlDocument<'_>, format: CdlFormat) -> Result<(), Refusal> {
    let types = match format {
        CdlFormat::Netcdf4 => return check_names(document),
        // The classic model has the types of CDF-1.
        CdlFormat::Netcdf4Classic => Format::Cdf1,
        CdlFormat::Classic(format) => format,
    };
    let refuse = |what: String| {
        let hint = "--format netcdf4 has it; so does a text without _Format";
        Err((format!("{format} does not have {what}"), hint))
    };
    if let Some(group) = document.groups.get(1) {
        return refuse(format!("groups, such as '{}'", group.name));
    }
    if let Some(one) = document.types.first() {
        return refuse(format!("user-defined types, such as '{}'", one.name));
    }
    let mut unlimited = document.dimensions.iter().filter(|one| one.unlimited);
    if let (Some(one), Some(other)) = (unlimited.next(), unlimited.next()) {
        return refuse(format!("two unlimited dimensions, '{}' and '{}'", one.name, other.name));
    }
    let is_in = |of: CdlType| external_type(of).is_some_and(|external| external.is_in(types));
    for variable in &document.variables {
        let inner = variable.dimensions.iter().skip(1);
        let mut inner = inner.filter_map(|&number| document.dimensions.get(number));
        if let Some(one) = inner.find(|one| one.unlimited) {
            let name = &variable.name;
            return refuse(format!("'{}' as a dimension of '{name}' but the first", one.name));
        }
        if !is_in(variable.of) {
            return refuse(format!("the type of variable '{}'", variable.name));
        }
    }
    let of_groups = document.groups.iter().flat_map(|group| &group.attributes);
    let of_variables = document.variables.iter().flat_map(|variable| &variable.attributes);
    match of_groups.chain(of_variables).find(|attribute| !is_in(attribute.of)) {
        Some(attribute) => refuse(format!("the type of attribute '{}'", attribute.name)),
        None => Ok(()),
    }
}

/// In netCDF-4, groups, types and variables of a group have different names.
fn check_names(document: &CdlDocument<'_>) -> Result<(), Refusal> {
    let groups = document.groups.iter().skip(1).map(|one| (one.parent, &one.name, "group"));
    let types = document.types.iter().map(|one| (one.group, &one.name, "type"));
    let variables = document.variables.iter().map(|one| (one.group, &one.name, "variable"));
    let mut seen = HashMap::new();
    for (group, name, what) in groups.chain(types).chain(variables) {
        if let Some(other) = seen.insert((group, name), what) {
            let why = format!("a {other} and a {what} of one group are both called '{name}'");
            return Err((why, "give one of them another name"));
        }
    }
    Ok(())
}
