//! [`Difference`]: the outcome of a call in the replay is not the recorded one.

use std::path::PathBuf;

use serde::Serialize;
use striate_stack::{Function, Kind};
use striate_trace::{Call, Record};

/// In what a call differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// It fails, and did not.
    Fails,
    /// It succeeds, and did not.
    Succeeds,
    /// It fails in another way.
    Error,
    /// It moves other numbers of bytes.
    Bytes,
    /// The position is another.
    Position,
    /// The file has another size.
    Size,
}

impl DifferenceKind {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::Succeeds => "succeeds",
            Self::Error => "another error",
            Self::Bytes => "other bytes",
            Self::Position => "another position",
            Self::Size => "another size",
        }
    }
}

/// A call whose outcome differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The number of the call in the order of the recording, from 0.
    pub number: u64,
    /// The recorded process.
    pub process: u32,
    /// The recorded thread.
    pub thread: u32,
    /// When it began in the recording, in nanoseconds.
    pub time: u64,
    /// The function.
    pub function: &'static str,
    /// The file or name it is about.
    pub path: PathBuf,
    /// In what it differs.
    pub kind: DifferenceKind,
    /// What was recorded.
    pub recorded: String,
    /// The outcome now.
    pub replayed: String,
}

/// The outcome of a call in the replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// What it returned, or its error.
    pub(crate) outcome: Result<u64, i32>,
    /// The recorded size, if it can be compared.
    pub(crate) size: Option<u64>,
}

/// In what a call differs from its record, with both in words.
pub(crate) fn difference(
    record: &Record,
    observed: Observed,
) -> Option<(DifferenceKind, String, String)> {
    let value = match record.call.kind() {
        Kind::Read | Kind::Write | Kind::CopyRange | Kind::SendFile => Some(DifferenceKind::Bytes),
        Kind::Seek => Some(DifferenceKind::Position),
        Kind::Notice if matches!(record.function, Function::Readlink | Function::Splice) => {
            Some(DifferenceKind::Bytes)
        }
        // Descriptors have other numbers.
        _ => None,
    };
    // What is not known cannot differ.
    let recorded = record.result()?;
    let kind = match (recorded, observed.outcome) {
        (Ok(_), Err(_)) => DifferenceKind::Fails,
        (Err(_), Ok(_)) => DifferenceKind::Succeeds,
        (Err(before), Err(now)) if before != now => DifferenceKind::Error,
        (Err(_), Err(_)) => return None,
        (Ok(before), Ok(now)) => match value {
            Some(kind) if before != now => kind,
            _ => return different_size(record, observed),
        },
    };
    Some((kind, words(record.outcome), words(observed.outcome)))
}

fn different_size(record: &Record, observed: Observed) -> Option<(DifferenceKind, String, String)> {
    let (Call::Open { size, .. } | Call::Stat { size, .. }) = &record.call else { return None };
    match (*size, observed.size) {
        (Some(before), Some(now)) if before != now => {
            Some((DifferenceKind::Size, format!("{before} bytes"), format!("{now} bytes")))
        }
        _ => None,
    }
}

fn words(outcome: Result<u64, i32>) -> String {
    match outcome {
        Ok(value) => value.to_string(),
        Err(error) => std::io::Error::from_raw_os_error(error).to_string(),
    }
}
