//! `striate stack recover`: recovers files that killed processes have left in journals and logs.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use striate_stages::recover::{Fate, Recovered, RecoveryMode, Report, recover};

use super::read;
use crate::document::Document;
use crate::{CommandError, terminal};

/// Recover files that killed programs under a stack have left in journals and logs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack recover --list fast.toml           only list the files  striate stack recover fast.toml                  recover them  striate stack recover combine /scratch/run       logs that are beside the files, below this directory

The stack is the one that the programs were run with. Files of running processes are left alone. Journals
and logs are used only if they belong to the caller, also if that is root: run the command as the user who
ran the programs. Fails if a file could not be recovered.")]
pub(crate) struct RecoverArgs {
    /// The stack that programs were run with: a name that 'striate stack list' shows, or a file
    #[arg(value_name = "STACK")]
    file: PathBuf,
    /// Directories in and below which 'combine', if its option 'directory' is not set, has left
    /// logs
    places: Vec<PathBuf>,
    /// Only list the files
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &RecoverArgs, json: bool) -> Result<(), CommandError> {
    let configuration = read(&args.file)?;
    tell(&recover(&configuration, &args.places, wanted(args.list)), json)
}

/// Whether things are to be done, or only listed.
pub(super) const fn wanted(list: bool) -> RecoveryMode {
    if list { RecoveryMode::List } else { RecoveryMode::Finish }
}

/// A file that was found, or something else; a row of the JSON document.
#[derive(Debug, Serialize)]
struct RecoveryRow<'r> {
    /// `finished`, `found`, `failed`, `in use` or `unreadable`.
    state: &'static str,
    /// Where it belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    destination: Option<&'r Path>,
    /// Where it is, or was.
    source: &'r Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl<'r> RecoveryRow<'r> {
    fn of_file(file: &'r Recovered) -> Self {
        let (state, error) = match &file.fate {
            Fate::Finished => ("finished", None),
            Fate::Found => ("found", None),
            Fate::Failed(error) => ("failed", Some(error.to_string())),
        };
        Self {
            state,
            destination: Some(&file.destination),
            source: &file.source,
            bytes: Some(file.length),
            closed: Some(file.closed),
            error,
        }
    }

    fn other(state: &'static str, source: &'r Path, error: Option<String>) -> Self {
        Self { state, destination: None, source, bytes: None, closed: None, error }
    }
}

/// Tells what was found; fails if not all of it is well.
pub(super) fn tell(report: &Report, json: bool) -> Result<(), CommandError> {
    if json {
        let mut rows: Vec<RecoveryRow<'_>> =
            report.files.iter().map(RecoveryRow::of_file).collect();
        rows.extend(report.in_use.iter().map(|path| RecoveryRow::other("in use", path, None)));
        let unreadable = report.unreadable.iter();
        rows.extend(
            unreadable.map(|(path, error)| {
                RecoveryRow::other("unreadable", path, Some(error.to_string()))
            }),
        );
        Document::new(rows, Vec::new()).print()?;
    } else {
        let text = report.to_string();
        terminal::print_fitted(if text.is_empty() { "Nothing was left behind.\n" } else { &text })?;
    }
    if report.failures() > 0 { Err(CommandError::NotWell) } else { Ok(()) }
}
