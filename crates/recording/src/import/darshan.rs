//! Darshan logs: the reads and writes that their extended traces (DXT) have at the POSIX layer.
//!
//! They are the same as in the output of `darshan-dxt-parser`, with times as exact as they were
//! recorded. Those of the MPI-IO layer move the same bytes: they are counted as skipped.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_darshan::{Direction, Log, Module, Segment, Traced};
use striate_trace::{Call, Function, Header, Origin, Record, TracedFile};

use super::Imported;
use super::dxt::process_of;
use super::parts::{Parts, Unsorted};
use crate::error::RecordingError;

pub(super) fn import(
    input: &mut dyn BufRead,
    name: &Path,
    parts: &mut Parts,
) -> Result<Imported, RecordingError> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| RecordingError::read(name, error))?;
    let log = Log::parse(&bytes)
        .map_err(|error| RecordingError::Darshan { path: name.to_path_buf(), error })?;
    if log.header.region(Module::DXT_POSIX).length == 0 {
        return Err(RecordingError::CountersOnly(name.to_path_buf()));
    }
    let mut importer =
        DarshanImporter { log: &log, imported: Imported::default(), files: HashMap::new() };
    let mut ranks = Unsorted::default();
    let mut written = Ok(());
    let read = log.segments(Module::DXT_POSIX, &mut |traced, segment| {
        if written.is_ok() {
            written = importer.add(traced, segment, &mut ranks, parts);
        }
    });
    written?;
    let mut imported = importer.imported;
    imported.incomplete.extend(log.damage.iter().map(ToString::to_string));
    imported.incomplete.extend(read.err().map(|damage| damage.to_string()));
    if log.header.is_partial(Module::DXT_POSIX) {
        imported.incomplete.push(
            "DXT_POSIX: the log is partial: Darshan ran out of memory and left reads and writes out"
                .into(),
        );
    }
    // Damage in modules that are left out does not matter.
    let mut above = 0;
    let _ = log.segments(Module::DXT_MPI_IO, &mut |_, _| above += 1);
    if above > 0 {
        imported.skipped.insert("X_MPIIO".into(), above);
    }
    imported.processes = ranks.processes() as u64;
    parts.end_unsorted(ranks)?;
    Ok(imported)
}

struct DarshanImporter<'l> {
    log: &'l Log<'l>,
    imported: Imported,
    /// Numbers and paths of files by record id.
    files: HashMap<u64, (u64, PathBuf)>,
}

impl DarshanImporter<'_> {
    fn add(
        &mut self,
        traced: &Traced,
        segment: Segment,
        ranks: &mut Unsorted,
        parts: &mut Parts,
    ) -> Result<(), RecordingError> {
        let Some((rank, record)) = self.record(traced, segment) else {
            let place = self.imported.records + self.imported.malformed + 1;
            self.imported.malformed(place, format!("{segment:?}").as_bytes());
            return Ok(());
        };
        self.imported.records += 1;
        let process = process_of(rank);
        ranks.process(process, || {
            let job = &self.log.job;
            let command = job.command.split_whitespace().map(str::to_owned).collect();
            let host = traced.host.clone();
            let origin = Origin { process, parent: 0, rank: Some(rank), host, command };
            // Times of segments are counted from the start of the job.
            let began = u64::try_from(job.start_ns).unwrap_or(0);
            let label = "darshan".to_owned();
            Header { origin, directory: PathBuf::from("/"), began, clock: 0, label, place: 0 }
        });
        if let Some(file) = record.call.file() {
            ranks.hold(process, file);
        }
        parts.write_unsorted(ranks, process, record)
    }

    /// The rank and the record of a segment, if its numbers can be true.
    fn record(&mut self, traced: &Traced, segment: Segment) -> Option<(u32, Record)> {
        let rank = u32::try_from(traced.rank).ok().filter(|rank| *rank < u32::MAX)?;
        let offset = u64::try_from(segment.offset?).ok()?;
        let length = u64::try_from(segment.length).ok()?;
        offset.checked_add(length).filter(|end| i64::try_from(*end).is_ok())?;
        let start = nanoseconds(segment.start)?;
        let end = nanoseconds(segment.end)?.max(start);
        let opener = process_of(rank);
        let next = self.files.len() as u64 + 1;
        let (number, path) = self.files.entry(traced.id).or_insert_with(|| {
            let known = self.log.name(traced.id).filter(|name| !name.is_empty());
            let unknown = || format!("/unknown-file-{:016x}", traced.id);
            (next, PathBuf::from(known.map_or_else(unknown, str::to_owned)))
        });
        let file = TracedFile { opener, number: *number, path: path.clone(), flags: libc::O_RDWR };
        let file = Arc::new(file);
        let (placed, offset, flags, parts) = (true, Some(offset), 0, 1);
        let (function, call) = match segment.direction {
            Direction::Read => {
                (Function::Pread, Call::Read { file, placed, offset, length, flags, parts })
            }
            Direction::Write => {
                (Function::Pwrite, Call::Write { file, placed, offset, length, flags, parts })
            }
        };
        let thread = segment.thread.map_or(opener, |thread| thread as u32);
        let duration = end - start;
        // Only transfers that succeeded are logged, with their lengths.
        let (outcome, known) = (Ok(length), true);
        let record = Record { function, thread, start, duration, outcome, known, call };
        Some((rank, record))
    }
}

/// Seconds as nanoseconds.
fn nanoseconds(seconds: f64) -> Option<u64> {
    (seconds.is_finite() && (0.0..1e9).contains(&seconds)).then(|| (seconds * 1e9).round() as u64)
}
