//! The definitions of a group: types, dimensions, variables and attributes.

use striate_hdf5::netcdf::AttributeDefinition;
use striate_hdf5::{Error, Source};

use super::{AttributeReader, Datum, FileText, PrintedType, classic};
use crate::cdl::definitions::{dates, values};
use crate::cdl::rows::LineWriter;
use crate::cdl::time::Times;
use crate::cdl::{CdlError, text};
use crate::format::Type;

/// A global attribute that netCDF hides.
const HIDDEN: &str = "_NCProperties";

/// What has attributes.
struct PrintedOwner<'o, S> {
    reader: &'o AttributeReader<'o, S>,
    group: usize,
    /// The name of a variable; that of a group is not printed.
    name: &'o [u8],
    times: Option<&'o Times>,
}

impl<S: Source> FileText<'_, S> {
    /// Prints everything of a group up to its data.
    pub(super) fn print_definitions(
        &self,
        line: &mut LineWriter<'_>,
        group: usize,
    ) -> Result<(), CdlError<Error>> {
        self.print_types(line, group)?;
        let definition = self.definition();
        let dimensions = self.tree.dimensions(group);
        if !dimensions.is_empty() {
            line.indentation()?;
            line.out.write_all(b"dimensions:\n")?;
        }
        for dimension in dimensions.iter().filter_map(|&index| definition.dimensions.get(index)) {
            line.indentation()?;
            line.out.write_all(b"\t")?;
            text::name(line.out, dimension.name.as_bytes())?;
            if dimension.unlimited {
                writeln!(line.out, " = UNLIMITED ; // ({} currently)", dimension.length)?;
            } else {
                writeln!(line.out, " = {} ;", dimension.length)?;
            }
        }
        let variables = self.tree.variables(group);
        if !variables.is_empty() {
            line.indentation()?;
            line.out.write_all(b"variables:\n")?;
        }
        for &index in variables {
            self.print_variable(line, index)?;
        }
        self.print_group_attributes(line, group)
    }

    fn print_variable(
        &self,
        line: &mut LineWriter<'_>,
        index: usize,
    ) -> Result<(), CdlError<Error>> {
        let definition = self.definition();
        let (Some(variable), Some(&of)) = (definition.variables.get(index), self.types.get(index))
        else {
            return Ok(());
        };
        line.indentation()?;
        line.out.write_all(b"\t")?;
        self.print_type_name(line, variable.group, of)?;
        line.out.write_all(b" ")?;
        text::name(line.out, variable.name.as_bytes())?;
        for (place, &number) in variable.dimensions.iter().enumerate() {
            line.out.write_all(if place == 0 { b"(" } else { b", " })?;
            if let Some(path) = self.tree.dimension_prefix(definition, variable.group, number) {
                text::name(line.out, &path)?;
                line.out.write_all(if path == b"/" { b"" } else { b"/" })?;
            }
            let name = definition.dimensions.get(number).map(|dimension| dimension.name.as_bytes());
            text::name(line.out, name.unwrap_or_default())?;
        }
        line.out.write_all(if variable.dimensions.is_empty() { b" ;\n" } else { b") ;\n" })?;
        let times = self.views.get(index).filter(|_| self.options.times).and_then(Times::of);
        let reader = AttributeReader::of_variable(self.file, self.described, index);
        let owner = PrintedOwner {
            reader: &reader.map_err(CdlError::Read)?,
            group: variable.group,
            name: variable.name.as_bytes(),
            times: times.as_ref(),
        };
        for attribute in &variable.attributes {
            self.print_attribute(line, &owner, attribute)?;
        }
        if self.options.special {
            self.print_specials(line, index, of)?;
        }
        Ok(())
    }

    fn print_group_attributes(
        &self,
        line: &mut LineWriter<'_>,
        group: usize,
    ) -> Result<(), CdlError<Error>> {
        let found = self.definition().groups.get(group);
        let attributes = found.map_or(&[][..], |group| group.attributes.as_slice());
        let attributes = || attributes.iter().filter(|it| group > 0 || it.name != HIDDEN);
        if attributes().next().is_some() || self.options.special {
            line.out.write_all(b"\n")?;
            line.indentation()?;
            let of = if group == 0 { "global" } else { "group" };
            writeln!(line.out, "// {of} attributes:")?;
        }
        let reader = AttributeReader::of_group(self.file, self.described, &self.tree, group);
        let reader = &reader.map_err(CdlError::Read)?;
        let owner = PrintedOwner { reader, group, name: b"", times: None };
        for attribute in attributes() {
            self.print_attribute(line, &owner, attribute)?;
        }
        if group == 0 && self.options.special {
            self.print_hidden(line)?;
        }
        Ok(())
    }

    fn print_attribute(
        &self,
        line: &mut LineWriter<'_>,
        owner: &PrintedOwner<'_, S>,
        attribute: &AttributeDefinition,
    ) -> Result<(), CdlError<Error>> {
        let of = PrintedType::of_attribute(self.definition(), attribute).ok_or_else(|| {
            let path = self.tree.path(self.definition(), owner.group, &owner.name.into());
            CdlError::Untyped(format!("{path}:{}", attribute.name))
        })?;
        line.indentation()?;
        line.out.write_all(b"\t\t")?;
        if !matches!(of, PrintedType::Classic(_)) {
            self.print_type_name(line, owner.group, of)?;
            line.out.write_all(b" ")?;
        }
        text::name(line.out, owner.name)?;
        line.out.write_all(if text::is_keyword(owner.name) { b" :" } else { b":" })?;
        text::name(line.out, attribute.name.as_bytes())?;
        line.out.write_all(b" = ")?;
        let precision = self.options.precision;
        match of {
            // Without values the type of the text does not matter.
            _ if attribute.elements.is_empty() => text::attribute(line.out, b"", self.breaks)?,
            PrintedType::Classic(external) => {
                let found = classic::attribute_values(external, attribute);
                values(line.out, &found, precision, self.breaks)?;
                line.out.write_all(b" ;")?;
                if let Some(times) = owner.times.filter(|_| external != Type::Char) {
                    let indent = line.indentation_text();
                    dates(line.out, &found, times, self.options.line, &indent)?;
                }
                return Ok(line.out.write_all(b"\n")?);
            }
            PrintedType::String | PrintedType::User(_) => {
                let found = owner.reader.data(attribute).map_err(CdlError::Read)?;
                self.print_list(line, &found)?;
            }
        }
        Ok(line.out.write_all(b" ;\n")?)
    }

    /// Prints the values of an attribute of a user's type, or its strings. Only compounds and
    /// sequences are broken into lines.
    fn print_list(&self, line: &mut LineWriter<'_>, list: &[Datum]) -> Result<(), CdlError<Error>> {
        let mut token = Vec::new();
        for (index, datum) in list.iter().enumerate() {
            token.clear();
            match datum {
                Datum::String(Some(string)) => text::attribute(&mut token, string, self.breaks)?,
                Datum::Enumeration(_, Some(name)) => text::name(&mut token, name.as_bytes())?,
                datum => datum.print(&mut token, self.options.precision),
            }
            if index + 1 < list.len() {
                token.extend_from_slice(b", ");
            }
            match datum {
                Datum::Compound(_) | Datum::Sequence(_) => line.put(&token)?,
                _ => line.out.write_all(&token)?,
            }
        }
        Ok(())
    }
}
