//! `striate nc dump` and `striate nc header`: a dataset as CDL, byte for byte as `ncdump` prints
//! it.
//!
//! The text may be far larger than memory, so unlike other answers it is printed as it is made.
//! With `--json` it is a document of the same content ([`json`]).

mod hdf5;
mod hdf5_json;
mod json;

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgAction, Args};
pub(super) use hdf5_json::{number_values, plain, type_name};
use json::{DataSource, DatasetRow};
use striate_array::cdl::{self, CdlError, Data, Precision};
use striate_array::format::{Header, Variable};
use striate_array::{ArrayError, Dataset, Slab};
use striate_comm::Comm;

use super::hdf5_file::{MissingPartitions, Recognized, recognize};
use super::missing_values::MissingValues;
use super::{failed, open, options};
use crate::document::Document;
use crate::{CommandError, ranks};

/// Print a dataset as CDL, exactly as ncdump does
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  striate nc dump ocean.nc
  striate nc dump -v time,depth -p 9,17 ocean.nc
  striate nc dump -c striate://io.example/run7/ocean.nc
  striate nc dump --json -v time ocean.nc | jq '.rows[0].variables[0].values'

Values that are missing because the file is truncated are not printed; the text in their place is not
CDL (null with --json), standard error gives their number, and the exit status is 1. --lenient prints
zeros for them, as ncdump does. --json prints the definitions as 'striate nc header --json' does, and the
values of each variable as one list, the last dimension varying fastest.

NetCDF-4 files and other HDF5 files are printed as ncdump prints them. What netCDF cannot represent
(references, bit fields, ...) is named on standard error, and the exit status is 1."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of ncdump that people know")]
pub(crate) struct DumpArgs {
    /// Only the header, no data
    #[arg(short = 'h', long = "header", conflicts_with_all = ["coordinates", "variables"])]
    header: bool,

    /// Data of coordinate variables only
    #[arg(short = 'c', long)]
    coordinates: bool,

    /// Data of these variables only
    #[arg(short = 'v', long, value_name = "NAME,...", value_delimiter = ',')]
    variables: Vec<String>,

    /// Only the kind of the format, with ncdump's names: classic, 64-bit offset, cdf5, netCDF-4, or
    /// netCDF-4 classic model
    #[arg(short = 'k', long, conflicts_with = "json")]
    kind: bool,

    /// Times as dates: numbers whose units are 'days since 2000-01-01' and the like
    #[arg(short = 't', long, conflicts_with = "json")]
    times: bool,

    /// Also the format and how variables are stored, as special attributes: _Format, _Storage, ...
    #[arg(short = 's', long, conflicts_with = "json")]
    special: bool,

    /// Only the header, as XML (the markup language of netCDF)
    #[arg(short = 'x', long, conflicts_with = "json")]
    xml: bool,

    /// The name of the dataset [default: from the file name]
    #[arg(short = 'n', long)]
    name: Option<String>,

    /// Significant digits of floats, and of doubles
    #[arg(short = 'p', long, value_name = "N[,N]", value_parser = precision, conflicts_with = "json")]
    precision: Option<Precision>,

    /// The file itself: for a partitioned dataset the master, not the whole dataset
    #[arg(long)]
    raw: bool,

    /// Zeros in place of values that are missing in the file, as ncdump prints them
    #[arg(long)]
    lenient: bool,

    /// The longest line of data
    #[arg(short = 'l', long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(10..))]
    line: u32,

    /// Print help
    #[arg(long, action = ArgAction::HelpLong)]
    help: Option<bool>,

    /// The dataset: a path or a URL
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Print the definitions of a dataset, without data, as CDL
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc header ocean.nc
  striate nc header striate://io.example/run7/ocean.nc
  striate nc header --raw parts.nc           with the attributes that link a master to its partitions
  striate nc header --json ocean.nc | jq -r '.rows[0].variables[].name'")]
pub(crate) struct HeaderArgs {
    /// The name of the dataset [default: from the file name]
    #[arg(short = 'n', long)]
    name: Option<String>,

    /// The file itself: for a partitioned dataset the master, not the whole dataset
    #[arg(long)]
    raw: bool,

    /// The dataset: a path or a URL
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Digits as ncdump takes them.
fn precision(text: &str) -> Result<Precision, String> {
    let digits = |text: &str| match text.trim().parse() {
        Ok(digits @ 1..=20) => Ok(Some(digits)),
        _ => Err(format!("'{text}' is not a number of digits from 1 to 20")),
    };
    match text.split_once(',') {
        None => Ok(Precision { float: digits(text)?, double: None }),
        Some((float, double)) => Ok(Precision { float: digits(float)?, double: digits(double)? }),
    }
}

pub(crate) fn run_header(args: &HeaderArgs, json: bool) -> Result<(), CommandError> {
    let options = cdl::DumpOptions { data: Data::None, ..cdl::DumpOptions::default() };
    let how = DumpSettings { name: args.name.as_deref(), raw: args.raw, ..DumpSettings::default() };
    print(&args.file, how, &options, json)
}

pub(crate) fn run(args: &DumpArgs, json: bool) -> Result<(), CommandError> {
    let options = cdl::DumpOptions {
        data: match (args.header, args.coordinates) {
            (true, _) => Data::None,
            (_, true) => Data::Coordinates,
            _ => Data::All,
        },
        variables: args.variables.clone(),
        precision: args.precision.unwrap_or_default(),
        line: args.line as usize,
        times: args.times,
        special: args.special,
        available: Vec::new(),
    };
    let what = match (args.kind, args.xml) {
        (true, _) => DumpFormat::Kind,
        (_, true) => DumpFormat::Xml,
        _ => DumpFormat::Cdl,
    };
    let how =
        DumpSettings { name: args.name.as_deref(), raw: args.raw, lenient: args.lenient, what };
    print(&args.file, how, &options, json)
}

/// What is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DumpFormat {
    #[default]
    Cdl,
    Xml,
    Kind,
}

/// How a dataset is opened and shown.
#[derive(Clone, Copy, Debug, Default)]
struct DumpSettings<'a> {
    /// What it is called, if not after the file.
    name: Option<&'a str>,
    raw: bool,
    lenient: bool,
    what: DumpFormat,
}

fn print(
    file: &Path,
    how: DumpSettings<'_>,
    options: &cdl::DumpOptions,
    json: bool,
) -> Result<(), CommandError> {
    match recognize(file)? {
        Recognized::Hdf5(opened) => {
            let opened = if how.raw {
                *opened
            } else {
                opened.with_partitions(file, MissingPartitions::Refuse)?
            };
            return hdf5::print(file, &opened, how, options, json);
        }
        Recognized::ForAnotherRank => return Ok(()),
        Recognized::Other => {}
    }
    let DumpSettings { name, raw, lenient, what } = how;
    let name = name.map_or_else(|| cdl::name_of(file), ToOwned::to_owned);
    let missing = ranks::run(1, |comm| {
        let mut dataset = if raw { open_raw(comm, file)? } else { open(comm, file)? };
        if comm.rank() > 0 {
            return Ok(None);
        }
        let mut options = options.clone();
        let missing = match options.data {
            Data::None => None,
            _ if what != DumpFormat::Cdl => None,
            _ => MissingValues::of(file, &dataset)?.filter(|_| !lenient),
        };
        if let Some(missing) = &missing {
            options.available.clone_from(&missing.held);
        }
        let header = dataset.header().clone();
        let variables: Vec<_> = dataset.variables().collect();
        if json {
            print_json(file, name.clone(), &header, &options, &mut dataset)?;
            return Ok(missing);
        }
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let mut read = |index: usize, start: &[u64], count: &[u64]| {
            let variable = variables[index];
            Dataset::values(&mut dataset, variable, &Slab::new(start, count))
        };
        let printed = match what {
            DumpFormat::Cdl => cdl::dump(&header, &name, &options, &mut read, &mut out),
            DumpFormat::Xml => {
                let location = file.to_string_lossy();
                cdl::ncml(&header, &location, &options, &mut out).map_err(CdlError::from)
            }
            DumpFormat::Kind => writeln!(out, "{}", header.format.kind()).map_err(CdlError::from),
        };
        printed.and_then(|()| Ok(out.flush()?)).or_else(|error| match error {
            CdlError::Read(error) => Err(failed("cannot read the data", error)),
            error => ended(file, error),
        })?;
        Ok(missing)
    })?;
    match missing.flatten() {
        Some(missing) => {
            Err(missing.error("--lenient prints zeros in their place, as ncdump does"))
        }
        None => Ok(()),
    }
}

/// Prints definitions, and the data that the options want, as JSON.
fn print_json(
    file: &Path,
    name: String,
    header: &Header,
    options: &cdl::DumpOptions,
    dataset: &mut Dataset,
) -> Result<(), CommandError> {
    let row = DatasetRow::new(name, header);
    if options.data == Data::None {
        return Document::new(vec![row], Vec::new()).print();
    }
    let is_there = |name: &&String| header.variables.iter().any(|it| it.name == **name);
    if let Some(unknown) = options.variables.iter().find(|name| !is_there(name)) {
        return ended(file, CdlError::<ArrayError>::Unknown(unknown.clone()));
    }
    let source = DataSource::new(dataset);
    let wanted = |variable: &Variable| cdl::is_wanted(header, variable, options);
    let rows = vec![row.with_data(&source, header, wanted, &options.available)];
    let written = Document::new(rows, Vec::new()).write_to_stdout();
    match source.take_error() {
        Some(error) => Err(failed("cannot read the data", error)),
        None => written,
    }
}

/// Opens a file as what it is. Collective.
fn open_raw(comm: &Arc<dyn Comm>, file: &Path) -> Result<Dataset, CommandError> {
    let opened = Dataset::open_raw(comm, file, &options()?);
    opened.map_err(|error| failed("cannot open it", error))
}

/// What an end before the end means.
fn ended<E: Display>(file: &Path, error: CdlError<E>) -> Result<(), CommandError> {
    match error {
        // A reader that went away needs no more.
        CdlError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        CdlError::Write(source) => {
            Err(CommandError::Write { path: "standard output".into(), source })
        }
        CdlError::Unknown(_) => Err(CommandError::failed(
            format!("cannot print {}", file.display()),
            error.to_string(),
            "'striate nc header FILE' shows which variables there are",
        )),
        error => Err(CommandError::failed("cannot print the data", error.to_string(), "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_one_or_two_numbers() {
        assert_eq!(precision("9"), Ok(Precision { float: Some(9), double: None }));
        assert_eq!(precision("9,17"), Ok(Precision { float: Some(9), double: Some(17) }));
        for wrong in ["", "0", "21", "9,", ",9", "9,9,9", "many"] {
            assert!(precision(wrong).is_err(), "{wrong}");
        }
    }
}
