//! [`CFormat`]: the attribute `C_format` of a variable, a format of C's `printf` for its values.
//!
//! The format comes from a file, so it is not passed to C: it is parsed, and a format that is not
//! valid for the type (undefined behaviour in C) is ignored.

use std::io::Write as _;

use super::number::{Tail, exponential, fixed, general};

/// Formats of this length or more are ignored.
const LONGEST: usize = 100;
/// Width and precision at most; a value has at most 99 characters.
const WIDEST: usize = 99;

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CFormat {
    before: Vec<u8>,
    /// `None` if no value is printed at all.
    conversion: Option<PrintfDirective>,
    after: Vec<u8>,
}

/// One conversion specification of `printf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the format")]
struct PrintfDirective {
    minus: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// Bits of an integer that are used.
    bits: u32,
    /// The conversion specifier.
    kind: u8,
}

impl CFormat {
    /// Parses the text of an attribute; `None` if it is not valid.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() >= LONGEST {
            return None;
        }
        // As in C, a zero byte ends it.
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        let mut rest = &text[..end];
        let mut format = Self { before: Vec::new(), conversion: None, after: Vec::new() };
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let literal = match &format.conversion {
                None => &mut format.before,
                Some(_) => &mut format.after,
            };
            match (byte, rest.first()) {
                (b'%', Some(b'%')) => {
                    literal.push(b'%');
                    rest = &rest[1..];
                }
                (b'%', _) if format.conversion.is_some() => return None,
                (b'%', _) => format.conversion = Some(PrintfDirective::parse(&mut rest)?),
                _ => literal.push(byte),
            }
        }
        Some(format)
    }

    /// Whether it prints text unchanged.
    pub(super) fn is_plain_text(&self) -> bool {
        let bare = PrintfDirective { bits: 32, kind: b's', ..PrintfDirective::default() };
        let as_text = self.conversion.is_none() || self.conversion.as_ref() == Some(&bare);
        as_text && self.before.is_empty() && self.after.is_empty()
    }

    /// Whether it prints integers.
    pub(super) fn is_for_integers(&self) -> bool {
        self.conversion.as_ref().is_none_or(|c| b"diuoxXc".contains(&c.kind))
    }

    /// Whether it prints floating point numbers.
    pub(super) fn is_for_floats(&self) -> bool {
        self.conversion.as_ref().is_none_or(|c| b"eEfFgG".contains(&c.kind))
    }

    /// Appends an integer, which C passes in `bits` bits, 32 or 64.
    pub(super) fn integer(&self, out: &mut Vec<u8>, value: i128, bits: u32) {
        let start = out.len();
        out.extend_from_slice(&self.before);
        if let Some(conversion) = &self.conversion {
            conversion.integer(out, passed(value, bits));
        }
        out.extend_from_slice(&self.after);
        // A zero byte ends the text, as in C.
        let zero = out[start..].iter().position(|&byte| byte == 0);
        out.truncate(zero.map_or(out.len(), |zero| start + zero));
    }

    /// Appends a finite number.
    pub(super) fn float(&self, out: &mut Vec<u8>, value: f64) {
        out.extend_from_slice(&self.before);
        if let Some(conversion) = &self.conversion {
            conversion.float(out, value);
        }
        out.extend_from_slice(&self.after);
    }
}

/// The register in which C passes an integer; narrower integers are not extended to 64 bits.
const fn passed(value: i128, bits: u32) -> u64 {
    if bits == 64 { value as u64 } else { value as u32 as u64 }
}

impl PrintfDirective {
    /// Parses what follows a percent sign, and advances `rest`.
    fn parse(rest: &mut &[u8]) -> Option<Self> {
        let mut found = Self { bits: 32, ..Self::default() };
        loop {
            match rest.first()? {
                b'-' => found.minus = true,
                b'+' => found.plus = true,
                b' ' => found.blank = true,
                b'#' => found.alternate = true,
                b'0' => found.zero = true,
                // Grouping of digits: none in the C locale.
                b'\'' => {}
                _ => break,
            }
            *rest = &rest[1..];
        }
        found.width = number(rest)?;
        if rest.first() == Some(&b'.') {
            *rest = &rest[1..];
            found.precision = Some(number(rest)?);
        }
        for (modifier, bits) in [
            (&b"hh"[..], 8),
            (b"h", 16),
            (b"ll", 64),
            (b"l", 64),
            (b"j", 64),
            (b"z", 64),
            (b"t", 64),
        ] {
            if let Some(after) = rest.strip_prefix(modifier) {
                *rest = after;
                found.bits = bits;
                break;
            }
        }
        let (&kind, after) = rest.split_first()?;
        *rest = after;
        found.kind = kind;
        b"diuoxXceEfFgGs".contains(&kind).then_some(found)
    }

    fn integer(&self, out: &mut Vec<u8>, register: u64) {
        if self.kind == b'c' {
            self.pad(out, b"", &[register as u8], false);
            return;
        }
        let unused = 64 - self.bits;
        let unsigned = register << unused >> unused;
        let signed = (register << unused) as i64 >> unused;
        let mut digits = Vec::new();
        // Writing to memory does not fail.
        let _ = match self.kind {
            b'd' | b'i' => write!(digits, "{}", signed.unsigned_abs()),
            b'u' => write!(digits, "{unsigned}"),
            b'o' => write!(digits, "{unsigned:o}"),
            b'x' => write!(digits, "{unsigned:x}"),
            _ => write!(digits, "{unsigned:X}"),
        };
        if self.precision == Some(0) && unsigned == 0 {
            digits.clear();
        }
        let mut most = self.precision.unwrap_or(0);
        if self.alternate && self.kind == b'o' && !digits.starts_with(b"0") {
            most = most.max(digits.len() + 1);
        }
        if digits.len() < most {
            digits.splice(0..0, vec![b'0'; most - digits.len()]);
        }
        let prefix: &[u8] = match self.kind {
            b'd' | b'i' => self.sign(signed < 0),
            b'x' if self.alternate && unsigned != 0 => b"0x",
            b'X' if self.alternate && unsigned != 0 => b"0X",
            _ => b"",
        };
        self.pad(out, prefix, &digits, self.zero && self.precision.is_none());
    }

    fn float(&self, out: &mut Vec<u8>, value: f64) {
        let mut digits = Vec::new();
        let precision = self.precision.unwrap_or(6);
        match self.kind {
            b'e' | b'E' => exponential(&mut digits, value, precision, self.alternate),
            b'f' | b'F' => fixed(&mut digits, value, precision, self.alternate),
            _ => {
                let tail = if self.alternate { Tail::Whole } else { Tail::Short };
                general(&mut digits, value, precision, tail);
            }
        }
        if self.kind.is_ascii_uppercase() {
            digits.make_ascii_uppercase();
        }
        self.pad(out, self.sign(value.is_sign_negative()), &digits, self.zero);
    }

    const fn sign(&self, negative: bool) -> &'static [u8] {
        match (negative, self.plus, self.blank) {
            (true, _, _) => b"-",
            (_, true, _) => b"+",
            (_, _, true) => b" ",
            _ => b"",
        }
    }

    fn pad(&self, out: &mut Vec<u8>, prefix: &[u8], digits: &[u8], with_zeros: bool) {
        let missing = self.width.saturating_sub(prefix.len() + digits.len());
        let blanks = |out: &mut Vec<u8>, wanted| {
            if wanted {
                out.resize(out.len() + missing, b' ');
            }
        };
        blanks(out, !self.minus && !with_zeros);
        out.extend_from_slice(prefix);
        if with_zeros && !self.minus {
            out.resize(out.len() + missing, b'0');
        }
        out.extend_from_slice(digits);
        blanks(out, self.minus);
    }
}

/// Parses a number, 0 if there is none; `None` if it is too large.
fn number(rest: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    while let Some(digit) = rest.first().filter(|byte| byte.is_ascii_digit()) {
        number = number * 10 + usize::from(digit - b'0');
        if number > WIDEST {
            return None;
        }
        *rest = &rest[1..];
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(format: &str, value: i128, bits: u32) -> String {
        let mut out = Vec::new();
        CFormat::parse(format.as_bytes()).unwrap().integer(&mut out, value, bits);
        String::from_utf8(out).unwrap()
    }

    fn float(format: &str, value: f64) -> String {
        let mut out = Vec::new();
        CFormat::parse(format.as_bytes()).unwrap().float(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_printed_as_by_c() {
        for (format, value, bits, text) in [
            ("%d", -5, 32, "-5"),
            ("<%#06x>|", 300, 32, "<0x012c>|"),
            ("<%#06x>|", 0, 32, "<000000>|"),
            ("%ld", -1, 32, "4294967295"),
            ("%lld", -1, 64, "-1"),
            ("%d", 1 << 32, 64, "0"),
            ("%hhx", 300, 32, "2c"),
            ("%-6.3d|", 7, 32, "007   |"),
            ("%06d", -7, 32, "-00007"),
            ("%06.2d", -7, 32, "   -07"),
            ("%#o", 8, 32, "010"),
            ("%.0d", 0, 32, ""),
            ("% d%%", 7, 32, " 7%"),
            ("%c", 65, 32, "A"),
            ("<%c>", 0, 32, "<"),
            ("%llu", i128::from(u64::MAX), 64, "18446744073709551615"),
            ("no", 65, 32, "no"),
        ] {
            assert_eq!(integer(format, value, bits), text, "{format}");
        }
        for (format, value, text) in [
            ("%f", 1.5, "1.500000"),
            ("%10.3e|", 1.5, " 1.500e+00|"),
            ("%-10.1f|", -1.25, "-1.2      |"),
            ("%+015.2G", 2.5e20, "+00000002.5E+20"),
            ("%#.3g", 1.0, "1.00"),
            ("%.0f", 0.5, "0"),
            ("%#.0f", 1.5, "2."),
            ("%lf m", 1e3, "1000.000000 m"),
        ] {
            assert_eq!(float(format, value), text, "{format}");
        }
    }

    #[test]
    fn invalid_formats_are_refused() {
        for format in
            ["", "%", "%5", "%d %d", "%*d", "%n", "%Lf", "%100d", "%.999f", "%99999999999d"]
        {
            assert_eq!(CFormat::parse(format.as_bytes()), None, "{format}");
        }
        assert_eq!(CFormat::parse(&[b'x'; LONGEST]), None);
        assert!(!CFormat::parse(b"%d").unwrap().is_for_floats());
        assert!(!CFormat::parse(b"%f").unwrap().is_for_integers());
        assert!(CFormat::parse(b"%s").unwrap().is_plain_text());
        assert!(CFormat::parse(b"\0abc").unwrap().is_plain_text());
        assert!(!CFormat::parse(b"%s.").unwrap().is_plain_text());
    }
}
