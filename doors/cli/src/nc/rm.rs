//! `striate nc rm`: removes datasets, each with all of its files.
//!
//! What can be removed is removed, also if another dataset cannot.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use striate_array::{ArrayError, DatasetFiles, DatasetKind, Ownership, PartitionFile};
use striate_file::File;

use super::failed;
use super::signal_watch::{Leftover, SignalWatch};
use crate::document::Document;
use crate::number::counted;
use crate::{CommandError, ranks, terminal};

/// Remove datasets, each with its partitions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc rm run7/ocean.nc striate://io.example/run7/ocean.nc
  striate nc rm --force damaged.nc      also if partitions are missing

A dataset is removed by the name of its master, which is renamed first; files that an interrupted writer or
removal has left are removed as well. Partitions are removed if they are regular files that refer to this
master. Of a copy of a master only the copy itself is removed: the partitions belong to the master that they
refer to, and are kept. If partitions are missing, belong to another dataset, or cannot be shown to belong to
this one, they are listed, and nothing is removed unless --force is given, which keeps them.")]
pub(crate) struct NcRmArgs {
    /// Remove the files that exist, also if partitions are missing; do not fail if a dataset does
    /// not exist
    #[arg(short, long)]
    force: bool,

    /// Also remove partitions that refer to a master which no longer exists (it was renamed after
    /// it had been copied or restored, or an earlier version wrote them)
    #[arg(long)]
    adopt: bool,

    /// Also remove partitions outside the dataset's directory and its targets
    #[arg(long)]
    outside: bool,

    /// The datasets: paths and URLs
    #[arg(required = true, value_name = "DATASET")]
    datasets: Vec<PathBuf>,
}

/// What was removed; a row of the JSON document.
#[derive(Debug, Serialize)]
struct RemovedDataset {
    dataset: String,
    removed: Vec<String>,
    /// What was to be removed, and was not there, or not this dataset's.
    missing: Vec<String>,
    /// Partitions that the master lists and that are another one's, or may be.
    kept: Vec<String>,
    /// The master of which it was a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_of: Option<String>,
}

pub(crate) fn run(args: &NcRmArgs, json: bool) -> Result<(), CommandError> {
    if !ranks::is_printing_rank() {
        return Ok(());
    }
    let told = "not everything was removed; the same command with --force goes on".to_owned();
    let _interrupt = SignalWatch::new(Leftover::Unfinished(told))?;
    let mut rows = Vec::new();
    let mut first = None;
    for dataset in &args.datasets {
        match remove(dataset, args) {
            Ok(row) => rows.extend(row),
            Err(error) => drop(first.get_or_insert(error)),
        }
    }
    if json {
        Document::new(rows, Vec::new()).print()?;
    } else {
        terminal::print(&rows.iter().map(RemovedDataset::text).collect::<String>())?;
    }
    first.map_or(Ok(()), Err)
}

impl RemovedDataset {
    fn text(&self) -> String {
        let mut text: String = self.missing.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        if let Some(master) = &self.copy_of {
            let partitions = match self.kept.len() {
                1 => "its partition belongs to that and is kept".to_owned(),
                count => format!(
                    "its {} belong to that and are kept",
                    counted(count as u64, "partition")
                ),
            };
            let _ = writeln!(text, "{} was a copy of {master}: {partitions}", self.dataset);
        } else {
            text.extend(self.kept.iter().map(|line| format!("kept: {line}\n")));
        }
        text
    }
}

fn remove(dataset: &Path, args: &NcRmArgs) -> Result<Option<RemovedDataset>, CommandError> {
    super::place(dataset)?;
    let force = args.force;
    let name = || dataset.display().to_string();
    let cannot = |error| failed(&format!("cannot remove {}", dataset.display()), error);
    let mut files = match DatasetFiles::of_or_interrupted(dataset) {
        Ok(files) => files,
        Err(_) if force && !File::exists(dataset).map_err(|error| cannot(error.into()))? => {
            return Ok(None);
        }
        Err(error @ (ArrayError::Header { .. } | ArrayError::Unfinished { .. })) => {
            return Err(CommandError::failed(
                format!("cannot remove {}", dataset.display()),
                error,
                "'rm' and 'striate fs rm' remove files that are not datasets",
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
    if args.adopt {
        files = files.adopting();
    }
    if args.outside {
        files = files.reaching_outside();
    }
    let copy_of = files.copy_of().map(|master| master.display().to_string());
    let missing: Vec<String> =
        files.problems().map(|(file, problem)| format!("{}: {problem}", file.display())).collect();
    let unclear: Vec<(String, &str)> = files.partitions.iter().filter_map(not_proven).collect();
    if let (Some((reason, hint)), false) = (unclear.first(), force || copy_of.is_some()) {
        return Err(CommandError::failed(
            format!("cannot remove all of {}", dataset.display()),
            reason.clone(),
            *hint,
        ));
    }
    // What was interrupted is not whole, and of a copy nothing but itself is removed.
    if !missing.is_empty() && !force && !files.unfinished && copy_of.is_none() {
        return Err(CommandError::failed(
            format!("cannot remove all of {}", dataset.display()),
            missing.join("; "),
            "--force removes the rest",
        ));
    }
    let of_others = files.partitions.iter().filter_map(|part| match &part.ownership {
        Ownership::OfMaster(_) => Some(part.file.display().to_string()),
        _ => None,
    });
    let kept = of_others.chain(unclear.into_iter().map(|(reason, _)| reason)).collect();
    let removed = files.remove().map_err(cannot)?;
    let removed = removed.iter().map(|file| file.display().to_string()).collect();
    Ok(Some(RemovedDataset { dataset: name(), removed, missing, kept, copy_of }))
}

/// What to say of a partition that may be another master's, and what to do.
fn not_proven(part: &PartitionFile) -> Option<(String, &'static str)> {
    let file = part.file.display();
    match &part.ownership {
        Ownership::Unproven(reason) => Some((
            format!("{file}: {reason}"),
            "if this is the only master of these partitions, --adopt removes them; --force keeps them",
        )),
        Ownership::Outside => Some((
            format!("{file}: it lies outside of the dataset's directory and its targets"),
            "--outside removes it as well; --force keeps it",
        )),
        _ => None,
    }
}
