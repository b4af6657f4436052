//! `striate nc copy`: copies a dataset, optionally to another format.

use std::path::PathBuf;

use clap::Args;
use striate_array::Format;
use striate_datatype::{Bytes, parse_size};

use super::copy_selection::CopySelection;
use super::copy_storage::{CopyStorage, StorageArgs};
use super::transfer::{self, TransferRow, Work};
use super::{RanksArgs, existing, options};
use crate::document::Document;
use crate::number::{counted, short};
use crate::{CommandError, terminal};

/// Copy a dataset, optionally to another format
#[derive(Debug, Args)]
#[command(
    disable_version_flag = true,
    after_help = "\
Examples:
  striate nc copy --format cdf5 ocean.nc ocean5.nc
  striate nc copy --format netcdf4 --deflate 4 --shuffle --chunks time/1,lat/90 ocean.nc ocean4.nc
  striate nc copy --chunks time/1000,lat/10,lon/10 --memory 1G maps.nc series.nc    time series
  striate nc copy -V temp,salinity -G /surface ocean4.nc surface.nc
  striate nc copy ocean.nc striate://io.example/run7/ocean.nc
  mpiexec -n 16 striate nc copy striate://io.example/run7/ocean.nc ocean.nc

Everything is kept except the layout, and what options leave out: dimensions, variables and attributes in their order, and all data.
Chunks that get another shape move in blocks of whole chunks, as large as --memory allows.
STRIATE_HINTS can set the layout of the copy (nc_header_align_size and the like). The copy has
a temporary name, .NAME.part-..., until it is complete. A partitioned dataset becomes one file, unless
STRIATE_HINTS says otherwise; see 'striate nc split --help'."
)]
pub(crate) struct CopyArgs {
    /// The format of the copy: cdf1, cdf2, cdf5, netcdf4 or netcdf4-classic [default: that of the
    /// source]
    #[arg(short = 'k', long, value_name = "FORMAT")]
    format: Option<Format>,

    #[command(flatten)]
    storage: StorageArgs,

    #[command(flatten)]
    selection: CopySelection,

    /// Memory of each rank for values [default: 16M between classic files, else 64M]: with more,
    /// fewer chunks are read twice when their shape changes
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,

    /// Replace a destination that exists
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    ranks: RanksArgs,

    /// What to copy: a path or a URL
    #[arg(value_name = "SOURCE")]
    source: PathBuf,

    /// Where to: a path or a URL
    #[arg(value_name = "DESTINATION")]
    destination: PathBuf,
}

/// A size as people write it.
fn memory(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        size @ 0..65_536 => Err(format!("{size} bytes are too few: at least 64K")),
        size => Ok(size),
    }
}

pub(crate) fn run(args: &CopyArgs, json: bool) -> Result<(), CommandError> {
    let storage = CopyStorage::from(&args.storage);
    let work = Work {
        source: &args.source,
        destination: &args.destination,
        format: args.format,
        existing: existing(args.force),
        named: Vec::new(),
        storage: &storage,
        selection: &args.selection,
        memory: args.memory,
    };
    let copied = transfer::run(&work, args.ranks.count(), options)?;
    let Some(row) = copied else { return Ok(()) };
    let what = format!("copied {}", counted(row.variables as u64, "variable"));
    print(row, &what, json)
}

/// Prints what was done.
pub(super) fn print(row: TransferRow, what: &str, json: bool) -> Result<(), CommandError> {
    if json {
        return Document::new(vec![row], Vec::new()).print();
    }
    let rate = row.data_size as f64 / row.seconds.max(1e-9) / f64::from(1 << 20);
    terminal::print(&format!(
        "{what}, {} to {} in {:.3} s ({} MiB/s)\n",
        Bytes(row.data_size),
        row.format,
        row.seconds,
        short(rate)
    ))
}
