//! The partitions of a dataset: their files and contents.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use striate_array::format::Header;
use striate_array::{DatasetFiles, DatasetKind, PartitionInfo};
use striate_store::remote::Client;

use super::plain;
use crate::fs::Location;
use crate::nc::{place, store};
use crate::number::{bytes, counted};
use crate::table::{Side, Table};

/// The partitions of a dataset.
#[derive(Debug, Serialize)]
pub(super) struct Partitions {
    /// The library that has divided it: striate or pnetcdf.
    by: &'static str,
    /// What its files know each other by.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Whether all exist and are valid.
    whole: bool,
    /// What was found out about the targets when they were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<String>,
    files: Vec<PartitionRow>,
    #[serde(skip)]
    divided: BTreeSet<usize>,
}

#[derive(Debug, Serialize)]
struct PartitionRow {
    index: usize,
    file: String,
    /// The directory that it is in, or the URL of that.
    target: String,
    /// On servers, those that have it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<String>,
    /// Bytes of the file; absent if the file does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    variables: Vec<RangeRow>,
}

#[derive(Debug, Serialize)]
struct RangeRow {
    variable: String,
    dimension: String,
    first: u64,
    last: u64,
}

impl Partitions {
    pub(super) fn new(
        master: &Path,
        header: &Header,
        infos: &[PartitionInfo],
        probe: Option<String>,
    ) -> Self {
        let kind = DatasetFiles::of(master).map(|files| files.kind);
        let (by, id) = match kind {
            Ok(DatasetKind::SubFiles) => ("pnetcdf", None),
            Ok(DatasetKind::Partitioned { id }) => ("striate", Some(id)),
            _ => ("striate", None),
        };
        let files = infos.iter().enumerate();
        Self {
            by,
            id,
            probe,
            whole: infos.iter().all(|info| info.missing.is_none()),
            files: files.map(|(index, info)| PartitionRow::new(index, header, info)).collect(),
            divided: infos.iter().flat_map(|info| &info.variables).map(|it| it.variable).collect(),
        }
    }

    /// Whether a variable is divided.
    pub(super) fn divide(&self, variable: usize) -> bool {
        self.divided.contains(&variable)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let whole = if self.whole { "all there" } else { "with problems" };
        let by = if self.by == "pnetcdf" { ", sub-files of PnetCDF" } else { "" };
        let partitions = counted(self.files.len() as u64, "partition");
        let _ = writeln!(text, "\n{partitions}, {whole}{by}");
        let mut table = Table::new(&[
            ("partition", Side::Right),
            ("size", Side::Right),
            ("target", Side::Left),
            ("file", Side::Left),
            ("holds", Side::Left),
        ]);
        for row in &self.files {
            let name = row.file.rsplit('/').next().unwrap_or(&row.file);
            let servers = match row.servers.as_slice() {
                [] => String::new(),
                [one] => format!(" on {one}"),
                several => format!(" on {}", counted(several.len() as u64, "server")),
            };
            table.row([
                row.index.to_string(),
                row.size.map_or_else(|| "-".into(), bytes),
                plain(&row.target) + &servers,
                plain(name),
                row.holds(),
            ]);
        }
        text += &table.render();
        if let Some(probe) = &self.probe {
            let mut lines = probe.lines();
            let _ = writeln!(text, "\nchosen: {}", plain(lines.next().unwrap_or_default()));
            for line in lines {
                let _ = writeln!(text, "  {}", plain(&line.replace('\t', "  ")));
            }
        }
        for row in &self.files {
            if let Some(problem) = &row.problem {
                let _ = writeln!(text, "{}: {}", plain(&row.file), plain(problem));
            }
        }
        text
    }
}

impl PartitionRow {
    fn new(index: usize, header: &Header, info: &PartitionInfo) -> Self {
        let file = info.file.display().to_string();
        let target = file.rsplit_once('/').map_or(".", |(directory, _)| directory).to_owned();
        let servers = match place(&info.file) {
            Ok(Location::Remote(url)) => Client::shared(&url)
                .and_then(|client| client.lookup(&url.path))
                .map_or_else(|_| Vec::new(), |known| known.servers),
            _ => Vec::new(),
        };
        let ranges = info.variables.iter().filter_map(|part| {
            let variable = header.variables.get(part.variable)?;
            let dimension = *variable.dimensions.get(part.dimension)? as usize;
            Some(RangeRow {
                variable: header.path(variable.group, &variable.name),
                dimension: header.dimensions.get(dimension)?.name.clone(),
                first: part.indices.start,
                last: part.indices.end.saturating_sub(1),
            })
        });
        Self {
            index,
            target,
            servers,
            size: store(&info.file).ok().and_then(|store| store.len().ok()),
            problem: info.missing.clone(),
            variables: ranges.collect(),
            file,
        }
    }

    /// What it holds: variables that are divided alike together.
    fn holds(&self) -> String {
        let mut groups: Vec<(&RangeRow, Vec<String>)> = Vec::new();
        for row in &self.variables {
            let alike = |other: &RangeRow| {
                (&other.dimension, other.first, other.last) == (&row.dimension, row.first, row.last)
            };
            match groups.iter_mut().find(|(first, _)| alike(first)) {
                Some((_, names)) => names.push(plain(&row.variable)),
                None => groups.push((row, vec![plain(&row.variable)])),
            }
        }
        let group = |(row, names): &(&RangeRow, Vec<String>)| {
            let dimension = plain(&row.dimension);
            format!("{dimension} {}..{} of {}", row.first, row.last, names.join(", "))
        };
        groups.iter().map(group).collect::<Vec<_>>().join("; ")
    }
}
