//! `striate nc recover`: what killed writers have left, file by file, and what can be done about
//! it.
//!
//! Looking changes nothing. A change that an option asks for is one write within a sector, or the
//! cut of a tail that no state of the file refers to, so a kill during it leaves the file as it was
//! or as it is to become.

mod classic;
mod hdf5;
mod leftovers;
mod writers;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use striate_store::rados::{RadosCreation, RadosFile};
use striate_store::remote::{RemoteFile, RemoteOptions};
use striate_store::{PosixFile, PosixOptions, Store};

use super::hdf5_file::has_signature;
use super::signal_watch::{Leftover, SignalWatch};
use super::{place, store};
use crate::document::Document;
use crate::fs::Location;
use crate::unfinished::read_only;
use crate::{CommandError, ranks, terminal};

/// Report what killed writers have left, and finish what can be finished
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc recover run7/*.nc                what killed programs have left; nothing is changed
  striate nc recover --truncate ocean.nc      and give back the space that no state of the file uses
  striate nc recover --clear model.h5         a file that another HDF5 library left marked as open

A netCDF-4 file whose writer was killed is in the state of its last sync: it is whole, and the bytes behind
the end of that state are data that were never synced. --truncate cuts them off, if all metadata can be read
and nothing refers to them. A file that was killed before its first sync has no superblock: nothing was synced.
--clear removes the mark 'open for writing' that other HDF5 libraries leave (as h5clear does), after all
metadata was read. A classic file counts a record when it was written; --records sets the count to the
records that the file has room for, more or fewer. Their values are as far as they were written.

Files that a program has open are not changed, as far as this machine can tell: see to it that no program on
another machine writes them. Exit status: 0 if all files are whole, or were made so; 1 if something is
left; 2 wrong usage.")]
pub(crate) struct NcRecoverArgs {
    /// Cut off what is behind the end of the last synced state, if nothing refers to it (netCDF-4
    /// and other HDF5 files)
    #[arg(long)]
    truncate: bool,

    /// Remove the mark that a file is open for writing (HDF5 files of other libraries)
    #[arg(long)]
    clear: bool,

    /// Set the number of records to those that the file has room for (classic files)
    #[arg(long)]
    records: bool,

    /// The files: paths and URLs
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum RecoveredState {
    /// All that its header says is there.
    Whole,
    /// The last synced state is whole, and something is left of what came later.
    Synced,
    /// Its writer has not finished it; what it has cannot be told from what it lacks.
    Unfinished,
    /// Nothing was ever synced.
    Unsynced,
    /// It has to be obtained again, or is none of netCDF or HDF5.
    Damaged,
    /// There is no file of this name, only what an interrupted command has left.
    Missing,
}

/// What was found in a file; a row of the JSON document.
#[derive(Debug, Serialize)]
struct RecoveredFile {
    file: String,
    state: RecoveredState,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// Bytes of the file, after what was done.
    size: u64,
    /// Where the last synced state ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    /// Bytes before that end that nothing refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    unused: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variables: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    findings: Vec<RecoveryFinding>,
}

/// Something that a writer or a command has left.
#[derive(Debug, Serialize)]
struct RecoveryFinding {
    what: String,
    /// What can be done about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
    done: bool,
}

impl RecoveredFile {
    fn new(path: &Path, state: RecoveredState, size: u64) -> Self {
        Self {
            file: path.display().to_string(),
            state,
            format: None,
            size,
            end: None,
            unused: None,
            variables: None,
            records: None,
            findings: Vec::new(),
        }
    }

    fn found(&mut self, what: impl Into<String>, hint: impl Into<String>) {
        let (what, hint) = (what.into(), hint.into());
        self.findings.push(RecoveryFinding { what, hint, done: false });
    }

    fn done(&mut self, what: impl Into<String>) {
        let finding = RecoveryFinding { what: what.into(), hint: String::new(), done: true };
        self.findings.push(finding);
    }

    fn is_well(&self) -> bool {
        let is_whole = matches!(self.state, RecoveredState::Whole | RecoveredState::Synced);
        is_whole && self.findings.iter().all(|finding| finding.done)
    }

    fn text(&self) -> String {
        let state = match self.state {
            RecoveredState::Whole => "whole",
            RecoveredState::Synced => "in the state of its last sync",
            RecoveredState::Unfinished => "unfinished",
            RecoveredState::Unsynced => "nothing was synced",
            RecoveredState::Damaged => "damaged",
            RecoveredState::Missing => "there is no such file",
        };
        let mut text = format!("{}: {state}", terminal::heading(&self.file));
        if let Some(format) = &self.format {
            let _ = write!(text, ", {format}");
        }
        if let Some(variables) = self.variables {
            let _ = write!(text, ", {}", crate::number::counted(variables as u64, "variable"));
        }
        if let Some(records) = self.records {
            let _ = write!(text, ", {}", crate::number::counted(records, "record"));
        }
        text.push('\n');
        if let Some(unused) = self.unused.filter(|&unused| unused > 0) {
            let unused = crate::number::bytes(unused);
            let _ = writeln!(
                text,
                "  {unused} within it are not used; 'striate nc copy' leaves them out"
            );
        }
        for RecoveryFinding { what, hint, done } in &self.findings {
            let done = if *done { "done: " } else { "" };
            let hint = if hint.is_empty() { String::new() } else { format!(": {hint}") };
            let _ = writeln!(text, "  {done}{what}{hint}");
        }
        text
    }
}

pub(crate) fn run(args: &NcRecoverArgs, json: bool) -> Result<(), CommandError> {
    if !ranks::is_printing_rank() {
        return Ok(());
    }
    let interrupt = SignalWatch::new(Leftover::Nothing("not all files were looked at"))?;
    let mut found = Vec::new();
    let mut unread = None;
    for file in &args.files {
        match look(file, args, &interrupt) {
            Ok(mut row) => {
                leftovers::add(file, &mut row);
                found.push(row);
            }
            // The next file is looked at all the same.
            Err(error) => drop(unread.get_or_insert(error)),
        }
    }
    drop(interrupt);
    let all_well = found.iter().all(RecoveredFile::is_well);
    if json {
        Document::new(found, Vec::new()).print()?;
    } else {
        terminal::print(&found.iter().map(RecoveredFile::text).collect::<String>())?;
    }
    match unread {
        Some(error) => Err(error),
        None if all_well => Ok(()),
        None => Err(CommandError::NotWell),
    }
}

fn look(
    path: &Path,
    args: &NcRecoverArgs,
    interrupt: &SignalWatch,
) -> Result<RecoveredFile, CommandError> {
    if let Location::Local(local) = place(path)?
        && !local.exists()
        && leftovers::has_some(&local)
    {
        return Ok(RecoveredFile::new(path, RecoveredState::Missing, 0));
    }
    let store = store(path)?;
    if has_signature(store.as_ref()) {
        return hdf5::look(path, store, args, interrupt);
    }
    let mut magic = [0; 3];
    let read = store.read_at(0, &mut magic)?;
    if read == magic.len() && magic.eq_ignore_ascii_case(b"CDF") {
        return classic::look(path, store.as_ref(), args, interrupt);
    }
    hdf5::without_superblock(path, store.as_ref())
}

/// A file as bytes, to be changed.
fn writable(path: &Path) -> Result<Box<dyn Store>, CommandError> {
    Ok(match place(path)? {
        Location::Local(path) => Box::new(PosixFile::open(&path, &PosixOptions::read_write())?),
        Location::Remote(url) => Box::new(RemoteFile::open(&url, &RemoteOptions::default())?),
        Location::Object(url) => return Err(read_only(&url).into()),
        Location::Pool(url) => Box::new(RadosFile::open(&url, &RadosCreation::default())?),
    })
}

/// Changes a file that no program has open: `change` gets it only if it is as long as it was, and
/// its first bytes are those that were looked at.
fn change(
    path: &Path,
    begin: (u64, &[u8]),
    size: u64,
    interrupt: &SignalWatch,
    change: impl FnOnce(&dyn Store) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let attempted = || format!("cannot change {}", path.display());
    let _lock = writers::exclude(path)?;
    let file = writable(path)?;
    let (at, known) = begin;
    let mut now = vec![0; known.len()];
    let read = file.read_at(at, &mut now)?;
    if file.len()? != size || now[..read] != *known {
        return Err(CommandError::failed(
            attempted(),
            "it changed while it was looked at",
            "a program writes it",
        ));
    }
    // A signal in between waits for the end of it.
    let told = format!("{} was changed", path.display());
    interrupt.between(
        || {
            change(file.as_ref())?;
            Ok(file.sync()?)
        },
        Leftover::Unfinished(told),
    )
}
