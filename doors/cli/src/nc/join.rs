//! `striate nc join`: a partitioned dataset as one file.

use std::path::PathBuf;

use clap::Args;
use striate_array::Format;

use super::copy_selection::CopySelection;
use super::copy_storage::CopyStorage;
use super::transfer::{self, Work};
use super::{RanksArgs, copy, existing, options};
use crate::CommandError;
use crate::number::counted;

/// Make one file of a partitioned dataset
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc join ocean.nc whole.nc
  striate nc join --format cdf2 ocean.nc striate://io.example/run7/ocean.nc

Datasets that PnetCDF has divided into sub-files (nc_num_subfiles) can be joined, too. Everything is kept:
dimensions, variables and attributes in their order, and all data. The file has a temporary name,
.NAME.part-..., until it is complete.")]
pub(crate) struct JoinArgs {
    /// The format of the file: cdf1, cdf2, cdf5, netcdf4 or netcdf4-classic [default: that of the
    /// dataset]
    #[arg(short = 'k', long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Replace a file that exists
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    ranks: RanksArgs,

    /// The dataset: the path or the URL of its master
    #[arg(value_name = "DATASET")]
    source: PathBuf,

    /// The file: a path or a URL
    #[arg(value_name = "FILE")]
    destination: PathBuf,
}

pub(crate) fn run(args: &JoinArgs, json: bool) -> Result<(), CommandError> {
    let storage = CopyStorage::default();
    let selection = CopySelection::default();
    let work = Work {
        source: &args.source,
        destination: &args.destination,
        format: args.format,
        existing: existing(args.force),
        named: Vec::new(),
        storage: &storage,
        selection: &selection,
        memory: None,
    };
    let joined = transfer::run(&work, args.ranks.count(), || {
        let mut options = options()?;
        options.partitioning.enabled = false;
        Ok(options)
    })?;
    let Some(row) = joined else { return Ok(()) };
    let what = match row.partitions_from {
        Some(count) => format!("joined {}", counted(count as u64, "partition")),
        None => "it was one file already, copied".into(),
    };
    copy::print(row, &what, json)
}
