//! [`Work`]: bytes of one request on their way to or from an object.
//!
//! The bytes of a described part are moved together with the bytes between them, in one system
//! call, or run by run, whichever is cheaper. A part that does not fit a chunk is moved in several
//! *stretches*.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{PoisonError, RwLock};

use striate_datatype::{Cursor, Datatype, Packer};
use striate_layout::striping::Part;
use striate_wire::{Failure, FailureCode};

use super::Engine;
use super::target::{Target, TargetBytes};
use crate::objects::failed;

/// One request at work on an object.
pub(super) struct Work<'a> {
    plain: Plain<'a>,
    typed: Option<Typed<'a>>,
}

/// A description at work.
struct Typed<'a> {
    copies: &'a Datatype,
    packer: &'a Packer,
    /// Mean length of a run.
    run: f64,
    cursor: Cursor<'a>,
}

/// Bytes of a part that are moved together.
struct Stretch {
    /// As positions in the stream.
    stream: Range<u64>,
    /// Offset of the first in the file.
    low: u64,
    /// Its place in the object.
    place: u64,
    /// From the first to one past the last.
    span: u64,
}

impl Stretch {
    const fn bytes(&self) -> u64 {
        self.stream.end - self.stream.start
    }
}

fn unusable(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCode::Malformed, format!("the description cannot be used: {error}"))
}

impl Typed<'_> {
    /// Runs of a part, about, its bytes, and what they span.
    fn figures(&self, part: &Part) -> (f64, f64, f64) {
        let bytes = (part.stream.end - part.stream.start) as f64;
        (bytes / self.run, bytes, (part.file.end - part.file.start) as f64)
    }

    fn offset_of(&mut self, position: u64) -> Result<u64, Failure> {
        self.cursor.seek(position);
        let offset = self.cursor.offset().ok_or_else(|| unusable("it has ended"))?;
        Ok(offset as u64)
    }

    /// The stretch at the beginning of `left`, of a part; it spans at most `limit` bytes.
    fn stretch(
        &mut self,
        part: &Part,
        left: &Range<u64>,
        limit: usize,
    ) -> Result<Stretch, Failure> {
        if *left == part.stream && part.file.end - part.file.start <= limit as u64 {
            let span = part.file.end - part.file.start;
            let (low, place) = (part.file.start, part.object);
            return Ok(Stretch { stream: left.clone(), low, place, span });
        }
        let low = self.offset_of(left.start)?;
        let high = part.file.end.min(low + limit as u64);
        let end = self.copies.bytes_before(1, high as i64).map_err(unusable)?;
        let stream = left.start..end.clamp(left.start + 1, left.end);
        let span = self.offset_of(stream.end - 1)? + 1 - low;
        Ok(Stretch { stream, low, place: part.object + (low - part.file.start), span })
    }

    /// Calls `each` with the runs of `len` bytes from a position on: which of them, and where they
    /// lie in the object.
    fn for_runs(
        &mut self,
        part: &Part,
        position: u64,
        len: usize,
        mut each: impl FnMut(Range<usize>, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.cursor.seek(position);
        let mut done = 0;
        while done < len
            && let Some(run) = self.cursor.next_run((len - done) as u64)
        {
            let end = done + run.len as usize;
            each(done..end, part.object + (run.offset as u64 - part.file.start))?;
            done = end;
        }
        Ok(())
    }
}

impl<'a> Work<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        file: &'a File,
        object: u64,
        target: &'a Target,
    ) -> Result<Self, Failure> {
        let typed = match &target.bytes {
            TargetBytes::Typed { copies, packer, run, .. } => {
                let cursor = Cursor::new(copies, 1).map_err(unusable)?;
                Some(Typed { copies, packer, run: *run, cursor })
            }
            _ => None,
        };
        Ok(Self { plain: Plain { engine, file, object }, typed })
    }

    /// Gathers the bytes `now` of a part's stream into `out`, with `stage` to work in.
    pub(super) fn gather(
        &mut self,
        part: &Part,
        now: Range<u64>,
        mut out: &mut [u8],
        stage: &mut [u8],
    ) -> Result<(), Failure> {
        let plain = self.plain;
        let Some(typed) = &mut self.typed else {
            return plain.read_at(part.object + now.start - part.stream.start, out);
        };
        let (runs, bytes, span) = typed.figures(part);
        if !plain.engine.objects.costs.reads_whole(runs, bytes, span) {
            return typed.for_runs(part, now.start, out.len(), |range, place| {
                plain.read_at(place, &mut out[range])
            });
        }
        let mut left = now;
        while !left.is_empty() {
            let stretch = typed.stretch(part, &left, stage.len())?;
            let (these, rest) = out.split_at_mut(stretch.bytes() as usize);
            if stretch.span == stretch.bytes() {
                plain.read_at(stretch.place, these)?;
            } else {
                let window = &mut stage[..stretch.span as usize];
                plain.read_at(stretch.place, window)?;
                let (base, position) = (stretch.low as i64, stretch.stream.start);
                typed.packer.pack_part(window, base, position, these).map_err(unusable)?;
            }
            out = rest;
            left.start = stretch.stream.end;
        }
        Ok(())
    }

    /// Scatters `bytes` to `now` of a part's stream, with `stage` to work in.
    pub(super) fn scatter(
        &mut self,
        part: &Part,
        now: Range<u64>,
        mut bytes: &[u8],
        stage: &mut [u8],
    ) -> Result<(), Failure> {
        let (plain, writers) = (self.plain, self.plain.writers());
        let shared = || writers.read().unwrap_or_else(PoisonError::into_inner);
        let Some(typed) = &mut self.typed else {
            let _others = shared();
            // The stream of a part shrinks as it comes; its file range says where it began.
            let written = part.file.end - part.file.start - (part.stream.end - now.start);
            return plain.write_at(part.object + written, bytes);
        };
        let (runs, count, span) = typed.figures(part);
        if !plain.engine.objects.costs.writes_whole(runs, count, span) {
            let _others = shared();
            return typed.for_runs(part, now.start, bytes.len(), |range, place| {
                plain.write_at(place, &bytes[range])
            });
        }
        let mut left = now;
        while !left.is_empty() {
            let stretch = typed.stretch(part, &left, stage.len())?;
            let (these, rest) = bytes.split_at(stretch.bytes() as usize);
            if stretch.span == stretch.bytes() {
                let _others = shared();
                plain.write_at(stretch.place, these)?;
            } else {
                // Read, changed and written back while no other request writes.
                let _alone = writers.write().unwrap_or_else(PoisonError::into_inner);
                let window = &mut stage[..stretch.span as usize];
                plain.read_at(stretch.place, window)?;
                let (base, position) = (stretch.low as i64, stretch.stream.start);
                typed.packer.unpack_part(position, these, window, base).map_err(unusable)?;
                plain.write_at(stretch.place, window)?;
            }
            bytes = rest;
            left.start = stretch.stream.end;
        }
        Ok(())
    }
}

/// Contiguous bytes of the object.
#[derive(Clone, Copy)]
struct Plain<'a> {
    engine: &'a Engine,
    file: &'a File,
    object: u64,
}

impl<'a> Plain<'a> {
    fn writers(&self) -> &'a RwLock<()> {
        self.engine.objects.writers(self.object)
    }

    /// Reads all; after the end of the object there are zeros.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let mut got = 0;
        while got < into.len() {
            match self.file.read_at(&mut into[got..], offset + got as u64) {
                Ok(0) => {
                    into[got..].fill(0);
                    break;
                }
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read", self.object, &error)),
            }
        }
        self.engine.statistics.object_reads.add(1);
        self.engine.statistics.object_bytes_read.add(got as u64);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.engine.statistics.object_writes.add(1);
        self.engine.statistics.object_bytes_written.add(bytes.len() as u64);
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| failed("write", self.object, &error))
    }
}
