//! `bench pack`: Striate's packing compared with memcpy, hand-written loops and both MPIs.
//!
//! Every case is measured in rounds; in each round every engine takes one sample. Ratios are taken
//! within rounds, so that what disturbs a round disturbs both sides of a ratio.

mod cases;
mod engine;

use std::time::Duration;

use serde::Serialize;
use striate_datatype::TypeError;
use striate_statistics::{Median, Ratio, median};
use thiserror::Error;

pub use crate::peer::Direction;
use crate::peer::{Peer, PeerError};
pub use cases::{Family, PackCase, Size};
use engine::PackEngine;

/// Why the benchmark ended early.
#[derive(Debug, Error)]
pub enum PackBenchError {
    /// A peer failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A case could not be described.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// An engine produced other bytes than ours.
    #[error("{case} ({size}): {engine} and striate disagree after {direction}", direction = .direction.name())]
    Disagreement {
        /// The case.
        case: &'static str,
        /// Its size.
        size: &'static str,
        /// The engine that differs.
        engine: &'static str,
        /// After which copy.
        direction: Direction,
    },
}

/// What to run.
#[derive(Clone, Debug)]
pub struct PackOptions {
    /// Samples per engine, case and direction.
    pub samples: usize,
    /// Only cases whose name contains this.
    pub only: Option<String>,
    /// Least time of a sample; copies are repeated to reach it.
    pub sample_time: Duration,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self { samples: 15, only: None, sample_time: Duration::from_millis(4) }
    }
}

/// The samples of one engine.
#[derive(Clone, Debug, Serialize)]
pub struct PackRow {
    /// The case.
    pub case: &'static str,
    /// `cache` or `large`.
    pub size: &'static str,
    /// `pack` or `unpack`.
    pub direction: Direction,
    /// `striate`, `memcpy`, `loop`, `openmpi`, `mpich`.
    pub implementation: &'static str,
    /// Bytes packed by one copy.
    pub bytes: u64,
    /// Median rate in 10⁹ bytes per second.
    pub median_gb_s: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// All samples in order.
    pub samples: Vec<f64>,
}

/// All that was measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PackResults {
    /// A row per case, size, direction and engine.
    pub rows: Vec<PackRow>,
    /// The comparisons that have a goal.
    pub ratios: Vec<Ratio>,
    /// The peers in their own words.
    pub peers: Vec<String>,
}

/// Runs the benchmark; `progress` is called with each case as it starts, its index and their
/// number.
pub fn run(
    options: &PackOptions,
    mut progress: impl FnMut(&PackCase, usize, usize),
) -> Result<PackResults, PackBenchError> {
    let cases: Vec<PackCase> = PackCase::all()
        .into_iter()
        .filter(|case| options.only.as_ref().is_none_or(|only| case.name.contains(only.as_str())))
        .collect();
    let mut peers = Peer::start_all()?;
    let mut results = PackResults::default();
    for peer in &mut peers {
        results.peers.push(peer.version()?);
    }
    for (i, case) in cases.iter().enumerate() {
        progress(case, i, cases.len());
        run_case(case, options, &mut peers, &mut results)?;
    }
    Ok(results)
}

/// How often the buffers of a case are allocated again during its samples. Which pages a buffer is
/// given decides which cache lines compete: it is part of the noise, and is sampled too.
const PLACEMENTS: usize = 5;

fn run_case(
    case: &PackCase,
    options: &PackOptions,
    peers: &mut [Peer],
    results: &mut PackResults,
) -> Result<(), PackBenchError> {
    const DIRECTIONS: [Direction; 2] = [Direction::Pack, Direction::Unpack];
    // Samples of each engine, by direction.
    let mut samples: Vec<(&'static str, [Vec<f64>; 2])> = Vec::new();
    let placements = PLACEMENTS.min(options.samples.max(1));
    for placement in 0..placements {
        let mut engines = PackEngine::all(case, peers)?;
        samples.resize_with(engines.len(), || ("", [Vec::new(), Vec::new()]));
        let rounds = options.samples * (placement + 1) / placements
            - options.samples * placement / placements;
        for (d, direction) in DIRECTIONS.into_iter().enumerate() {
            if placement == 0 {
                engine::compare(case, &mut engines, direction)?;
            }
            let repetitions = engines
                .iter_mut()
                .map(|engine| engine.repetitions(direction, options.sample_time))
                .collect::<Result<Vec<_>, _>>()?;
            for _ in 0..rounds {
                for (i, engine) in engines.iter_mut().enumerate() {
                    engine.time(direction, 1)?; // the caches of the one before are not ours
                    let time = engine.time(direction, repetitions[i])?;
                    let bytes = case.bytes() * u64::from(repetitions[i]);
                    samples[i].0 = engine.name();
                    samples[i].1[d].push(bytes as f64 / time.as_nanos().max(1) as f64);
                }
            }
        }
    }
    for (d, direction) in DIRECTIONS.into_iter().enumerate() {
        let rows: Vec<PackRow> = samples
            .iter_mut()
            .filter_map(|(name, samples)| {
                row(case, direction, name, std::mem::take(&mut samples[d]))
            })
            .collect();
        results.ratios.extend(ratios(case, direction, &rows));
        results.rows.extend(rows);
    }
    Ok(())
}

fn row(
    case: &PackCase,
    direction: Direction,
    implementation: &'static str,
    samples: Vec<f64>,
) -> Option<PackRow> {
    let Median { value, ci95 } = median(&samples)?;
    Some(PackRow {
        case: case.name,
        size: case.size.name(),
        direction,
        implementation,
        bytes: case.bytes(),
        median_gb_s: value,
        ci95,
        samples,
    })
}

/// The comparisons with a goal: the faster MPI for every case, the loop for vectors.
fn ratios(case: &PackCase, direction: Direction, rows: &[PackRow]) -> Vec<Ratio> {
    let find = |name: &str| rows.iter().find(|row| row.implementation == name);
    let Some(ours) = find("striate") else { return Vec::new() };
    let faster_mpi = [find("openmpi"), find("mpich")]
        .into_iter()
        .flatten()
        .max_by(|a, b| a.median_gb_s.total_cmp(&b.median_gb_s));
    let comparisons = [
        faster_mpi.map(|row| (row, case.family.goal_over_mpi())),
        find("loop").map(|row| (row, 0.9)),
    ];
    comparisons
        .into_iter()
        .flatten()
        .filter_map(|(other, goal)| {
            let name = format!(
                "{} of {} ({}): striate over {}",
                direction.name(),
                case.name,
                case.size.name(),
                other.implementation
            );
            Ratio::within(name, &ours.samples, &other.samples, Some(goal))
        })
        .collect()
}
