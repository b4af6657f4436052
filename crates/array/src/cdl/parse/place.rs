//! [`CdlSyntaxError`]: what is wrong with a text, and where.

use std::fmt;

use thiserror::Error;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct CdlSyntaxError {
    /// The line, from 1.
    pub line: u64,
    /// The character in the line, from 1.
    pub column: u64,
    /// What is wrong there.
    pub problem: String,
}

/// What is wrong at a byte of a text. Lines are only counted if somebody reads of it.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    at: usize,
    problem: String,
}

/// What parsing returns.
pub(super) type Parsed<T> = Result<T, Fault>;

impl Fault {
    pub(super) fn new(at: usize, problem: impl Into<String>) -> Self {
        Self { at, problem: problem.into() }
    }

    /// Something else was expected.
    pub(super) fn expected(at: usize, what: impl fmt::Display, found: impl fmt::Display) -> Self {
        Self::new(at, format!("expected {what}, found {found}"))
    }

    pub(super) fn in_text(self, text: &[u8]) -> CdlSyntaxError {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.split(|&byte| byte == b'\n').count() as u64;
        let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        // Bytes that continue a character of UTF-8 are not counted.
        let own = before.get(begin..).unwrap_or_default();
        let column = own.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u64 + 1;
        CdlSyntaxError { line, column, problem: self.problem }
    }
}

/// A name in quotes, shortened if it is long.
pub(super) fn quoted(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((end, _)) => format!("'{}...'", name.get(..end).unwrap_or_default().escape_debug()),
        None => format!("'{}'", name.escape_debug()),
    }
}
