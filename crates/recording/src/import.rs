//! Import of the output of other tools as recordings.
//!
//! Lines that cannot be parsed are counted, and the first ones are shown; the rest is imported.
//! Calls that are not operations on files are counted by name. Memory is needed for the open files
//! of processes and for a block of each live process.

mod darshan;
mod dxt;
mod input;
mod parts;
mod strace;

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use self::input::Input;
use self::parts::Parts;
use crate::error::RecordingError;
use crate::progress::Progress;

/// What a file may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportFormat {
    /// The output of `strace -f -ttt -T`, with `-y` or without.
    Strace,
    /// The output of `darshan-dxt-parser`.
    Dxt,
    /// A log of Darshan with extended traces (DXT).
    Darshan,
}

/// Lines that were not understood which are kept to be shown.
const SHOWN: usize = 10;
/// Bytes of such a line that are kept.
const SHOWN_BYTES: usize = 160;
/// Longer lines are not looked at further.
const LONGEST_LINE: usize = 16 << 20;
/// Lines that are looked at to see what a file is.
const LOOKED_AT: usize = 200;

/// What was imported, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Lines of the file.
    pub lines: u64,
    /// Processes; one that became another program counts again.
    pub processes: u64,
    /// Records that were made.
    pub records: u64,
    /// Calls that are not operations on files, by name.
    pub skipped: BTreeMap<String, u64>,
    /// Calls on descriptors that are not files (pipes, sockets, devices) or, unless it is
    /// [`annotated`](Self::annotated), were not seen to be opened, by name.
    pub elsewhere: BTreeMap<String, u64>,
    /// Whether the paths of descriptors are in the output (`strace -y`).
    pub annotated: bool,
    /// Calls that were interrupted and will be made again, or never ended.
    pub unended: u64,
    /// Lines that were not understood.
    pub malformed: u64,
    /// The first of these, with their numbers.
    pub first_malformed: Vec<(u64, String)>,
    /// What the file lacks: damage, and what its writer left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
}

impl Imported {
    fn skip(&mut self, name: &str) {
        count(&mut self.skipped, name);
    }

    fn elsewhere(&mut self, name: &str) {
        count(&mut self.elsewhere, name);
    }

    fn malformed(&mut self, line: u64, text: &[u8]) {
        self.malformed += 1;
        if self.first_malformed.len() < SHOWN {
            let text = &text[..text.len().min(SHOWN_BYTES)];
            self.first_malformed.push((line, String::from_utf8_lossy(text).into_owned()));
        }
    }
}

/// Adds one of a name. There are only so many system calls; a file full of other words is not kept.
fn count(counts: &mut BTreeMap<String, u64>, name: &str) {
    const MOST_NAMES: usize = 1000;
    let name =
        if counts.len() >= MOST_NAMES && !counts.contains_key(name) { "others" } else { name };
    *counts.entry(name.to_owned()).or_default() += 1;
}

/// What is known of a file that is imported.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What it is; it is found out if that is not said.
    pub format: Option<ImportFormat>,
    /// The directory in which the program was started, for relative paths, if it is not in the
    /// file.
    pub directory: Option<PathBuf>,
    /// Counts the bytes of the file that were read, and stops the import.
    pub progress: Arc<Progress>,
}

/// Makes a recording in a new file of what another tool wrote.
pub fn import(
    from: &Path,
    options: &Options,
    into: &Path,
) -> Result<(ImportFormat, Imported), RecordingError> {
    let read = |error| RecordingError::read(from, error);
    let input = Input::open(from, &options.progress).map_err(read)?;
    let (format, mut input) = input
        .looked_at(|first| match options.format {
            Some(format) => Ok(Some(format)),
            None => recognised(first),
        })
        .map_err(read)?;
    if options.progress.is_stopped() {
        return Err(RecordingError::Interrupted);
    }
    let format = format.ok_or_else(|| RecordingError::UnknownFormat(from.to_path_buf()))?;
    let options = Options { format: Some(format), ..options.clone() };
    options.progress.begin("importing", from.metadata().map_or(0, |about| about.len()));
    let imported = import_from(&mut input, &options, from, into)?;
    Ok((format, imported))
}

/// As [`import`], from anything that has lines, which errors call by a name. Without a format it is
/// taken for the output of strace.
pub fn import_from(
    input: &mut dyn BufRead,
    options: &Options,
    name: &Path,
    into: &Path,
) -> Result<Imported, RecordingError> {
    let mut parts = Parts::new(into)?;
    let input = &mut CountedInput { input, progress: &options.progress };
    let imported = match options.format.unwrap_or(ImportFormat::Strace) {
        ImportFormat::Strace => {
            strace::import(input, name, options.directory.as_deref(), &mut parts)
        }
        ImportFormat::Dxt => dxt::import(input, name, &mut parts),
        ImportFormat::Darshan => darshan::import(input, name, &mut parts),
    };
    if options.progress.is_stopped() {
        return Err(RecordingError::Interrupted);
    }
    let imported = imported?;
    if imported.records == 0
        && let Some((line, text)) = imported.first_malformed.first().cloned()
    {
        return Err(RecordingError::NothingUnderstood { path: name.to_path_buf(), line, text });
    }
    parts.finish()?;
    Ok(imported)
}

/// The input, counted as progress; it ends when that is stopped.
struct CountedInput<'i> {
    input: &'i mut dyn BufRead,
    progress: &'i Progress,
}

impl Read for CountedInput<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.input.read(into)
    }
}

impl BufRead for CountedInput<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.progress.is_stopped() { Ok(&[]) } else { self.input.fill_buf() }
    }

    fn consume(&mut self, count: usize) {
        self.progress.add(count as u64);
        self.input.consume(count);
    }
}

/// What a file is, by its first lines.
fn recognised(input: &mut dyn BufRead) -> std::io::Result<Option<ImportFormat>> {
    // Files hand out more than this at a time.
    if striate_darshan::is_log(input.fill_buf()?) {
        return Ok(Some(ImportFormat::Darshan));
    }
    let mut line = Vec::new();
    for _ in 0..LOOKED_AT {
        if !next_line(input, &mut line)? {
            break;
        }
        if line.starts_with(b"# DXT") || line.starts_with(b"# darshan log version") {
            return Ok(Some(ImportFormat::Dxt));
        }
        if strace::is_line(&line) {
            return Ok(Some(ImportFormat::Strace));
        }
    }
    Ok(None)
}

/// Reads a line without its end; false after the last. Of a line that is too long, the rest is left
/// out.
fn next_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut some = false;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            return Ok(some);
        }
        some = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        line.extend_from_slice(&part[..part.len().min(LONGEST_LINE - line.len())]);
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(true);
        }
    }
}
