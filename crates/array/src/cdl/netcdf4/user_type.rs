//! Declarations of the types that users define, and names of types.

use std::io::{self, Write as _};

use striate_hdf5::model::{Class, Datatype, Member};
use striate_hdf5::{Source, Value};

use super::{FileText, PrintedType};
use crate::cdl::rows::LineWriter;
use crate::cdl::text;

impl<S: Source> FileText<'_, S> {
    /// Prints the types of a group.
    pub(super) fn print_types(&self, line: &mut LineWriter<'_>, group: usize) -> io::Result<()> {
        let types = self.tree.types(group);
        if types.is_empty() {
            return Ok(());
        }
        line.indentation()?;
        line.out.write_all(b"types:\n")?;
        line.indent_more();
        for &index in types {
            self.print_type(line, group, index)?;
        }
        line.indent_less();
        Ok(())
    }

    fn print_type(&self, line: &mut LineWriter<'_>, group: usize, index: usize) -> io::Result<()> {
        let Some(declared) = self.definition().types.get(index) else { return Ok(()) };
        let own = PrintedType::User(index);
        line.indentation()?;
        match &declared.datatype.class {
            Class::Sequence { base } => {
                self.print_datatype_name(line, group, base)?;
                line.out.write_all(b"(*) ")?;
            }
            Class::Opaque { .. } => write!(line.out, "opaque({}) ", declared.datatype.size)?,
            Class::Compound { members } => {
                line.out.write_all(b"compound ")?;
                self.print_type_name(line, group, own)?;
                line.out.write_all(b" {\n")?;
                for member in members {
                    self.print_member(line, group, member)?;
                }
                line.indentation()?;
                line.out.write_all(b"}; // ")?;
                self.print_type_name(line, group, own)?;
                return line.out.write_all(b"\n");
            }
            Class::Enumeration { base, members } => {
                let mut token = Vec::new();
                self.type_name(&mut token, group, base)?;
                token.extend_from_slice(b" enum ");
                text::name(&mut token, declared.name.as_bytes())?;
                token.extend_from_slice(b" {");
                line.put(&token)?;
                for (place, member) in members.iter().enumerate() {
                    token.clear();
                    text::name(&mut token, member.name.as_bytes())?;
                    let value = match self.file.value(base, &member.value) {
                        // All are printed as signed.
                        Ok(Value::Integer(value)) => value as i64,
                        _ => 0,
                    };
                    let end = if place + 1 < members.len() { ", " } else { "} ;\n" };
                    write!(token, " = {value}{end}")?;
                    line.put(&token)?;
                }
                return Ok(());
            }
            _ => {}
        }
        self.print_type_name(line, group, own)?;
        line.out.write_all(b" ;\n")
    }

    fn print_member(
        &self,
        line: &mut LineWriter<'_>,
        group: usize,
        member: &Member,
    ) -> io::Result<()> {
        line.indentation()?;
        line.out.write_all(b"  ")?;
        let (datatype, dimensions) = match &member.datatype.class {
            Class::Array { base, dimensions } => (&**base, dimensions.as_slice()),
            _ => (&member.datatype, &[][..]),
        };
        self.print_datatype_name(line, group, datatype)?;
        line.out.write_all(b" ")?;
        text::name(line.out, member.name.as_bytes())?;
        if !dimensions.is_empty() {
            let lengths: Vec<String> = dimensions.iter().map(ToString::to_string).collect();
            write!(line.out, "({})", lengths.join(", "))?;
        }
        line.out.write_all(b" ;\n")
    }

    fn type_name(&self, out: &mut Vec<u8>, group: usize, datatype: &Datatype) -> io::Result<()> {
        let mut line = LineWriter::new(out, usize::MAX);
        self.print_datatype_name(&mut line, group, datatype)
    }

    fn print_datatype_name(
        &self,
        line: &mut LineWriter<'_>,
        group: usize,
        datatype: &Datatype,
    ) -> io::Result<()> {
        match PrintedType::of(self.definition(), datatype) {
            Some(found) => self.print_type_name(line, group, found),
            None => Ok(()),
        }
    }

    /// Prints the name that a type has in a group: with its path if it is not in that group or one
    /// that the group is in.
    pub(super) fn print_type_name(
        &self,
        line: &mut LineWriter<'_>,
        group: usize,
        of: PrintedType,
    ) -> io::Result<()> {
        let index = match of {
            PrintedType::Classic(external) => return write!(line.out, "{external}"),
            PrintedType::String => return line.out.write_all(b"string"),
            PrintedType::User(index) => index,
        };
        let types = &self.definition().types;
        let Some(found) = types.get(index) else { return Ok(()) };
        let has_name = |&index: &usize| types.get(index).is_some_and(|it| it.name == found.name);
        let is_inherited =
            self.tree.ancestors(group).any(|group| self.tree.types(group).iter().any(has_name));
        if !is_inherited {
            text::name(line.out, self.tree.group_bytes(found.group))?;
            line.out.write_all(b"/")?;
        }
        text::name(line.out, found.name.as_bytes())
    }
}
