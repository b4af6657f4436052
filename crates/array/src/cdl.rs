//! [`dump`] and [`header`]: datasets as CDL, the text form of netCDF, byte for byte as `ncdump`
//! prints it.
//!
//! People and scripts compare such texts, so line breaks, numbers of digits and escapes must be
//! equal. The rules are those of netCDF 4.9 in the C locale; each module has those of one part of
//! the text. Data is read in batches of bounded size, in the order of the text, so variables of any
//! size can be printed.

mod c_format;
mod data;
mod definitions;
mod element;
mod ncml;
pub mod netcdf4;
mod number;
pub mod parse;
mod rows;
mod text;
mod time;

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use thiserror::Error;

use crate::format::{Header, Type, Values, Variable};

pub use ncml::ncml;
use text::LineBreaks;

/// Elements that are read at once.
const BATCH: u64 = 1 << 20;

/// Which variables are printed with their data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// None: only the definitions are printed.
    None,
    /// Coordinate variables: those of one dimension that have the name of a dimension.
    Coordinates,
    /// All.
    #[default]
    All,
}

/// Significant digits of floating point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precision {
    /// Of [`Type::Float`]; if `None`, 7 or as an attribute `C_format` says.
    pub float: Option<u8>,
    /// Of [`Type::Double`]; if `None`, 15 or as an attribute `C_format` says.
    pub double: Option<u8>,
}

/// The options of [`dump`], as those of `ncdump`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// Which variables are printed with their data (`-h`, `-c`).
    pub data: Data,
    /// Of those, only these (`-v`); empty means all.
    pub variables: Vec<String>,
    /// Digits of numbers (`-p`).
    pub precision: Precision,
    /// Length of lines of data at most (`-l`).
    pub line: usize,
    /// Whether times are shown as dates (`-t`): values of variables whose units are like `days
    /// since 2000-01-01`.
    pub times: bool,
    /// Whether the format is shown as a virtual global attribute `_Format` (`-s`).
    pub special: bool,
    /// For each variable, the number of values in a truncated file: the others are not printed,
    /// and the text in their place is not CDL. Empty means that all values are available.
    pub available: Vec<u64>,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            data: Data::All,
            variables: Vec::new(),
            precision: Precision::default(),
            line: 80,
            times: false,
            special: false,
            available: Vec::new(),
        }
    }
}

/// Why a dataset could not be printed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CdlError<E> {
    /// The text could not be written.
    #[error("cannot write CDL: {0}")]
    Write(#[from] io::Error),
    /// The data could not be read.
    #[error("{0}")]
    Read(E),
    /// A variable does not exist.
    #[error("there is no variable '{0}'")]
    Unknown(String),
    /// A variable or an attribute has a type that netCDF does not have.
    #[error("the type of '{0}' is none of netCDF")]
    Untyped(String),
    /// The data that was read is not the requested data.
    #[error("{wanted} values of variable '{variable}' were asked for, {got} {external} were read")]
    Values {
        /// Which variable.
        variable: String,
        /// Number of requested values.
        wanted: u64,
        /// Number of values read.
        got: usize,
        /// Their type.
        external: Type,
    },
}

/// Reads the values of a variable, given its index, start and count per dimension.
pub type ReadValues<'r, E> = dyn FnMut(usize, &[u64], &[u64]) -> Result<Values, E> + 'r;

/// Prints the definitions of a dataset, without data: `ncdump -h`.
pub fn header(header: &Header, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    definitions::print(&mut out, header, name, &DumpOptions::default())?;
    out.write_all(b"}\n")?;
    out.flush()
}

/// Prints a dataset. Each call of `read` is for at most 2²⁰ elements of one variable.
pub fn dump<E>(
    header: &Header,
    name: &str,
    options: &DumpOptions,
    read: &mut ReadValues<'_, E>,
    out: &mut dyn Write,
) -> Result<(), CdlError<E>> {
    for wanted in &options.variables {
        if !header.variables.iter().any(|variable| variable.name == *wanted) {
            return Err(CdlError::Unknown(wanted.clone()));
        }
    }
    let mut out = io::BufWriter::new(out);
    definitions::print(&mut out, header, name, options)?;
    if options.data != Data::None {
        if !header.variables.is_empty() {
            out.write_all(b"data:\n")?;
        }
        let coordinates = coordinates(header, options);
        let times = if options.times { time::of_variables(&header.variables) } else { Vec::new() };
        for (index, variable) in header.variables.iter().enumerate() {
            if is_printed(header, variable, options, &coordinates) {
                let times = times.get(index).and_then(Option::as_ref);
                data::print(&mut out, header, index, options, times, read)?;
            }
        }
    }
    out.write_all(b"}\n")?;
    Ok(out.flush()?)
}

/// The names of dimensions, if coordinate variables are selected.
fn coordinates<'h>(header: &'h Header, options: &DumpOptions) -> HashSet<&'h str> {
    match options.data {
        Data::Coordinates => header.dimensions.iter().map(|it| it.name.as_str()).collect(),
        _ => HashSet::new(),
    }
}

/// Whether the data of a variable is printed; a record variable without records has none.
fn is_printed(
    header: &Header,
    variable: &Variable,
    options: &DumpOptions,
    coordinates: &HashSet<&str>,
) -> bool {
    let is_coordinate =
        || variable.dimensions.len() == 1 && coordinates.contains(variable.name.as_str());
    (options.variables.is_empty() || options.variables.contains(&variable.name))
        && (options.data == Data::All || is_coordinate())
        && !header.shape(variable).contains(&0)
}

/// Whether the options want the data of a variable.
pub fn is_wanted(header: &Header, variable: &Variable, options: &DumpOptions) -> bool {
    is_printed(header, variable, options, &coordinates(header, options))
}

/// Values as CDL shows them in attributes: `1.5f, NaNf`, or a text in quotes.
pub fn values(values: &Values) -> String {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = definitions::values(&mut text, values, Precision::default(), LineBreaks::Broken);
    String::from_utf8_lossy(&text).into_owned()
}

/// The name of a dataset by the path or URL of its file: the last component without its extension.
pub fn name_of(path: &Path) -> String {
    let path = path.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

#[cfg(test)]
mod tests;
