//! [`Options`]: how a recording is replayed.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use striate_stack::Configuration;
use striate_store::remote::RemoteUrl;

/// When calls begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// Each when it began in the recording, counted from the first, or at once if it is late.
    AsRecorded,
    /// Each as soon as the order of calls lets it.
    AsFast,
    /// As recorded, with all times multiplied.
    Scale(f64),
    /// Each as long after the call before it as in the recording: faster calls make for a shorter
    /// replay.
    Think,
}

impl FromStr for Timing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "as-recorded" => Ok(Self::AsRecorded),
            "as-fast" => Ok(Self::AsFast),
            "think" => Ok(Self::Think),
            _ => {
                let factor = text.strip_prefix("scale=").and_then(|factor| factor.parse().ok());
                let factor = factor.filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
                factor.map(Self::Scale).ok_or_else(|| {
                    format!("{text:?} is none of as-recorded, as-fast, scale=NUMBER, think")
                })
            }
        }
    }
}

/// How a call with several parts of memory becomes requests to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VectorMethod {
    /// One for each part.
    Posix,
    /// One, with a list of the parts.
    #[default]
    List,
}

impl FromStr for VectorMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "posix" => Ok(Self::Posix),
            "list" => Ok(Self::List),
            "datatype" | "sieve" | "two-phase" | "auto" => Err(format!(
                "{text} has no meaning here: a recorded call is for one region of a file; \
                 posix and list differ where it has several memory buffers"
            )),
            _ => Err(format!("{text:?} is neither posix nor list")),
        }
    }
}

/// A store that files are on.
#[derive(Clone, Debug)]
pub enum StoreAt {
    /// Files in a directory, by the store for POSIX files.
    Directory(PathBuf),
    /// Objects in memory.
    Memory,
    /// Files on I/O servers, beneath this path.
    Servers(RemoteUrl),
}

impl FromStr for StoreAt {
    type Err = String;

    /// `memory`, a URL of servers, or a directory.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "memory" {
            Ok(Self::Memory)
        } else if RemoteUrl::is_remote(text) {
            text.parse()
                .map(Self::Servers)
                .map_err(|error: striate_store::remote::UrlError| error.to_string())
        } else {
            Ok(Self::Directory(text.into()))
        }
    }
}

/// Percent of the free space that a replay takes, unless something else is said.
pub const SHARE_OF_FREE: u64 = 80;

/// Where files are.
#[derive(Clone, Debug)]
pub enum ReplayTarget {
    /// In a new directory.
    Temporary {
        /// Where that is made; where the system has such directories if not said.
        within: Option<PathBuf>,
        /// Whether it stays.
        keep: bool,
    },
    /// In this directory: the recorded `/data/x` is `data/x` there.
    Directory(PathBuf),
    /// On a store.
    Store {
        /// Which.
        at: StoreAt,
        /// How calls with several parts of memory are carried out.
        method: VectorMethod,
    },
}

/// How a recording is replayed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where files are.
    pub onto: ReplayTarget,
    /// The stages that calls pass through. Their rules are for paths as they were recorded.
    pub stack: Option<Arc<Configuration>>,
    /// When calls begin.
    pub timing: Timing,
    /// Where the replay is recorded, if it is to be.
    pub trace: Option<PathBuf>,
    /// As many differences are listed; all are counted.
    pub most_differences: usize,
    /// As many workers there are at most.
    pub most_workers: usize,
    /// As many calls are planned ahead at most.
    pub window: usize,
    /// Bytes that files may take on storage; [`SHARE_OF_FREE`] percent of what is free there if
    /// not said.
    pub most_space: Option<u64>,
    /// A wait ends when nothing has moved for so long.
    pub patience: Duration,
    /// Set to end the replay early.
    pub stop: Arc<AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            onto: ReplayTarget::Temporary { within: None, keep: false },
            stack: None,
            timing: Timing::AsRecorded,
            trace: None,
            most_differences: 20,
            most_workers: 2048,
            window: 1 << 15,
            most_space: None,
            patience: Duration::from_secs(120),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_are_read() {
        assert_eq!("as-recorded".parse(), Ok(Timing::AsRecorded));
        assert_eq!("as-fast".parse(), Ok(Timing::AsFast));
        assert_eq!("think".parse(), Ok(Timing::Think));
        assert_eq!("scale=0.5".parse(), Ok(Timing::Scale(0.5)));
        for wrong in ["scale=", "scale=-1", "scale=nan", "slow", ""] {
            assert!(wrong.parse::<Timing>().is_err(), "{wrong}");
        }
        assert!("two-phase".parse::<VectorMethod>().is_err_and(|told| told.contains("no meaning")));
        assert_eq!("list".parse(), Ok(VectorMethod::List));
    }
}
