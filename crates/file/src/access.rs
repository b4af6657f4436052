//! [`FileSide`]: the bytes of the file that an access of one rank means, and copies between them
//! and memory.
//!
//! A method asks which part of an access lies in a window of the file; the answer comes from
//! seeking in the description, never from a list of regions. [`put`] and [`take`] copy bytes
//! between typed memory and a window of the file in a buffer; every method that works on windows is
//! made of these two.

use std::ops::Range;

use striate_datatype::{Boundary, Cursor, Datatype, Packer, Point, TypeError};
use striate_store::store::Placement;

use crate::FileError;
use crate::memory::{Content, ContentMut, Memory, MemoryMut};
use crate::view::View;

/// Bytes that pass through a core's cache when neither side of a copy is contiguous.
const SCRATCH: usize = 64 << 10;

/// The bytes of the file that an access of one rank means, in absolute offsets. They form a
/// *stream*, in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct FileSide {
    placement: Placement,
    /// All copies of the filetype that are touched.
    copies: Datatype,
    packer: Packer,
}

impl FileSide {
    /// The `len` bytes from byte `position` of the view's stream on.
    pub(crate) fn new(view: &View, position: u64, len: u64) -> Result<Self, FileError> {
        let too_far = || TypeError::Overflow { what: "an offset in the file" };
        view.shows(position, len)?;
        // A filetype without bytes is allowed as long as it is not accessed.
        let size = view.filetype().size().max(1);
        let extent = view.filetype().extent().unsigned_abs();
        let skipped = (position / size).checked_mul(extent).ok_or_else(too_far)?;
        let displacement = view.displacement().checked_add(skipped).ok_or_else(too_far)?;
        let datatype = view.filetype().clone();
        Ok(Self::from_placement(Placement { displacement, datatype, start: position % size, len })?)
    }

    /// The access of another rank, from its placement.
    pub(crate) fn from_placement(placement: Placement) -> Result<Self, TypeError> {
        let copies = placement.as_type()?;
        let packer = Packer::new(&copies, 1)?;
        Ok(Self { placement, copies, packer })
    }

    /// No bytes.
    pub(crate) fn nothing() -> Result<Self, FileError> {
        Self::new(&View::bytes(), 0, 0)
    }

    pub(crate) const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Bytes meant.
    pub(crate) const fn len(&self) -> u64 {
        self.placement.len
    }

    /// From the first to the last byte meant; `None` if there is none.
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        let last = self.len().checked_sub(1)?;
        Some(self.offset_of(0)?..self.offset_of(last)? + 1)
    }

    /// Where byte `position` of the access lies.
    pub(crate) fn offset_of(&self, position: u64) -> Option<u64> {
        let mut cursor = self.cursor()?;
        cursor.seek(self.placement.start.checked_add(position)?);
        cursor.offset().map(|offset| offset as u64)
    }

    fn cursor(&self) -> Option<Cursor<'_>> {
        Cursor::new(&self.copies, 1).ok()
    }

    /// A cursor at the first byte meant. Its stream may go on after the last one.
    pub(crate) fn walk(&self) -> Result<Cursor<'_>, TypeError> {
        let mut cursor = Cursor::new(&self.copies, 1)?;
        cursor.seek(self.placement.start);
        Ok(cursor)
    }

    /// Where a part of the stream, which is not empty, lies in the file, if it is one run there.
    fn one_run(&self, part: &Range<u64>) -> Option<u64> {
        let first = self.offset_of(part.start)?;
        let last = self.offset_of(part.end.checked_sub(1)?)?;
        (last - first + 1 == part.end - part.start).then_some(first)
    }

    /// The access to a part of the stream.
    pub(crate) fn part(&self, stream: Range<u64>) -> Result<Self, TypeError> {
        let start = self.placement.start + stream.start;
        let len = stream.end - stream.start;
        Self::from_placement(Placement { start, len, ..self.placement.clone() })
    }

    /// Bytes of the access that lie before `offset`.
    pub(crate) fn before(&self, offset: u64) -> u64 {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        // Views ascend, so this does not fail.
        let before = self.copies.bytes_before(1, offset).unwrap_or(0);
        before.saturating_sub(self.placement.start).min(self.len())
    }

    /// The part of the access that lies in `range`, as positions in its stream.
    pub(crate) fn within(&self, range: &Range<u64>) -> Range<u64> {
        self.before(range.start)..self.before(range.end)
    }

    /// Contiguous regions; an estimate if the access begins or ends inside of a copy of the
    /// filetype.
    pub(crate) fn regions(&self) -> u64 {
        let all = self.copies.size().max(1);
        let runs = u128::from(self.copies.runs()) * u128::from(self.len());
        if self.len() == 0 { 0 } else { (runs.div_ceil(u128::from(all)) as u64).max(1) }
    }

    /// The boundary sum of the access inside `range`; see [`Datatype::boundary`].
    pub(crate) fn boundary(
        &self,
        range: &Range<u64>,
        point: &Point,
    ) -> Result<Boundary, TypeError> {
        let Some(own) = self.range() else { return Ok(Boundary::default()) };
        let (low, high) = (own.start.max(range.start), own.end.min(range.end));
        if low >= high {
            return Ok(Boundary::default());
        }
        self.copies.boundary(1, low as i64..high as i64, point)
    }
}

/// A buffer for copies between two sides that both have gaps; grows to its size when first needed.
#[derive(Debug, Default)]
pub(crate) struct CopyBuffer(Vec<u8>);

impl CopyBuffer {
    fn buffer(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            self.0.resize(SCRATCH, 0);
        }
        &mut self.0
    }
}

/// Copies the bytes of `from` that lie in the window of the file from `base` on into the window,
/// and returns how many they are.
///
/// # Safety
///
/// `window` is valid for writes of `len` bytes, and no other thread or process accesses those that
/// belong to this access while this runs.
pub(crate) unsafe fn put(
    file: &FileSide,
    from: &Memory<'_>,
    base: u64,
    window: *mut u8,
    len: usize,
    scratch: &mut CopyBuffer,
) -> Result<u64, FileError> {
    let part = file.within(&(base..base + len as u64));
    if part.is_empty() {
        return Ok(0);
    }
    let start = file.placement.start;
    let scatter = |position: u64, stream: &[u8]| {
        // SAFETY: the caller's promise.
        unsafe { file.packer.unpack_part_at(start + position, stream, window, len, base as i64) }
    };
    let Content::Bytes(bytes) = from.content else {
        // Other ranks may write the same bytes, so the stream is not made in the window itself.
        for chunk in chunks(part.clone(), SCRATCH as u64) {
            let stream = &mut scratch.buffer()[..(chunk.end - chunk.start) as usize];
            gather_from(from, chunk.start, stream)?;
            scatter(chunk.start, stream)?;
        }
        return Ok(part.end - part.start);
    };
    if let Some(first) = from.shape.contiguous() {
        let stream = &bytes[first + part.start as usize..first + part.end as usize];
        scatter(part.start, stream)?;
        return Ok(part.end - part.start);
    }
    for chunk in chunks(part.clone(), SCRATCH as u64) {
        let stream = &mut scratch.buffer()[..(chunk.end - chunk.start) as usize];
        let origin = from.shape.placement().origin;
        from.shape.packer().pack_window(bytes, origin, chunk.start, stream)?;
        scatter(chunk.start, stream)?;
    }
    Ok(part.end - part.start)
}

/// Copies the bytes of the access that lie in the window of the file from `base` on from the window
/// to `to`, and returns how many they are.
pub(crate) fn take(
    file: &FileSide,
    to: &mut MemoryMut<'_>,
    base: u64,
    window: &[u8],
    scratch: &mut CopyBuffer,
) -> Result<u64, FileError> {
    let part = file.within(&(base..base + window.len() as u64));
    if part.is_empty() {
        return Ok(0);
    }
    let start = file.placement.start;
    if let ContentMut::Made(target) = &mut to.content
        && let Some(offset) = file.one_run(&part)
    {
        let first = (offset - base) as usize;
        let len = (part.end - part.start) as usize;
        target.scatter(part.start, &window[first..first + len])?;
        return Ok(len as u64);
    }
    if let Some(first) = to.shape.contiguous() {
        let stream = &mut to.bytes()[first + part.start as usize..first + part.end as usize];
        file.packer.pack_part(window, base as i64, start + part.start, stream)?;
        return Ok(part.end - part.start);
    }
    for chunk in chunks(part.clone(), SCRATCH as u64) {
        let stream = &mut scratch.buffer()[..(chunk.end - chunk.start) as usize];
        file.packer.pack_part(window, base as i64, start + chunk.start, stream)?;
        scatter_to(to, chunk.start, stream)?;
    }
    Ok(part.end - part.start)
}

/// Copies `stream` to where the bytes from `position` on lie in memory.
pub(crate) fn scatter_to(
    to: &mut MemoryMut<'_>,
    position: u64,
    stream: &[u8],
) -> Result<(), FileError> {
    let MemoryMut { content, shape } = to;
    match content {
        ContentMut::Made(target) => target.scatter(position, stream),
        ContentMut::Bytes(bytes) => {
            let origin = shape.placement().origin;
            Ok(shape.packer().unpack_window(position, stream, bytes, origin)?)
        }
    }
}

/// Gathers the part of the memory's stream that begins at `position`.
pub(crate) fn gather_from(
    from: &Memory<'_>,
    position: u64,
    stream: &mut [u8],
) -> Result<(), FileError> {
    match from.content {
        Content::Made(source) => source.gather(position, stream),
        Content::Bytes(bytes) => {
            let origin = from.shape.placement().origin;
            Ok(from.shape.packer().pack_window(bytes, origin, position, stream)?)
        }
    }
}

/// Copies `stream`, the part of a remote rank's access from `position` on, into a window.
///
/// # Safety
///
/// As for [`put`].
pub(crate) unsafe fn put_stream(
    file: &FileSide,
    position: u64,
    stream: &[u8],
    base: u64,
    window: *mut u8,
    len: usize,
) -> Result<(), FileError> {
    let start = file.placement.start + position;
    // SAFETY: the caller's promise.
    unsafe { file.packer.unpack_part_at(start, stream, window, len, base as i64)? };
    Ok(())
}

/// Gathers the part of a remote rank's access from `position` on from a window.
pub(crate) fn take_stream(
    file: &FileSide,
    position: u64,
    stream: &mut [u8],
    base: u64,
    window: &[u8],
) -> Result<(), FileError> {
    Ok(file.packer.pack_part(window, base as i64, file.placement.start + position, stream)?)
}

fn chunks(range: Range<u64>, size: u64) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(size as usize).map(move |start| start..(start + size).min(end))
}
