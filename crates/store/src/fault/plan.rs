//! [`FaultPlan`]: which faults, when, read from text.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::libc;
use thiserror::Error;

use crate::error::{Operation, UnknownOperation};
use crate::posix::{Intervention, SystemCall, SystemFaults};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// EIO.
    Error,
    /// ENOSPC.
    OutOfSpace,
    /// It takes longer.
    Delay(Duration),
    /// A write stops in the middle.
    TornWrite,
    /// A read comes in two parts.
    ShortRead,
    /// A write goes in two parts.
    ShortWrite,
    /// EINTR.
    Interrupted,
}

impl FaultKind {
    const NAMED: [(&'static str, Self); 7] = [
        ("error", Self::Error),
        ("out-of-space", Self::OutOfSpace),
        ("delay", Self::Delay(Duration::from_millis(10))),
        ("torn-write", Self::TornWrite),
        ("short-read", Self::ShortRead),
        ("short-write", Self::ShortWrite),
        ("interrupted", Self::Interrupted),
    ];

    /// The only operation it can hit, if there is only one.
    fn of(self) -> Option<Operation> {
        match self {
            Self::TornWrite | Self::ShortWrite => Some(Operation::Write),
            Self::ShortRead => Some(Operation::Read),
            _ => None,
        }
    }
}

/// One fault: what, when, and to which operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// The number of the operation that it hits, of those it can hit; counted from 1.
    pub at: u64,
    /// Whether all later ones are hit too.
    pub onwards: bool,
    /// The only operation that counts; `None`: all.
    pub only: Option<Operation>,
}

impl Fault {
    /// A fault that hits operation `at` of those of its kind.
    pub fn new(kind: FaultKind, at: u64) -> Self {
        Self { kind, at, onwards: false, only: kind.of() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same =
            |kind: FaultKind| std::mem::discriminant(&kind) == std::mem::discriminant(&self.kind);
        let name =
            FaultKind::NAMED.iter().find(|(_, kind)| same(*kind)).map_or("", |(name, _)| name);
        f.write_str(name)?;
        if let FaultKind::Delay(by) = self.kind {
            write!(f, "={}ms", by.as_millis())?;
        }
        write!(f, "@{}{}", self.at, if self.onwards { "+" } else { "" })?;
        match self.only {
            Some(only) if self.kind.of().is_none() => write!(f, ":{only}"),
            _ => Ok(()),
        }
    }
}

/// Why a text is not a fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultError {
    /// No such fault.
    #[error("'{text}': there is no fault '{name}'; one of {}", names())]
    Name {
        /// The fault.
        text: String,
        /// Its name.
        name: String,
    },
    /// It does not say when.
    #[error("'{text}': needs the number of the operation it hits, as in 'error@3', counted from 1")]
    Number {
        /// The fault.
        text: String,
    },
    /// No such operation.
    #[error("'{text}': {source}")]
    Operation {
        /// The fault.
        text: String,
        /// Which.
        source: UnknownOperation,
    },
    /// A fault of reads on writes, or the like.
    #[error("'{text}': it can only hit the operation '{only}'")]
    Mismatch {
        /// The fault.
        text: String,
        /// What it can hit.
        only: Operation,
    },
    /// An invalid delay.
    #[error("'{text}': needs a time such as 'delay=20ms@1' (ms, us or s)")]
    Time {
        /// The fault.
        text: String,
    },
}

fn names() -> String {
    FaultKind::NAMED.map(|(name, _)| name).join(", ")
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let text = text.trim();
        let owned = || text.to_owned();
        let (what, when) =
            text.split_once('@').ok_or_else(|| FaultError::Number { text: owned() })?;
        let (name, value) = match what.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (what, None),
        };
        let found = FaultKind::NAMED.iter().find(|(known, _)| *known == name);
        let Some(&(_, mut kind)) = found else {
            return Err(FaultError::Name { text: owned(), name: name.to_owned() });
        };
        if let Some(value) = value {
            let FaultKind::Delay(by) = &mut kind else {
                return Err(FaultError::Name { text: owned(), name: what.to_owned() });
            };
            *by = parse_time(value).ok_or_else(|| FaultError::Time { text: owned() })?;
        }
        let (number, operation) = match when.split_once(':') {
            Some((number, operation)) => (number, Some(operation)),
            None => (when, None),
        };
        let (number, onwards) = match number.strip_suffix('+') {
            Some(number) => (number, true),
            None => (number, false),
        };
        let at = number.parse().ok().filter(|&at| at > 0);
        let at = at.ok_or_else(|| FaultError::Number { text: owned() })?;
        let only = operation.map(Operation::from_str).transpose();
        let only = only.map_err(|source| FaultError::Operation { text: owned(), source })?;
        match (kind.of(), only) {
            (Some(of), Some(only)) if of != only => {
                Err(FaultError::Mismatch { text: owned(), only: of })
            }
            (of, only) => Ok(Self { kind, at, onwards, only: only.or(of) }),
        }
    }
}

/// A number and `us`, `ms` or `s`.
pub(crate) fn parse_time(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let number = number.parse().ok()?;
    match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// Faults, and how far each has counted.
#[derive(Debug, Default)]
pub struct FaultPlan {
    faults: Vec<(Fault, AtomicU64)>,
    /// A torn write of the system is a short one and an error after it.
    torn: AtomicBool,
}

impl FaultPlan {
    /// A plan of these faults.
    pub fn new(faults: impl IntoIterator<Item = Fault>) -> Self {
        let faults = faults.into_iter().map(|fault| (fault, AtomicU64::new(0))).collect();
        Self { faults, torn: AtomicBool::new(false) }
    }

    /// Counts an operation, and says what happens to it: the first fault of the plan that hits it.
    pub(super) fn next(&self, operation: Operation) -> Option<FaultKind> {
        let mut hit = None;
        for (fault, count) in &self.faults {
            if fault.only.is_none_or(|only| only == operation) {
                let n = count.fetch_add(1, Ordering::Relaxed) + 1;
                if n == fault.at || (fault.onwards && n > fault.at) {
                    hit = hit.or(Some(fault.kind));
                }
            }
        }
        hit
    }
}

impl FromStr for FaultPlan {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let faults = text.split(',').filter(|fault| !fault.trim().is_empty());
        Ok(Self::new(faults.map(Fault::from_str).collect::<Result<Vec<_>, _>>()?))
    }
}

impl SystemFaults for FaultPlan {
    fn before(&self, call: SystemCall, _offset: u64, len: usize) -> Intervention {
        let operation = match call {
            SystemCall::Read => Operation::Read,
            SystemCall::Write => Operation::Write,
            SystemCall::Allocate => Operation::Preallocate,
            SystemCall::Sync => Operation::Sync,
            SystemCall::RingSetup => Operation::Open,
        };
        if call == SystemCall::Write && self.torn.swap(false, Ordering::Relaxed) {
            return Intervention::Fail(libc::EIO);
        }
        match self.next(operation) {
            None => Intervention::Proceed,
            Some(FaultKind::Error) => Intervention::Fail(libc::EIO),
            Some(FaultKind::OutOfSpace) => Intervention::Fail(libc::ENOSPC),
            Some(FaultKind::Interrupted) => Intervention::Fail(libc::EINTR),
            Some(FaultKind::Delay(by)) => {
                std::thread::sleep(by);
                Intervention::Proceed
            }
            Some(FaultKind::ShortRead | FaultKind::ShortWrite) => Intervention::Shorten(len / 2),
            Some(FaultKind::TornWrite) => {
                self.torn.store(true, Ordering::Relaxed);
                Intervention::Shorten(len / 2)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        for text in [
            "error@3",
            "error@3:write",
            "out-of-space@1+",
            "delay=20ms@2:read",
            "torn-write@7",
            "short-read@1",
            "short-write@2+",
            "interrupted@9:sync",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        let fault: Fault = "torn-write@7".parse().unwrap();
        assert_eq!(fault, Fault::new(FaultKind::TornWrite, 7));
        assert_eq!("error@1, delay@2,".parse::<FaultPlan>().unwrap().faults.len(), 2);
    }

    #[test]
    fn wrong_faults_are_explained() {
        let says = |text: &str, part: &str| {
            let message = text.parse::<Fault>().unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
            assert!(message.contains(text), "{message}");
        };
        says("eror@3", "there is no fault 'eror'; one of error, out-of-space");
        says("error", "counted from 1");
        says("error@0", "counted from 1");
        says("error@x", "counted from 1");
        says("error@3:wirte", "unknown operation 'wirte'");
        says("torn-write@3:read", "only hit the operation 'write'");
        says("delay=20@1", "delay=20ms");
        says("error=5ms@1", "there is no fault 'error=5ms'");
    }

    #[test]
    fn each_fault_counts_what_it_can_hit() {
        let plan: FaultPlan = "error@2:read,out-of-space@2+:write".parse().unwrap();
        let sequence = [
            (Operation::Read, None),
            (Operation::Write, None),
            (Operation::Write, Some(FaultKind::OutOfSpace)),
            (Operation::Read, Some(FaultKind::Error)),
            (Operation::Read, None),
            (Operation::Write, Some(FaultKind::OutOfSpace)),
        ];
        for (operation, expected) in sequence {
            assert_eq!(plan.next(operation), expected);
        }
    }
}
