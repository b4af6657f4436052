//! Names and strings with CDL's escapes.

use std::io::{self, Write};

/// Names after which a blank is printed before the colon of an attribute, since they would begin a
/// section.
const KEYWORDS: [&str; 5] = ["variables", "dimensions", "data", "group", "types"];

/// ASCII characters that have a meaning in CDL, and are escaped in names.
const SPECIAL: &[u8] = b" !\"#$&'()*,:;<=>?[]\\^`{|}~";

/// Whether a name begins a section of CDL.
pub(super) fn is_keyword(name: impl AsRef<[u8]>) -> bool {
    KEYWORDS.iter().any(|word| word.as_bytes() == name.as_ref())
}

/// Prints a name, with a backslash before special characters.
pub(super) fn name(out: &mut dyn Write, name: impl AsRef<[u8]>) -> io::Result<()> {
    let name = name.as_ref();
    if name.first().is_some_and(u8::is_ascii_digit) {
        out.write_all(b"\\")?;
    }
    for &byte in name {
        match byte {
            byte if byte.is_ascii_control() => write!(out, "\\%{byte:02x}")?,
            byte if SPECIAL.contains(&byte) => out.write_all(&[b'\\', byte])?,
            byte => out.write_all(&[byte])?,
        }
    }
    Ok(())
}

/// The escape of a character, if it has a special one. The caller handles line breaks.
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

/// What a line break in the text of an attribute becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LineBreaks {
    /// Also a new line of CDL.
    #[default]
    Broken,
    /// An escape only, since a new line would be another string: in files of the netCDF-4 model.
    Escaped,
}

/// Prints the text of an attribute. Bytes beyond ASCII are not changed; trailing zero bytes are
/// removed.
pub(super) fn attribute(out: &mut dyn Write, text: &[u8], breaks: LineBreaks) -> io::Result<()> {
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    out.write_all(b"\"")?;
    for &byte in &text[..end] {
        match (byte, escape(byte)) {
            (b'\n', _) if breaks == LineBreaks::Escaped => out.write_all(b"\\n")?,
            (b'\n', _) => out.write_all(b"\\n\",\n\t\t\t\"")?,
            (_, Some(escape)) => out.write_all(escape.as_bytes())?,
            (byte, None) if byte.is_ascii_control() => write!(out, "\\{byte:03o}")?,
            _ => out.write_all(&[byte])?,
        }
    }
    out.write_all(b"\"")
}

/// Prints a row of characters of a variable, which may come in parts.
///
/// Unlike in attributes, bytes beyond ASCII are escaped.
#[derive(Debug, Default)]
pub(super) struct TextRow {
    /// Zero bytes that were not printed yet: at the end of the row they are dropped.
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

/// Prints a string of a variable. Bytes beyond ASCII are not changed.
pub(super) fn string(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    out.write_all(b"\"")?;
    for &byte in text {
        match (byte, escape(byte)) {
            // As ncdump prints both.
            (b'\n' | 0x0b, _) => out.write_all(b"\\n")?,
            (_, Some(escape)) => out.write_all(escape.as_bytes())?,
            (byte, None) if byte.is_ascii_control() => write!(out, "\\{byte:03o}")?,
            _ => out.write_all(&[byte])?,
        }
    }
    out.write_all(b"\"")
}

/// Appends characters that are a member of a compound. A special character is itself behind a
/// backslash.
pub(super) fn characters(out: &mut Vec<u8>, text: &[u8]) {
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    out.push(b'"');
    for &byte in text.get(..end).unwrap_or_default() {
        match byte {
            0x08..=0x0d | b'\\' | b'\'' | b'"' => out.extend([b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.push(b'"');
}
