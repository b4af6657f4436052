//! Advice: rules that examine a recording, each for one access pattern that is known to cost time.
//!
//! A rule has a measured figure, a threshold and a remedy. It applies only if its calls took a
//! significant share of the time: `WORTH`. Two rules never report the same calls for the same
//! reason, and if none applies, the report says so.
//!
//! The gain is estimated from the recording itself, and the finding explains how.

mod balance;
mod data;
mod durable;
mod names;
mod shared;
mod stacks;

use serde::{Deserialize, Serialize};

use crate::aggregate::{Evidence, Mark};
use crate::formatting::{part, percent, short};
use crate::model::Model;

/// Rules are silent about what takes less than this part of the time in calls.
const WORTH: f64 = 0.05;
/// Rules are silent if all calls take less than this part of the time of the processes.
const WORTH_OF_RUN: f64 = 0.02;
/// What a call costs that a stage answers from memory, in nanoseconds.
const STAGE_NS: f64 = 300.0;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A quarter of the time in calls, or more.
    High,
    /// A tenth or more.
    Medium,
    /// Less.
    Low,
}

impl Severity {
    fn of(share: f64) -> Self {
        match share {
            share if share >= 0.25 => Self::High,
            share if share >= 0.10 => Self::Medium,
            _ => Self::Low,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// A stack that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdvisedStack {
    /// What to call it.
    pub name: String,
    /// The stack, as TOML.
    pub text: String,
    /// It can be used as it is; otherwise places in it have to be filled in.
    pub ready: bool,
}

/// Every stack that advice can show; the last is for files in one directory. A test of a crate that
/// links the stages checks that they can be built.
#[doc(hidden)]
pub fn all_stacks(files: &[String]) -> Vec<AdvisedStack> {
    stacks::all(files).collect()
}

/// What would be saved, and how that was estimated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Nanoseconds in calls, all processes together.
    pub saved_ns: u64,
    /// Their part of the time in all calls.
    pub share: f64,
    /// How it was estimated.
    pub basis: String,
}

/// Something that stands out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule.
    pub rule: String,
    /// It in a few words.
    pub title: String,
    /// How much it matters.
    pub severity: Severity,
    /// What was measured, with its unit.
    pub figure: String,
    /// From where on the rule speaks.
    pub threshold: String,
    /// What happens, in a sentence or two.
    pub sentence: String,
    /// What would help.
    pub help: String,
    /// A stack that would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<AdvisedStack>,
    /// What that would save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Files in which it happens most.
    pub files: Vec<String>,
    /// The part of the time in calls that it is about.
    pub share: f64,
    /// What the stack came to when it was tried: how many times as fast the calls were, and the
    /// whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredGain>,
}

/// What a stack came to when the recording was repeated with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredGain {
    /// How many times as fast the calls were.
    pub calls: f64,
    /// How many times as fast the whole run was.
    pub run: f64,
    /// The calls took longer with it: the advice does not hold here.
    pub refuted: bool,
}

impl Finding {
    /// Whether its stack was tried and made calls slower.
    pub fn is_refuted(&self) -> bool {
        self.measured.is_some_and(|measured| measured.refuted)
    }

    /// How much it matters, or that it was refuted.
    pub fn badge(&self) -> &'static str {
        if self.is_refuted() { "refuted" } else { self.severity.name() }
    }

    /// What was measured with its stack, in a sentence.
    pub fn outcome(&self) -> Option<String> {
        let MeasuredGain { calls, run, refuted } = self.measured?;
        let name = self.stack.as_ref().map_or("the stack", |stack| &stack.name);
        let (calls, run) = (short(calls), short(run));
        Some(if refuted {
            format!(
                "Refuted: repeated with {name}, the calls of this recording were {calls} × as fast and the whole run \
                 {run} ×, so slower. Do not use this stack here."
            )
        } else {
            format!(
                "Measured: repeated with {name}, the calls of this recording were {calls} × as fast, and the whole run \
                 {run} ×."
            )
        })
    }

    /// How the stack that it offers is used, in a sentence; nothing if there is none, or it was
    /// refuted.
    pub fn usage(&self) -> Option<String> {
        let stack = self.stack.as_ref().filter(|_| !self.is_refuted())?;
        let first = if stack.ready { "" } else { "Fill in its paths first. " };
        Some(format!(
            "{first}To use it, save it as {file} and start the program with \
             'striate run --stack {file} -- your command'.",
            file = "stack.toml",
        ))
    }
}

/// The stack that a report offers: of those that were tried the fastest, else that of the first
/// finding that has one which can be used as it is, else the first.
pub fn offered(findings: &[Finding]) -> Option<(&Finding, &AdvisedStack)> {
    let usable = || {
        let found = findings.iter().filter(|finding| !finding.is_refuted());
        found.filter_map(|finding| Some((finding, finding.stack.as_ref()?)))
    };
    let tried =
        usable().filter_map(|(finding, stack)| Some((finding.measured?.calls, finding, stack)));
    let fastest =
        tried.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, finding, stack)| (finding, stack));
    fastest.or_else(|| usable().find(|(_, stack)| stack.ready)).or_else(|| usable().next())
}

/// What rules look at.
pub(crate) struct Case<'a> {
    pub(crate) model: &'a Model,
    pub(crate) evidence: &'a Evidence,
    /// Time in all calls.
    pub(crate) io_ns: u64,
}

impl Case<'_> {
    /// The part of the time in calls, if it is worth speaking of.
    fn worth(&self, time_ns: u64) -> Option<f64> {
        let share = part(time_ns, self.io_ns);
        (share >= WORTH).then_some(share)
    }

    fn files(&self, mark: Mark) -> Vec<String> {
        self.evidence.files.worst(mark)
    }

    fn estimate(&self, saved_ns: f64, basis: impl Into<String>) -> Option<Estimate> {
        let saved_ns = saved_ns.max(0.0).min(self.io_ns as f64) as u64;
        let share = part(saved_ns, self.io_ns);
        (share >= 0.01).then(|| Estimate { saved_ns, share, basis: basis.into() })
    }
}

type Rule = fn(&Case<'_>) -> Option<Finding>;

const RULES: [Rule; 13] = [
    data::small_writes,
    data::small_reads,
    data::random,
    data::unaligned,
    data::read_back,
    durable::syncs,
    names::small_files,
    names::repeated_opens,
    names::repeated_stats,
    names::missing,
    names::storm,
    shared::one_file,
    balance::ranks,
];

/// What stands out, the most important first.
pub(crate) fn findings(model: &Model, evidence: &Evidence) -> Vec<Finding> {
    let io_ns = model.totals.sums.time_ns.all();
    let of_run = part(io_ns, model.totals.process_time_ns);
    if of_run < WORTH_OF_RUN {
        return Vec::new();
    }
    let case = Case { model, evidence, io_ns };
    let mut found: Vec<Finding> = RULES.iter().filter_map(|rule| rule(&case)).collect();
    found.extend(balance::slow_file(&case));
    // Opens, stats and missing names that other rules have reported do not count for the storm.
    let told = ["small-files", "repeated-opens", "repeated-stats", "missing-names"];
    if found.iter().any(|finding| told.contains(&finding.rule.as_str())) {
        found.retain(|finding| finding.rule != "metadata-storm");
    }
    for finding in &mut found {
        let weight =
            finding.estimate.as_ref().map_or(finding.share / 2.0, |estimate| estimate.share);
        finding.severity = Severity::of(weight);
    }
    let weight = |finding: &Finding| {
        finding.estimate.as_ref().map_or(finding.share / 2.0, |estimate| estimate.share)
    };
    found.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    found
}

/// `12 % of the time in calls`.
fn of_time(share: f64) -> String {
    format!("{} of the time in calls", percent(share))
}
