//! The effect of a stack, measured by a caller that can replay the recording.
//!
//! This crate cannot replay recordings. It names the stacks to try ([`candidates`]), passes them to
//! a [`Measure`] and stores the results in the model.

use serde::{Deserialize, Serialize};

use crate::advice::{Finding, MeasuredGain, Severity};
use crate::model::Model;

/// A stack to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// What people call it: the name of its file, or the rule that advises it.
    pub name: String,
    /// The stack, as TOML.
    pub stack: String,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Seconds of the run without the stack.
    pub seconds_without: f64,
    /// Seconds of the run with it.
    pub seconds_with: f64,
    /// Seconds in calls without it, all processes together, and in what stages wrote out when
    /// processes ended.
    pub call_seconds_without: f64,
    /// Seconds in calls with it.
    pub call_seconds_with: f64,
    /// Calls whose results were not the recorded ones.
    pub differences: u64,
    /// Number of repetitions of each; the median is reported.
    pub rounds: u32,
    /// The directory in which it was.
    pub place: String,
}

impl Measured {
    /// How many times as fast the calls are with the stack.
    pub fn gain(&self) -> f64 {
        self.call_seconds_without / self.call_seconds_with.max(1e-9)
    }

    /// How many times as fast the whole run is.
    pub fn run_gain(&self) -> f64 {
        self.seconds_without / self.seconds_with.max(1e-9)
    }
}

/// A stack that was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StackTrial {
    /// The stack.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Why it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Repeats a recording with and without a stack.
///
/// # Contract
///
/// Both runs are made in the same way and with the same think times. What cannot be measured is an
/// error with a reason for people.
pub trait Measure {
    /// Measures one stack.
    fn measure(&mut self, candidate: &Candidate) -> Result<Measured, String>;
}

impl<F: FnMut(&Candidate) -> Result<Measured, String>> Measure for F {
    fn measure(&mut self, candidate: &Candidate) -> Result<Measured, String> {
        self(candidate)
    }
}

/// The stacks that the advice of a model names and that can be tried as they are, without
/// repetition.
pub fn candidates(model: &Model) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for finding in &model.findings {
        let Some(stack) = finding.stack.as_ref().filter(|stack| stack.ready) else { continue };
        if found.iter().all(|known| known.stack != stack.text) {
            let (name, stack) = (stack.name.clone(), stack.text.clone());
            found.push(Candidate { name, stack });
        }
    }
    found
}

/// Measures stacks one after the other and adds the answers to the model.
pub fn measure(model: &mut Model, candidates: Vec<Candidate>, by: &mut dyn Measure) {
    for candidate in candidates {
        let answer = match by.measure(&candidate) {
            Ok(measured) => StackTrial { candidate, measured: Some(measured), failed: None },
            Err(reason) => StackTrial { candidate, measured: None, failed: Some(reason) },
        };
        model.what_if.push(answer);
    }
    judge(model);
}

/// Findings learn what was measured with their stacks. Those that it refutes come last and matter
/// least.
fn judge(model: &mut Model) {
    for finding in &mut model.findings {
        let Some(stack) = &finding.stack else { continue };
        let tried = model.what_if.iter().filter(|answer| answer.candidate.stack == stack.text);
        let Some(found) = tried.filter_map(|answer| answer.measured.as_ref()).next_back() else {
            continue;
        };
        let (calls, run) = (found.gain(), found.run_gain());
        finding.measured = Some(MeasuredGain { calls, run, refuted: calls < 1.0 });
        if calls < 1.0 {
            finding.severity = Severity::Low;
        }
    }
    model.findings.sort_by_key(Finding::is_refuted);
}
