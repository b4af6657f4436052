//! [`Work`]: bytes of one request on their way to or from an object.
//!
//! A described part is worked through in *stretches*, as much of it as a chunk holds with its gaps. The
//! bytes of a stretch are moved with all that lies between them, in one system call, or run by run.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{PoisonError, RwLock};

use striate_datatype::{Cursor, Datatype, Packer};
use striate_layout::striping::Part;
use striate_wire::{Failure, FailureCode};

use super::Engine;
use super::target::{Meant, Target};
use crate::objects::failed;

/// Seconds of a system call and of a byte copied, about: they only decide between two right ways.
const CALL: f64 = 0.4e-6;
const COPY: f64 = 1.0 / 10e9;

/// Times that the span of a stretch is passed over when it is read, and when it is read, changed and
/// written back.
const READ: f64 = 1.0;
const READ_AND_WRITE: f64 = 2.5;

/// One request at work on an object.
pub(super) struct Work<'a> {
    pub(super) engine: &'a Engine,
    pub(super) file: &'a File,
    pub(super) object: u64,
    pub(super) target: &'a Target,
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

    /// Whether runs of this length are better moved with all that lies between them.
    fn as_a_whole(&self, run: f64, passes: f64) -> bool {
        let bytes = self.bytes() as f64;
        let one_by_one = bytes / run * CALL;
        passes * (CALL + self.span as f64 * COPY) < one_by_one
    }
}

fn unusable(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCode::Malformed, format!("the description cannot be used: {error}"))
}

/// The stretch at the beginning of `left`; it spans at most `room` bytes.
fn stretch(
    copies: &Datatype,
    cursor: &mut Cursor<'_>,
    part: &Part,
    left: &Range<u64>,
    room: usize,
) -> Result<Stretch, Failure> {
    let offset_of = |cursor: &mut Cursor<'_>, position| {
        cursor.seek(position);
        cursor.offset().map(|offset| offset as u64).ok_or_else(|| unusable("it has ended"))
    };
    let low = offset_of(cursor, left.start)?;
    let high = part.file.end.min(low + room as u64);
    let end = copies.bytes_before(1, high as i64).map_err(unusable)?;
    let stream = left.start..end.clamp(left.start + 1, left.end);
    let span = offset_of(cursor, stream.end - 1)? + 1 - low;
    Ok(Stretch { stream, low, place: part.object + (low - part.file.start), span })
}

impl Work<'_> {
    fn writers(&self) -> &RwLock<()> {
        self.engine.objects.writers(self.object)
    }

    /// Gathers the bytes `now` of a part's stream into `out`, with `stage` to work in.
    pub(super) fn gather(
        &self,
        part: &Part,
        now: Range<u64>,
        mut out: &mut [u8],
        stage: &mut [u8],
    ) -> Result<(), Failure> {
        let Meant::Typed { copies, packer, run, .. } = &self.target.bytes else {
            return self.read_at(part.object + now.start - part.stream.start, out);
        };
        let mut cursor = Cursor::new(copies, 1).map_err(unusable)?;
        let mut left = now;
        while !left.is_empty() {
            let stretch = stretch(copies, &mut cursor, part, &left, stage.len())?;
            let (these, rest) = out.split_at_mut(stretch.bytes() as usize);
            if stretch.span == stretch.bytes() {
                self.read_at(stretch.place, these)?;
            } else if stretch.as_a_whole(*run, READ) {
                let window = &mut stage[..stretch.span as usize];
                self.read_at(stretch.place, window)?;
                let (base, position) = (stretch.low as i64, stretch.stream.start);
                packer.pack_part(window, base, position, these).map_err(unusable)?;
            } else {
                cursor.seek(stretch.stream.start);
                for_runs(&mut cursor, these.len(), |range, offset| {
                    self.read_at(part.object + (offset - part.file.start), &mut these[range])
                })?;
            }
            out = rest;
            left.start = stretch.stream.end;
        }
        Ok(())
    }

    /// Scatters `bytes` to `now` of a part's stream, with `stage` to work in.
    pub(super) fn scatter(
        &self,
        part: &Part,
        now: Range<u64>,
        mut bytes: &[u8],
        stage: &mut [u8],
    ) -> Result<(), Failure> {
        let Meant::Typed { copies, packer, run, .. } = &self.target.bytes else {
            let _others = self.writers().read().unwrap_or_else(PoisonError::into_inner);
            // The stream of a part shrinks as it comes; its file range tells where it began.
            let written = part.file.end - part.file.start - (part.stream.end - now.start);
            return self.write_at(part.object + written, bytes);
        };
        let mut cursor = Cursor::new(copies, 1).map_err(unusable)?;
        let mut left = now;
        while !left.is_empty() {
            let stretch = stretch(copies, &mut cursor, part, &left, stage.len())?;
            let (these, rest) = bytes.split_at(stretch.bytes() as usize);
            if stretch.span == stretch.bytes() {
                let _others = self.writers().read().unwrap_or_else(PoisonError::into_inner);
                self.write_at(stretch.place, these)?;
            } else if stretch.as_a_whole(*run, READ_AND_WRITE) {
                self.change(&stretch, packer, these, stage)?;
            } else {
                let _others = self.writers().read().unwrap_or_else(PoisonError::into_inner);
                cursor.seek(stretch.stream.start);
                for_runs(&mut cursor, these.len(), |range, offset| {
                    self.write_at(part.object + (offset - part.file.start), &these[range])
                })?;
            }
            bytes = rest;
            left.start = stretch.stream.end;
        }
        Ok(())
    }

    /// Reads a stretch, changes its bytes and writes it back, while nobody else writes.
    fn change(
        &self,
        stretch: &Stretch,
        packer: &Packer,
        bytes: &[u8],
        stage: &mut [u8],
    ) -> Result<(), Failure> {
        let _alone = self.writers().write().unwrap_or_else(PoisonError::into_inner);
        let window = &mut stage[..stretch.span as usize];
        self.read_at(stretch.place, window)?;
        let (base, position) = (stretch.low as i64, stretch.stream.start);
        packer.unpack_part(position, bytes, window, base).map_err(unusable)?;
        self.write_at(stretch.place, window)
    }

    /// Reads all; behind the end of the object there are zeros.
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

/// Calls `each` with the runs of the next `len` bytes: which of them, and where they lie in the file.
fn for_runs(
    cursor: &mut Cursor<'_>,
    len: usize,
    mut each: impl FnMut(Range<usize>, u64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut done = 0;
    while done < len
        && let Some(run) = cursor.next_run((len - done) as u64)
    {
        let end = done + run.len as usize;
        each(done..end, run.offset as u64)?;
        done = end;
    }
    Ok(())
}
