//! [`TextRun`]: the bytes of arrays of characters.
//!
//! Each text is filled up to a multiple of the last dimension, so that texts of different lengths
//! are rows; characters in a row, as in `'a', 'b'`, are one text. This is what `ncgen` does.

use std::borrow::Cow;

use striate_hdf5::write::netcdf::AtomicType;

use super::constant::Number;
use super::list::{Item, ListReader};
use super::place::{Fault, Parsed};
use super::token::Token;

/// A place in the texts of a list.
#[derive(Clone, Debug)]
pub(super) struct TextRun<'t> {
    /// What each text is filled up to a multiple of.
    unit: u64,
    fill: u8,
    text: Cow<'t, [u8]>,
    /// What was taken of the text.
    taken: usize,
    /// Fill bytes behind the text.
    padding: u64,
    /// Characters since the last text.
    characters: u64,
}

impl<'t> TextRun<'t> {
    /// Before the first text of a list. `unit` is not 0.
    pub(super) const fn new(unit: u64, fill: u8) -> Self {
        let text = Cow::Borrowed([].as_slice());
        Self { unit, fill, text, taken: 0, padding: 0, characters: 0 }
    }

    /// Whether a part of a text was not taken.
    pub(super) fn is_cut(&self) -> bool {
        self.taken < self.text.len()
    }

    /// How many bytes there are up to the end of the list, which is taken.
    pub(super) fn count(mut self, reader: &mut ListReader<'t>) -> Parsed<u64> {
        let mut count = 0_u64;
        while self.next(reader)?.is_some() {
            // What was not taken one by one.
            let rest = (self.text.len() - self.taken) as u64;
            count = count.saturating_add(1 + rest).saturating_add(self.padding);
            (self.taken, self.padding) = (self.text.len(), 0);
        }
        Ok(count)
    }

    /// The next byte; `None` when the list ends, and its end is taken then.
    pub(super) fn next(&mut self, reader: &mut ListReader<'t>) -> Parsed<Option<u8>> {
        loop {
            if let Some(&byte) = self.text.get(self.taken) {
                self.taken += 1;
                return Ok(Some(byte));
            }
            if self.padding > 0 {
                self.padding -= 1;
                return Ok(Some(self.fill));
            }
            let (item, at) = reader.peek()?;
            if let Some(byte) = character(&item) {
                reader.next()?;
                self.characters += 1;
                return Ok(Some(byte));
            }
            if self.characters > 0 {
                self.padding = missing(self.characters, self.unit);
                self.characters = 0;
                continue;
            }
            reader.next()?;
            let text = match item {
                Item::Close => return Ok(None),
                Item::Value(Token::Text(text)) => text,
                Item::Value(Token::Fill) => Cow::Owned(vec![self.fill]),
                other => return Err(Fault::expected(at, "text", other.shown())),
            };
            let len = text.len() as u64;
            self.padding = if len == 0 { self.unit } else { missing(len, self.unit) };
            (self.text, self.taken) = (text, 0);
        }
    }
}

/// Bytes up to the next multiple.
fn missing(len: u64, unit: u64) -> u64 {
    match len % unit {
        0 => 0,
        rest => unit - rest,
    }
}

/// The byte that a value is: a character, or a number with the suffix of bytes.
pub(super) fn character(item: &Item<'_>) -> Option<u8> {
    match item {
        Item::Value(Token::Character(byte)) => Some(*byte),
        Item::Value(Token::Number(Number::Integer(
            value,
            AtomicType::Byte | AtomicType::UByte,
        ))) => Some(*value as u8),
        _ => None,
    }
}
