//! Limits of the fields of messages.
//!
//! The limits bound what a hostile or broken peer can make this side allocate or compute; honest
//! ones do not come near. Senders are held to them as well, so that a mistake shows where it was
//! made.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

use crate::error::Malformed;

/// Most payload bytes of a request or a reply.
pub const MAX_CONTROL: u32 = 1 << 20;

/// Most payload bytes of a data frame.
pub const MAX_DATA: u32 = 256 << 10;

/// Most payload bytes of a frame of the handshake: a client that has not proved anything gets
/// little memory.
pub const MAX_HANDSHAKE: u32 = 256;

/// Most connections that a new one supersedes: what fits in a frame of the handshake.
pub const MAX_SUPERSEDED: usize = 16;

/// Most payload bytes of a failure, which may also come in the middle of a handshake.
pub const MAX_FAILURE: u32 = 8 << 10;

/// Most bytes of a failure's text.
pub const MAX_FAILURE_TEXT: usize = 4096;

/// Most bytes of a path, or of the start of one.
pub const MAX_PATH: usize = 4096;

/// Most regions of a list request.
pub const MAX_REGIONS: usize = 4096;

/// Most bytes of a datatype's binary form: what fits in a request together with its id.
pub const MAX_ENCODING: usize = MAX_CONTROL as usize - 64;

/// Bytes of a strip.
pub const STRIP: RangeInclusive<u64> = 512..=1 << 30;

/// Most servers that a file is striped over, and that a metadata server knows.
pub const MAX_SERVERS: u32 = 4096;

/// Most bytes of a server's address or version, or of the name of a counter.
pub const MAX_NAME: usize = 256;

/// Largest offset in a file or object.
pub const MAX_OFFSET: u64 = i64::MAX as u64;

/// Most entries of one listing; what remains is asked for with another request.
pub const MAX_ENTRIES: u32 = 1000;

/// Longest wait for a lock, in milliseconds.
pub const MAX_WAIT_MS: u32 = 600_000;

/// How long a lock may be leased, in milliseconds.
pub const LEASE_MS: RangeInclusive<u32> = 100..=600_000;

/// Refuses a value outside of its range.
pub(crate) fn within(
    field: &'static str,
    value: impl Into<u64>,
    low: impl Into<u64>,
    high: impl Into<u64>,
) -> Result<(), Malformed> {
    let (value, low, high) = (value.into(), low.into(), high.into());
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Malformed::OutOfRange { field, value, low, high })
    }
}

/// Refuses a list or text of more than `limit` items or bytes.
pub(crate) fn length(field: &'static str, len: usize, limit: usize) -> Result<(), Malformed> {
    within(field, len as u64, 0u64, limit as u64)
}

/// Refuses bytes beyond the largest offset.
pub(crate) fn inside_offsets(offset: u64, len: u64) -> Result<(), Malformed> {
    match offset.checked_add(len) {
        Some(end) if end <= MAX_OFFSET => Ok(()),
        _ => Err(Malformed::BeyondOffsets { offset, len }),
    }
}

/// Reads a list of at most `LIMIT` items; a longer one is refused by its announced length, before
/// its items can grow to many times their size on the wire.
pub(crate) fn at_most<'de, D, T, const LIMIT: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T, const LIMIT: usize>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>, const LIMIT: usize> Visitor<'de> for List<T, LIMIT> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {LIMIT} items")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let announced = items.size_hint().unwrap_or(0);
            if announced > LIMIT {
                return Err(A::Error::invalid_length(announced, &self));
            }
            let mut list = Vec::with_capacity(announced.min(64));
            while let Some(item) = items.next_element()? {
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(List::<T, LIMIT>(PhantomData))
}
