//! [`ncml`]: the definitions of a netCDF-4 file as `NcML` (XML). `ncdump -x` refuses files with
//! groups, strings or types of users; here they are what the schema of `NcML` 2.2 has for them, as
//! netCDF-Java reads it: `group`, `enumTypedef`, variables of the type `Structure` with their
//! members, and `*` as the last length of sequences.

use std::io::{self, Write};

use striate_hdf5::model::{Class, Datatype, Name};
use striate_hdf5::netcdf::{AttributeDefinition, FileDefinition, NetcdfFile};
use striate_hdf5::{Error, File, Source};

use super::classic::attribute_values;
use super::{AttributeReader, Datum, DatumDecoder, GroupTree, PrintedType};
use crate::cdl::ncml::{NAMESPACE, attribute as classic_attribute, escaped};
use crate::cdl::{CdlError, DumpOptions};
use crate::format::Attribute;

/// Characters that may separate strings of an attribute: the first that none of them has.
const SEPARATORS: [u8; 4] = *b"|;^~";

/// Prints the definitions of a file as `NcML`; `location` is its name.
pub fn ncml<S: Source>(
    file: &File<S>,
    described: &NetcdfFile,
    location: &str,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<(), CdlError<Error>> {
    let tree = GroupTree::new(&described.definition);
    let text = NcmlText { file, described, tree, options };
    let mut out = io::BufWriter::new(out);
    out.write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
    write!(out, "<netcdf xmlns=\"{NAMESPACE}\" location=\"")?;
    escaped(&mut out, location.as_bytes())?;
    out.write_all(b"\">\n")?;
    text.contents(&mut out, 0, 1)?;
    // The groups from the root down to the present one, and how many groups in them are done.
    let mut path = vec![(0, 0)];
    while let Some((group, done)) = path.last_mut() {
        if let Some(&child) = text.tree.children(*group).get(*done) {
            *done += 1;
            indent(&mut out, path.len())?;
            out.write_all(b"<group name=\"")?;
            escaped(&mut out, described.definition.groups[child].name.as_bytes())?;
            out.write_all(b"\">\n")?;
            path.push((child, 0));
            text.contents(&mut out, child, path.len())?;
            continue;
        }
        path.pop();
        if !path.is_empty() {
            indent(&mut out, path.len())?;
            out.write_all(b"</group>\n")?;
        }
    }
    out.write_all(b"</netcdf>\n")?;
    Ok(out.flush()?)
}

fn indent(out: &mut dyn Write, depth: usize) -> io::Result<()> {
    // What is deeper is as readable without.
    write!(out, "{:1$}", "", 2 * depth.min(64))
}

struct NcmlText<'f, S> {
    file: &'f File<S>,
    described: &'f NetcdfFile,
    tree: GroupTree,
    options: &'f DumpOptions,
}

impl<S: Source> NcmlText<'_, S> {
    fn definition(&self) -> &FileDefinition {
        &self.described.definition
    }

    /// What is in a group, except for other groups.
    fn contents(
        &self,
        out: &mut dyn Write,
        group: usize,
        depth: usize,
    ) -> Result<(), CdlError<Error>> {
        let definition = self.definition();
        for of_user in self.tree.types(group).iter().map(|&index| &definition.types[index]) {
            self.enumeration(out, &of_user.name, &of_user.datatype, depth)?;
        }
        for &index in self.tree.dimensions(group) {
            let dimension = &definition.dimensions[index];
            indent(out, depth)?;
            out.write_all(b"<dimension name=\"")?;
            escaped(out, dimension.name.as_bytes())?;
            let unlimited = if dimension.unlimited { " isUnlimited=\"true\"" } else { "" };
            writeln!(out, "\" length=\"{}\"{unlimited} />", dimension.length)?;
        }
        let reader = AttributeReader::of_group(self.file, self.described, &self.tree, group);
        let reader = reader.map_err(CdlError::Read)?;
        for own in &definition.groups[group].attributes {
            self.attribute(out, &reader, own, depth)?;
        }
        for &index in self.tree.variables(group) {
            self.variable(out, index, depth)?;
        }
        Ok(())
    }

    /// The definition of an enumeration; other types are described where they are used.
    fn enumeration(
        &self,
        out: &mut dyn Write,
        name: &Name,
        datatype: &Datatype,
        depth: usize,
    ) -> Result<(), CdlError<Error>> {
        let Class::Enumeration { base, members } = &datatype.class else { return Ok(()) };
        indent(out, depth)?;
        out.write_all(b"<enumTypedef name=\"")?;
        escaped(out, name.as_bytes())?;
        writeln!(out, "\" type=\"enum{}\">", base.size)?;
        for member in members {
            let value = DatumDecoder::new(self.file).list(base, &member.value);
            let value = value.map_err(CdlError::Read)?;
            indent(out, depth + 1)?;
            out.write_all(b"<enum key=\"")?;
            escaped(out, value.first().map(shown).unwrap_or_default().as_bytes())?;
            out.write_all(b"\">")?;
            escaped(out, member.name.as_bytes())?;
            out.write_all(b"</enum>\n")?;
        }
        indent(out, depth)?;
        Ok(out.write_all(b"</enumTypedef>\n")?)
    }

    fn variable(
        &self,
        out: &mut dyn Write,
        index: usize,
        depth: usize,
    ) -> Result<(), CdlError<Error>> {
        let definition = self.definition();
        let variable = &definition.variables[index];
        let dimensions = variable.dimensions.iter();
        let shape: Vec<Vec<u8>> = dimensions
            .map(|&dimension| definition.dimensions[dimension].name.as_bytes().to_vec())
            .collect();
        let members = self.begin(out, &variable.name, shape, &variable.datatype, depth)?;
        if variable.attributes.is_empty() && members.is_none() {
            return Ok(out.write_all(b" />\n")?);
        }
        out.write_all(b">\n")?;
        let reader = AttributeReader::of_variable(self.file, self.described, index);
        let reader = reader.map_err(CdlError::Read)?;
        for own in &variable.attributes {
            self.attribute(out, &reader, own, depth + 1)?;
        }
        self.members(out, members, depth + 1)?;
        indent(out, depth)?;
        Ok(out.write_all(b"</variable>\n")?)
    }

    /// The members of a compound, which may be compounds; as deep as types are nested.
    fn members(
        &self,
        out: &mut dyn Write,
        of: Option<&Datatype>,
        depth: usize,
    ) -> Result<(), CdlError<Error>> {
        let Some(Class::Compound { members }) = of.map(|of| &of.class) else { return Ok(()) };
        for member in members {
            let inner = self.begin(out, &member.name, Vec::new(), &member.datatype, depth)?;
            if inner.is_none() {
                out.write_all(b" />\n")?;
                continue;
            }
            out.write_all(b">\n")?;
            self.members(out, inner, depth + 1)?;
            indent(out, depth)?;
            out.write_all(b"</variable>\n")?;
        }
        Ok(())
    }

    /// Begins an element of a variable or a member: its name, shape and type. Returns the type that
    /// its members have, if it is a compound.
    fn begin<'d>(
        &self,
        out: &mut dyn Write,
        name: &Name,
        mut shape: Vec<Vec<u8>>,
        datatype: &'d Datatype,
        depth: usize,
    ) -> Result<Option<&'d Datatype>, CdlError<Error>> {
        // Lengths of array members, and sequences, are lengths of the variable.
        let mut inner = datatype;
        loop {
            inner = match &inner.class {
                Class::Array { base, dimensions } => {
                    shape.extend(dimensions.iter().map(|len| len.to_string().into_bytes()));
                    base
                }
                Class::Sequence { base } => {
                    shape.push(b"*".to_vec());
                    base
                }
                _ => break,
            };
        }
        let untyped = || CdlError::Untyped(name.to_string());
        let (of, typedef) = match PrintedType::of(self.definition(), inner) {
            Some(PrintedType::Classic(external)) => (external.to_string(), None),
            Some(PrintedType::String) => ("String".to_owned(), None),
            Some(PrintedType::User(number)) => match &inner.class {
                Class::Enumeration { base, .. } => {
                    let name = self.definition().types.get(number).map(|of_user| &of_user.name);
                    (format!("enum{}", base.size), name)
                }
                Class::Compound { .. } => ("Structure".to_owned(), None),
                Class::Opaque { .. } => ("opaque".to_owned(), None),
                _ => return Err(untyped()),
            },
            None => match &inner.class {
                Class::Compound { .. } => ("Structure".to_owned(), None),
                _ => return Err(untyped()),
            },
        };
        indent(out, depth)?;
        out.write_all(b"<variable name=\"")?;
        escaped(out, name.as_bytes())?;
        if !shape.is_empty() {
            out.write_all(b"\" shape=\"")?;
            for (place, length) in shape.iter().enumerate() {
                out.write_all(if place > 0 { b" " } else { b"" })?;
                escaped(out, length)?;
            }
        }
        write!(out, "\" type=\"{of}\"")?;
        if let Some(typedef) = typedef {
            out.write_all(b" typedef=\"")?;
            escaped(out, typedef.as_bytes())?;
            out.write_all(b"\"")?;
        }
        Ok(matches!(inner.class, Class::Compound { .. }).then_some(inner))
    }

    fn attribute(
        &self,
        out: &mut dyn Write,
        reader: &AttributeReader<'_, S>,
        own: &AttributeDefinition,
        depth: usize,
    ) -> Result<(), CdlError<Error>> {
        if let Some(PrintedType::Classic(external)) =
            PrintedType::of_attribute(self.definition(), own)
        {
            let values = attribute_values(external, own);
            let attribute = Attribute { name: own.name.to_string(), values };
            let spaces = " ".repeat(2 * depth.min(64));
            return Ok(classic_attribute(out, &spaces, &attribute, self.options.precision)?);
        }
        let values: Vec<String> =
            reader.data(own).map_err(CdlError::Read)?.iter().map(shown).collect();
        let in_none =
            |separator: &&u8| !values.iter().any(|value| value.as_bytes().contains(separator));
        let separator = SEPARATORS.iter().find(in_none).map_or('|', |&found| char::from(found));
        indent(out, depth)?;
        out.write_all(b"<attribute name=\"")?;
        escaped(out, own.name.as_bytes())?;
        out.write_all(b"\" type=\"String\"")?;
        if values.len() > 1 {
            write!(out, " separator=\"{separator}\"")?;
        }
        out.write_all(b" value=\"")?;
        escaped(out, values.join(&separator.to_string()).as_bytes())?;
        Ok(out.write_all(b"\" />\n")?)
    }
}

/// A value as text.
fn shown(datum: &Datum) -> String {
    let list = |values: &[Datum]| {
        format!("{{{}}}", values.iter().map(shown).collect::<Vec<_>>().join(", "))
    };
    match datum {
        Datum::Integer(value) | Datum::Enumeration(value, None) => value.to_string(),
        Datum::Float(value) => value.to_string(),
        Datum::Double(value) => value.to_string(),
        Datum::Char(byte) => char::from(*byte).to_string(),
        Datum::String(text) => {
            String::from_utf8_lossy(text.as_deref().unwrap_or_default()).into_owned()
        }
        Datum::Opaque(bytes) => {
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("0X{}", digits.concat())
        }
        Datum::Enumeration(_, Some(name)) => name.to_string(),
        Datum::Compound(values) | Datum::Array { values, .. } | Datum::Sequence(values) => {
            list(values)
        }
    }
}
