//! [`Striping`]: which server holds which bytes of a file, and at which offset of its object.
//!
//! Strip `k` of a file lies on server `k mod n`, as strip `k / n` of that server's *object*.
//! [`Striping`] converts between the two numberings; [`Share`] finds the parts of an access that
//! lie on one server, a part for each strip, without looking at the strips of other servers.
//!
//! A server's part of a contiguous range of the file is a contiguous range of its object
//! ([`Striping::object_range`]), in the same order. That is all the merging of parts there is:
//! parts of other accesses have gaps between them.
//!
//! Offsets that leave 64 bits saturate. Files end before that, so what saturates is beyond every
//! byte.

mod share;
#[cfg(test)]
mod tests;

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;

pub use share::{Part, Share};
use striate_datatype::Strips;

/// How a file is striped over servers. A server is identified by its index in the file's list,
/// which is less than `servers`; for larger indices the results have no meaning.
///
/// ```
/// use std::num::{NonZeroU32, NonZeroU64};
/// use striate_layout::striping::Striping;
///
/// let (strip, servers) = (NonZeroU64::new(10).unwrap(), NonZeroU32::new(3).unwrap());
/// let striping = Striping { strip, servers };
/// assert_eq!(striping.locate(47), (1, 17));
/// assert_eq!(striping.offset_of(1, 17), 47);
/// assert_eq!([0, 1, 2].map(|server| striping.object_len(server, 47)), [20, 17, 10]);
/// assert_eq!(striping.file_len(1, 17), 47);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Striping {
    /// Bytes of a strip.
    pub strip: NonZeroU64,
    /// Number of servers.
    pub servers: NonZeroU32,
}

impl Striping {
    /// The server that holds the byte at `offset` of the file, and the offset of the byte in its
    /// object.
    pub fn locate(&self, offset: u64) -> (u32, u64) {
        let (row, server) = self.row(offset / self.strip);
        (server, row * self.strip.get() + offset % self.strip)
    }

    /// The offset in the file of the byte at `place` of a server's object.
    pub fn offset_of(&self, server: u32, place: u64) -> u64 {
        self.strip_start(place / self.strip, server).saturating_add(place % self.strip)
    }

    /// Length of a server's object when the file has `file_len` bytes and its end is not in a hole:
    /// how many bytes before `file_len` belong to the server.
    pub fn object_len(&self, server: u32, file_len: u64) -> u64 {
        let (row, last) = self.row(file_len / self.strip);
        let before = row * self.strip.get();
        match server {
            _ if server < last => before + self.strip.get(),
            _ if server == last => before + file_len % self.strip,
            _ => before,
        }
    }

    /// Length of the file that follows from a server's object: up to the last byte of the object,
    /// and 0 if it has none. The length of the file is the largest of these over all objects.
    pub fn file_len(&self, server: u32, object_len: u64) -> u64 {
        object_len.checked_sub(1).map_or(0, |last| self.offset_of(server, last).saturating_add(1))
    }

    /// What a server holds of a range of the file, as a range of its object.
    pub fn object_range(&self, server: u32, file: Range<u64>) -> Range<u64> {
        self.object_len(server, file.start)..self.object_len(server, file.end)
    }

    /// The first strip of the server that ends behind `from`, without what lies before `from`.
    /// Empty if that is beyond 64 bits.
    pub fn strip_at(&self, server: u32, from: u64) -> Range<u64> {
        let (row, here) = self.row(from / self.strip);
        let start = self.strip_start(row + u64::from(here > server), server);
        start.max(from)..start.saturating_add(self.strip.get())
    }

    /// The strips of a server.
    pub fn strips_of(&self, server: u32) -> Strips {
        // A file ends before 2⁶³. If the period saturates, the server has one strip below that at
        // most, and its copies a period before and behind are out of reach.
        let start = i64::try_from(self.strip_start(0, server)).unwrap_or(i64::MAX);
        let period = self.strip.saturating_mul(self.servers.into());
        Strips::new(start, period, self.strip.get().min(1 << 63))
    }

    /// Strip `number` as the number of a row, one strip for each server, and the server.
    fn row(&self, number: u64) -> (u64, u32) {
        let servers = NonZeroU64::from(self.servers);
        (number / servers, (number % servers) as u32)
    }

    /// Where the server's strip of a row begins.
    fn strip_start(&self, row: u64, server: u32) -> u64 {
        let number = row.saturating_mul(self.servers.get().into()).saturating_add(server.into());
        number.saturating_mul(self.strip.get())
    }
}
