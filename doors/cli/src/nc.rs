//! `striate nc`: shows and checks netCDF files, and converts, divides and compares classic ones.
//!
//! A partitioned dataset is one thing to all of them, by the name of its master.

mod batches;
mod chunk_cover;
mod compare;
mod copy;
mod copy_selection;
mod copy_storage;
pub(crate) mod dataset_map;
mod dump;
mod generate;
mod hdf5_file;
mod index;
mod info;
mod join;
mod missing_values;
mod mv;
mod recover;
mod rm;
mod signal_watch;
mod split;
mod transfer;
mod validate;

use std::path::Path;
use std::sync::Arc;

use clap::{Args, Subcommand};
use signal_watch::{Leftover, SignalWatch};
use striate_array::{ArrayError, Dataset, OpenMode, Options};
use striate_comm::{Comm, Threads};
use striate_file::FileError;
use striate_process::part_file::Existing;
use striate_store::rados::{RadosCreation, RadosFile};
use striate_store::remote::{RemoteFile, RemoteOptions};
use striate_store::s3::S3Object;
use striate_store::{PosixFile, PosixOptions, Store};

use crate::CommandError;
use crate::fs::Location;

/// More threads than this do not copy faster.
const MOST_THREADS: usize = 16;

/// Show, check, convert, divide and compare netCDF files (classic and netCDF-4)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc header ocean.nc                                its definitions, as CDL
  striate nc dump -v time,depth striate://io.example/ocean.nc
  striate nc generate ocean.cdl                             a file from CDL
  striate nc copy --format cdf5 ocean.nc striate://io.example/ocean.nc
  striate nc compare ocean.nc striate://io.example/ocean.nc
  striate nc validate *.nc
  striate nc recover run7/*.nc                              what killed writers have left
  striate nc info --chunks model.nc4                        how a netCDF-4 file is stored
  striate nc split ocean.nc parts.nc --targets /scratch1,/scratch2   one dataset, several files
  striate nc join parts.nc whole.nc                                  and back

Files are paths or URLs of files on servers (see 'striate fs --help'). NetCDF-4 files and other HDF5 files
are shown as a whole (header, dump, info, index, validate); copy and compare take those whose variables
are numbers and characters.")]
pub(crate) struct NcArgs {
    #[command(subcommand)]
    command: NcCommand,
}

#[derive(Debug, Subcommand)]
enum NcCommand {
    Header(dump::HeaderArgs),
    Dump(dump::DumpArgs),
    Info(info::InfoArgs),
    Generate(generate::GenerateArgs),
    Index(index::IndexArgs),
    Copy(copy::CopyArgs),
    Split(split::SplitArgs),
    Join(join::JoinArgs),
    Mv(mv::NcMvArgs),
    Rm(rm::NcRmArgs),
    Compare(compare::NcCompareArgs),
    Validate(validate::ValidateArgs),
    Recover(recover::NcRecoverArgs),
}

pub(crate) fn run(args: &NcArgs, json: bool) -> Result<(), CommandError> {
    // Those that write, or take long, say themselves what they leave.
    let _interrupt = match &args.command {
        NcCommand::Header(_) | NcCommand::Dump(_) => Some("the text is not complete"),
        NcCommand::Info(_) | NcCommand::Index(_) => Some("nothing was changed"),
        _ => None,
    }
    .map(|told| SignalWatch::new(Leftover::Nothing(told)))
    .transpose()?;
    match &args.command {
        NcCommand::Header(args) => dump::run_header(args, json),
        NcCommand::Dump(args) => dump::run(args, json),
        NcCommand::Info(args) => info::run(args, json),
        NcCommand::Generate(args) => generate::run(args, json),
        NcCommand::Index(args) => index::run(args, json),
        NcCommand::Copy(args) => copy::run(args, json),
        NcCommand::Split(args) => split::run(args, json),
        NcCommand::Join(args) => join::run(args, json),
        NcCommand::Mv(args) => mv::run(args, json),
        NcCommand::Rm(args) => rm::run(args, json),
        NcCommand::Compare(args) => compare::run(args, json),
        NcCommand::Validate(args) => validate::run(args, json),
        NcCommand::Recover(args) => recover::run(args, json),
    }
}

/// Options of commands whose ranks share the work.
#[derive(Debug, Args)]
struct RanksArgs {
    /// Ranks that share the work: threads, unless mpiexec started the program [default: one per
    /// processor, at least 2]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    ranks: Option<u64>,
}

impl RanksArgs {
    fn count(&self) -> u64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.ranks.unwrap_or(cores.clamp(2, MOST_THREADS) as u64)
    }
}

/// What becomes of a destination that exists, by `--force`.
const fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Refuse }
}

/// Opens a dataset to read it. Collective.
fn open(comm: &Arc<dyn Comm>, path: &Path) -> Result<Dataset, CommandError> {
    open_as(comm, path, &options()?)
}

/// Opens a dataset to read it, also if some of its partitions are missing. Collective.
fn open_partial(comm: &Arc<dyn Comm>, path: &Path) -> Result<Dataset, CommandError> {
    let mut options = options()?;
    options.partitioning.partial = true;
    open_as(comm, path, &options)
}

fn open_as(comm: &Arc<dyn Comm>, path: &Path, options: &Options) -> Result<Dataset, CommandError> {
    Dataset::open(comm, path, OpenMode::ReadOnly, options).map_err(|error| {
        // What another rank has met this one meets as well, if it goes there, and can say more
        // about.
        let alone = || {
            Threads::new(1).try_run(|comm| Dataset::open(&comm, path, OpenMode::ReadOnly, options))
        };
        let error = match error {
            ArrayError::Rank { .. } | ArrayError::File(FileError::Rank { .. }) => {
                alone().err().unwrap_or(error)
            }
            error => error,
        };
        failed("cannot open it", error)
    })
}

/// How datasets are accessed, as the environment says.
fn options() -> Result<Options, CommandError> {
    Options::from_environment().map_err(hints)
}

/// What to say about `STRIATE_HINTS`.
fn hints(error: FileError) -> CommandError {
    CommandError::failed("cannot use STRIATE_HINTS", error, "write name=value;name=value")
}

/// What to say when something failed with a dataset.
fn failed(attempted: &str, error: ArrayError) -> CommandError {
    match error {
        ArrayError::File(FileError::Store(error)) => error.into(),
        ArrayError::Comm(error) => error.into(),
        error => {
            let hint = hint(&error);
            CommandError::failed(attempted, error, hint)
        }
    }
}

fn hint(error: &ArrayError) -> String {
    match error {
        ArrayError::Header { .. } => {
            "'striate nc validate FILE' shows all that is wrong with it".into()
        }
        ArrayError::Unfinished { .. } => "the program that wrote it has to write it again".into(),
        ArrayError::Partition { .. } => "'striate nc info DATASET' shows all partitions".into(),
        _ => String::new(),
    }
}

/// A file as bytes, to be read by this rank alone.
fn store(path: &Path) -> Result<Box<dyn Store>, CommandError> {
    Ok(match place(path)? {
        Location::Local(path) => Box::new(PosixFile::open(&path, &PosixOptions::read_only())?),
        Location::Remote(url) => Box::new(RemoteFile::open(&url, &RemoteOptions::default())?),
        Location::Object(url) => Box::new(S3Object::open(&url)?),
        Location::Pool(url) => Box::new(RadosFile::open(&url, &RadosCreation::default())?),
    })
}

/// Where a file is.
fn place(path: &Path) -> Result<Location, CommandError> {
    Location::new(path.into()).map_err(|error| {
        CommandError::usage(
            format!("{} is not a URL: {error}", path.display()),
            "URLs are striate://host:port/path, rados://pool/namespace/name and s3://bucket/key",
        )
    })
}
