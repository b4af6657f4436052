//! The results of a benchmark: rows, and the ratios between them.

use serde::Serialize;
use striate_datatype::TypeError;
use striate_file::{CallReport, Method, MethodChoice, Stats};
use striate_statistics::{Median, Ratio, median};

use super::plan::Pattern;
use super::ratios::ratios;
use super::{Contender, IoOp, IoOptions};
use crate::cost::{Cost, Wire, rounded_share};

/// One measurement.
#[derive(Clone, Debug)]
pub(super) struct IoSample {
    pub(super) mib_s: f64,
    /// Seconds of opening, setting the view and closing.
    pub(super) around: f64,
    /// What the calls of all ranks cost, where the engine counts.
    pub(super) stats: Option<Stats>,
    /// Steps that the calls of a rank form.
    pub(super) steps: u64,
    pub(super) last: Option<CallReport>,
    pub(super) wire: Option<WireSums>,
}

/// What the calls of all ranks sent to servers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WireSums {
    /// All requests but those that send descriptions.
    pub(super) steady: RequestSums,
    /// All requests of the first step.
    pub(super) first: RequestSums,
    /// Servers that held bytes of a client's step, all together.
    pub(super) servers: u64,
}

/// Requests, and their bytes with headers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestSums {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

/// All measurements of a contender, by direction.
#[derive(Debug)]
pub(super) struct IoSeries {
    contender: Contender,
    samples: [Vec<IoSample>; 2],
}

impl IoSeries {
    pub(super) fn new(contender: &Contender) -> Self {
        Self { contender: contender.clone(), samples: [Vec::new(), Vec::new()] }
    }

    pub(super) fn add(&mut self, op: IoOp, sample: IoSample) {
        self.samples[usize::from(op == IoOp::Read)].push(sample);
    }
}

/// The samples of one contender in one direction. What does not apply is absent.
#[derive(Clone, Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the document")]
pub struct IoRow {
    /// The pattern.
    pub workload: &'static str,
    /// What did the I/O.
    pub api: String,
    /// By which method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The method that was chosen, where the choice was left open: by the last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<&'static str>,
    /// Whether the bytes of each call were moved in one piece.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub contiguous: bool,
    /// The file domains of the last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<&'static str>,
    /// Type of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Number of ranks.
    pub ranks: u64,
    /// Whether calls were collective.
    pub collective: bool,
    /// The direction.
    pub op: IoOp,
    /// Bytes that lie together in the file.
    pub block: u64,
    /// Bytes of a call, where a block takes several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<u64>,
    /// Whether every rank had a file of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub file_per_process: bool,
    /// Bytes that all ranks wanted in one repetition.
    pub bytes: u64,
    /// Median rate: bytes wanted by all ranks over the time of the slowest.
    pub median_mib_s: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// All samples in order.
    pub samples: Vec<f64>,
    /// Whether every byte was verified.
    pub verified: bool,
    /// Median seconds of opening, setting the view and closing.
    pub open_s: f64,
    /// What a call cost a client: the mean over the ranks, and over the calls of a sequence.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl IoRow {
    /// The contender, as people read it.
    pub fn label(&self) -> String {
        match &self.method {
            Some(method) => format!("{} {method}", self.api),
            None => self.api.clone(),
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct IoResults {
    /// A row per direction and contender.
    pub rows: Vec<IoRow>,
    /// The comparisons.
    pub ratios: Vec<Ratio>,
}

impl IoResults {
    /// The rows of all series; `pattern` is what a contender did.
    pub(super) fn new<'p>(
        pattern: impl Fn(&Contender) -> &'p dyn Pattern,
        options: &IoOptions,
        series: &[IoSeries],
        wanted: u64,
    ) -> Result<Self, TypeError> {
        let mut results = Self::default();
        for op in [IoOp::Write, IoOp::Read] {
            let mut rows = Vec::new();
            for series in series {
                rows.extend(row(pattern(&series.contender), options, series, op, wanted)?);
            }
            results.ratios.extend(ratios(&rows, &options.goals));
            results.rows.extend(rows);
        }
        Ok(results)
    }
}

fn row(
    pattern: &dyn Pattern,
    options: &IoOptions,
    series: &IoSeries,
    op: IoOp,
    wanted: u64,
) -> Result<Option<IoRow>, TypeError> {
    let all = &series.samples[usize::from(op == IoOp::Read)];
    let samples: Vec<f64> = all.iter().map(|sample| sample.mib_s).collect();
    let around: Vec<f64> = all.iter().map(|sample| sample.around).collect();
    let Some(Median { value, ci95 }) = median(&samples) else { return Ok(None) };
    let open_s = median(&around).map_or(0.0, |median| median.value);
    let last = all.last().and_then(|sample| sample.last);
    let contender = &series.contender;
    let chosen = last
        .filter(|_| contender.method == Some(MethodChoice::Auto))
        .map(|report| report.method.name());
    Ok(Some(IoRow {
        workload: pattern.name(),
        api: contender.api.name(),
        method: contender.method_name(),
        chosen,
        contiguous: contender.contiguous,
        domains: last.and_then(|report| report.domains),
        store: options.store.clone(),
        ranks: pattern.ranks(),
        collective: options.collective,
        op,
        block: pattern.block()?,
        transfer: pattern.transfer(),
        file_per_process: pattern.files() > 1,
        bytes: wanted,
        median_mib_s: value,
        ci95,
        samples,
        verified: options.verify,
        open_s,
        cost: cost(all, pattern.ranks()),
    }))
}

/// The costs of the last sample, and of the first call of all.
fn cost(samples: &[IoSample], ranks: u64) -> Option<Cost> {
    let sample = samples.last()?;
    let (stats, clients) = (sample.stats?, ranks * sample.steps);
    let two_phase = sample.last.is_some_and(|report| report.method == Method::TwoPhase);
    let first = samples.first().and_then(|sample| sample.wire).unwrap_or_default().first;
    let wire = sample.wire.map(|WireSums { steady, servers, .. }| {
        let requests = rounded_share(steady.requests, clients);
        let first_requests = rounded_share(first.requests, ranks);
        let more = first_requests > requests;
        Wire {
            requests,
            request_bytes: rounded_share(steady.bytes, clients),
            request_bytes_per_server: rounded_share(steady.bytes, servers),
            first_call_requests: more.then_some(first_requests),
            first_call_request_bytes: more.then(|| rounded_share(first.bytes, ranks)),
        }
    });
    let mean = Cost::mean(&stats, clients);
    // Two-phase I/O resends, if only nothing.
    Some(Cost { resent: mean.resent.or(two_phase.then_some(0)), wire, ..mean })
}
