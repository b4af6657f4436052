//! [`ncml`]: the definitions as `NcML` (XML), as `ncdump -x` prints them. It has no data.

use std::io::{self, Write};

use super::definitions::{DOUBLE_DIGITS, FLOAT_DIGITS};
use super::number::{Tail, general, sign};
use super::{DumpOptions, Precision, coordinates, is_printed};
use crate::format::{Attribute, Header, Values};

pub(super) const NAMESPACE: &str = "https://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2";

/// Prints the definitions of a dataset as `NcML`; `location` is the name of its file.
pub fn ncml(
    header: &Header,
    location: &str,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    out.write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")?;
    write!(out, "<netcdf xmlns=\"{NAMESPACE}\" location=\"")?;
    escaped(&mut out, location.as_bytes())?;
    out.write_all(b"\">\n")?;
    for dimension in &header.dimensions {
        out.write_all(b"  <dimension name=\"")?;
        escaped(&mut out, dimension.name.as_bytes())?;
        if dimension.is_unlimited() {
            writeln!(out, "\" length=\"{}\" isUnlimited=\"true\" />", header.records)?;
        } else {
            writeln!(out, "\" length=\"{}\" />", dimension.len)?;
        }
    }
    for global in &header.attributes {
        attribute(&mut out, "  ", global, options.precision)?;
    }
    let coordinates = coordinates(header, options);
    for variable in &header.variables {
        out.write_all(b"  <variable name=\"")?;
        escaped(&mut out, variable.name.as_bytes())?;
        if !variable.dimensions.is_empty() {
            out.write_all(b"\" shape=\"")?;
            for (place, &id) in variable.dimensions.iter().enumerate() {
                out.write_all(if place > 0 { b" " } else { b"" })?;
                let dimension = header.dimensions.get(id as usize);
                escaped(&mut out, dimension.map_or("", |it| &it.name).as_bytes())?;
            }
        }
        write!(out, "\" type=\"{}\"", variable.external)?;
        // ncdump writes an element for the data, which it does not print.
        let has_data = options.data != super::Data::None
            && is_printed(header, variable, options, &coordinates);
        if variable.attributes.is_empty() && !has_data {
            out.write_all(b" />\n")?;
            continue;
        }
        out.write_all(b">\n")?;
        for own in &variable.attributes {
            attribute(&mut out, "    ", own, options.precision)?;
        }
        out.write_all(b"  </variable>\n")?;
    }
    out.write_all(b"</netcdf>\n")?;
    out.flush()
}

pub(super) fn attribute(
    out: &mut dyn Write,
    indent: &str,
    attribute: &Attribute,
    precision: Precision,
) -> io::Result<()> {
    write!(out, "{indent}<attribute name=\"")?;
    escaped(out, attribute.name.as_bytes())?;
    match &attribute.values {
        Values::Char(text) => {
            let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            out.write_all(b"\" value=\"")?;
            escaped(out, &text[..end])?;
        }
        values => {
            write!(out, "\" type=\"{}\" value=\"", values.external())?;
            numbers(out, values, precision)?;
        }
    }
    out.write_all(b"\" />\n")
}

fn numbers(out: &mut dyn Write, values: &Values, precision: Precision) -> io::Result<()> {
    let real = |value: f64, digits: u8| {
        let mut text = Vec::new();
        match value {
            value if value.is_nan() => text.extend_from_slice(b"nan"),
            f64::INFINITY => text.extend_from_slice(b"inf"),
            f64::NEG_INFINITY => text.extend_from_slice(b"-inf"),
            value => {
                sign(&mut text, value);
                general(&mut text, value, digits.into(), Tail::Point);
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    let shown: Vec<String> = match values {
        Values::Char(_) => Vec::new(),
        Values::Stored(stored) => (0..stored.len()).map(|number| stored.shown(number)).collect(),
        Values::Byte(list) => list.iter().map(ToString::to_string).collect(),
        Values::Short(list) => list.iter().map(ToString::to_string).collect(),
        Values::Int(list) => list.iter().map(ToString::to_string).collect(),
        Values::UByte(list) => list.iter().map(ToString::to_string).collect(),
        Values::UShort(list) => list.iter().map(ToString::to_string).collect(),
        Values::UInt(list) => list.iter().map(ToString::to_string).collect(),
        Values::Int64(list) => list.iter().map(ToString::to_string).collect(),
        Values::UInt64(list) => list.iter().map(ToString::to_string).collect(),
        Values::Float(list) => {
            let digits = precision.float.unwrap_or(FLOAT_DIGITS);
            list.iter().map(|&value| real(value.into(), digits)).collect()
        }
        Values::Double(list) => {
            let digits = precision.double.unwrap_or(DOUBLE_DIGITS);
            list.iter().map(|&value| real(value, digits)).collect()
        }
    };
    out.write_all(shown.join(" ").as_bytes())
}

/// Escaped text of an XML attribute. A zero byte is not valid XML, but printed as ncdump does.
pub(super) fn escaped(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    for &byte in text {
        match byte {
            b'&' => out.write_all(b"&amp;")?,
            b'<' => out.write_all(b"&lt;")?,
            b'>' => out.write_all(b"&gt;")?,
            b'"' => out.write_all(b"&quot;")?,
            b'\n' => out.write_all(b"&#xA;")?,
            b'\r' => out.write_all(b"&#xD;")?,
            b'\t' => out.write_all(b"&#x9;")?,
            byte if byte.is_ascii_control() => write!(out, "&#{byte};")?,
            byte => out.write_all(&[byte])?,
        }
    }
    Ok(())
}
