//! [`Worker`]: carries out the tasks of recorded threads, one after the other.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Instant;

use striate_recording::{ProcessIndex, Recording};
use striate_stack::Kind;
use striate_trace::{Call as Traced, Record};

use crate::backend::{Backend, Execution};
use crate::compare::{Difference, difference};
use crate::contents::WorkerBuffer;
use crate::options::Options;
use crate::outcome::{FunctionFigures, Outcome};
use crate::pace::Pace;
use crate::progress::Progress;
use crate::task::{Call, Inbox, Task, TaskKind};

/// What workers share.
#[derive(Debug)]
pub(crate) struct Shared<'r> {
    pub(crate) recording: &'r Recording,
    pub(crate) options: &'r Options,
    pub(crate) backend: &'r dyn Backend,
    pub(crate) pace: &'r Pace,
    pub(crate) progress: &'r Progress,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Worker<'r> {
    shared: &'r Shared<'r>,
    number: u32,
    /// How many tasks it has done.
    done: u64,
    buffer: WorkerBuffer,
    tally: Tally,
}

/// The result of a worker.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    functions: BTreeMap<&'static str, FunctionFigures>,
    noted: BTreeMap<&'static str, u64>,
    skipped: BTreeMap<&'static str, u64>,
    made_good: BTreeMap<&'static str, u64>,
    differences: BTreeMap<crate::DifferenceKind, u64>,
    first: Vec<Difference>,
    failures: Vec<String>,
    settling: u64,
    /// When the last call ended.
    last: Option<Instant>,
}

impl<'r> Worker<'r> {
    pub(crate) fn new(shared: &'r Shared<'r>, number: u32) -> Self {
        Self { shared, number, done: 0, buffer: WorkerBuffer::default(), tally: Tally::default() }
    }

    /// Carries out all tasks there are.
    pub(crate) fn run(mut self, inbox: &Inbox) -> Tally {
        // A sleep is to end when it should. Where that cannot be said it ends a little later.
        let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        loop {
            let tasks = inbox.take();
            if tasks.is_empty() {
                return self.tally;
            }
            for task in tasks {
                if !self.shared.options.stop.load(Ordering::Relaxed) {
                    // Whatever happens, others are not kept waiting.
                    let done = catch_unwind(AssertUnwindSafe(|| self.carry_out(task)));
                    if done.is_err() {
                        *self.tally.skipped.entry("a stage panicked").or_default() += 1;
                    }
                }
                self.done += 1;
                self.shared.progress.complete(self.number);
            }
        }
    }

    fn carry_out(&mut self, task: Task) {
        let Shared { options, progress, backend, pace, .. } = self.shared;
        // When all that it has to wait for had ended, by the clocks.
        let mut floor = 0;
        for point in task.after {
            progress.wait(point, &options.stop, options.patience);
            floor = pace.end_of(point, progress).max(floor);
        }
        let clock = match task.what {
            TaskKind::Start { parent, later } => {
                let settled = backend.start(task.process, parent);
                let took = *settled.as_ref().unwrap_or(&0);
                self.tally.settling += took;
                for (thread, end) in later.into_iter().flatten() {
                    pace.delayed(end, thread, took);
                }
                self.failed(task.process, settled.err());
                // Workers that wait for this go by their own clocks.
                0
            }
            TaskKind::End(thread, end) => {
                let begin = Instant::now();
                let ended = backend.end(task.process);
                let took = begin.elapsed().as_nanos() as u64;
                self.tally.settling += took;
                self.tally.last = Some(Instant::now());
                self.failed(task.process, ended.err());
                pace.ended_process(end, thread, took)
            }
            TaskKind::Call(call) => self.call(task.process, &call, floor),
        };
        pace.note((self.number, self.done + 1), clock);
    }

    fn failed(&mut self, process: ProcessIndex, reason: Option<String>) {
        self.tally.failures.extend(reason.map(|reason| self.told(process, &reason)));
    }

    fn told(&self, process: ProcessIndex, reason: &str) -> String {
        let number = self.shared.recording.processes()[process].header().origin.process;
        format!("process {number}: {reason}")
    }

    /// Makes a call, not before `floor` by the clocks. Says when it has ended by that of its
    /// thread.
    fn call(&mut self, process: ProcessIndex, call: &Call, floor: u64) -> u64 {
        let Shared { options, progress, backend, pace, .. } = self.shared;
        let record = &call.record;
        for fix in &call.fixes {
            *self.tally.made_good.entry(fix.name()).or_default() += 1;
            backend.fix(process, fix, &mut self.buffer);
        }
        let begin = pace.begin(record.start, call.anchor, floor);
        if let Some(moment) = begin.moment {
            progress.sleep_until(moment, &options.stop);
        }
        if options.stop.load(Ordering::Relaxed) {
            return begin.clock;
        }
        let did = backend.call(process, call, &mut self.buffer);
        self.shared.recording.progress().add(1);
        self.tally.last = Some(Instant::now());
        let took = match did {
            Execution::Made(_, took) | Execution::Noted(took) => took,
            Execution::Skipped(_) => record.duration,
        };
        let clock = begin.clock.saturating_add(took);
        pace.ended(record.start.saturating_add(record.duration), call.thread, clock);
        self.note(process, call, did);
        clock
    }

    /// Compares the outcome of a call with its record.
    fn note(&mut self, process: ProcessIndex, call: &Call, did: Execution) {
        let record = &call.record;
        let function = record.function.name();
        match did {
            Execution::Skipped(reason) => *self.tally.skipped.entry(reason).or_default() += 1,
            Execution::Noted(_) => {
                *self.tally.noted.entry(function).or_default() += 1;
                self.tally.functions.entry(function).or_default().calls += 1;
            }
            Execution::Made(observed, took) => {
                let figures = self.tally.functions.entry(function).or_default();
                figures.calls += 1;
                figures.time_recorded += record.duration;
                figures.time_replayed += took;
                if moves_bytes(record.call.kind()) {
                    figures.bytes_recorded += record.outcome.unwrap_or(0);
                    figures.bytes_replayed += observed.outcome.unwrap_or(0);
                }
                if let Some((kind, recorded, replayed)) = difference(record, observed) {
                    *self.tally.differences.entry(kind).or_default() += 1;
                    if self.tally.first.len() < self.shared.options.most_differences {
                        self.tally.first.push(Difference {
                            number: call.number,
                            process: self.shared.recording.processes()[process]
                                .header()
                                .origin
                                .process,
                            thread: record.thread,
                            time: record.start,
                            function,
                            path: path(record),
                            kind,
                            recorded,
                            replayed,
                        });
                    }
                }
            }
        }
    }
}

const fn moves_bytes(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::Write | Kind::CopyRange | Kind::SendFile)
}

/// What a call is about.
fn path(record: &Record) -> std::path::PathBuf {
    let file = || record.call.file().map(|file| file.path.clone());
    let path = record.call.path().map(|path| path.to_path_buf()).or_else(file);
    path.or_else(|| match &record.call {
        Traced::CopyRange { to, .. } | Traced::SendFile { to, .. } => {
            Some(to.file.as_ref()?.path.clone())
        }
        _ => None,
    })
    .unwrap_or_default()
}

impl Tally {
    /// Adds the result of a worker; returns the end of its last call.
    pub(crate) fn tell(self, outcome: &mut Outcome) -> Option<Instant> {
        for (function, figures) in self.functions {
            outcome.functions.entry(function).or_default().add(&figures);
        }
        for (into, from) in
            [(&mut outcome.noted, self.noted), (&mut outcome.made_good, self.made_good)]
        {
            for (name, count) in from {
                *into.entry(name).or_default() += count;
            }
        }
        for (reason, count) in self.skipped {
            *outcome.skipped.entry(reason.to_owned()).or_default() += count;
        }
        for (kind, count) in self.differences {
            *outcome.differences.entry(kind).or_default() += count;
        }
        outcome.first_differences.extend(self.first);
        outcome.failures.extend(self.failures);
        outcome.time_settling += self.settling;
        self.last
    }
}
