//! Darshan logs as reports: [`DarshanLog`] is the part of a model about a log, and [`read`] makes
//! the model.
//!
//! Counters are complete, so totals and files come from them; individual reads and writes are known
//! only if Darshan's extended traces (DXT) were on. Then these become a recording, and time lines,
//! rates, offsets, functions and advice come from it.

mod counters;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use striate_darshan::{Direction, Log, Module};
use striate_recording::import::{self, ImportFormat};
use striate_recording::{Recording, RecordingError};
use tempfile::TempDir;

use self::counters::Counted;
use crate::aggregate::{Options, report};
use crate::model::{About, FORMAT, Model, Totals, VERSION};

/// What a module left in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRow {
    /// Its name.
    pub name: String,
    /// The version of its records.
    pub version: u32,
    /// Records that were read: of files, or, of extended traces, reads and writes.
    pub records: u64,
    /// Darshan ran out of memory and left records out.
    pub partial: bool,
    /// Its records are understood here.
    pub read: bool,
}

/// A file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRow {
    /// Where it is mounted.
    pub path: String,
    /// Its type.
    pub kind: String,
    /// Files on it that were used.
    pub files: u64,
    /// Bytes that were read from it.
    pub bytes_read: u64,
    /// Bytes that were written to it.
    pub bytes_written: u64,
    /// Time in calls on its files, all ranks together.
    pub time_ns: u64,
}

/// Which ranks used files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingRow {
    /// `all ranks`, `some ranks` or `one rank`.
    pub ranks: String,
    /// Files.
    pub files: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
}

/// The counters of one layer, all files together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRow {
    /// The module.
    pub layer: String,
    /// Files.
    pub files: u64,
    /// Counters by the names that Darshan has for them. Those that can be added are sums over all
    /// files.
    pub counters: BTreeMap<String, i64>,
    /// Time in reads, all ranks together.
    pub read_ns: u64,
    /// Time in writes.
    pub write_ns: u64,
    /// Time in everything else.
    pub metadata_ns: u64,
    /// The most frequent sizes of reads and writes, and how often.
    pub common_sizes: Vec<(u64, u64)>,
    /// Reads and writes by size.
    pub sizes: Vec<SizeCount>,
}

impl LayerRow {
    /// A counter; 0 if there is none of that name, or it was not counted.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).and_then(|value| u64::try_from(*value).ok()).unwrap_or(0)
    }

    /// What the names of its counters begin with.
    pub(crate) fn prefix(&self) -> &'static str {
        match self.layer.as_str() {
            "MPI-IO" => "MPIIO",
            "STDIO" => "STDIO",
            _ => "POSIX",
        }
    }

    fn sum(&self, names: &[&str]) -> u64 {
        let prefix = self.prefix();
        let values = names.iter().map(|name| self.counter(&format!("{prefix}_{name}")));
        values.fold(0, u64::saturating_add)
    }

    /// How often files were opened.
    pub fn opens(&self) -> u64 {
        self.sum(&["OPENS", "INDEP_OPENS", "COLL_OPENS"])
    }

    /// Reads or writes of all kinds.
    pub fn transfers(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => {
                self.sum(&["READS", "INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"])
            }
            Direction::Write => {
                self.sum(&["WRITES", "INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"])
            }
        }
    }

    /// Bytes that were read or written.
    pub fn bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => self.sum(&["BYTES_READ"]),
            Direction::Write => self.sum(&["BYTES_WRITTEN"]),
        }
    }
}

/// Reads and writes of similar size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeCount {
    /// From how many to how many bytes, as Darshan names it.
    pub bytes: String,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// The fastest and the slowest rank at a file that all used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RanksRow {
    /// The file.
    pub path: String,
    /// The module.
    pub layer: String,
    /// The rank with the least time.
    pub fastest: i64,
    /// Its time.
    pub fastest_ns: u64,
    /// Its bytes.
    pub fastest_bytes: u64,
    /// The rank with the most time.
    pub slowest: i64,
    /// Its time.
    pub slowest_ns: u64,
    /// Its bytes.
    pub slowest_bytes: u64,
}

/// How a file lies on Lustre.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutRow {
    /// Bytes of a stripe.
    pub stripe_size: i64,
    /// Stripes.
    pub stripe_count: i64,
    /// Files with this layout.
    pub files: u64,
    /// Storage targets that hold some of them.
    pub targets: u64,
}

/// What a Darshan log says besides calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DarshanLog {
    /// The version of the format.
    pub version: String,
    /// How it is packed.
    pub compression: String,
    /// The number that the scheduler gave the job.
    pub job: i64,
    /// The number of the user.
    pub user: i64,
    /// Nanoseconds since 1970 when the job began.
    pub start_ns: u64,
    /// Nanoseconds since 1970 when it ended.
    pub end_ns: u64,
    /// How long it ran.
    pub run_ns: u64,
    /// Processes.
    pub ranks: u64,
    /// The command line.
    pub command: String,
    /// Keys and values that the library and users added.
    pub metadata: BTreeMap<String, String>,
    /// Modules that left something.
    pub modules: Vec<ModuleRow>,
    /// File systems that were used, the one with most bytes first.
    pub mounts: Vec<MountRow>,
    /// File systems that were mounted and not used.
    pub unused_mounts: u64,
    /// Files by the ranks that used them.
    pub sharing: Vec<SharingRow>,
    /// Counters of POSIX, MPI-IO and STDIO.
    pub layers: Vec<LayerRow>,
    /// The fastest and slowest ranks at shared files with most time.
    pub ranks_of_files: Vec<RanksRow>,
    /// Layouts on Lustre.
    pub layouts: Vec<LayoutRow>,
    /// Reads and writes that DXT recorded; without any there is no time line and no advice.
    pub traced: u64,
}

impl DarshanLog {
    /// The counters of a layer.
    pub fn layer(&self, name: &str) -> Option<&LayerRow> {
        self.layers.iter().find(|row| row.layer == name)
    }
}

/// A recording in a directory that goes away with it.
#[derive(Debug)]
pub struct Temporary {
    /// The recording.
    pub recording: Recording,
    _directory: TempDir,
}

/// Whether a file begins as a Darshan log does.
pub fn is_log(path: &Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    if path.is_dir() {
        return Ok(false);
    }
    let mut first = Vec::new();
    std::fs::File::open(path)?.take(16).read_to_end(&mut first)?;
    Ok(striate_darshan::is_log(&first))
}

/// The contents of a log, and the recording made from its extended traces, if it has any.
pub fn read(path: &Path, options: &Options) -> Result<(Model, Option<Temporary>), RecordingError> {
    let bytes = std::fs::read(path)
        .map_err(|error| RecordingError::Read { path: path.to_path_buf(), error })?;
    let log = Log::parse(&bytes)
        .map_err(|error| RecordingError::Darshan { path: path.to_path_buf(), error })?;
    let mut complaints: Vec<String> = log.damage.iter().map(ToString::to_string).collect();
    let (temporary, mut model) = match traced(&log, path, &bytes)? {
        Some(temporary) => {
            let model = report(&temporary.recording, options);
            (Some(temporary), model)
        }
        None => (None, Model { format: FORMAT.into(), version: VERSION, ..Model::default() }),
    };
    complaints.append(&mut model.recording.complaints);
    let counted = Counted::of(&log, options.files, &mut complaints);
    let traced = model.totals.sums.calls.all();
    overlay(&mut model, counted, &log, traced);
    for module in log.modules().filter(|module| log.header.is_partial(*module)) {
        complaints.push(format!(
            "{}: the log is partial: Darshan ran out of memory and left records out",
            module.name()
        ));
    }
    let job = &log.job;
    model.recording = About {
        path: path.to_string_lossy().into_owned(),
        command: job.command.clone(),
        began_ns: u64::try_from(job.start_ns).unwrap_or(0),
        length_ns: job.length_ns.max(model.recording.length_ns),
        complaints,
    };
    model.totals.process_time_ns = model.recording.length_ns.saturating_mul(model.totals.ranks);
    Ok((model, temporary))
}

/// The recording that the extended traces of a log are.
fn traced(
    log: &Log<'_>,
    path: &Path,
    mut bytes: &[u8],
) -> Result<Option<Temporary>, RecordingError> {
    if log.header.region(Module::DXT_POSIX).length == 0 {
        return Ok(None);
    }
    let place = std::env::temp_dir();
    let directory =
        TempDir::new_in(&place).map_err(|error| RecordingError::Write { path: place, error })?;
    let into = directory.path().join("dxt.trace");
    let options = import::Options {
        format: Some(ImportFormat::Darshan),
        directory: None,
        ..import::Options::default()
    };
    let made = import::import_from(&mut bytes, &options, path, &into);
    match made {
        Ok(imported) if imported.records > 0 => {
            let recording = Recording::open(&into)?;
            Ok(Some(Temporary { recording, _directory: directory }))
        }
        // The counters may be all right, and say themselves what is wrong.
        Ok(_) | Err(RecordingError::NothingUnderstood { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Totals and files from counters take the place of those from extended traces, which have reads
/// and writes only.
fn overlay(model: &mut Model, counted: Counted, log: &Log<'_>, traced: u64) {
    let ranks = u64::try_from(log.job.processes).unwrap_or(0);
    let Counted { mut darshan, totals, mut files, other_files, any } = counted;
    if any {
        for row in &mut files {
            if let Some(known) = model.files.iter_mut().find(|known| known.path == row.path) {
                row.heat = known.heat.take();
                (row.sequential, row.strided, row.random) =
                    (known.sequential, known.strided, known.random);
            }
        }
        (model.files, model.other_files) = (files, other_files);
        let Totals { hosts, threads, busy_ns, peak, .. } = model.totals;
        model.totals = Totals { hosts, threads, busy_ns, peak, ..totals };
    }
    model.totals.processes = ranks.max(model.totals.processes);
    model.totals.ranks = ranks.max(model.totals.ranks);
    darshan.traced = traced;
    model.darshan = Some(Box::new(darshan));
}
