//! Names and strings with their escapes.

use std::io::{self, Write};

/// Names before whose attributes a blank keeps apart what would read as the begin of a section.
const KEYWORDS: [&str; 5] = ["variables", "dimensions", "data", "group", "types"];

/// ASCII characters that have a meaning in CDL, and are escaped in names.
const SPECIAL: &[u8] = b" !\"#$&'()*,:;<=>?[]\\^`{|}~";

/// Whether a name begins a section of CDL.
pub(super) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

/// Prints a name, with a backslash before what would be read as something else.
pub(super) fn name(out: &mut dyn Write, name: &str) -> io::Result<()> {
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        out.write_all(b"\\")?;
    }
    for &byte in name.as_bytes() {
        match byte {
            byte if byte.is_ascii_control() => write!(out, "\\%{byte:02x}")?,
            byte if SPECIAL.contains(&byte) => out.write_all(&[b'\\', byte])?,
            byte => out.write_all(&[byte])?,
        }
    }
    Ok(())
}

/// The escape of a character that has one of its own. That of a line break is up to the caller.
const fn escape(byte: u8) -> Option<&'static str> {
    Some(match byte {
        0x08 => "\\b",
        0x0b => "\\v",
        0x0c => "\\f",
        b'\r' => "\\r",
        b'\t' => "\\t",
        b'\\' => "\\\\",
        b'\'' => "\\'",
        b'"' => "\\\"",
        _ => return None,
    })
}

/// Prints the text of an attribute. Bytes beyond ASCII stay what they are; zeros at the end are cut
/// off; a line break ends a line of the text as well.
pub(super) fn attribute(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    out.write_all(b"\"")?;
    for &byte in &text[..end] {
        match (byte, escape(byte)) {
            (b'\n', _) => out.write_all(b"\\n\",\n\t\t\t\"")?,
            (_, Some(escape)) => out.write_all(escape.as_bytes())?,
            (byte, None) if byte.is_ascii_control() => write!(out, "\\{byte:03o}")?,
            _ => out.write_all(&[byte])?,
        }
    }
    out.write_all(b"\"")
}

/// A row of characters of a variable, which may come in parts.
///
/// Unlike in attributes, only ASCII is printed as it is.
#[derive(Debug, Default)]
pub(super) struct TextRow {
    /// Zeros that were met and not printed: at the end of the row they are not.
    zeros: u64,
}

impl TextRow {
    /// Prints a part of the row.
    pub(super) fn put(&mut self, out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
        for &byte in text {
            if byte == 0 {
                self.zeros += 1;
                continue;
            }
            for _ in 0..std::mem::take(&mut self.zeros) {
                out.write_all(b"\\000")?;
            }
            match (byte, escape(byte)) {
                (b'\n', _) => out.write_all(b"\\n\",\n    \"")?,
                (_, Some(escape)) => out.write_all(escape.as_bytes())?,
                (b' '..=b'~', None) => out.write_all(&[byte])?,
                _ => write!(out, "\\{byte:03o}")?,
            }
        }
        Ok(())
    }
}
