//! `striate stack unpack`: extracts the files of containers.

use std::path::PathBuf;

use clap::Args;
use striate_stages::recover::unpack;

use super::recover::{tell, wanted};
use crate::CommandError;

/// Extract the files of a container that 'combine' with unpack = false has left
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack unpack --list /scratch/containers    which files there are
  striate stack unpack /scratch/containers           create them, and remove the containers
  striate stack unpack --into /tmp/look /scratch/containers")]
pub(crate) struct UnpackArgs {
    /// A container, or a directory with some
    container: PathBuf,
    /// Create the files below this directory, under their full paths, and keep the containers
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Only list the files
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &UnpackArgs, json: bool) -> Result<(), CommandError> {
    let report = unpack(&args.container, args.into.as_deref(), wanted(args.list));
    let report = report.map_err(|error| {
        let attempted = format!("cannot read {}", args.container.display());
        CommandError::failed(attempted, error, "give a container, or the directory that it is in")
    })?;
    tell(&report, json)
}
