//! [`dump`]: netCDF-4 files, and HDF5 files that netCDF can represent, as CDL.
//!
//! What the file has is described before ([`NetcdfFile`]); here it becomes text, group by group,
//! and data is read in batches of bounded size. Values of classic types are printed by the modules
//! that print classic files; all others are [`Datum`]s.

mod attributes;
mod classic;
mod data;
mod datum;
mod definitions;
mod divided;
mod ncml;
mod printed_type;
mod scope;
mod special;
mod user_type;

use std::io::{self, Write};

pub use attributes::AttributeReader;
pub use classic::{classic_header, classic_values};
pub use data::{VariableData, VariableSlab};
pub use datum::Datum;
use datum::DatumDecoder;
pub use divided::{DividedElements, as_whole};
pub use ncml::ncml;
pub use printed_type::PrintedType;
pub use scope::GroupTree;
use striate_hdf5::netcdf::{FileDefinition, NetcdfFile, NetcdfKind, VariableDefinition};
use striate_hdf5::{Error, File, Source};

use super::rows::LineWriter;
use super::text::{self, LineBreaks};
use super::time::{self, Times};
use super::{CdlError, Data, DumpOptions};
use crate::format::Variable;

/// The name that `ncdump -k` prints.
pub const fn kind(kind: NetcdfKind) -> &'static str {
    match kind {
        NetcdfKind::Netcdf4Classic => "netCDF-4 classic model",
        NetcdfKind::Netcdf4 | NetcdfKind::Hdf5 => "netCDF-4",
    }
}

/// Prints a dataset, as `ncdump` does. Elements of variables that are in partitions are those of
/// `divided`.
pub fn dump<S: Source>(
    file: &File<S>,
    described: &NetcdfFile,
    divided: Option<&dyn DividedElements>,
    name: &str,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<(), CdlError<Error>> {
    let mut out = io::BufWriter::new(out);
    let mut line = LineWriter::new(&mut out, options.line);
    let text = FileText { divided, ..FileText::new(file, described, options)? };
    line.out.write_all(b"netcdf ")?;
    text::name(line.out, name)?;
    line.out.write_all(b" {\n")?;
    text.group(&mut line, 0)?;
    // The groups from the root down to the present one, and how many groups in them are done.
    let mut path = vec![(0, 0)];
    while let Some((group, done)) = path.last_mut() {
        if let Some(&child) = text.tree.children(*group).get(*done) {
            *done += 1;
            text.begin_group(&mut line, child)?;
            text.group(&mut line, child)?;
            path.push((child, 0));
            continue;
        }
        let group = *group;
        path.pop();
        if !path.is_empty() {
            text.end_group(&mut line, group)?;
        }
    }
    line.out.write_all(b"}\n")?;
    Ok(out.flush()?)
}

/// All that is needed for the text of a file.
struct FileText<'f, S> {
    file: &'f File<S>,
    described: &'f NetcdfFile,
    divided: Option<&'f dyn DividedElements>,
    options: &'f DumpOptions,
    tree: GroupTree,
    /// The type of each variable.
    types: Vec<PrintedType>,
    /// What of each variable is interpreted by the modules for classic files.
    views: Vec<Variable>,
    times: Vec<Option<Times>>,
    breaks: LineBreaks,
}

impl<'f, S: Source> FileText<'f, S> {
    fn new(
        file: &'f File<S>,
        described: &'f NetcdfFile,
        options: &'f DumpOptions,
    ) -> Result<Self, CdlError<Error>> {
        let definition = &described.definition;
        let tree = GroupTree::new(definition);
        for wanted in &options.variables {
            if !tree.has_variable(definition, wanted) {
                return Err(CdlError::Unknown(wanted.clone()));
            }
        }
        let mut types = Vec::new();
        let mut views = Vec::new();
        for variable in &definition.variables {
            let of_variable = type_of(definition, &tree, variable)?;
            types.push(of_variable);
            views.push(classic::view(definition, variable, of_variable));
        }
        let times = if options.times { time::of_variables(&views) } else { Vec::new() };
        let breaks = match described.kind {
            NetcdfKind::Netcdf4Classic => LineBreaks::Broken,
            NetcdfKind::Netcdf4 | NetcdfKind::Hdf5 => LineBreaks::Escaped,
        };
        Ok(Self { file, described, divided: None, options, tree, types, views, times, breaks })
    }

    fn definition(&self) -> &'f FileDefinition {
        &self.described.definition
    }

    /// Prints what is in a group, without the groups in it.
    fn group(&self, line: &mut LineWriter<'_>, group: usize) -> Result<(), CdlError<Error>> {
        self.print_definitions(line, group)?;
        if self.options.data == Data::None {
            return Ok(());
        }
        let variables = self.tree.variables(group);
        if !variables.is_empty() {
            line.indentation()?;
            line.out.write_all(b"data:\n")?;
        }
        for &index in variables {
            if is_wanted(self.definition(), &self.tree, index, self.options) {
                self.print_data(line, index)?;
            }
        }
        Ok(())
    }

    fn begin_group(&self, line: &mut LineWriter<'_>, group: usize) -> io::Result<()> {
        line.out.write_all(b"\n")?;
        line.indentation()?;
        line.out.write_all(b"group: ")?;
        self.group_name(line, group)?;
        line.out.write_all(b" {\n")?;
        line.indent_more();
        Ok(())
    }

    fn end_group(&self, line: &mut LineWriter<'_>, group: usize) -> io::Result<()> {
        line.indentation()?;
        line.out.write_all(b"} // group ")?;
        self.group_name(line, group)?;
        line.indent_less();
        line.out.write_all(b"\n")
    }

    fn group_name(&self, line: &mut LineWriter<'_>, group: usize) -> io::Result<()> {
        let found = self.definition().groups.get(group);
        text::name(line.out, found.map_or(&b""[..], |group| group.name.as_bytes()))
    }
}

/// The type of a variable.
fn type_of(
    definition: &FileDefinition,
    tree: &GroupTree,
    variable: &VariableDefinition,
) -> Result<PrintedType, CdlError<Error>> {
    PrintedType::of(definition, &variable.datatype)
        .ok_or_else(|| CdlError::Untyped(tree.path(definition, variable.group, &variable.name)))
}

/// Whether the options want the data of a variable, and it has some.
pub fn is_wanted(
    definition: &FileDefinition,
    tree: &GroupTree,
    index: usize,
    options: &DumpOptions,
) -> bool {
    let Some(variable) = definition.variables.get(index) else { return false };
    let is_named = |wanted: &String| tree.is_named(variable, wanted);
    (options.variables.is_empty() || options.variables.iter().any(is_named))
        && match options.data {
            Data::None => false,
            Data::All => true,
            Data::Coordinates => tree.is_coordinate(definition, variable),
        }
        && definition.dataspace(variable).elements() != Some(0)
}
