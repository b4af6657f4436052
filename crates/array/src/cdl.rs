//! Datasets as CDL, the text form of netCDF, exactly as `ncdump` prints it.
//!
//! People and scripts compare such texts, so every byte counts: where lines break, how many digits a
//! number has, which characters are escaped. The rules are those of netCDF 4.9 in the C locale; each
//! file here has those of one part of the text. Data is asked for in parts of bounded size, in the
//! order of the text, so variables of any size can be printed.

mod c_format;
mod data;
mod definitions;
mod element;
mod ncml;
mod number;
mod text;
mod time;

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use thiserror::Error;

use crate::format::{Header, Type, Values, Variable};

pub use ncml::ncml;

/// Elements that are asked for at a time.
const PIECE: u64 = 1 << 20;

/// The data of which variables is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Data {
    /// Of none: only the definitions are printed.
    None,
    /// Of coordinate variables: those of one dimension that have the name of a dimension.
    Coordinates,
    /// Of all.
    #[default]
    All,
}

/// Significant digits of floating point numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precision {
    /// Of [`Type::Float`]; 7 and what an attribute `C_format` says if `None`.
    pub float: Option<u8>,
    /// Of [`Type::Double`]; 15 and what an attribute `C_format` says if `None`.
    pub double: Option<u8>,
}

/// What is printed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The data of which variables.
    pub data: Data,
    /// Of those, only of these; empty stands for all.
    pub variables: Vec<String>,
    /// Digits of numbers.
    pub precision: Precision,
    /// The longest line of data that is filled up.
    pub line: usize,
    /// Whether times are shown as dates: numbers of variables whose units are `days since 2000-01-01` and
    /// the like.
    pub times: bool,
    /// Whether the file's format is shown as a global attribute `_Format`, which no file has.
    pub special: bool,
    /// Of each variable, how many values the file has, if not all: the rest is not printed, and what
    /// stands in its place is no CDL. Empty stands for all.
    pub held: Vec<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data: Data::All,
            variables: Vec::new(),
            precision: Precision::default(),
            line: 80,
            times: false,
            special: false,
            held: Vec::new(),
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
    /// There is no such variable.
    #[error("there is no variable '{0}'")]
    Unknown(String),
    /// Other data was read than was asked for.
    #[error("{wanted} values of variable '{variable}' were asked for, {got} {external} were read")]
    Values {
        /// Which variable.
        variable: String,
        /// How many values of it were asked for.
        wanted: u64,
        /// How many there were.
        got: usize,
        /// Of which type.
        external: Type,
    },
}

/// How data is read: the values of a variable, by its index, from a start on and so many per
/// dimension.
pub type Read<'r, E> = dyn FnMut(usize, &[u64], &[u64]) -> Result<Values, E> + 'r;

/// Prints the definitions of a dataset, without data: `ncdump -h`.
pub fn header(header: &Header, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    definitions::print(&mut out, header, name, &Options::default())?;
    out.write_all(b"}\n")?;
    out.flush()
}

/// Prints a dataset. What is asked of `read` is at most 2²⁰ elements of one variable.
pub fn dump<E>(
    header: &Header,
    name: &str,
    options: &Options,
    read: &mut Read<'_, E>,
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
        let times = if options.times { time::of_variables(header) } else { Vec::new() };
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

/// The names of dimensions, if they are asked for.
fn coordinates<'h>(header: &'h Header, options: &Options) -> HashSet<&'h str> {
    match options.data {
        Data::Coordinates => header.dimensions.iter().map(|it| it.name.as_str()).collect(),
        _ => HashSet::new(),
    }
}

/// Whether the data of a variable is printed. Without any records a variable has none.
fn is_printed(
    header: &Header,
    variable: &Variable,
    options: &Options,
    coordinates: &HashSet<&str>,
) -> bool {
    let is_coordinate =
        || variable.dimensions.len() == 1 && coordinates.contains(variable.name.as_str());
    (options.variables.is_empty() || options.variables.contains(&variable.name))
        && (options.data == Data::All || is_coordinate())
        && !header.shape(variable).contains(&0)
}

/// Whether the options want the data of a variable.
pub fn is_wanted(header: &Header, variable: &Variable, options: &Options) -> bool {
    is_printed(header, variable, options, &coordinates(header, options))
}

/// Values as the definitions of a dataset show them: `1.5f, NaNf`, or a text in quotes.
pub fn values(values: &Values) -> String {
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = definitions::values(&mut text, values, Precision::default());
    String::from_utf8_lossy(&text).into_owned()
}

/// What a dataset is called after the path or URL of its file: the last part without its extension.
pub fn name_of(path: &Path) -> String {
    let path = path.to_string_lossy();
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

#[cfg(test)]
mod tests;
