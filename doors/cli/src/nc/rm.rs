//! `striate nc rm`: removes datasets, each with all of its files.
//!
//! What can be removed is removed, also if another dataset cannot.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use striate_array::{ArrayError, DatasetFiles, DatasetKind};
use striate_file::File;

use super::failed;
use crate::document::Document;
use crate::{CommandError, ranks, terminal};

/// Remove datasets, each with its partitions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc rm run7/ocean.nc striate://io.example/run7/ocean.nc
  striate nc rm --force damaged.nc      also if partitions are missing

A dataset is removed by the name of its master, which it loses first; if its writer or its removal was
interrupted, what is left goes as well. Partitions that are missing, or are another dataset's by now, are
named, and nothing is removed then unless --force is given.")]
pub(crate) struct RmArgs {
    /// Remove what there is, also if partitions are missing; no failure if a dataset does not exist
    #[arg(short, long)]
    force: bool,

    /// The datasets: paths and URLs
    #[arg(required = true, value_name = "DATASET")]
    datasets: Vec<PathBuf>,
}

/// What was removed; a row of the JSON document.
#[derive(Debug, Serialize)]
struct Row {
    dataset: String,
    removed: Vec<String>,
    /// What was to be removed, and was not there.
    missing: Vec<String>,
}

pub(crate) fn run(args: &RmArgs, json: bool) -> Result<(), CommandError> {
    if !ranks::speaks() {
        return Ok(());
    }
    let mut rows = Vec::new();
    let mut first = None;
    for dataset in &args.datasets {
        match remove(dataset, args.force) {
            Ok(row) => rows.extend(row),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    if json {
        Document::new(rows, Vec::new()).print()?;
    } else {
        let missing = rows.iter().flat_map(|row| &row.missing);
        terminal::print(&missing.flat_map(|line| [line.as_str(), "\n"]).collect::<String>())?;
    }
    first.map_or(Ok(()), Err)
}

fn remove(dataset: &Path, force: bool) -> Result<Option<Row>, CommandError> {
    super::place(dataset)?;
    let name = || dataset.display().to_string();
    let cannot = |error| failed(&format!("cannot remove {}", dataset.display()), error);
    let files = match DatasetFiles::or_left_over(dataset) {
        Ok(files) => files,
        Err(_) if force && !File::exists(dataset).map_err(|error| cannot(error.into()))? => {
            return Ok(None);
        }
        Err(error @ (ArrayError::Header { .. } | ArrayError::Unfinished { .. })) => {
            return Err(CommandError::failed(
                format!("cannot remove {}", dataset.display()),
                error,
                "'rm' and 'striate fs rm' remove files that are no datasets",
            ));
        }
        Err(error) => return Err(cannot(error)),
    };
    if let (DatasetKind::Partition { of }, false) = (&files.kind, force) {
        return Err(CommandError::failed(
            format!("cannot remove {}", dataset.display()),
            format!("it is a part of '{of}'"),
            "remove that dataset, or --force to remove the part alone",
        ));
    }
    let missing: Vec<String> =
        files.problems().map(|(file, problem)| format!("{}: {problem}", file.display())).collect();
    // What was interrupted is not whole.
    if !missing.is_empty() && !force && !files.unfinished {
        return Err(CommandError::failed(
            format!("cannot remove all of {}", dataset.display()),
            missing.join("; "),
            "--force removes the rest",
        ));
    }
    let removed = files.remove().map_err(cannot)?;
    let removed = removed.iter().map(|file| file.display().to_string()).collect();
    Ok(Some(Row { dataset: name(), removed, missing }))
}
