//! Comma-separated values as in RFC 4180, with Unix line ends.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::filter::Filter;
use crate::recording::Recording;
use crate::row::Row;

/// The names of the columns.
pub const COLUMNS: &str = "start,duration,process,rank,host,thread,function,kind,path,to,file,opener,descriptor,\
offset,to_offset,length,placed,parts,flags,mode,whence,command,size,truth,result,error,count,collective,above";

pub(super) fn write(
    recording: &Recording,
    filter: &Filter,
    into: &mut dyn Write,
) -> io::Result<()> {
    writeln!(into, "{COLUMNS}")?;
    let mut line = CsvLine(String::new());
    for (index, entry) in recording.nested(filter) {
        let row = Row::of(&recording.processes()[index], &entry);
        line.0.clear();
        line.row(&row);
        into.write_all(line.0.as_bytes())?;
    }
    Ok(())
}

/// A line that is being made.
struct CsvLine(String);

impl CsvLine {
    fn row(&mut self, row: &Row) {
        self.value(Some(row.start));
        self.value(Some(row.duration));
        self.value(Some(row.process));
        self.value(row.rank);
        self.text(Some(&row.host));
        self.value(Some(row.thread));
        self.text(Some(row.function));
        self.text(Some(row.kind));
        self.text(row.path.as_deref());
        self.text(row.to.as_deref());
        self.value(row.file);
        self.value(row.opener);
        self.value(row.descriptor);
        self.value(row.offset);
        self.value(row.to_offset);
        self.value(row.length);
        self.value(row.placed);
        self.value(row.parts);
        self.value(row.flags);
        self.value(row.mode);
        self.value(row.whence);
        self.value(row.command);
        self.value(row.size);
        self.value(row.truth);
        self.value(row.result);
        self.text(row.error.as_deref());
        self.value(row.count);
        self.value(row.collective);
        self.text(row.above);
        // The comma after the last is the end of the line.
        self.0.pop();
        self.0.push('\n');
    }

    fn value(&mut self, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            let _ = write!(self.0, "{value}");
        }
        self.0.push(',');
    }

    fn text(&mut self, text: Option<&str>) {
        let text = text.unwrap_or_default();
        if text.contains([',', '"', '\n', '\r']) {
            let _ = write!(self.0, "\"{}\"", text.replace('"', "\"\""));
        } else {
            self.0.push_str(text);
        }
        self.0.push(',');
    }
}
