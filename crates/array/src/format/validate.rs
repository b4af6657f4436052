//! [`validate`]: all violations of the format in a file.
//!
//! The header is decoded by the same code as for reading, which continues after every problem that
//! does not affect what follows. If the header could be decoded to its end, the ranges of the
//! variables are compared with each other and with the length of the file.

mod data;

use std::fmt;

use super::decode::{self, DecodeError, Problem};

/// A violation of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its offset in the file, if it has one.
    pub at: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// Whether all readers tolerate it without loss: `ncvalidator` accepts such a file.
    pub warning: bool,
}

impl Violation {
    fn new(at: Option<u64>, what: String) -> Self {
        Self { at, what, warning: false }
    }

    fn warning(at: Option<u64>, what: String) -> Self {
        Self { at, what, warning: true }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.warning {
            f.write_str("warning: ")?;
        }
        match self.at {
            Some(at) => write!(f, "at byte {at}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl From<DecodeError> for Violation {
    fn from(error: DecodeError) -> Self {
        let DecodeError { at, problem } = error;
        let warning = matches!(problem, Problem::StatedSize { .. });
        Self { at: Some(at), what: problem.to_string(), warning }
    }
}

/// All violations in a file of `file_len` bytes that begins with `bytes`, which contain at least
/// the header, or the whole file.
pub fn validate(bytes: &[u8], file_len: u64) -> Vec<Violation> {
    let mut violations = Vec::new();
    let decoded = decode::decode(bytes, file_len, &mut |error| {
        violations.push(error.into());
        Ok(())
    });
    match decoded {
        Ok(decoded) => data::check(&decoded, bytes, file_len, &mut violations),
        Err(error) => violations.push(fatal(&error)),
    }
    violations
}

/// A problem after which nothing can be checked.
fn fatal(error: &DecodeError) -> Violation {
    let Violation { at, what, .. } = error.clone().into();
    let what = match error.problem {
        // These concern the whole file.
        Problem::Magic { .. } | Problem::Hdf5 | Problem::Version { .. } => what,
        _ => format!("{what}; what follows cannot be checked"),
    };
    Violation::new(at, what)
}
