//! `striate nc info` of netCDF-4 and other HDF5 files: how variables are stored, and how well they
//! are compressed.

use std::fmt::Write as _;

use serde::Serialize;
use striate_array::cdl::netcdf4::{GroupTree, kind};
use striate_hdf5::model::{Filter, Layout};
use striate_hdf5::netcdf::NetcdfKind;

use super::chunks::{ChunkReport, StripeUnit, chunk_table};
use super::partitions::Partitions;
use super::{DimensionRow, InfoArgs, plain};
use crate::document::Document;
use crate::nc::dump::type_name;
use crate::nc::hdf5_file::{Hdf5File, unreadable};
use crate::number::{bytes, grouped, short};
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// What is known about a file; a row of the JSON document.
#[derive(Debug, Serialize)]
struct Hdf5Description {
    file: String,
    format: &'static str,
    /// What ncdump -k calls the format.
    kind: &'static str,
    superblock: u8,
    /// Bytes of the file.
    size: u64,
    /// Bytes before those of HDF5.
    user_block: u64,
    /// Bytes of all values, and of what is stored of them.
    data_size: u64,
    stored_size: u64,
    groups: usize,
    types: usize,
    attributes: usize,
    dimensions: Vec<DimensionRow>,
    variables: Vec<StoredVariable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stripe: Option<u64>,
    unrepresented: Vec<UnrepresentedRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Partitions>,
}

#[derive(Debug, Serialize)]
struct StoredVariable {
    path: String,
    r#type: String,
    dimensions: Vec<String>,
    shape: Vec<u64>,
    attributes: usize,
    storage: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk: Option<Vec<u64>>,
    filters: Vec<String>,
    /// Bytes of all values, and of what is stored of them.
    size: u64,
    stored: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunks: Option<ChunkReport>,
    /// Where a contiguous variable begins in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    begin: Option<u64>,
}

#[derive(Debug, Serialize)]
struct UnrepresentedRow {
    path: String,
    reason: String,
}

/// Prints what is known about a file.
pub(super) fn print(args: &InfoArgs, opened: &Hdf5File, json: bool) -> Result<(), CommandError> {
    let described = Hdf5Description::new(args, opened)?;
    if json {
        Document::new(vec![described], Vec::new()).print()?;
    } else {
        terminal::print(&described.text())?;
    }
    opened.report_unrepresented()
}

impl Hdf5Description {
    fn new(args: &InfoArgs, opened: &Hdf5File) -> Result<Self, CommandError> {
        let definition = &opened.described.definition;
        let tree = GroupTree::new(definition);
        let stripe = StripeUnit::new(args.stripe, opened.file.source());
        let mut variables = Vec::new();
        let partitions = opened.partitioned.as_ref().map(|partitioned| {
            let dataset = partitioned.dataset.borrow();
            let probe = dataset.partition_probe().map(str::to_owned);
            let infos = dataset.partitions().unwrap_or_default();
            Partitions::new(&args.file, dataset.header(), infos, probe)
        });
        let each = definition.variables.iter().zip(&opened.described.objects);
        for (number, (variable, dataset)) in each.enumerate() {
            let divides = opened.partitioned.as_ref().is_some_and(|it| it.divides(number));
            let path = tree.path(definition, variable.group, &variable.name);
            let about = format!("cannot read the chunks of {path}");
            let chunks = match dataset.layout {
                Layout::Chunked(_) => Some(
                    ChunkReport::new(&opened.file, dataset, stripe)
                        .map_err(|error| unreadable(&about, error))?,
                ),
                _ => None,
            };
            let elements = definition.dataspace(variable).elements();
            let size = if divides {
                let size = u64::from(dataset.datatype.size);
                elements.and_then(|elements| elements.checked_mul(size)).unwrap_or(u64::MAX)
            } else {
                dataset.bytes().unwrap_or(u64::MAX)
            };
            let (storage, stored) = match (&dataset.layout, &chunks) {
                // What is stored of it is in the partitions.
                _ if divides => ("divided", 0),
                (_, Some(chunks)) => ("chunked", chunks.bytes),
                (Layout::Compact { data }, _) => ("compact", data.len() as u64),
                (Layout::Contiguous { address: Some(_), .. }, _) => ("contiguous", size),
                (Layout::Contiguous { .. }, _) => ("contiguous", 0),
                (Layout::Virtual { .. }, _) => ("virtual", 0),
                _ => ("external", 0),
            };
            let named = variable.dimensions.iter().filter_map(|&at| definition.dimensions.get(at));
            let filters = dataset.filters.iter().map(filter_name);
            let is_compressed = !dataset.filters.is_empty() && stored > 0;
            variables.push(StoredVariable {
                path,
                r#type: type_name(definition, &variable.datatype),
                dimensions: named.map(|dimension| dimension.name.to_string()).collect(),
                shape: definition.dataspace(variable).sizes(),
                attributes: variable.attributes.len(),
                storage,
                chunk: match &dataset.layout {
                    Layout::Chunked(layout) => Some(layout.chunk.clone()),
                    _ => None,
                },
                filters: filters.collect(),
                size,
                stored,
                ratio: is_compressed.then(|| size as f64 / stored as f64),
                chunks: chunks.filter(|_| args.chunks),
                begin: match &dataset.layout {
                    Layout::Contiguous { address: Some(address), .. } => {
                        Some(opened.file.superblock().base.saturating_add(address.0))
                    }
                    _ => None,
                },
            });
        }
        let dimensions = definition.dimensions.iter().map(|dimension| DimensionRow {
            name: tree.path(definition, dimension.group, &dimension.name),
            len: dimension.length,
            unlimited: dimension.unlimited,
        });
        let sum = |of: fn(&StoredVariable) -> u64| {
            variables.iter().fold(0, |sum: u64, row| sum.saturating_add(of(row)))
        };
        let unrepresented = opened
            .described
            .unrepresented
            .iter()
            .map(|one| UnrepresentedRow { path: one.path.to_string(), reason: one.reason.clone() });
        let superblock = opened.file.superblock();
        Ok(Self {
            file: opened.name.clone(),
            format: match opened.described.kind {
                NetcdfKind::Hdf5 => "HDF5",
                NetcdfKind::Netcdf4 | NetcdfKind::Netcdf4Classic => "netCDF-4",
            },
            kind: kind(opened.described.kind),
            superblock: superblock.version,
            size: opened.size,
            user_block: superblock.location,
            data_size: sum(|row| row.size),
            stored_size: sum(|row| row.stored),
            groups: definition.groups.len(),
            types: definition.types.len(),
            attributes: definition.groups.first().map_or(0, |root| root.attributes.len()),
            dimensions: dimensions.collect(),
            variables,
            stripe: args.chunks.then_some(stripe.0),
            unrepresented: unrepresented.collect(),
            partitions,
        })
    }

    /// How contiguous variables lie on stripes.
    fn contiguous(&self, stripe: u64) -> String {
        let begins = self.variables.iter().filter_map(|row| Some((row.begin?, row.size)));
        let (mut all, mut aligned, mut crossing) = (0_u64, 0_u64, 0_u64);
        for (begin, size) in begins {
            let last = begin.saturating_add(size.saturating_sub(1));
            all += 1;
            aligned += u64::from(begin.is_multiple_of(stripe));
            crossing += u64::from(size <= stripe && begin / stripe != last / stripe);
        }
        if all == 0 {
            return String::new();
        }
        let crossing = match crossing {
            0 => String::new(),
            count => format!(", {} cross one though they would fit into one", grouped(count)),
        };
        let are = if all == 1 { "contiguous variable" } else { "contiguous variables" };
        format!("\n  {} of {} {are} begin on a stripe{crossing}\n", grouped(aligned), grouped(all))
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", terminal::heading(&plain(&self.file)));
        let mut line = |what: &str, value: String| {
            let _ = writeln!(text, "  {what:<12}{value}");
        };
        let what = if self.format == "HDF5" {
            "HDF5, without conventions of netCDF".to_owned()
        } else {
            format!("{} (HDF5)", self.kind)
        };
        line("format", format!("{what}, superblock version {}", self.superblock));
        line("size", bytes(self.size));
        if self.user_block > 0 {
            line("user block", bytes(self.user_block));
        }
        line("values", bytes(self.data_size));
        line("stored", bytes(self.stored_size));
        line("groups", grouped(self.groups as u64));
        if self.types > 0 {
            line("types", format!("{} of users", grouped(self.types as u64)));
        }
        line("attributes", format!("{} of the root group", grouped(self.attributes as u64)));
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
            text += "\n";
            text += &self.values_table().render();
            text += "\n";
            text += &self.storage_table().render();
        }
        if let Some(stripe) = self.stripe {
            let rows =
                self.variables.iter().filter_map(|row| Some((&row.path, row.chunks.as_ref()?)));
            let rows: Vec<(String, &ChunkReport)> =
                rows.map(|(path, chunks)| (plain(path), chunks)).collect();
            if !rows.is_empty() {
                text += &chunk_table(&rows, stripe);
            }
            text += &self.contiguous(stripe);
        }
        if let Some(partitions) = &self.partitions {
            text += &partitions.text();
        }
        if terminal::is_utf8() { text } else { terminal::to_ascii(&text) }
    }

    fn values_table(&self) -> Table {
        let mut table = Table::new(&[
            ("variable", Side::Left),
            ("type", Side::Left),
            ("shape", Side::Left),
            ("size", Side::Right),
        ]);
        for row in &self.variables {
            table.row([plain(&row.path), plain(&row.r#type), shape(&row.shape), grouped(row.size)]);
        }
        table
    }

    fn storage_table(&self) -> Table {
        let mut table = Table::new(&[
            ("variable", Side::Left),
            ("storage", Side::Left),
            ("filters", Side::Left),
            ("stored", Side::Right),
            ("ratio", Side::Right),
        ]);
        for row in &self.variables {
            let storage = match &row.chunk {
                Some(chunk) => shape(chunk),
                None => row.storage.to_owned(),
            };
            table.row([
                plain(&row.path),
                storage,
                plain(&row.filters.join(", ")),
                grouped(row.stored),
                row.ratio.map_or_else(String::new, short),
            ]);
        }
        table
    }
}

/// What a filter is called, with the level of a compression.
fn filter_name(filter: &Filter) -> String {
    let level = filter.parameters.first();
    match (filter.id, level) {
        (1, Some(level)) => format!("deflate {level}"),
        (2, _) => "shuffle".into(),
        (3, _) => "fletcher32".into(),
        (4, _) => "szip".into(),
        (5, _) => "n-bit".into(),
        (6, _) => "scale-offset".into(),
        (307, Some(level)) => format!("bzip2 {level}"),
        (32000, _) => "lzf".into(),
        (32001, _) => "blosc".into(),
        (32004, _) => "lz4".into(),
        (32008, _) => "bitshuffle".into(),
        (32015, Some(level)) => format!("zstd {level}"),
        (id, _) => format!("filter {id}"),
    }
}

/// Lengths of dimensions.
fn shape(lengths: &[u64]) -> String {
    if lengths.is_empty() {
        return "scalar".into();
    }
    lengths.iter().map(|&length| grouped(length)).collect::<Vec<_>>().join(" × ")
}
