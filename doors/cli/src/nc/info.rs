//! `striate nc info`: the format, the layout and the sizes of a dataset, and where its parts are.

mod chunks;
mod hdf5;
mod partitions;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use partitions::Partitions;
use serde::Serialize;
use striate_array::format::{Dimension, Header, Variable};
use striate_datatype::parse_size;

use super::hdf5_file::{MissingPartitions, Recognized, recognize};
use super::missing_values::MissingValues;
use super::{open_partial, store, validate};
use crate::document::Document;
use crate::number::{bytes, counted, grouped};
use crate::table::{Side, Table};
use crate::{CommandError, ranks, terminal};

/// Show the format, the variables and the layout of a dataset
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc info ocean.nc
  striate nc info --json striate://io.example/run7/ocean.nc
  striate nc info --chunks --stripe 4M model.nc4    how chunks of a netCDF-4 file lie on stripes

Exit status: 1 if values that the header describes are missing, because the file is truncated, or if an
HDF5 file has objects that netCDF cannot represent, which are named on standard error.")]
pub(crate) struct InfoArgs {
    /// Exit with status 0 also if values are missing in the file
    #[arg(long)]
    lenient: bool,

    /// Also the chunks of each variable: how many, how large, and how they lie on stripes (netCDF-4
    /// and other HDF5 files)
    #[arg(long)]
    chunks: bool,

    /// The length of a stripe [default: that of the file's store, or 1M]
    #[arg(long, value_name = "SIZE", requires = "chunks", value_parser = stripe)]
    stripe: Option<u64>,

    /// The dataset: a path or a URL
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The length of a stripe as people write it.
fn stripe(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        0 => Err("a stripe has at least one byte".into()),
        length => Ok(length),
    }
}

/// What is known about a dataset; a row of the JSON document.
#[derive(Debug, Serialize)]
struct DatasetDescription {
    file: String,
    format: String,
    /// What ncdump -k calls the format.
    kind: &'static str,
    /// Bytes of the file.
    size: u64,
    /// Bytes of the header, and those before the data.
    header_size: u64,
    header_space: u64,
    /// The largest power of two on a multiple of which all variables begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_alignment: Option<u64>,
    records: u64,
    record_size: u64,
    /// Bytes of all values.
    data_size: u64,
    attributes: usize,
    dimensions: Vec<DimensionRow>,
    variables: Vec<VariableRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Partitions>,
}

/// A dimension; also a part of what `striate nc header --json` prints.
#[derive(Debug, Serialize)]
pub(super) struct DimensionRow {
    name: String,
    len: u64,
    unlimited: bool,
}

#[derive(Debug, Serialize)]
struct VariableRow {
    name: String,
    r#type: &'static str,
    dimensions: Vec<String>,
    shape: Vec<u64>,
    record: bool,
    attributes: usize,
    /// Bytes of all values.
    size: u64,
    /// Absent if it is divided: where it begins is another matter in every partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    begin: Option<u64>,
    /// Values that are not in the file.
    missing_values: u64,
}

pub(crate) fn run(args: &InfoArgs, json: bool) -> Result<(), CommandError> {
    match recognize(&args.file)? {
        Recognized::Hdf5(opened) => {
            let opened = opened.with_partitions(&args.file, MissingPartitions::Accept)?;
            return hdf5::print(args, &opened, json);
        }
        Recognized::ForAnotherRank => return Ok(()),
        Recognized::Other => {}
    }
    let found = ranks::run(1, |comm| {
        let dataset = open_partial(comm, &args.file)?;
        let header = dataset.header().clone();
        // The layout does not say where the file ends.
        let (_, own, size) = validate::header(store(&args.file)?.as_ref())?;
        let own = own.map_or_else(|_| header.clone(), |(own, _)| own);
        let probe = dataset.partition_probe().map(str::to_owned);
        let partitions =
            dataset.partitions().map(|infos| Partitions::new(&args.file, &header, infos, probe));
        let missing = MissingValues::of(&args.file, &dataset)?;
        Ok((header, own, size, partitions, missing))
    })?;
    let Some((header, own, size, partitions, missing)) = found else { return Ok(()) };
    let file = args.file.display().to_string();
    let mut described = DatasetDescription::new(file, &header, &own, size, partitions);
    if let Some(missing) = &missing {
        for (index, row) in described.variables.iter_mut().enumerate() {
            row.missing_values = missing.of_variable(&header, index);
        }
    }
    if json {
        Document::new(vec![described], Vec::new()).print()?;
    } else {
        terminal::print(&described.text())?;
    }
    match missing.filter(|_| !args.lenient) {
        Some(missing) => Err(missing.error("obtain it again from its source")),
        None => Ok(()),
    }
}

/// Bytes of all values of a variable.
pub(super) fn size(header: &Header, variable: &Variable) -> u64 {
    let shape = header.shape(variable);
    shape.iter().fold(variable.external.size(), |size, len| size.saturating_mul(*len))
}

impl DatasetDescription {
    /// Of what its header says; `own` is that of the file, which differs if there are partitions.
    fn new(
        file: String,
        header: &Header,
        own: &Header,
        size_of_file: u64,
        partitions: Option<Partitions>,
    ) -> Self {
        let header_size = own.encoded_len();
        let begins = || own.variables.iter().map(|variable| variable.begin);
        let is_divided = |index| partitions.as_ref().is_some_and(|all| all.divide(index));
        let variables = header.variables.iter().enumerate();
        let variables: Vec<VariableRow> =
            variables.map(|(index, variable)| row(header, variable, is_divided(index))).collect();
        Self {
            file,
            format: header.format.to_string(),
            kind: header.format.kind(),
            size: size_of_file,
            header_size,
            header_space: begins().min().unwrap_or(header_size),
            data_alignment: begins().map(|begin| begin & begin.wrapping_neg()).min(),
            records: header.records,
            record_size: header.record_size().unwrap_or(u64::MAX),
            data_size: variables.iter().fold(0, |sum: u64, row| sum.saturating_add(row.size)),
            attributes: header.attributes.len(),
            dimensions: dimension_rows(header),
            variables,
            partitions,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", terminal::heading(&plain(&self.file)));
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "  {what:<12}{value}");
        };
        line("format", format!("{} ({})", self.format, self.kind));
        line("size", bytes(self.size));
        line(
            "header",
            format!("{} in a space of {}", bytes(self.header_size), bytes(self.header_space)),
        );
        if let Some(alignment) = self.data_alignment {
            line("alignment", format!("variables begin at multiples of {}", bytes(alignment)));
        }
        line("values", bytes(self.data_size));
        if self.dimensions.iter().any(|dimension| dimension.unlimited) {
            let each = bytes(self.record_size);
            line("records", format!("{} of {each}", grouped(self.records)));
        }
        line("attributes", format!("{} of the dataset", grouped(self.attributes as u64)));
        if !self.dimensions.is_empty() {
            let mut table = Table::new(&[("dimension", Side::Left), ("length", Side::Right)]);
            for dimension in &self.dimensions {
                let note = if dimension.unlimited { " (unlimited)" } else { "" };
                table.row([plain(&dimension.name) + note, grouped(dimension.len)]);
            }
            text += "\n";
            text += &table.render();
        }
        if !self.variables.is_empty() {
            let mut table = Table::new(&[
                ("variable", Side::Left),
                ("type", Side::Left),
                ("shape", Side::Left),
                ("size", Side::Right),
                ("begin", Side::Right),
            ]);
            for variable in &self.variables {
                let dimensions = variable.dimensions.iter().zip(&variable.shape);
                let shape: Vec<String> = dimensions
                    .map(|(name, len)| format!("{} {}", plain(name), grouped(*len)))
                    .collect();
                table.row([
                    plain(&variable.name),
                    variable.r#type.to_owned(),
                    if shape.is_empty() { "scalar".into() } else { shape.join(" × ") },
                    grouped(variable.size),
                    match (variable.begin, variable.missing_values) {
                        (None, _) => "divided".into(),
                        (Some(begin), 0) => grouped(begin),
                        (Some(begin), lost) => {
                            format!("{} ({} missing)", grouped(begin), counted(lost, "value"))
                        }
                    },
                ]);
            }
            text += "\n";
            text += &table.render();
        }
        if let Some(partitions) = &self.partitions {
            text += &partitions.text();
        }
        if terminal::is_utf8() { text } else { terminal::to_ascii(&text) }
    }
}

/// The dimensions of a dataset.
pub(super) fn dimension_rows(header: &Header) -> Vec<DimensionRow> {
    let row = |dimension: &Dimension| DimensionRow {
        name: dimension.name.clone(),
        len: if dimension.is_unlimited() { header.records } else { dimension.len },
        unlimited: dimension.is_unlimited(),
    };
    header.dimensions.iter().map(row).collect()
}

/// The names of the dimensions of a variable.
pub(super) fn dimension_names(header: &Header, variable: &Variable) -> Vec<String> {
    let name = |&index: &u32| {
        let dimension = header.dimensions.get(index as usize);
        dimension.map_or_else(String::new, |dimension| dimension.name.clone())
    };
    variable.dimensions.iter().map(name).collect()
}

fn row(header: &Header, variable: &Variable, is_divided: bool) -> VariableRow {
    VariableRow {
        name: variable.name.clone(),
        r#type: variable.external.name(),
        dimensions: dimension_names(header, variable),
        shape: header.shape(variable),
        record: header.is_record(variable),
        attributes: variable.attributes.len(),
        size: size(header, variable),
        begin: (!is_divided).then_some(variable.begin),
        missing_values: 0,
    }
}

/// A name without characters that would move the cursor or change the colours of a terminal.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
