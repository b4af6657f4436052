//! The effect of a stack, measured by replaying the recording.
//!
//! A recording is replayed without and with a stack, in turns, on the file system that the program
//! used, if that is here. Threads think as long between calls as they did; what counts is the
//! median. All that is measured together has a limit of time: as many rounds are made as fit, three
//! at most.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use striate_recording::Recording;
use striate_replay::{Options, Outcome, ReplayTarget, Timing, replay};
use striate_report::Model;
use striate_report::what_if::{self, Candidate, Measured};
use striate_stack::Configuration;

use super::progress;
use crate::time;

/// So often each way is tried at most.
const ROUNDS: usize = 3;

/// How recordings are repeated.
#[derive(Debug)]
pub(super) struct Repeating<'r> {
    recording: &'r Recording,
    /// The stages that are beneath each stack, and alone without one.
    base: Option<Arc<Configuration>>,
    /// Where files are made.
    place: PathBuf,
    /// When it has to be over.
    until: Instant,
    limit: Duration,
    interrupted: Arc<AtomicBool>,
    bar: &'r ProgressBar,
}

impl<'r> Repeating<'r> {
    pub(super) fn new(
        recording: &'r Recording,
        base: Option<Configuration>,
        place: PathBuf,
        limit: Duration,
        interrupted: Arc<AtomicBool>,
        bar: &'r ProgressBar,
    ) -> Self {
        let (base, until) = (base.map(Arc::new), Instant::now() + limit);
        Self { recording, base, place, until, limit, interrupted, bar }
    }

    /// Measures what was asked for, in its order, and adds the answers to the model.
    pub(super) fn measure(&self, model: &mut Model, asked: Vec<Option<Candidate>>) {
        let advised = what_if::candidates(model);
        let mut candidates: Vec<Candidate> = Vec::new();
        for candidate in asked {
            let more = candidate.map_or_else(|| advised.clone(), |candidate| vec![candidate]);
            for candidate in more {
                if !candidates.contains(&candidate) {
                    candidates.push(candidate);
                }
            }
        }
        progress::begin(self.bar, (candidates.len() * ROUNDS * 2) as u64, "");
        let mut tried = 0;
        let mut by = |candidate: &Candidate| {
            self.bar.set_position(tried * ROUNDS as u64 * 2);
            self.bar.set_message(format!("repeating with {}", candidate.name));
            tried += 1;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err("it was interrupted".into());
            }
            self.repeat(candidate)
        };
        what_if::measure(model, candidates, &mut by);
    }

    /// Repeats a recording without and with a stack.
    fn repeat(&self, candidate: &Candidate) -> Result<Measured, String> {
        let told = |error: striate_stack::ConfigurationError| error.to_string();
        let with = striate_stages::parse_stack(&candidate.stack).map_err(told)?;
        let with = match &self.base {
            Some(base) => with.above(base).map_err(told)?,
            None => with,
        };
        let with = Some(Arc::new(with));
        let (mut withouts, mut withs) = (Vec::new(), Vec::new());
        let begin = Instant::now();
        for round in 0..ROUNDS {
            let so_far = begin.elapsed();
            if round > 0 && Instant::now() + so_far / round as u32 > self.until {
                break;
            }
            // Whatever comes first leaves something behind for the second: so each does in turn.
            for second in [false, true] {
                if (round % 2 == 1) == second {
                    withouts.push(self.run(self.base.clone())?);
                } else {
                    withs.push(self.run(with.clone())?);
                }
            }
        }
        let rounds = withs.len() as u32;
        let differences = withs.iter().map(|run| run.differences).max().unwrap_or(0);
        Ok(Measured {
            seconds_without: median(&withouts, |run| run.seconds),
            seconds_with: median(&withs, |run| run.seconds),
            call_seconds_without: median(&withouts, |run| run.call_seconds),
            call_seconds_with: median(&withs, |run| run.call_seconds),
            differences,
            rounds,
            place: self.place.display().to_string(),
        })
    }

    /// Replays it once, and keeps the result.
    fn run(&self, stack: Option<Arc<Configuration>>) -> Result<Run, String> {
        let outcome = self.once(stack)?;
        self.bar.inc(1);
        // A program loads and prepares before its first call: that is a part of its run, whatever
        // stack there is.
        let first = self.recording.processes().iter().filter_map(striate_recording::Process::span);
        let before = first.map(|(first, _)| first).min().unwrap_or(0);
        let calls = outcome.total().time_replayed + outcome.time_settling;
        Ok(Run {
            seconds: (before + outcome.time_replayed) as f64 / 1e9,
            call_seconds: calls as f64 / 1e9,
            differences: outcome.differences_count(),
        })
    }

    /// Repeats it once.
    fn once(&self, stack: Option<Arc<Configuration>>) -> Result<Outcome, String> {
        let length = Duration::from_nanos(self.recording.length());
        if Instant::now() + length > self.until {
            return Err(format!(
                "the recording is {} long, and {} are not enough to repeat it without and with each stack; \
                 --what-if-time allows more, and 'striate trace cut' takes a part of it",
                time::length(length),
                time::length(self.limit)
            ));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let options = Options {
            onto: ReplayTarget::Temporary { within: Some(self.place.clone()), keep: false },
            stack,
            timing: Timing::Think,
            most_differences: 0,
            stop: Arc::clone(&stop),
            ..Options::default()
        };
        let over = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| self.watch(&stop, &over));
            let outcome = replay(self.recording, &options);
            over.store(true, Ordering::Relaxed);
            outcome
        });
        let outcome = outcome.map_err(|error| error.to_string())?;
        if self.interrupted.load(Ordering::Relaxed) {
            return Err("it was interrupted".into());
        }
        if outcome.interrupted {
            let limit = time::length(self.limit);
            return Err(format!("it took longer than {limit}; --what-if-time allows more"));
        }
        match outcome.failures.first() {
            Some(failure) => Err(failure.clone()),
            None => Ok(outcome),
        }
    }

    /// Ends a replay when its time is over, or a signal says so.
    fn watch(&self, stop: &AtomicBool, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            self.bar.tick();
            if self.interrupted.load(Ordering::Relaxed) || Instant::now() > self.until {
                stop.store(true, Ordering::Relaxed);
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What is kept of a replay.
#[derive(Debug)]
struct Run {
    seconds: f64,
    call_seconds: f64,
    differences: u64,
}

fn median(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The directory of the recorded files, or the one above it that is still here: of the file with
/// most time that has one. Else where the system has temporary files.
pub(super) fn place(model: &Model) -> PathBuf {
    let of_file = |path: &str| {
        let above = Path::new(path).ancestors().skip(1).find(|directory| directory.is_dir())?;
        // The root directory is not used for this.
        (above.parent().is_some() && may_be_used(above)).then(|| above.to_path_buf())
    };
    let written = model.files.iter().filter(|file| file.sums.bytes_written > 0);
    let found = written.chain(&model.files).find_map(|file| of_file(&file.path));
    found.unwrap_or_else(std::env::temp_dir)
}

/// Whether directories can be made in one: permissions do not show whether a file system is
/// read-only.
fn may_be_used(directory: &Path) -> bool {
    let tried = directory.join(format!(".striate-replay-{}", std::process::id()));
    std::fs::create_dir(&tried).and_then(|()| std::fs::remove_dir(&tried)).is_ok()
}

#[cfg(test)]
mod tests {
    use striate_report::model::FileRow;

    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        let runs = |seconds: &[f64]| -> Vec<Run> {
            let run = |seconds: &f64| Run { seconds: *seconds, call_seconds: 0.0, differences: 0 };
            seconds.iter().map(run).collect()
        };
        for (values, middle) in
            [(&[][..], 0.0), (&[3.0], 3.0), (&[5.0, 1.0], 3.0), (&[9.0, 1.0, 2.0], 2.0)]
        {
            assert!((median(&runs(values), |run| run.seconds) - middle).abs() < 1e-9);
        }
    }

    #[test]
    fn every_stack_of_the_advice_can_be_used() {
        let odd = ["/data/a \"b\"\\c\u{1}/x".to_owned(), "/data/a \"b\"\\c\u{1}/y".to_owned()];
        let stacks = striate_report::advice::all_stacks(&odd);
        assert_eq!(stacks.len(), 5);
        for stack in stacks {
            let parsed = striate_stages::parse_stack(&stack.text);
            assert!(parsed.is_ok(), "{}: {:?}", stack.text, parsed.err());
        }
    }

    #[test]
    fn files_are_repeated_where_they_were() {
        let here = tempfile::tempdir().unwrap();
        let row = |path: &Path, written| {
            let mut row =
                FileRow { path: path.to_string_lossy().into_owned(), ..FileRow::default() };
            row.sums.bytes_written = written;
            row
        };
        let mut model = Model::default();
        assert_eq!(place(&model), std::env::temp_dir());
        model.files.push(row(Path::new("/no-such-directory/file"), 1));
        assert_eq!(place(&model), std::env::temp_dir());
        model.files.push(row(Path::new("/proc/self/status"), 0));
        model.files.push(row(&here.path().join("gone/deep/file"), 1));
        assert_eq!(place(&model), here.path());
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
    }
}
