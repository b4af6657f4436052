//! One pass over a recording that aggregates it into a model, in memory that does not grow with the
//! number of calls.
//!
//! All tables are bounded: files are kept in a sketch of the heaviest ([`files`]), open files up to
//! a limit ([`open_files`]), times in bins whose number is fixed. Processes are known before the
//! pass.

mod access_pattern;
mod calls;
mod files;
mod heat;
mod in_flight;
mod indicators;
mod layers;
mod open_files;
mod pass;
mod process;
mod time_bins;

pub(crate) use self::files::Files;
pub(crate) use self::indicators::{Indicators, Mark, PAGE, SMALL, SmallTransfers};
pub(crate) use self::process::is_rank_like;

use striate_recording::{Entry, Filter, Recording};

use self::layers::Layers;
use self::pass::Pass;
use crate::advice;
use crate::model::{About, FORMAT, Model, VERSION};

/// How many files, processes and functions are listed individually.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Files in the table.
    pub files: usize,
    /// Files whose offsets over time are kept.
    pub heats: usize,
    /// Processes in the table.
    pub processes: usize,
    /// Lanes of the timeline.
    pub lanes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { files: 40, heats: 12, processes: 256, lanes: 32 }
    }
}

/// The model of a recording, with advice.
pub fn report(recording: &Recording, options: &Options) -> Model {
    report_with(recording, options, &mut |_| ())
}

/// Calls between two reports of progress.
const STEP: u64 = 16_384;

/// As [`report`], and reports the number of processed calls from time to time.
pub fn report_with(
    recording: &Recording,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Model {
    let mut done = 0;
    let mut pass = Pass::new(recording, options);
    let mut layers = Layers::new(recording);
    let mut order = recording.nested(&Filter::default());
    for (process, entry) in order.by_ref() {
        done += 1;
        if done % STEP == 0 {
            progress(done);
        }
        match entry {
            Entry::Layer(layer) => {
                pass.add_layer(process, &layer);
                layers.add(process, &layer);
            }
            Entry::Call(record, above) => {
                pass.add(process, &record);
                if let Some(above) = above {
                    layers.beneath(process, &above, &record);
                }
            }
        }
    }
    let mut complaints = recording.complaints();
    complaints.extend(order.damages().iter().map(|(process, damage)| {
        format!("{}: {damage}", recording.processes()[*process].source())
    }));
    let (model, evidence) = pass.finish();
    let recording = About {
        path: recording.path().to_string_lossy().into_owned(),
        command: process::started(recording),
        began_ns: recording.began(),
        length_ns: recording.length(),
        complaints,
    };
    let mpi_io = layers.finish(options.processes);
    let mut model = Model { format: FORMAT.into(), version: VERSION, recording, mpi_io, ..model };
    model.findings = advice::findings(&model, &evidence);
    model
}

/// What rules look at besides the model.
#[derive(Debug)]
pub(crate) struct Evidence {
    pub(crate) indicators: Indicators,
    pub(crate) files: Files,
}
