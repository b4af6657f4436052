//! The trait that every back-end implements, the requests it takes, and its contract.

use std::fmt::Debug;
use std::ops::Range;

use striate_datatype::Datatype;

use crate::error::StoreError;

/// Contiguous bytes of memory and the contiguous bytes of the object that they correspond to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Index of the first byte in the memory handed over with the request.
    pub memory: usize,
    /// Offset of the first byte in the object.
    pub offset: u64,
    /// Number of bytes.
    pub len: usize,
}

/// Bytes of an object, described: those from byte `start` to `start + len` of the stream of
/// endless copies of `datatype`, the first of which lies at `displacement`.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Where the first copy lies.
    pub displacement: u64,
    /// What is repeated, at the distance of its extent.
    pub datatype: Datatype,
    /// Bytes of the stream that are skipped.
    pub start: u64,
    /// Bytes of the stream that are meant.
    pub len: u64,
}

/// Bytes of memory, described: those from byte `start` on of the stream of `count` copies of
/// `datatype`, the first of which has its origin at index `origin` of the slice handed over.
#[derive(Clone, Debug)]
pub struct MemoryPlacement {
    /// Index of the origin of the first copy.
    pub origin: usize,
    /// What is repeated.
    pub datatype: Datatype,
    /// How often.
    pub count: u64,
    /// Bytes of the stream that are skipped.
    pub start: u64,
}

/// A request that carries descriptions of both sides; as many bytes as `file.len`.
#[derive(Clone, Debug)]
pub struct TypedRequest {
    /// The bytes of the object.
    pub file: Placement,
    /// The bytes of memory.
    pub memory: MemoryPlacement,
}

/// What a store can do beyond contiguous reads and writes, and what it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Regions that one list request carries best; `None` if lists are carried out one by one.
    pub list_regions: Option<usize>,
    /// Whether typed requests are understood by the other side, rather than expanded here.
    pub typed: bool,
    /// Whether [`Store::lock`] excludes other users of the same object.
    pub locks: bool,
    /// The unit in which the object is striped or locked, if known; requests are best aligned to
    /// it.
    pub stripe_unit: Option<u64>,
    /// Over how many targets the object is striped, if known.
    pub stripe_count: Option<u32>,
    /// Offsets, lengths and addresses must be multiples of this for the fast path (1: any).
    pub alignment: usize,
    /// Whether writers of one object exclude each other, so that one at a time is best.
    pub serial_writes: bool,
}

/// Which access a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Excludes exclusive locks.
    Shared,
    /// Excludes all locks.
    Exclusive,
}

/// A byte range that is locked until this is dropped.
pub trait Lock: Debug + Send {}

/// A byte-addressed object.
///
/// # Contract
///
/// * A handle is used by many threads at once. Requests that do not overlap do not disturb each
///   other; overlapping concurrent ones leave, in each byte, what one of them wrote.
/// * A read returns how many bytes it got, from the start of the request on. It is less than asked
///   for only at the end of the object; memory after them stays as it was. Gaps that were never
///   written read as zeros.
/// * A write writes all or fails. After a failure an unknown part of the request's own bytes has
///   been written, and no other bytes.
/// * Interruptions and short transfers of the system are continued, not reported.
/// * A list or typed request is carried out as if piece by piece, in any order: its pieces do not
///   overlap in what they write. A read of one returns how many of its bytes lie before the end of
///   the object; if its offsets ascend, those are the first of its stream.
/// * The regions of a list ascend by their offsets; those of a read may overlap. A store may be
///   slow with others, but not wrong.
/// * A request of no bytes succeeds, and changes nothing.
/// * Requests take no locks: a caller that must exclude other users asks for them. They exclude
///   other handles and other users of the same handle alike, so a thread that asks twice waits for
///   itself. Every wait for one ends, with an error at a limit.
/// * What was written is seen by every later read through any handle of the same object in this
///   machine, and survives a crash of the machine once [`Store::sync`] has returned.
/// * Malformed requests (outside of memory, beyond 2⁶³ − 1) are an error and touch nothing.
#[expect(clippy::len_without_is_empty, reason = "the length is a question that can fail")]
pub trait Store: Debug + Send + Sync {
    /// What the store can do.
    fn capabilities(&self) -> Capabilities;

    /// What the object is called in messages.
    fn name(&self) -> String;

    /// Length of the object.
    fn len(&self) -> Result<u64, StoreError>;

    /// Cuts the object or extends it by zeros.
    fn set_len(&self, len: u64) -> Result<(), StoreError>;

    /// Makes sure that writes up to `len` will not run out of space; extends the object to `len` if
    /// it is shorter.
    fn preallocate(&self, len: u64) -> Result<(), StoreError>;

    /// Makes what was written durable.
    fn sync(&self) -> Result<(), StoreError>;

    /// Forgets what this handle knows of the object and others may have changed. Only file systems
    /// without a common view of all clients need it; see [`crate::Coherent`].
    fn revalidate(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reads `buffer.len()` bytes from `offset` on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError>;

    /// Writes `buffer` to `offset`.
    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError>;

    /// Reads the regions into `memory`; they ascend in the object.
    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError>;

    /// Writes the regions of `memory`; they ascend in the object.
    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError>;

    /// Reads what the request describes; returns the bytes of its stream before the end.
    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError>;

    /// Writes what the request describes.
    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError>;

    /// Locks the bytes of `range` against other handles of the object; waits for them.
    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError>;
}
