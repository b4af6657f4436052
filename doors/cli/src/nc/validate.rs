//! `striate nc validate`: every violation of the format in files.

mod hdf5;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressStyle;
use serde::Serialize;
use striate_array::DatasetFiles;
use striate_array::format::{DecodeError, Header, Problem, validate};
use striate_comm::Threads;
use striate_store::Store;

use super::hdf5_file::open_plain;
use super::signal_watch::{Leftover, SignalWatch};
use super::{open_partial, store};
use crate::document::Document;
use crate::{CommandError, ranks, terminal};

/// What is read of a file before the length of its header is known.
const FIRST: u64 = 64 << 10;
/// Longer headers are not read.
const LONGEST: u64 = 1 << 30;

/// Find every violation of the format in files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc validate ocean.nc striate://io.example/run7/ocean.nc
  striate nc validate --json *.nc

Of classic files, only headers are read. For a partitioned dataset the partitions are checked as well, and
whether they are those that the master lists. Of netCDF-4 and other HDF5 files, all metadata is read, and
every chunk is decoded. Exit status: 0 if all files are valid, 1 if one is not.")]
pub(crate) struct ValidateArgs {
    /// The files: paths and URLs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What was found in a file; a row of the JSON document.
#[derive(Debug, Serialize)]
struct ValidatedFile {
    file: String,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    violations: Vec<ViolationRow>,
}

#[derive(Debug, Serialize)]
struct ViolationRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    /// Whether every reader copes with it.
    warning: bool,
    what: String,
}

pub(crate) fn run(args: &ValidateArgs, json: bool) -> Result<(), CommandError> {
    if !ranks::is_printing_rank() {
        return Ok(());
    }
    let interrupt = SignalWatch::new(Leftover::Nothing("not all files were looked at"))?;
    let bar = interrupt.bar();
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_length(args.files.len() as u64);
    let mut found = Vec::new();
    let mut unread = None;
    for file in &args.files {
        bar.set_message(file.display().to_string());
        bar.inc(1);
        match look(file) {
            Ok(master) => {
                found.push(master);
                found.extend(partitions(file));
            }
            // The next file is checked all the same.
            Err(error) => drop(unread.get_or_insert(error)),
        }
    }
    drop(interrupt);
    let all_well = found.iter().all(|file| file.valid);
    if json {
        Document::new(found, Vec::new()).print()?;
    } else {
        terminal::print(&found.iter().map(ValidatedFile::text).collect::<String>())?;
    }
    match unread {
        Some(error) => Err(error),
        None if all_well => Ok(()),
        None => Err(CommandError::NotWell),
    }
}

fn look(path: &Path) -> Result<ValidatedFile, CommandError> {
    if let Some(opened) = open_plain(path)? {
        let (format, rows) = match opened {
            Ok((file, _)) => {
                let hdf5::Hdf5Findings { format, rows } = hdf5::look(&file);
                (format, rows)
            }
            Err(error) => (None, vec![hdf5::row(&error, 0)]),
        };
        let valid = rows.iter().all(|row| row.warning);
        let file = path.display().to_string();
        return Ok(ValidatedFile { file, valid, format, violations: rows });
    }
    let store = store(path)?;
    let (bytes, decoded, len) = header(store.as_ref())?;
    let violations = validate(&bytes, len);
    let rows: Vec<ViolationRow> = violations
        .into_iter()
        .map(|found| ViolationRow { at: found.at, warning: found.warning, what: found.what })
        .collect();
    Ok(ValidatedFile {
        file: path.display().to_string(),
        valid: rows.iter().all(|row| row.warning),
        format: decoded.ok().map(|(header, _)| header.format.to_string()),
        violations: rows,
    })
}

/// The partitions of a dataset, if it has some: each as a file, and as a part of the dataset.
fn partitions(path: &Path) -> Vec<ValidatedFile> {
    let Ok(files) = DatasetFiles::of(path) else { return Vec::new() };
    if files.partitions.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<ValidatedFile> =
        files.partitions.iter().map(|part| look_at(&part.file)).collect();
    // One rank: its errors are its own.
    let opened = Threads::new(1).try_run(|comm| {
        let dataset = open_partial(&comm, path)?;
        let infos = dataset.partitions().unwrap_or_default();
        Ok::<_, CommandError>(infos.iter().map(|info| info.missing.clone()).collect::<Vec<_>>())
    });
    match opened {
        Ok(problems) => {
            for (found, problem) in found.iter_mut().zip(problems.concat()) {
                found.add(problem);
            }
        }
        // The master itself is at fault.
        Err(error) => {
            let file = path.display().to_string();
            let mut master =
                ValidatedFile { file, valid: true, format: None, violations: Vec::new() };
            master.add(Some(error.to_string()));
            found.push(master);
        }
    }
    found
}

/// What is found in a partition, also that it cannot be read.
fn look_at(path: &Path) -> ValidatedFile {
    look(path).unwrap_or_else(|error| {
        let file = path.display().to_string();
        let mut found = ValidatedFile { file, valid: true, format: None, violations: Vec::new() };
        found.add(Some(error.to_string()));
        found
    })
}

/// The first bytes of a file, the header in them, and the file's length.
type Begin = (Vec<u8>, Result<(Header, u64), DecodeError>, u64);

/// Reads as much of a file as its header needs.
pub(super) fn header(store: &dyn Store) -> Result<Begin, CommandError> {
    let len = store.len()?;
    let mut wanted = FIRST;
    loop {
        let mut bytes = vec![0; wanted.min(len) as usize];
        let read = store.read_at(0, &mut bytes)?;
        bytes.truncate(read);
        let decoded = Header::decode(&bytes);
        let needed = match &decoded {
            Err(DecodeError { problem: Problem::Truncated { needed }, .. }) => *needed,
            _ => 0,
        };
        if needed == 0 || wanted >= len || needed > len.min(LONGEST) {
            return Ok((bytes, decoded, len));
        }
        wanted = needed.max(2 * wanted).min(LONGEST);
    }
}

impl ValidatedFile {
    /// Adds its problems as a part of a dataset, unless they were reported before.
    fn add(&mut self, problem: Option<String>) {
        let Some(what) = problem else { return };
        if self.violations.iter().all(|row| row.warning) {
            self.violations.push(ViolationRow { at: None, warning: false, what });
        }
        self.valid = false;
    }

    fn text(&self) -> String {
        let file = terminal::heading(&self.file);
        let mut text = match &self.format {
            Some(format) if self.valid => format!("{file}: valid {format}\n"),
            _ => format!("{file}: not valid\n"),
        };
        for ViolationRow { at, warning, what } in &self.violations {
            let warning = if *warning { "warning: " } else { "" };
            let at = at.map_or_else(String::new, |at| format!("at byte {at}: "));
            let _ = writeln!(text, "  {warning}{at}{what}");
        }
        text
    }
}
