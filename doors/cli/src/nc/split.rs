//! `striate nc split`: a dataset as a master and partitions \[SON\].

use std::path::PathBuf;

use clap::Args;
use striate_array::{Format, Options};
use striate_file::{StorageTarget, Switch};

use super::copy_selection::CopySelection;
use super::copy_storage::CopyStorage;
use super::transfer::{self, Work};
use super::{RanksArgs, copy, existing, options};
use crate::CommandError;
use crate::number::counted;

/// Divide a dataset into partition files on several storage targets
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc split ocean.nc run7/ocean.nc --targets /scratch1,/scratch2,/scratch3
  striate nc split ocean.nc ocean4.nc --partitions 4
  striate nc split ocean.nc striate://io.example/ocean.nc --targets striate://io.example --probe
  striate nc split s3d.nc parts.nc --partitions 8 --dim u=y --dim yspecies=y --min-ndims 2

Programs see one dataset, by the name of its master; 'striate nc info' shows where each part is. A variable
is divided along its first dimension that is not unlimited, unless --dim or its attribute par_dim_id names
another one; a variable in a group is named by its path; '--dim VAR=none' keeps it in the master. A target is a directory, a URL
(striate://host:port/path), or one of these followed by #N: the server, or the storage target of a Lustre
mount, of that number. A URL without a number stands for all its servers.")]
pub(crate) struct SplitArgs {
    /// Number of partitions [default: one for each target]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    partitions: Option<u64>,

    /// Targets of the partitions, in turn [default: the directory of the master]
    #[arg(short, long, value_name = "TARGET,...", value_delimiter = ',')]
    targets: Vec<StorageTarget>,

    /// The dimension along which a variable is divided; 'none' keeps it in the master
    #[arg(long = "dim", value_name = "VAR=DIM", value_parser = variable_and_dimension)]
    dimensions: Vec<(String, String)>,

    /// Variables with this many dimensions or fewer stay in the master [default: 1]
    #[arg(long, value_name = "N")]
    min_ndims: Option<u64>,

    /// Measure the targets first, and leave out those that would slow down the others
    #[arg(long, requires = "targets")]
    probe: bool,

    /// The format of all files: cdf1, cdf2, cdf5, netcdf4 or netcdf4-classic [default: that of the
    /// source]
    #[arg(short = 'k', long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Replace a dataset that exists, with its partitions
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    ranks: RanksArgs,

    /// What to divide: a path or a URL
    #[arg(value_name = "SOURCE")]
    source: PathBuf,

    /// The master: a path or a URL
    #[arg(value_name = "DATASET")]
    destination: PathBuf,
}

fn variable_and_dimension(text: &str) -> Result<(String, String), String> {
    match text.rsplit_once('=') {
        Some((variable, dimension)) if !variable.is_empty() => {
            Ok((variable.into(), dimension.into()))
        }
        _ => Err("it is VARIABLE=DIMENSION".into()),
    }
}

pub(crate) fn run(args: &SplitArgs, json: bool) -> Result<(), CommandError> {
    let storage = CopyStorage::default();
    let selection = CopySelection::default();
    let work = Work {
        source: &args.source,
        destination: &args.destination,
        format: args.format,
        existing: existing(args.force),
        named: args.dimensions.iter().map(|(name, _)| name.as_str()).collect(),
        storage: &storage,
        selection: &selection,
        memory: None,
    };
    let Some(row) = transfer::run(&work, args.ranks.count(), || args.options())? else {
        return Ok(());
    };
    let mut what = match row.partitions {
        Some(count) => format!("split into {}", counted(count as u64, "partition")),
        None => "nothing to divide: copied to one file".into(),
    };
    if let Some(probe) = &row.probe {
        what = format!("probed: {probe}\n{what}");
    }
    copy::print(row, &what, json)
}

impl SplitArgs {
    /// How the dataset is to be laid out.
    fn options(&self) -> Result<Options, CommandError> {
        let mut options = options()?;
        let asked = &mut options.partitioning;
        asked.enabled = true;
        asked.count = self.partitions.or(asked.count);
        if !self.targets.is_empty() {
            asked.targets.clone_from(&self.targets);
        }
        if asked.count.is_none() && asked.targets.is_empty() {
            return Err(CommandError::usage(
                "there is one target and no number of partitions",
                "give --partitions N, or --targets A,B,...",
            ));
        }
        asked.min_ndims = self.min_ndims.unwrap_or(asked.min_ndims);
        if !self.dimensions.is_empty() {
            asked.dimensions.clone_from(&self.dimensions);
        }
        options.probe.when = if self.probe { Switch::Enable } else { Switch::Disable };
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_stands_behind_the_last_sign() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(variable_and_dimension("u=y"), pair("u", "y"));
        assert_eq!(variable_and_dimension("a=b=none"), pair("a=b", "none"));
        assert_eq!(variable_and_dimension("u="), pair("u", ""));
        assert!(variable_and_dimension("u").is_err() && variable_and_dimension("=y").is_err());
    }
}
