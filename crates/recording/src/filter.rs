//! [`Filter`]: selects records by time, process, rank, thread, path and kind.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use striate_trace::{Call, Kinds, LayerRecord, Record};

use crate::recording::Process;

/// Selects the records that satisfy all conditions. An empty list does not restrict.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Calls that began at this time of the recording or later, in nanoseconds.
    pub from: Option<u64>,
    /// Calls that began before this time.
    pub to: Option<u64>,
    /// Numbers of processes.
    pub processes: Vec<u32>,
    /// Ranks.
    pub ranks: Vec<u32>,
    /// Threads.
    pub threads: Vec<u32>,
    /// Kinds of calls.
    pub kinds: Option<Kinds>,
    /// Paths, made by [`paths`].
    pub paths: Option<GlobSet>,
    /// No calls of layers above POSIX.
    pub without_layers: bool,
}

/// Patterns of paths, as shells have them; `**` stands for any directories. A pattern without `/`
/// is one of names in any directory.
pub fn paths(patterns: &[String]) -> Result<Option<GlobSet>, globset::Error> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let anywhere = format!("**/{pattern}");
        let pattern = if pattern.contains('/') { pattern } else { &anywhere };
        set.add(GlobBuilder::new(pattern).literal_separator(true).build()?);
    }
    set.build().map(Some)
}

impl Filter {
    /// Whether calls of a process may pass.
    pub fn takes_process(&self, process: &Process) -> bool {
        let origin = &process.header().origin;
        let rank = origin.rank.is_some_and(|rank| self.ranks.contains(&rank));
        (self.processes.is_empty() || self.processes.contains(&origin.process))
            && (self.ranks.is_empty() || rank)
    }

    /// Whether a call that began in this span of time may pass.
    pub fn takes_span(&self, from: u64, until: u64) -> bool {
        self.from.is_none_or(|wanted| until >= wanted) && self.to.is_none_or(|wanted| from < wanted)
    }

    /// Whether a call passes that began at a time of the recording.
    pub fn takes_time(&self, start: u64) -> bool {
        self.from.is_none_or(|from| start >= from) && self.to.is_none_or(|to| start < to)
    }

    /// Whether a path passes.
    pub fn takes_path(&self, path: &Path) -> bool {
        self.paths.as_ref().is_none_or(|paths| paths.is_match(path))
    }

    /// Whether a record passes, whose time is that of the recording, of a process that does.
    pub fn takes(&self, record: &Record) -> bool {
        self.takes_time(record.start) && self.takes_at_any_time(record)
    }

    /// Whether a record passes but for its time.
    pub fn takes_at_any_time(&self, record: &Record) -> bool {
        (self.threads.is_empty() || self.threads.contains(&record.thread))
            && self.kinds.is_none_or(|kinds| kinds.has(record.call.kind()))
            && (self.paths.is_none()
                || paths_of(record).into_iter().flatten().any(|path| self.takes_path(path)))
    }

    /// Whether a call of a layer passes, whose time is that of the recording, of a process that
    /// does.
    pub fn takes_layer(&self, call: &LayerRecord) -> bool {
        self.takes_time(call.start) && self.takes_layer_at_any_time(call)
    }

    /// Whether a call of a layer passes but for its time.
    pub fn takes_layer_at_any_time(&self, call: &LayerRecord) -> bool {
        !self.without_layers
            && (self.threads.is_empty() || self.threads.contains(&call.thread))
            && self.takes_path(&call.path)
    }
}

/// The paths that a call is about: up to two.
pub(crate) fn paths_of(record: &Record) -> [Option<&Path>; 2] {
    let file = || record.call.file().map(|file| file.path.as_path());
    let first = record.call.path().map(|path| &**path).or_else(file);
    let second = match &record.call {
        Call::Rename { to, .. } => Some(&**to),
        Call::CopyRange { to, .. } | Call::SendFile { to, .. } => {
            to.file.as_ref().map(|file| file.path.as_path())
        }
        _ => None,
    };
    [first, second]
}
