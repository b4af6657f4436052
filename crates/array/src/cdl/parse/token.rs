//! [`Lexer`]: the words of a text.
//!
//! It knows no keywords: which names are types or begin a section depends on where they stand, so
//! a variable may be called `string`. A lexer is only a place in the text; another one can begin
//! where a list of values begins.

use std::borrow::Cow;
use std::fmt;

use super::constant::{Number, number};
use super::escape;
use super::place::{Fault, Parsed, quoted};

/// A word of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    /// A name, without escapes.
    Name(Cow<'t, str>),
    /// An absolute path: all from the first slash, with escapes.
    Path(&'t [u8]),
    /// Text between double quotes, without escapes.
    Text(Cow<'t, [u8]>),
    /// A character between single quotes.
    Character(u8),
    /// A number.
    Number(Number),
    /// The hexadecimal digits of a value of an opaque type.
    Opaque(&'t [u8]),
    /// `_`, the fill value.
    Fill,
    /// A character that is a word of its own.
    Mark(u8),
    /// The text ends.
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(&quoted(name)),
            Self::Path(path) => f.write_str(&quoted(&String::from_utf8_lossy(path))),
            Self::Text(_) => f.write_str("text in quotes"),
            Self::Character(_) => f.write_str("a character in quotes"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Opaque(_) => f.write_str("a hexadecimal value"),
            Self::Fill => f.write_str("'_'"),
            Self::Mark(mark) => write!(f, "'{}'", char::from(*mark).escape_debug()),
            Self::End => f.write_str("the end of the text"),
        }
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) const fn new(text: &'t [u8], at: usize) -> Self {
        Self { text, at }
    }

    /// What is before it was read.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The byte that comes next, before any space.
    pub(super) fn next_byte(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// The byte behind that.
    pub(super) fn byte_after_next(&self) -> Option<u8> {
        self.rest().get(1).copied()
    }

    /// All up to a byte, which is not taken.
    pub(super) fn take_until(&mut self, end: u8) -> &'t [u8] {
        let rest = self.rest();
        let len = rest.iter().position(|&byte| byte == end).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    /// Skips the mark of UTF-8 at the beginning of a text.
    pub(super) fn skip_byte_order_mark(&mut self) {
        if self.rest().starts_with(b"\xef\xbb\xbf") {
            self.at += 3;
        }
    }

    /// Skips spaces, ends of lines and comments.
    pub(super) fn skip_space(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            match rest {
                [b' ' | b'\t' | b'\r' | b'\n' | 0x0c, ..] => self.at += 1,
                [b'/', b'/', ..] => drop(self.take_until(b'\n')),
                [b'/', b'*', behind @ ..] => {
                    let end = behind.windows(2).position(|two| two == b"*/");
                    let end = end.ok_or_else(|| Fault::new(self.at, "a comment does not end"))?;
                    self.at += end + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    /// The next word and where it begins.
    pub(super) fn next(&mut self) -> Parsed<(Token<'t>, usize)> {
        self.skip_space()?;
        let at = self.at;
        let token = self.word(at)?;
        Ok((token, at))
    }

    fn word(&mut self, at: usize) -> Parsed<Token<'t>> {
        let rest = self.rest();
        let Some(&first) = rest.first() else { return Ok(Token::End) };
        match first {
            b'"' => self.text_in_quotes(at),
            b'\'' => self.character(at),
            b'0'..=b'9' | b'+' | b'-' | b'.' => {
                let (token, len) = number(rest, at)?;
                self.at += len;
                Ok(token)
            }
            b'/' => {
                let mut len = 0;
                while rest.get(len) == Some(&b'/') && name_len(rest.get(len + 1..)) > 0 {
                    len += 1 + name_len(rest.get(len + 1..));
                }
                if len == 0 {
                    return Err(Fault::new(at, "a slash is not followed by a name"));
                }
                self.at += len;
                Ok(Token::Path(rest.get(..len).unwrap_or_default()))
            }
            _ => {
                let len = name_len(Some(rest));
                if len == 0 {
                    self.at += 1;
                    return Ok(Token::Mark(first));
                }
                self.at += len;
                let raw = rest.get(..len).unwrap_or_default();
                Ok(if raw == b"_" { Token::Fill } else { Token::Name(escape::name(raw, at)?) })
            }
        }
    }

    fn text_in_quotes(&mut self, at: usize) -> Parsed<Token<'t>> {
        let inner = self.rest().get(1..).unwrap_or_default();
        let mut len = 0;
        loop {
            match inner.get(len) {
                Some(b'"') => break,
                Some(b'\\') => len += 2,
                Some(_) => len += 1,
                None => return Err(Fault::new(at, "a text in quotes does not end")),
            }
        }
        self.at += len + 2;
        Ok(Token::Text(escape::text(inner.get(..len).unwrap_or_default(), at)?))
    }

    fn character(&mut self, at: usize) -> Parsed<Token<'t>> {
        let mut rest = self.rest().get(1..).unwrap_or_default();
        let before = rest.len();
        let byte = match rest.split_first() {
            Some((b'\\', behind)) => {
                rest = behind;
                escape::escaped(&mut rest, at)?
            }
            Some((&byte, behind)) if byte != b'\'' => {
                rest = behind;
                byte
            }
            _ => return Err(Fault::new(at, "there is no character between single quotes")),
        };
        if rest.first() != Some(&b'\'') {
            return Err(Fault::new(at, "there is more than one byte between single quotes"));
        }
        self.at += before - rest.len() + 2;
        Ok(Token::Character(byte))
    }
}

/// Bytes of the name that a text begins with; 0 if there is none.
fn name_len(text: Option<&[u8]>) -> usize {
    let text = text.unwrap_or_default();
    let mut len = 0;
    loop {
        len += match text.get(len..).unwrap_or_default() {
            [b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.., ..] => 1,
            [b'0'..=b'9' | b'.' | b'@' | b'+' | b'-', ..] if len > 0 => 1,
            [b'\\', b' '..=b'~', ..] => 2,
            _ => return len,
        };
    }
}

/// The names in a path.
pub(super) fn names_of_path(path: &[u8], at: usize) -> Parsed<Vec<Cow<'_, str>>> {
    let mut names = Vec::new();
    let mut rest = path;
    while let [b'/', behind @ ..] = rest {
        let (raw, next) = behind.split_at(name_len(Some(behind)));
        names.push(escape::name(raw, at)?);
        rest = next;
    }
    Ok(names)
}
