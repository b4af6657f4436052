//! [`probe`]: how fast storage targets are, and which of them to use (\[SON\], Algorithm 1).
//!
//! Ranks share the targets, round robin, and each writes to several of its own at once, to files
//! without a name where that is possible (`scratch.rs`). Writes bypass the page cache where that is
//! possible; elsewhere the time to make the data durable counts. Every target has a time limit. The
//! results are gathered, every rank comes to the same [`Choice`], and rank 0 caches them for a
//! while (`cache.rs`).
//!
//! # Several at once
//!
//! Targets on one disk, or reached by one link, share its bandwidth while they are measured at
//! once. That is intended: they will share it, too, when a file is written to all of them. A target
//! that happens to be measured alone at the end seems faster, but does not make the others look
//! slow: n targets that share a link have an aggregate of at least the bandwidth of the link, which
//! is what one alone has. So such targets are all chosen. To see each target by itself, measure one
//! at a time.

mod cache;
mod measure;
mod options;
mod record;
mod scratch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, agree};
use striate_layout::targets::{Choice, choose};

use crate::{FileError, StorageTarget};
use cache::Cache;
pub use options::{ProbeOptions, TargetStores};

/// What was measured of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Bytes that were written; less than was asked for if the time limit came first.
    pub bytes: u64,
    /// How long it took; without making the file.
    pub seconds: f64,
    /// Whether the page cache was bypassed; otherwise the time to make the bytes durable is
    /// included.
    pub direct: bool,
}

impl Sample {
    /// Bytes per second.
    pub fn bandwidth(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// A target, and what was measured of it or why that failed.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The target.
    pub target: StorageTarget,
    /// What was measured, or what went wrong.
    pub outcome: Result<Sample, String>,
}

impl Measured {
    /// Bytes per second; 0 if it could not be measured.
    pub fn bandwidth(&self) -> f64 {
        self.outcome.as_ref().map_or(0.0, Sample::bandwidth)
    }
}

/// Targets, how fast they are, and which of them to use. The same on all ranks.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The targets, in the order given.
    pub targets: Vec<Measured>,
    /// Which of them to use; indices are of `targets`, bandwidths in bytes per second.
    pub choice: Choice,
    /// Bytes that were to be written to each.
    pub size: u64,
    /// The part of the highest aggregate that may be given up to use more targets.
    pub delta: f64,
    /// How old the samples are, if they are those of an earlier probe.
    pub age: Option<Duration>,
}

impl Probe {
    fn new(targets: Vec<Measured>, options: &ProbeOptions, age: Option<Duration>) -> Self {
        let bandwidths: Vec<f64> = targets.iter().map(Measured::bandwidth).collect();
        let choice = choose(&bandwidths, options.delta);
        Self { targets, choice, size: options.whole_size(), delta: options.delta, age }
    }

    /// The targets to use, in the order given.
    pub fn chosen(&self) -> impl Iterator<Item = &StorageTarget> {
        self.choice.chosen.iter().map(|&target| &self.targets[target].target)
    }

    /// The targets that could not be measured, and why.
    pub fn failed(&self) -> impl Iterator<Item = (&StorageTarget, &str)> {
        self.targets.iter().filter_map(|measured| {
            Some((&measured.target, measured.outcome.as_ref().err()?.as_str()))
        })
    }
}

/// One line, for listings.
impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bytes: f64| format!("{:.1} MiB/s", bytes / f64::from(1 << 20));
        let (choice, all) = (&self.choice, self.targets.len());
        write!(f, "{} of {all} targets, ", choice.chosen.len())?;
        write!(f, "{} or more each, ", rate(choice.lower_bound))?;
        write!(f, "{} together", rate(choice.chosen_aggregate()))?;
        if choice.chosen.len() < all {
            write!(f, " (all: {})", rate(choice.full_aggregate()))?;
        }
        match self.failed().count() {
            0 => {}
            failed => write!(f, ", {failed} failed")?,
        }
        self.age.map_or(Ok(()), |age| write!(f, ", measured {} s ago", age.as_secs()))
    }
}

/// Measures targets, or uses cached samples, and chooses among them. Collective: all ranks give the
/// same targets and the same size.
///
/// A target that cannot be measured is not an error of the call: its [`Measured::outcome`] says
/// why, and it is not chosen unless no target can be measured.
pub fn probe(
    comm: &Arc<dyn Comm>,
    targets: &[StorageTarget],
    options: &ProbeOptions,
) -> Result<Probe, FileError> {
    let comm = comm.as_ref();
    let cache = (comm.rank() == 0).then(|| Cache::new(targets, options));
    let mut start = match &cache {
        Some(cache) => record::ProbeStart {
            fingerprint: fingerprint(targets, options),
            cached: cache.recall(options.valid),
        }
        .to_bytes(),
        None => Vec::new(),
    };
    comm.broadcast(0, &mut start)?;
    let start = record::ProbeStart::from_bytes(&start);
    let start = start.ok_or_else(|| "rank 0 did not send its cached samples".to_owned());
    let same = start.and_then(|start| {
        if start.fingerprint == fingerprint(targets, options) {
            Ok(start.cached)
        } else {
            Err("its storage targets are not those of rank 0".to_owned())
        }
    });
    if let Some((age, samples)) = agree(comm, same)? {
        let outcomes = samples.into_iter().map(Ok);
        return Ok(Probe::new(joined(targets, outcomes), options, Some(age)));
    }

    let turn = |index: &usize| index % comm.size() == comm.rank();
    let mine: Vec<usize> = (0..targets.len()).filter(turn).collect();
    let part: Vec<StorageTarget> = mine.iter().map(|&index| targets[index].clone()).collect();
    let outcomes = measure::measure_all(&part, options);
    let mine = mine.into_iter().zip(outcomes).collect();
    let gathered = comm.allgather(&record::to_bytes(&mine, options.is_stopped()))?;
    let mut outcomes = vec![Err("its rank sent no result for it".to_owned()); targets.len()];
    let mut stopped = false;
    for bytes in &gathered {
        let (results, was_stopped) = record::from_bytes(bytes);
        stopped |= was_stopped;
        for (index, outcome) in results {
            if let Some(place) = outcomes.get_mut(index) {
                *place = outcome;
            }
        }
    }
    if stopped {
        return Err(FileError::Interrupted { call: "probe" });
    }
    let probe = Probe::new(joined(targets, outcomes), options, None);
    if let Some(cache) = &cache {
        cache.store(&probe.targets);
    }
    Ok(probe)
}

fn joined(
    targets: &[StorageTarget],
    outcomes: impl IntoIterator<Item = Result<Sample, String>>,
) -> Vec<Measured> {
    let join =
        |(target, outcome): (&StorageTarget, _)| Measured { target: target.clone(), outcome };
    targets.iter().zip(outcomes).map(join).collect()
}

/// The same number on all ranks with the same targets and size.
fn fingerprint(targets: &[StorageTarget], options: &ProbeOptions) -> u64 {
    let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
    crate::user_cache::hash(format!("{}\n{}", options.whole_size(), names.join("\n")).as_bytes())
}
