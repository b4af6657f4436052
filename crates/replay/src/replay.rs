//! [`replay`]: survey, creation of the files that existed before, and execution.

use std::sync::atomic::Ordering;

use striate_recording::Recording;

use crate::backend::{Backend, Root, StackBackend, StoreBackend};
use crate::contents::limit_memory;
use crate::error::ReplayError;
use crate::options::{Options, ReplayTarget};
use crate::outcome::Outcome;
use crate::pace::Pace;
use crate::plan::Planner;
use crate::progress::Progress;
use crate::space_limit;
use crate::survey::Survey;
use crate::task::Inbox;
use crate::worker::{Shared, Worker};

/// Bytes of stack of a worker.
const STACK: usize = 512 << 10;

/// Repeats the calls of a recording. Errors of single calls do not stop it; files in a temporary
/// directory are removed at the end unless they are to be kept.
pub fn replay(recording: &Recording, options: &Options) -> Result<Outcome, ReplayError> {
    let watched = recording.progress();
    watched.begin("reading", recording.records_count());
    let follows_links = !matches!(options.onto, ReplayTarget::Store { .. });
    let mut survey = Survey::of(recording, options.most_workers, follows_links, &options.stop)?;
    if !options.stop.load(Ordering::Relaxed) {
        space_limit::check(&survey.initial, &survey.need, options)?;
    }
    let backend: Box<dyn Backend> = match &options.onto {
        ReplayTarget::Temporary { within, keep } => {
            let root = Root::temporary(within.as_deref(), *keep)?;
            Box::new(StackBackend::new(recording, options, root, survey.inheritors.clone())?)
        }
        ReplayTarget::Directory(path) => {
            let root = Root::existing(path)?;
            Box::new(StackBackend::new(recording, options, root, survey.inheritors.clone())?)
        }
        ReplayTarget::Store { at, method } => {
            if options.stack.is_some() || options.trace.is_some() {
                return Err(ReplayError::Unfit("a store has no stack: neither stages nor a trace"));
            }
            Box::new(StoreBackend::new(at, *method, survey.inheritors.keys().copied().collect())?)
        }
    };
    let bytes =
        survey.initial.iter().map(crate::namespace::Initial::bytes).fold(0, u64::saturating_add);
    watched.begin("making files", bytes);
    let made_bytes = backend.make(&survey.initial, watched)?;
    watched.begin("replaying", survey.records);
    let mut outcome = Outcome {
        processes: recording.processes().len(),
        threads: survey.threads.len(),
        workers: survey.workers,
        records: survey.records,
        layer_calls: recording.layer_calls(),
        made_first: survey.initial.len() as u64,
        made_bytes,
        time_recorded: survey.span.1.saturating_sub(survey.span.0),
        complaints: recording.complaints(),
        ..Outcome::default()
    };
    limit_memory(survey.workers);
    let pace = Pace::new(options.timing, survey.span.0, survey.threads.len(), survey.workers);
    let progress = Progress::new(survey.workers);
    let inboxes: Vec<Inbox> = (0..survey.workers).map(|_| Inbox::default()).collect();
    let shared =
        Shared { recording, options, backend: backend.as_ref(), pace: &pace, progress: &progress };
    let tallies = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (number, inbox) in inboxes.iter().enumerate() {
            let worker = Worker::new(&shared, number as u32);
            let thread = std::thread::Builder::new().stack_size(STACK).name("replay".into());
            match thread.spawn_scoped(scope, move || worker.run(inbox)) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    inboxes.iter().for_each(Inbox::close);
                    return Err(ReplayError::Thread(error));
                }
            }
        }
        Planner::new(recording, &mut survey, options, &progress, &inboxes).run();
        inboxes.iter().for_each(Inbox::close);
        Ok(workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>())
    })?;
    let mut last = None;
    for tally in tallies {
        match tally {
            Ok(tally) => last = last.max(tally.tell(&mut outcome)),
            Err(_) => outcome.failures.push("a worker ended in a panic".into()),
        }
    }
    outcome.time_passed =
        last.map_or(0, |last| last.saturating_duration_since(pace.zero()).as_nanos() as u64);
    outcome.time_replayed = if pace.thinks() { pace.last() } else { outcome.time_passed };
    outcome.failures.extend(backend.end_all());
    outcome.first_differences.sort_by_key(|difference| difference.number);
    outcome.first_differences.truncate(options.most_differences);
    outcome.waits_given_up = progress.given_up();
    outcome.interrupted = options.stop.load(Ordering::Relaxed);
    outcome.root = backend.kept();
    Ok(outcome)
}
