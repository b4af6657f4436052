//! Export of recordings to other formats, record by record, without keeping them in memory.

mod csv;
mod darshan;
mod jsonl;
mod perfetto;

use std::io::{self, Write};

pub use self::csv::COLUMNS as CSV_COLUMNS;
use crate::filter::Filter;
use crate::recording::Recording;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A JSON object in each line.
    Jsonl,
    /// Values between commas, with a line of names first.
    Csv,
    /// Trace events as Chrome and Perfetto read them, as one JSON document.
    Perfetto,
    /// Counters as `darshan-parser` prints them.
    Darshan,
}

/// Writes the records that a filter lets pass.
pub fn write(
    recording: &Recording,
    filter: &Filter,
    format: ExportFormat,
    into: &mut dyn Write,
) -> io::Result<()> {
    match format {
        ExportFormat::Jsonl => jsonl::write(recording, filter, into),
        ExportFormat::Csv => csv::write(recording, filter, into),
        ExportFormat::Perfetto => perfetto::write(recording, filter, into),
        ExportFormat::Darshan => darshan::write(recording, filter, into),
    }
}
