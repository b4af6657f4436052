//! Parsing of the arguments of calls, as strace prints them.

use crate::constants;

/// A number: decimal, hexadecimal or octal, perhaps negative.
pub(super) fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let number = if let Some(digits) = digits.strip_prefix("0x") {
        u64::from_str_radix(digits, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    let number = number.cast_signed();
    Some(if negative { number.wrapping_neg() } else { number })
}

/// A number that is not negative.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    number(text).and_then(|number| u64::try_from(number).ok())
}

/// A descriptor, and with `-y` the path behind it: `3`, `3</data/a>`, `AT_FDCWD</home>`.
pub(super) fn descriptor(text: &str) -> Option<(i32, Option<Vec<u8>>)> {
    let text = text.trim();
    let (number, rest) = match text.find('<') {
        Some(place) => text.split_at(place),
        None => (text.split_whitespace().next()?, ""),
    };
    let number = match number.trim() {
        "AT_FDCWD" => libc::AT_FDCWD,
        digits => digits.parse().ok()?,
    };
    let path = rest.strip_prefix('<').and_then(|rest| rest.rsplit_once('>')).map(|(path, _)| path);
    // Links of descriptors other than files look like `pipe:[123]`; those of devices are followed
    // by their numbers.
    let path = path.filter(|path| path.starts_with('/') && !path.ends_with('>'));
    Some((number, path.map(|path| unescaped(path.strip_suffix(" (deleted)").unwrap_or(path)))))
}

/// A string in quotes, if it is whole.
pub(super) fn string(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let end = text.starts_with('"').then(|| super::line::string_end(text.as_bytes(), 0))??;
    (end + 1 == text.len()).then(|| unescaped(&text[1..end]))
}

/// What a text with escapes stands for.
fn unescaped(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let Some(&kind) = bytes.get(at) else { break };
        at += 1;
        match kind {
            b'n' => plain.push(b'\n'),
            b't' => plain.push(b'\t'),
            b'r' => plain.push(b'\r'),
            b'v' => plain.push(0x0B),
            b'f' => plain.push(0x0C),
            b'a' => plain.push(0x07),
            b'b' => plain.push(0x08),
            b'x' => {
                let digits =
                    bytes.get(at..at + 2).and_then(|digits| std::str::from_utf8(digits).ok());
                if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    plain.push(byte);
                    at += 2;
                }
            }
            b'0'..=b'7' => {
                let mut value = u32::from(kind - b'0');
                let mut digits = 1;
                while digits < 3
                    && let Some(digit @ b'0'..=b'7') = bytes.get(at)
                {
                    value = value * 8 + u32::from(digit - b'0');
                    (at, digits) = (at + 1, digits + 1);
                }
                plain.push(value as u8);
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Flags by their names in a table; others are left out.
pub(super) fn flags(table: &[(&str, i32)], text: &str) -> i32 {
    let word = |word: &str| {
        let word = word.trim();
        constants::number(table, word)
            .or_else(|| number(word).map(|number| number as i32))
            .unwrap_or(0)
    };
    // A comment may say what a number means.
    let text = text.split("/*").next().unwrap_or(text);
    text.split('|').map(word).fold(0, |sum, bits| sum | bits)
}

/// A named number: `SEEK_SET`, `F_GETFL`.
pub(super) fn named(table: &[(&str, i32)], text: &str) -> Option<i32> {
    let text = text.split("/*").next().unwrap_or(text).trim();
    constants::number(table, text)
        .or_else(|| number(text).and_then(|number| i32::try_from(number).ok()))
}

/// The value of a field in a structure: `st_size=5`.
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text;
    loop {
        let at = rest.find(name)?;
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        if let Some(value) = after.strip_prefix('=')
            && !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            let end = value.find([',', '}']).unwrap_or(value.len());
            return Some(value[..end].trim());
        }
        rest = after;
    }
}

/// The sum of the lengths of the parts of memory in `[{iov_base=…, iov_len=…}, …]`.
pub(super) fn vector_length(text: &str) -> u64 {
    let (mut sum, bytes, mut at) = (0_u64, text.as_bytes(), 0);
    while at < bytes.len() {
        if bytes[at] == b'"' {
            // What is in memory may look like anything.
            match super::line::string_end(bytes, at) {
                Some(end) => at = end,
                None => break,
            }
        } else if bytes[at..].starts_with(b"iov_len=") {
            let digits = &text[at + 8..];
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            sum = sum.saturating_add(digits[..end].parse().unwrap_or(0));
        }
        at += 1;
    }
    sum
}

/// An offset in brackets: `[5]`, `[0] => [3]`, `NULL`.
pub(super) fn place(text: &str) -> Option<u64> {
    let inner = text.trim().strip_prefix('[')?;
    unsigned(inner.split([']', ' ']).next()?)
}
