//! Prints the definitions: everything before the data.

use std::io::{self, Write};

use super::number::{Tail, general, sign, special};
use super::text::LineBreaks;
use super::time::Times;
use super::{DumpOptions, Precision, text};
use crate::format::{Attribute, Header, Values, Variable};

/// A global attribute that netCDF hides.
const HIDDEN: &str = "_NCProperties";

/// Default digits of floats.
pub(super) const FLOAT_DIGITS: u8 = 7;
/// Default digits of doubles.
pub(super) const DOUBLE_DIGITS: u8 = 15;

/// Prints everything up to the data.
pub(super) fn print(
    out: &mut dyn Write,
    header: &Header,
    name: &str,
    options: &DumpOptions,
) -> io::Result<()> {
    let precision = options.precision;
    out.write_all(b"netcdf ")?;
    text::name(out, name)?;
    out.write_all(b" {\n")?;
    if !header.dimensions.is_empty() {
        out.write_all(b"dimensions:\n")?;
    }
    for dimension in &header.dimensions {
        out.write_all(b"\t")?;
        text::name(out, &dimension.name)?;
        if dimension.is_unlimited() {
            writeln!(out, " = UNLIMITED ; // ({} currently)", header.records)?;
        } else {
            writeln!(out, " = {} ;", dimension.len)?;
        }
    }
    if !header.variables.is_empty() {
        out.write_all(b"variables:\n")?;
    }
    for variable in &header.variables {
        declaration(out, header, variable)?;
        let times = if options.times { Times::of(variable) } else { None };
        for of_variable in &variable.attributes {
            attribute(out, &variable.name, of_variable, precision)?;
            if let Some(times) = &times {
                dates(out, &of_variable.values, times, options.line, "")?;
            }
            out.write_all(b"\n")?;
        }
    }
    if !header.attributes.is_empty() || options.special {
        out.write_all(b"\n// global attributes:\n")?;
    }
    for global in header.attributes.iter().filter(|global| global.name != HIDDEN) {
        attribute(out, "", global, precision)?;
        out.write_all(b"\n")?;
    }
    if options.special {
        writeln!(out, "\t\t:_Format = \"{}\" ;", header.format.kind())?;
    }
    Ok(())
}

fn declaration(out: &mut dyn Write, header: &Header, variable: &Variable) -> io::Result<()> {
    write!(out, "\t{} ", variable.external)?;
    text::name(out, &variable.name)?;
    for (place, &index) in variable.dimensions.iter().enumerate() {
        out.write_all(if place == 0 { b"(" } else { b", " })?;
        let dimension = header.dimensions.get(index as usize);
        text::name(out, dimension.map_or("", |dimension| &dimension.name))?;
    }
    out.write_all(if variable.dimensions.is_empty() { b" ;\n" } else { b") ;\n" })
}

fn attribute(
    out: &mut dyn Write,
    owner: &str,
    attribute: &Attribute,
    precision: Precision,
) -> io::Result<()> {
    out.write_all(b"\t\t")?;
    text::name(out, owner)?;
    out.write_all(if text::is_keyword(owner) { b" :" } else { b":" })?;
    text::name(out, &attribute.name)?;
    out.write_all(b" = ")?;
    values(out, &attribute.values, precision, LineBreaks::Broken)?;
    out.write_all(b" ;")
}

/// Prints numbers of an attribute as dates, in a comment: up to two on the same line, more on lines
/// of their own.
pub(super) fn dates(
    out: &mut dyn Write,
    values: &Values,
    times: &Times,
    line: usize,
    indent: &str,
) -> io::Result<()> {
    let numbers: Vec<f64> = match values {
        Values::Char(_) | Values::Stored(_) => return Ok(()),
        Values::Byte(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Short(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Int(list) => list.iter().map(|&value| value.into()).collect(),
        Values::UByte(list) => list.iter().map(|&value| value.into()).collect(),
        Values::UShort(list) => list.iter().map(|&value| value.into()).collect(),
        Values::UInt(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Int64(list) => list.iter().map(|&value| value as f64).collect(),
        Values::UInt64(list) => list.iter().map(|&value| value as f64).collect(),
        Values::Float(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Double(list) => list.clone(),
    };
    let mut position = 0;
    for (index, &number) in numbers.iter().enumerate() {
        let comma = if index + 1 < numbers.len() { "," } else { "" };
        let text = times.shown(number) + comma;
        position += 1 + text.len();
        let is_new_line = numbers.len() > 2 && (index == 0 || position > line);
        if is_new_line {
            // A tab has 8 columns.
            write!(out, "\n{indent}\t\t  ")?;
            position = 18 + text.len();
        } else {
            out.write_all(b" ")?;
        }
        if index == 0 || is_new_line {
            out.write_all(b"// ")?;
            position += 3;
        }
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Prints the values of an attribute. CDL does not declare types of attributes, so a suffix of the
/// values gives the type.
pub(super) fn values(
    out: &mut dyn Write,
    values: &Values,
    precision: Precision,
    breaks: LineBreaks,
) -> io::Result<()> {
    macro_rules! integers {
        ($list:expr, $suffix:literal) => {
            list(out, $list, |out, value| write!(out, concat!("{}", $suffix), value))
        };
    }
    let real = |out: &mut dyn Write, value: f64, digits: u8, suffix: &str| {
        let mut number = Vec::new();
        if let Some(name) = special(value) {
            number.extend_from_slice(name.as_bytes());
        } else {
            sign(&mut number, value);
            general(&mut number, value, digits.into(), Tail::Point);
        }
        number.extend_from_slice(suffix.as_bytes());
        out.write_all(&number)
    };
    match values {
        // Without values the type cannot be shown.
        _ if values.is_empty() => text::attribute(out, b"", breaks),
        Values::Char(bytes) => text::attribute(out, bytes, breaks),
        Values::Stored(stored) => {
            let numbers: Vec<usize> = (0..stored.len()).collect();
            list(out, &numbers, |out, &number| out.write_all(stored.shown(number).as_bytes()))
        }
        Values::Byte(values) => integers!(values, "b"),
        Values::Short(values) => integers!(values, "s"),
        Values::Int(values) => integers!(values, ""),
        Values::UByte(values) => integers!(values, "UB"),
        Values::UShort(values) => integers!(values, "US"),
        Values::UInt(values) => integers!(values, "U"),
        Values::Int64(values) => integers!(values, "LL"),
        Values::UInt64(values) => integers!(values, "ULL"),
        Values::Float(values) => {
            let digits = precision.float.unwrap_or(FLOAT_DIGITS);
            list(out, values, |out, &value| real(out, value.into(), digits, "f"))
        }
        Values::Double(values) => {
            let digits = precision.double.unwrap_or(DOUBLE_DIGITS);
            list(out, values, |out, &value| real(out, value, digits, ""))
        }
    }
}

fn list<T>(
    out: &mut dyn Write,
    values: &[T],
    mut print: impl FnMut(&mut dyn Write, &T) -> io::Result<()>,
) -> io::Result<()> {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.write_all(b", ")?;
        }
        print(out, value)?;
    }
    Ok(())
}
