//! Comparison of two recordings, runs or results of benchmarks: what changed, and whether it is
//! significant.
//!
//! Counts and bytes are exact: they are the same or they differ. Samples are tested (Mann and
//! Whitney), and a ratio of medians comes with its interval; because many tests are made, p-values
//! are corrected for false discoveries (Benjamini and Hochberg). Sums of times, of which there is
//! one on each side, are shown and not tested.

mod benchmarks;
mod input;
mod recordings;
mod runs;
mod significance;
mod text;

use serde::Serialize;
use thiserror::Error;

pub use self::input::Input;
pub use self::recordings::models;
pub use self::text::{render, render_within};

/// What numbers stand for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// How many.
    Count,
    /// Bytes.
    Bytes,
    /// A length of time.
    Nanoseconds,
    /// Bytes in a second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Something else, by its name.
    Other(String),
}

/// Whether a change means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Exactly the same.
    Same,
    /// Counted, and not the same.
    Differs,
    /// Tested: it is unlikely to be chance.
    Significant,
    /// Tested: it may be chance.
    NotSignificant,
    /// There is too little to test it.
    Untested,
}

impl Verdict {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::Significant => "significant",
            Self::NotSignificant => "may be chance",
            Self::Untested => "not tested",
        }
    }
}

/// One number on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What it is about: a function, a row of a benchmark.
    pub subject: String,
    /// What was counted or measured.
    pub what: String,
    /// In which unit.
    pub unit: Unit,
    /// On the first side.
    pub a: f64,
    /// On the second side.
    pub b: f64,
    /// The second less the first.
    pub difference: f64,
    /// The second over the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// How probable such a difference is by chance, corrected for the number of tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether it means anything.
    pub verdict: Verdict,
}

impl Change {
    fn new(subject: &str, what: &str, unit: Unit, a: f64, b: f64, verdict: Verdict) -> Self {
        let ratio = (a > 0.0 && b >= 0.0).then(|| b / a);
        let (subject, what) = (subject.to_owned(), what.to_owned());
        Self { subject, what, unit, a, b, difference: b - a, ratio, ci95: None, p: None, verdict }
    }

    /// Numbers that were counted.
    fn counted(subject: &str, what: &str, unit: Unit, a: u64, b: u64) -> Self {
        let verdict = if a == b { Verdict::Same } else { Verdict::Differs };
        Self::new(subject, what, unit, a as f64, b as f64, verdict)
    }

    /// One measurement on each side.
    fn measured(subject: &str, what: &str, unit: Unit, a: f64, b: f64) -> Self {
        Self::new(subject, what, unit, a, b, Verdict::Untested)
    }
}

/// What is on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Recordings, or reports of them.
    Recordings,
    /// Summaries of runs.
    Runs,
    /// Results of benchmarks.
    Benchmarks,
}

/// Two things side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What is compared.
    pub kind: Kind,
    /// The first side.
    pub a: String,
    /// The second side.
    pub b: String,
    /// All numbers that both sides have.
    pub changes: Vec<Change>,
    /// What only the first side has.
    pub only_a: Vec<String>,
    /// What only the second side has.
    pub only_b: Vec<String>,
}

/// Why two things cannot be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A file cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A recording cannot be opened.
    #[error("{0}")]
    Recording(#[from] striate_recording::RecordingError),
    /// A file is something else.
    #[error(
        "{path} is neither a recording nor a Darshan log nor a JSON document of 'striate run', 'striate bench' or 'striate report'"
    )]
    Unknown {
        /// Which.
        path: String,
    },
    /// Both sides are different things.
    #[error("{a} is {a_is}, {b} is {b_is}")]
    Different {
        /// The first.
        a: String,
        /// What it is.
        a_is: &'static str,
        /// The second.
        b: String,
        /// What it is.
        b_is: &'static str,
    },
}

/// Compares two things.
pub fn compare(a: &Input, b: &Input) -> Result<Comparison, CompareError> {
    let (kind, mut parts) = match (&a.content, &b.content) {
        (input::Content::Model(a), input::Content::Model(b)) => (Kind::Recordings, models(a, b)),
        (input::Content::Runs(a), input::Content::Runs(b)) => (Kind::Runs, runs::compared(a, b)),
        (input::Content::Benchmarks(a), input::Content::Benchmarks(b)) => {
            (Kind::Benchmarks, benchmarks::compared(a, b))
        }
        _ => {
            let (a_is, b_is) = (a.what(), b.what());
            return Err(CompareError::Different {
                a: a.name.clone(),
                a_is,
                b: b.name.clone(),
                b_is,
            });
        }
    };
    significance::correct(&mut parts.changes);
    let Parts { changes, only_a, only_b } = parts;
    Ok(Comparison { kind, a: a.name.clone(), b: b.name.clone(), changes, only_a, only_b })
}

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Parts {
    /// All numbers that both sides have.
    pub changes: Vec<Change>,
    /// What only the first side has.
    pub only_a: Vec<String>,
    /// What only the second side has.
    pub only_b: Vec<String>,
}
