//! [`HeaderReader`]: the bytes of a header, taken one thing after the other.
//!
//! Two limits apply: memory is reserved by the number of bytes present, and a count is refused if
//! it exceeds the length of the file. A count beyond the bytes present but not beyond the file is
//! accepted, and decoding continues: if the count is damaged, an invalid field is usually found
//! before the bytes end.

use super::problem::{DecodeError, Problem};
use crate::format::Format;
use crate::format::encode::tag;

/// A result of decoding.
pub(super) type DecodeResult<T> = Result<T, DecodeError>;

/// Called for each problem after which decoding can continue; an error stops it.
pub(in crate::format) type OnProblem<'c> = &'c mut dyn FnMut(DecodeError) -> DecodeResult<()>;

/// Reads the fields of a header in order.
pub(super) struct HeaderReader<'b, 'c> {
    bytes: &'b [u8],
    at: usize,
    file_len: u64,
    /// Minimum length of the header by the counts so far.
    least: u64,
    /// The format.
    pub(super) format: Format,
    report: OnProblem<'c>,
}

impl<'b, 'c> HeaderReader<'b, 'c> {
    /// Starts after the magic number.
    pub(super) fn new(
        bytes: &'b [u8],
        format: Format,
        file_len: u64,
        report: OnProblem<'c>,
    ) -> Self {
        Self { bytes, at: 4, file_len, least: 0, format, report }
    }

    /// The current offset.
    pub(super) const fn at(&self) -> u64 {
        self.at as u64
    }

    /// A problem after which decoding cannot continue.
    pub(super) fn fail<T>(at: u64, problem: Problem) -> DecodeResult<T> {
        Err(DecodeError { at, problem })
    }

    /// A problem after which decoding can continue.
    pub(super) fn report(&mut self, at: u64, problem: Problem) -> DecodeResult<()> {
        (self.report)(DecodeError { at, problem })
    }

    fn take(&mut self, len: u64) -> DecodeResult<&'b [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = usize::try_from(len).ok().and_then(|len| rest.get(..len)) else {
            let needed = self.at().saturating_add(len).max(self.least);
            return Self::fail(self.at(), Problem::Truncated { needed });
        };
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> DecodeResult<[u8; LEN]> {
        if let Some(array) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            self.at += LEN;
            return Ok(*array);
        }
        // Returns the error.
        self.take(LEN as u64).map(|_| [0; LEN])
    }

    /// A number of 4 bytes.
    pub(super) fn word(&mut self) -> DecodeResult<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A number of 8 bytes.
    fn double_word(&mut self) -> DecodeResult<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number of the size that the format has.
    pub(super) fn number(&mut self) -> DecodeResult<u64> {
        match self.format {
            Format::Cdf1 | Format::Cdf2 => self.word().map(u64::from),
            _ => self.double_word(),
        }
    }

    /// An offset in the file.
    pub(super) fn offset(&mut self) -> DecodeResult<u64> {
        match self.format {
            Format::Cdf1 => self.word().map(u64::from),
            _ => self.double_word(),
        }
    }

    /// The number of items that follow, each of at least `least` bytes.
    pub(super) fn count(&mut self, what: &'static str, least: u64) -> DecodeResult<u64> {
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

    /// A vector for `count` items, with capacity for as many as the bytes present can contain.
    pub(super) fn vector<T>(&self, count: u64, least: u64) -> Vec<T> {
        let possible = (self.bytes.len() - self.at) as u64 / least.max(1);
        Vec::with_capacity(count.min(possible) as usize)
    }

    /// The tag and the length of a list of items of at least `least` bytes each.
    pub(super) fn list(
        &mut self,
        expected: u32,
        what: &'static str,
        least: u64,
    ) -> DecodeResult<u64> {
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

    /// `len` bytes, and the padding after them.
    pub(super) fn padded(&mut self, len: u64, what: &'static str) -> DecodeResult<&'b [u8]> {
        let bytes = self.take(len)?;
        let at = self.at();
        let padding = self.take(len.next_multiple_of(4) - len)?;
        if padding.iter().any(|&byte| byte != 0) {
            self.report(at, Problem::Padding { what })?;
        }
        Ok(bytes)
    }
}
