//! A JSON object in each line.

use std::io::{self, Write};

use crate::filter::Filter;
use crate::recording::Recording;
use crate::row::Row;

pub(super) fn write(
    recording: &Recording,
    filter: &Filter,
    into: &mut dyn Write,
) -> io::Result<()> {
    for (index, entry) in recording.nested(filter) {
        let row = Row::of(&recording.processes()[index], &entry);
        serde_json::to_writer(&mut *into, &row)?;
        into.write_all(b"\n")?;
    }
    Ok(())
}
