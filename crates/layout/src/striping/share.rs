//! [`Share`]: the parts of an access that lie on one server.
//!
//! A part is the intersection of an access with one strip. The next strip that has one is found by
//! [`Datatype::next_in_strips`], and the ends of the part by seeking, so the cost of a part is a
//! few descents into the description, whatever lies on other servers and however many runs the part
//! has. For a contiguous access it is a few additions.

use std::iter::FusedIterator;
use std::ops::Range;

use striate_datatype::{Cursor, Datatype, Strips, TypeError};

use super::Striping;

/// The part of an access on one strip.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// From the first byte of the part to one past the last, with possible gaps.
    pub file: Range<u64>,
    /// The bytes of the part, as positions in the stream of the access.
    pub stream: Range<u64>,
    /// Offset of the first byte in the server's object. The other bytes follow at the same
    /// distances as in the file.
    pub object: u64,
}

/// The parts of an access that lie on one server, in the order of their offsets.
///
/// ```
/// use std::num::{NonZeroU32, NonZeroU64};
/// use striate_datatype::Datatype;
/// use striate_layout::striping::{Part, Share, Striping};
///
/// let (strip, servers) = (NonZeroU64::new(10).unwrap(), NonZeroU32::new(3).unwrap());
/// let access: Datatype = "hvector(5, 4, stride=15)".parse()?;
/// // Of 0..4, 15..19, 30..34, 45..49, 60..64 server 1 has the second and the fourth.
/// let parts = Share::of(Striping { strip, servers }, 1, &access, 0..access.size())?;
/// let part = |start, position, object| Part {
///     file: start..start + 4,
///     stream: position..position + 4,
///     object,
/// };
/// assert!(parts.eq([part(15, 4, 5), part(45, 12, 15)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Share<'t>(ShareKind<'t>);

#[derive(Clone, Debug)]
enum ShareKind<'t> {
    Contiguous(ContiguousShare),
    DescribedShare(Box<DescribedShare<'t>>),
}

/// The strips of one server over a contiguous access.
#[derive(Clone, Debug)]
struct ContiguousShare {
    strip: u64,
    /// From the end of a strip to the beginning of the server's next; 0 if there is one server.
    others: u64,
    /// What is left; begins inside of a strip of the server unless it is empty.
    left: Range<u64>,
    /// Where the strip in which that begins ends.
    strip_end: u64,
    /// Place in the object of the first byte that is left.
    object: u64,
    /// Where the stream begins in the file.
    origin: u64,
}

#[derive(Clone, Debug)]
struct DescribedShare<'t> {
    striping: Striping,
    server: u32,
    strips: Strips,
    access: &'t Datatype,
    /// The remaining bytes of the access, as positions in the stream.
    left: Range<u64>,
    /// Offset of the first remaining byte.
    offset: i64,
    /// Scratch: its position has no meaning between calls.
    cursor: Cursor<'t>,
}

impl Share<'static> {
    /// The parts of a contiguous range of the file. Its stream begins where the range does.
    pub fn of_range(striping: Striping, server: u32, range: Range<u64>) -> Self {
        let origin = range.start;
        Self(ShareKind::Contiguous(ContiguousShare::new(striping, server, range, origin)))
    }
}

impl<'t> Share<'t> {
    /// The parts of an access: the bytes from `stream.start` to `stream.end` of the stream of one
    /// copy of `access`, whose offsets are those of the file.
    ///
    /// They must ascend and not be negative. Positions behind the stream's end mean nothing.
    pub fn of(
        striping: Striping,
        server: u32,
        access: &'t Datatype,
        stream: Range<u64>,
    ) -> Result<Self, TypeError> {
        if !access.is_ascending() {
            return Err(TypeError::NotMonotonic);
        }
        let origin = u64::try_from(access.true_lower_bound()).map_err(|_| {
            let value = access.true_lower_bound();
            TypeError::Negative { what: "an offset in the file", value }
        })?;
        let stream = stream.start.min(access.size())..stream.end.min(access.size());
        if access.is_contiguous() {
            let range = origin + stream.start..origin + stream.end;
            return Ok(Self(ShareKind::Contiguous(ContiguousShare::new(
                striping, server, range, origin,
            ))));
        }
        let mut cursor = Cursor::new(access, 1)?;
        cursor.seek(stream.start);
        Ok(Self(ShareKind::DescribedShare(Box::new(DescribedShare {
            striping,
            server,
            strips: striping.strips_of(server),
            access,
            left: stream,
            // At the end of the stream there is nothing left to find.
            offset: cursor.offset().unwrap_or(0),
            cursor,
        }))))
    }
}

impl Share<'_> {
    /// The next part, or [`TypeError::Scattered`] if it is not found within so many steps: for
    /// descriptions of untrusted origin.
    #[inline]
    pub fn next_within(&mut self, steps: u64) -> Result<Option<Part>, TypeError> {
        match &mut self.0 {
            ShareKind::Contiguous(strips) => Ok(strips.next()),
            ShareKind::DescribedShare(described) => described.next(steps),
        }
    }
}

impl Iterator for Share<'_> {
    type Item = Part;

    #[inline]
    fn next(&mut self) -> Option<Part> {
        // Construction has checked all that could fail, and there is no limit.
        self.next_within(u64::MAX).ok().flatten()
    }
}

impl FusedIterator for Share<'_> {}

impl ContiguousShare {
    fn new(striping: Striping, server: u32, range: Range<u64>, origin: u64) -> Self {
        let strip = striping.strip_at(server, range.start);
        Self {
            strip: striping.strip.get(),
            others: striping.strip.get().saturating_mul(u64::from(striping.servers.get()) - 1),
            left: strip.start..range.end,
            strip_end: strip.end,
            object: striping.object_len(server, range.start),
            origin,
        }
    }

    #[inline]
    fn next(&mut self) -> Option<Part> {
        if self.left.is_empty() {
            return None;
        }
        let file = self.left.start..self.strip_end.min(self.left.end);
        let stream = file.start - self.origin..file.end - self.origin;
        let part = Part { file, stream, object: self.object };
        self.object += part.file.end - part.file.start;
        self.left.start = self.strip_end.saturating_add(self.others);
        self.strip_end = self.left.start.saturating_add(self.strip);
        Some(part)
    }
}

impl DescribedShare<'_> {
    fn next(&mut self, steps: u64) -> Result<Option<Part>, TypeError> {
        let part = if self.left.is_empty() { None } else { self.find(steps)? };
        if part.is_none() {
            self.left.start = self.left.end;
        }
        Ok(part)
    }

    /// The next part, if there is one.
    fn find(&mut self, steps: u64) -> Result<Option<Part>, TypeError> {
        if !self.strips.contains(self.offset) {
            let found = self.access.next_in_strips_within(1, self.offset, self.strips, steps)?;
            let Some(offset) = found else { return Ok(None) };
            self.offset = offset;
            self.cursor.seek_offset(offset)?;
            self.left.start = self.cursor.position();
            if self.left.is_empty() {
                return Ok(None);
            }
        }
        let (first, start) = (self.offset as u64, self.left.start);
        let strip = self.striping.strip_at(self.server, first);
        self.cursor.seek_offset(i64::try_from(strip.end).unwrap_or(i64::MAX))?;
        self.left.start = self.cursor.position();
        self.offset = self.cursor.offset().unwrap_or(0);

        let end = self.left.start.min(self.left.end);
        self.cursor.seek(end - 1);
        // There is one: the part has at least a byte.
        let last = self.cursor.offset().map_or(first, |last| last as u64);
        let (_, object) = self.striping.locate(first);
        Ok(Some(Part { file: first..last + 1, stream: start..end, object }))
    }
}
