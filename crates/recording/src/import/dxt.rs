//! The output of `darshan-dxt-parser`: reads and writes of each rank, file by file.
//!
//! There are lines about the job (`# exe: …`, `# start_time: …`), then for each file and rank some
//! about these (`# DXT, file_id: …, file_name: …`, `# DXT, rank: …, hostname: …`) and a row for
//! each call: `X_POSIX rank write|read segment offset length start end [OST …]`. Newer versions
//! have more columns, with a header that names them. Rows of `X_MPIIO` describe the same bytes:
//! they are counted as skipped. How a file was opened is not in the output, so all files count as
//! open to be read and written.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_trace::{Call, Function, Header, Origin, Record, TracedFile};

use super::parts::{Parts, Unsorted};
use super::{Imported, next_line};
use crate::error::RecordingError;

/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

pub(super) fn import(
    input: &mut dyn BufRead,
    name: &Path,
    parts: &mut Parts,
) -> Result<Imported, RecordingError> {
    let mut importer = DxtImporter::default();
    let mut line = Vec::new();
    while next_line(input, &mut line).map_err(|error| RecordingError::read(name, error))? {
        importer.imported.lines += 1;
        importer.line(&line, parts)?;
    }
    importer.imported.processes = importer.ranks.processes() as u64;
    parts.end_unsorted(std::mem::take(&mut importer.ranks))?;
    Ok(importer.imported)
}

#[derive(Debug, Default)]
struct DxtImporter {
    imported: Imported,
    command: Vec<String>,
    /// Seconds since 1970.
    began: f64,
    file: Option<PathBuf>,
    rank: Option<u32>,
    host: String,
    /// The column with the thread, if there is one.
    thread: Option<usize>,
    numbers: BTreeMap<PathBuf, u64>,
    ranks: Unsorted,
}

impl DxtImporter {
    fn line(&mut self, line: &[u8], parts: &mut Parts) -> Result<(), RecordingError> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if let Some(comment) = text.strip_prefix('#') {
            self.comment(comment.trim());
            return Ok(());
        }
        if text.is_empty() {
            return Ok(());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.first() {
            Some(&"X_POSIX") => match self.row(&words) {
                Some((rank, row)) => self.add(rank, row, parts)?,
                None => self.imported.malformed(self.imported.lines, line),
            },
            Some(module) if module.starts_with("X_") => self.imported.skip(module),
            _ => self.imported.malformed(self.imported.lines, line),
        }
        Ok(())
    }

    fn comment(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("DXT, file_id:") {
            let name = rest.split_once("file_name:").map(|(_, name)| name.trim());
            self.file = name.filter(|name| !name.is_empty()).map(PathBuf::from);
            (self.rank, self.thread) = (None, None);
        } else if let Some(rest) = text.strip_prefix("DXT, rank:") {
            let (rank, host) = rest.split_once(',').unwrap_or((rest, ""));
            self.rank = rank.trim().parse().ok();
            let host = host.split_once("hostname:").map_or("", |(_, host)| host.trim());
            host.clone_into(&mut self.host);
        } else if text.starts_with("Module") {
            let is_thread = |word: &str| word.to_ascii_lowercase().contains("thread");
            self.thread = text.split_whitespace().position(is_thread);
        } else if let Some(command) = text.strip_prefix("exe:") {
            self.command = command.split_whitespace().map(str::to_owned).collect();
        } else if let Some(time) = text.strip_prefix("start_time:") {
            self.began = time.trim().parse().ok().filter(|time| *time > 0.0).unwrap_or(0.0);
        }
    }

    /// The rank and the record in a row.
    fn row(&mut self, words: &[&str]) -> Option<(u32, Record)> {
        let path = self.file.clone()?;
        let [_, rank, way, _segment, offset, length, start, end, ..] = words else { return None };
        let rank = rank.parse().ok().or(self.rank)?;
        let reads = match *way {
            "read" => true,
            "write" => false,
            _ => return None,
        };
        let offset: u64 = offset.parse().ok()?;
        let length: u64 = length.parse().ok()?;
        let start = seconds(start)?;
        let end = seconds(end)?.max(start);
        let thread = self.thread.and_then(|column| words.get(column)).and_then(|word| {
            let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
            digits.parse::<u64>().ok().map(|thread| thread as u32)
        });
        let next = self.numbers.len() as u64 + 1;
        let number = *self.numbers.entry(path.clone()).or_insert(next);
        let opener = process_of(rank);
        let file = Arc::new(TracedFile { opener, number, path, flags: libc::O_RDWR });
        let (placed, offset) = (true, Some(offset));
        let call = if reads {
            Call::Read { file, placed, offset, length, flags: 0, parts: 1 }
        } else {
            Call::Write { file, placed, offset, length, flags: 0, parts: 1 }
        };
        let record = Record {
            function: if reads { Function::Pread } else { Function::Pwrite },
            thread: thread.unwrap_or(opener),
            start,
            duration: end - start,
            known: true,
            outcome: Ok(length),
            call,
        };
        Some((rank, record))
    }

    fn add(&mut self, rank: u32, record: Record, parts: &mut Parts) -> Result<(), RecordingError> {
        self.imported.records += 1;
        self.ranks.process(process_of(rank), || {
            let origin = Origin {
                process: process_of(rank),
                parent: 0,
                rank: Some(rank),
                host: self.host.clone(),
                command: self.command.clone(),
            };
            // Times of rows are counted from the start of the job.
            let (began, clock) = ((self.began * SECOND) as u64, 0);
            let label = "darshan-dxt-parser".to_owned();
            Header { origin, directory: PathBuf::from("/"), began, clock, label, place: 0 }
        });
        if let Some(file) = record.call.file() {
            self.ranks.hold(process_of(rank), file);
        }
        parts.write_unsorted(&mut self.ranks, process_of(rank), record)
    }
}

/// Ranks have no numbers of processes there.
pub(super) const fn process_of(rank: u32) -> u32 {
    rank.saturating_add(1)
}

/// Seconds as nanoseconds.
fn seconds(word: &str) -> Option<u64> {
    let seconds: f64 = word.parse().ok()?;
    (seconds.is_finite() && (0.0..1e9).contains(&seconds))
        .then(|| (seconds * SECOND).round() as u64)
}
