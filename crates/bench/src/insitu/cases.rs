//! The cases of `bench insitu`: stacks whose calls are timed, and tasks with the variants that are
//! compared.

use std::path::{Path, PathBuf};

use super::Task;
use crate::io::ScratchDirectory;

/// Where files are.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) slow: ScratchDirectory,
    pub(super) fast: ScratchDirectory,
}

impl Places {
    /// A file in the faster place.
    pub(super) fn fast_file(&self) -> PathBuf {
        self.fast.path().join("data")
    }
}

/// A stack whose cost for each call is measured.
#[derive(Debug)]
pub(super) struct OverheadStack {
    pub(super) name: &'static str,
    pub(super) stages: &'static str,
    /// Nanoseconds.
    pub(super) goal: Option<f64>,
}

/// The file is not one that stages see.
const ELSEWHERE: &str = "[paths]\ninclude = [\"/nowhere\"]\n[[stage]]\nkind = \"count\"\n";
/// It is, but no stage wants these calls.
const OTHER_CALLS: &str =
    "[[stage]]\nkind = \"throttle\"\nlatency = \"1us\"\nkinds = [\"unlink\"]\n";
const COUNT: &str = "[[stage]]\nkind = \"count\"\n";
const TRACE: &str = "[[stage]]\nkind = \"trace\"\ndirectory = \"FAST/run\"\n";

pub(super) static OVERHEADS: &[OverheadStack] = &[
    OverheadStack {
        name: "overhead of a file that no stage wants",
        stages: ELSEWHERE,
        goal: Some(10.0),
    },
    OverheadStack {
        name: "overhead of calls that no stage wants",
        stages: OTHER_CALLS,
        goal: Some(10.0),
    },
    OverheadStack { name: "overhead of count", stages: COUNT, goal: Some(60.0) },
    OverheadStack { name: "overhead of trace", stages: TRACE, goal: Some(120.0) },
];

/// A way to do a task.
#[derive(Debug)]
pub(super) struct TaskVariant {
    pub(super) name: &'static str,
    /// Without Striate, if there are none. `SLOW` and `FAST` stand for the places.
    pub(super) stages: Option<&'static str>,
    /// Whether the file is in the faster place.
    pub(super) on_fast: bool,
}

impl TaskVariant {
    const fn of(name: &'static str, stages: &'static str) -> Self {
        Self { name, stages: Some(stages), on_fast: false }
    }

    const NATIVE: Self = Self { name: "native", stages: None, on_fast: false };

    /// Its configuration.
    pub(super) fn text(&self, places: &Places) -> Option<String> {
        let stages = self.stages?;
        let [slow, fast] = [&places.slow, &places.fast].map(|place| place.path().display());
        let stages = stages.replace("SLOW", &slow.to_string()).replace("FAST", &fast.to_string());
        if stages.starts_with("[paths]") {
            return Some(stages);
        }
        Some(format!("[paths]\ninclude = [\"{slow}\", \"{fast}/data\"]\n\n{stages}"))
    }

    /// Whether the written data is checked at the end.
    pub(super) fn keeps_data(&self) -> bool {
        !self.stages.is_some_and(|text| {
            text.contains("i_accept_destroyed_files") || text.contains("unpack = false")
        })
    }
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskKind {
    WriteInOrder,
    WriteScattered,
    WriteSynced,
    ReadStrided,
    ManyFiles,
}

/// A task and the ways in which it is done.
#[derive(Debug)]
pub(super) struct InsituCase {
    pub(super) name: &'static str,
    pattern: TaskKind,
    /// Bytes of a request.
    pub(super) request: u64,
    /// How many requests, or files.
    pub(super) count: u64,
    /// What it is called with the end of the process as a part of it: what is buffered beyond the
    /// last close is written then.
    pub(super) to_the_end: Option<&'static str>,
    pub(super) ways: &'static [TaskVariant],
    /// Which way is compared with which other, and what it should gain.
    pub(super) comparisons: &'static [(&'static str, &'static str, Option<f64>)],
}

impl InsituCase {
    pub(super) fn task(&self, target: &Path) -> Task {
        let (target, request, count) = (target.to_path_buf(), self.request, self.count);
        match self.pattern {
            TaskKind::WriteInOrder => {
                Task::Write { target, request, count, sync: false, scattered: false }
            }
            TaskKind::WriteScattered => {
                Task::Write { target, request, count, sync: false, scattered: true }
            }
            TaskKind::WriteSynced => {
                Task::Write { target, request, count, sync: true, scattered: false }
            }
            TaskKind::ReadStrided => Task::Read { target, request, count, stride: request * 4 },
            TaskKind::ManyFiles => Task::Files { target, request, count },
        }
    }

    pub(super) fn unit(&self) -> &'static str {
        if self.pattern == TaskKind::ManyFiles { "files/s" } else { "MiB/s" }
    }

    pub(super) fn rate(&self, seconds: f64) -> f64 {
        let amount = match self.pattern {
            TaskKind::ManyFiles => self.count as f64,
            _ => (self.request * self.count) as f64 / f64::from(1 << 20),
        };
        amount / seconds.max(1e-9)
    }
}

/// The names of all cases.
pub fn case_names() -> Vec<&'static str> {
    let overheads = OVERHEADS.iter().map(|case| case.name);
    overheads.chain(CASES.iter().map(|case| case.name)).collect()
}

macro_rules! on_slow_storage {
    ($stages:literal) => {
        concat!($stages, "[[stage]]\nkind = \"throttle\"\nlatency = \"200us\"\n")
    };
}

const SLOW: TaskVariant = TaskVariant::of("without", on_slow_storage!(""));
const WRITE_BACK: &str = "[[stage]]\nkind = \"write-back\"\n";
const WRITE_BACK_ON_SLOW: TaskVariant =
    TaskVariant::of("write-back", on_slow_storage!("[[stage]]\nkind = \"write-back\"\n"));

const LOCAL_WAYS: &[TaskVariant] =
    &[TaskVariant::NATIVE, TaskVariant::of("write-back", WRITE_BACK)];
const SLOW_WAYS: &[TaskVariant] = &[SLOW, WRITE_BACK_ON_SLOW];

pub(super) static CASES: &[InsituCase] = &[
    InsituCase {
        name: "64 B in order, local",
        pattern: TaskKind::WriteInOrder,
        request: 64,
        count: 400_000,
        to_the_end: None,
        ways: LOCAL_WAYS,
        comparisons: &[("write-back", "native", Some(5.0))],
    },
    InsituCase {
        name: "1 KiB in order, local",
        pattern: TaskKind::WriteInOrder,
        request: 1 << 10,
        count: 64 << 10,
        to_the_end: None,
        ways: LOCAL_WAYS,
        comparisons: &[("write-back", "native", Some(1.5))],
    },
    InsituCase {
        name: "1 KiB in order, 200 µs",
        pattern: TaskKind::WriteInOrder,
        request: 1 << 10,
        count: 2000,
        to_the_end: None,
        ways: SLOW_WAYS,
        comparisons: &[("write-back", "without", Some(5.0))],
    },
    InsituCase {
        name: "16 KiB in order, 200 µs",
        pattern: TaskKind::WriteInOrder,
        request: 16 << 10,
        count: 2000,
        to_the_end: None,
        ways: SLOW_WAYS,
        comparisons: &[("write-back", "without", Some(5.0))],
    },
    InsituCase {
        name: "16 KiB files, 200 µs",
        pattern: TaskKind::ManyFiles,
        request: 16 << 10,
        count: 10_000,
        to_the_end: Some("16 KiB files to the end of the process, 200 µs"),
        ways: &[
            SLOW,
            TaskVariant::of("combine", on_slow_storage!("[[stage]]\nkind = \"combine\"\n")),
            TaskVariant::of(
                "container",
                on_slow_storage!(
                    "[[stage]]\nkind = \"combine\"\nunpack = false\ndirectory = \"SLOW/data\"\n"
                ),
            ),
            WRITE_BACK_ON_SLOW,
        ],
        comparisons: &[
            ("combine", "without", Some(5.0)),
            ("container", "without", Some(5.0)),
            ("write-back", "without", None),
        ],
    },
    InsituCase {
        name: "4 KiB strided read, 200 µs",
        pattern: TaskKind::ReadStrided,
        request: 4 << 10,
        count: 2000,
        to_the_end: None,
        ways: &[
            SLOW,
            TaskVariant::of("read-ahead", on_slow_storage!("[[stage]]\nkind = \"read-ahead\"\n")),
        ],
        comparisons: &[("read-ahead", "without", Some(2.0))],
    },
    InsituCase {
        name: "16 KiB synced, another place",
        pattern: TaskKind::WriteSynced,
        request: 16 << 10,
        count: 400,
        to_the_end: None,
        ways: &[
            TaskVariant::NATIVE,
            TaskVariant { on_fast: true, name: "on the fast place", ..TaskVariant::NATIVE },
            TaskVariant::of(
                "path-rewrite",
                "[[stage]]\nkind = \"path-rewrite\"\nbackground = true\nrules = [{ from = \"SLOW\", to = \"FAST\" }]\n",
            ),
        ],
        comparisons: &[
            ("path-rewrite", "native", None),
            ("path-rewrite", "on the fast place", None),
        ],
    },
    InsituCase {
        name: "4 KiB scattered, sequential limit",
        pattern: TaskKind::WriteScattered,
        request: 4 << 10,
        count: 16 << 10,
        to_the_end: None,
        ways: &[
            TaskVariant::NATIVE,
            TaskVariant::of(
                "seek-free",
                "[[stage]]\nkind = \"seek-free\"\ni_accept_destroyed_files = true\n",
            ),
        ],
        comparisons: &[("seek-free", "native", None)],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_of_ways_there_are() {
        for case in CASES {
            for (ours, other, _) in case.comparisons {
                for name in [ours, other] {
                    assert!(case.ways.iter().any(|way| way.name == *name), "{}: {name}", case.name);
                }
            }
        }
    }
}
