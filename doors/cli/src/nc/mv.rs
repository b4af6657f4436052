//! `striate nc mv`: renames a dataset.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use striate_array::{ArrayError, DatasetFiles, IfExists};

use super::signal_watch::{Leftover, SignalWatch};
use super::{failed, place};
use crate::document::Document;
use crate::fs::Location;
use crate::{CommandError, ranks};

/// Rename a dataset, or move it to another directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc mv ocean.nc old.nc
  striate nc mv ocean.nc archive/
  striate nc mv striate://io.example/ocean.nc striate://io.example/old/ocean.nc

Partitions keep their names, and refer to their master by its new name. Partitions in the directory of their
master move with it to another directory, as copies if that is another file system; all others stay where they
are. On servers all of them stay. At any time one of the two names belongs to a complete dataset; after an
interruption the same command with --force continues. Of a copy of a master only the copy is renamed.
Sub-files of PnetCDF are renamed after their master. To move a dataset to another machine, copy it with
'striate nc copy', then remove it.")]
pub(crate) struct NcMvArgs {
    /// Replace an existing dataset of the new name
    #[arg(short, long)]
    force: bool,

    /// Also move partitions that refer to a master which no longer exists, and make them refer to
    /// this one
    #[arg(long)]
    adopt: bool,

    /// The dataset
    #[arg(value_name = "FROM")]
    from: PathBuf,

    /// Its new name, or a directory to move it to
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// What was renamed; a row of the JSON document.
#[derive(Debug, Serialize)]
struct RenamedDataset {
    from: String,
    to: String,
    partitions: Vec<MovedPartition>,
}

#[derive(Debug, Serialize)]
struct MovedPartition {
    from: String,
    to: String,
}

pub(crate) fn run(args: &NcMvArgs, json: bool) -> Result<(), CommandError> {
    if !ranks::is_printing_rank() {
        return Ok(());
    }
    let to = destination(&args.from, &args.to)?;
    let told = format!(
        "one of {} and {} is complete; the same command with --force continues",
        args.from.display(),
        to.display()
    );
    let _interrupt = SignalWatch::new(Leftover::Unfinished(told))?;
    let cannot = |error: ArrayError| {
        let attempted = format!("cannot rename {}", args.from.display());
        match error {
            ArrayError::Exists { name, .. } => {
                CommandError::failed(attempted, format!("{name} exists"), "--force replaces it")
            }
            error @ ArrayError::Header { .. } => CommandError::failed(
                attempted,
                error,
                "'mv' and 'striate fs mv' rename files that are not netCDF datasets",
            ),
            error => failed(&attempted, error),
        }
    };
    let adopted = |files: DatasetFiles| if args.adopt { files.adopting() } else { files };
    let if_exists = if args.force { IfExists::Replace } else { IfExists::Fail };
    let moved =
        DatasetFiles::of(&args.from).and_then(|files| adopted(files).rename(&to, if_exists));
    let moved = moved.map_err(cannot)?;
    if !json {
        return Ok(());
    }
    let text = |path: &Path| path.display().to_string();
    let partitions =
        moved.iter().map(|(from, to)| MovedPartition { from: text(from), to: text(to) }).collect();
    let row = RenamedDataset { from: text(&args.from), to: text(&to), partitions };
    Document::new(vec![row], Vec::new()).print()
}

/// The new name.
fn destination(from: &Path, to: &Path) -> Result<PathBuf, CommandError> {
    place(from)?;
    let is_directory = match place(to)? {
        Location::Local(path) => path.is_dir() || to.to_string_lossy().ends_with('/'),
        Location::Remote(url) => url.path.is_empty() || url.path.ends_with('/'),
        Location::Object(url) => url.key.is_empty() || url.key.ends_with('/'),
        Location::Pool(url) => url.name.is_empty() || url.name.ends_with('/'),
    };
    if !is_directory {
        return Ok(to.into());
    }
    let from = from.to_string_lossy();
    let name = from.rsplit('/').next().unwrap_or(&from);
    let to = to.to_string_lossy();
    Ok(format!("{}/{name}", to.trim_end_matches('/')).into())
}
