//! [`Reader`]: the bytes of a header, taken one thing after the other.
//!
//! Two things bound what is made of them: the bytes that are there, by which memory is reserved, and
//! the length of the file, by which a count is refused. A count that goes beyond the bytes but not
//! beyond the file is believed, and what follows is read as far as it goes: if the count is damaged,
//! something that makes no sense mostly comes before the bytes end.

use super::problem::{DecodeError, Problem};
use crate::format::Format;
use crate::format::encode::tag;

/// A result of reading.
pub(super) type Read<T> = Result<T, DecodeError>;

/// What is told of each problem that does not hide what follows: it may let it pass.
pub(in crate::format) type Complain<'c> = &'c mut dyn FnMut(DecodeError) -> Read<()>;

/// The bytes of a header, taken one thing after the other.
pub(super) struct Reader<'b, 'c> {
    bytes: &'b [u8],
    at: usize,
    file_len: u64,
    /// What the counts so far demand of the length of the header.
    least: u64,
    /// Its format.
    pub(super) format: Format,
    complain: Complain<'c>,
}

impl<'b, 'c> Reader<'b, 'c> {
    /// Of the bytes behind the magic.
    pub(super) fn new(
        bytes: &'b [u8],
        format: Format,
        file_len: u64,
        complain: Complain<'c>,
    ) -> Self {
        Self { bytes, at: 4, file_len, least: 0, format, complain }
    }

    /// Where it is.
    pub(super) const fn at(&self) -> u64 {
        self.at as u64
    }

    /// A problem that hides what follows.
    pub(super) fn fail<T>(at: u64, problem: Problem) -> Read<T> {
        Err(DecodeError { at, problem })
    }

    /// A problem that does not hide what follows.
    pub(super) fn complain(&mut self, at: u64, problem: Problem) -> Read<()> {
        (self.complain)(DecodeError { at, problem })
    }

    fn take(&mut self, len: u64) -> Read<&'b [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = usize::try_from(len).ok().and_then(|len| rest.get(..len)) else {
            let needed = self.at().saturating_add(len).max(self.least);
            return Self::fail(self.at(), Problem::Truncated { needed });
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Read<[u8; LEN]> {
        if let Some(array) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            self.at += LEN;
            return Ok(*array);
        }
        // It says what is missing.
        self.take(LEN as u64).map(|_| [0; LEN])
    }

    /// A number of 4 bytes.
    pub(super) fn word(&mut self) -> Read<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A number of 8 bytes.
    fn double_word(&mut self) -> Read<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number.
    pub(super) fn number(&mut self) -> Read<u64> {
        match self.format {
            Format::Cdf1 | Format::Cdf2 => self.word().map(u64::from),
            Format::Cdf5 => self.double_word(),
        }
    }

    /// A place in the file.
    pub(super) fn offset(&mut self) -> Read<u64> {
        match self.format {
            Format::Cdf1 => self.word().map(u64::from),
            Format::Cdf2 | Format::Cdf5 => self.double_word(),
        }
    }

    /// The number of things that follow, each of `least` bytes or more.
    pub(super) fn count(&mut self, what: &'static str, least: u64) -> Read<u64> {
        let at = self.at();
        let count = self.number()?;
        let end = count.checked_mul(least).and_then(|len| len.checked_add(self.at()));
        match end {
            Some(end) if end <= self.file_len => {
                self.least = self.least.max(end);
                Ok(count)
            }
            _ => Self::fail(at, Problem::Count { what, count }),
        }
    }

    /// Room for so many things, as far as the bytes that are there can hold them.
    pub(super) fn room<T>(&self, count: u64, least: u64) -> Vec<T> {
        let held = (self.bytes.len() - self.at) as u64 / least.max(1);
        Vec::with_capacity(count.min(held) as usize)
    }

    /// The tag and the length of a list of things, each of `least` bytes or more.
    pub(super) fn list(&mut self, expected: u32, what: &'static str, least: u64) -> Read<u64> {
        let at = self.at();
        let found = self.word()?;
        if found != expected && found != tag::ABSENT {
            return Self::fail(at, Problem::Tag { what, expected, found });
        }
        let count = self.count(what, least)?;
        if count > 0 && found != expected {
            return Self::fail(at, Problem::Tag { what, expected, found });
        }
        Ok(count)
    }

    /// So many bytes and the padding behind them.
    pub(super) fn padded(&mut self, len: u64, what: &'static str) -> Read<&'b [u8]> {
        let bytes = self.take(len)?;
        let at = self.at();
        let padding = self.take(len.next_multiple_of(4) - len)?;
        if padding.iter().any(|&byte| byte != 0) {
            self.complain(at, Problem::Padding { what })?;
        }
        Ok(bytes)
    }
}
