//! Escapes in names and in text.
//!
//! In a name, a backslash makes the next character part of it. In text there are C's escapes; `\?`
//! is the byte 127, as in `ncgen`.

use std::borrow::Cow;

use super::place::{Fault, Parsed};

/// A name without its backslashes. `at` is where it begins.
pub(super) fn name(raw: &[u8], at: usize) -> Parsed<Cow<'_, str>> {
    let invalid = |_| Fault::new(at, "a name is not valid UTF-8");
    if !raw.contains(&b'\\') {
        return Ok(Cow::Borrowed(std::str::from_utf8(raw).map_err(invalid)?));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'\\' => bytes.extend(rest.next()),
            byte => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| Fault::new(at, "a name is not valid UTF-8"))?;
    Ok(Cow::Owned(text))
}

/// The bytes of a text between quotes.
pub(super) fn text(raw: &[u8], at: usize) -> Parsed<Cow<'_, [u8]>> {
    if !raw.contains(&b'\\') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'\\' {
            bytes.push(escaped(&mut rest, at)?);
        } else {
            bytes.push(byte);
        }
    }
    Ok(Cow::Owned(bytes))
}

/// The byte that an escape stands for; `rest` begins behind the backslash.
pub(super) fn escaped(rest: &mut &[u8], at: usize) -> Parsed<u8> {
    let Some((&first, behind)) = rest.split_first() else {
        return Err(Fault::new(at, "nothing follows a backslash"));
    };
    *rest = behind;
    Ok(match first {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'?' => 127,
        b'x' | b'X' => {
            let digits = digits(rest, 2, u8::is_ascii_hexdigit);
            number(digits, 16)
                .ok_or_else(|| Fault::new(at, "\\x is not followed by two hexadecimal digits"))?
        }
        b'0'..=b'7' => {
            let more = digits(rest, 2, |byte| matches!(byte, b'0'..=b'7'));
            let digits = [&[first], more].concat();
            number(&digits, 8)
                .ok_or_else(|| Fault::new(at, "an octal escape is larger than \\377"))?
        }
        other => other,
    })
}

/// Takes up to `most` digits.
fn digits<'t>(rest: &mut &'t [u8], most: usize, is_digit: impl Fn(&u8) -> bool) -> &'t [u8] {
    let count = rest.iter().take(most).take_while(|byte| is_digit(byte)).count();
    let (taken, behind) = rest.split_at(count);
    *rest = behind;
    taken
}

fn number(digits: &[u8], radix: u32) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}
