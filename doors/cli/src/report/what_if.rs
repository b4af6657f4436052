//! What would change with a stack, measured by repeating the recording.

use striate_recording::Recording;
use striate_report::Model;
use striate_report::what_if::{self, Candidate, Measured};

/// Measures what was asked for, in its order, and adds the answers to the model.
pub(super) fn measure(model: &mut Model, recording: &Recording, asked: Vec<Option<Candidate>>) {
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
    let mut by = |candidate: &Candidate| repeat(recording, candidate);
    what_if::measure(model, candidates, &mut by);
}

/// Repeats a recording without and with a stack.
fn repeat(_recording: &Recording, _candidate: &Candidate) -> Result<Measured, String> {
    Err("this version cannot repeat recordings".into())
}
