//! Memory of a call: a buffer, a datatype and a count. [`Memory`] and [`MemoryMut`] borrow it; a
//! [`Source`] or [`Target`] owns it.
//!
//! Memory whose bytes are converted on the way makes its stream itself: [`Gather`] and [`Scatter`]
//! are called for parts of it, so that the conversion is done in the copy that packing needs
//! anyway.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use striate_datatype::{Datatype, PackError, Packer, TypeError};
use striate_store::store::MemoryPlacement;

use crate::FileError;

/// How the bytes of a buffer form a stream.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    len: u64,
    /// Index of the first byte, if the stream lies in one piece.
    contiguous: Option<usize>,
    runs: u64,
    /// A byte slice gets a description only when a method needs it. Without it a shape is small,
    /// which matters because shapes are passed from call to call.
    description: OnceLock<Arc<Description>>,
}

#[derive(Debug)]
struct Description {
    packer: Packer,
    placement: MemoryPlacement,
}

impl Shape {
    fn new(len: usize, origin: usize, count: u64, datatype: &Datatype) -> Result<Self, PackError> {
        let overflow = |_: TypeError| PackError::Memory {
            low: i64::MIN,
            high: i64::MAX,
            before: origin as u64,
            after: len.saturating_sub(origin) as u64,
        };
        let all = Datatype::contiguous(count, datatype).map_err(overflow)?;
        let packer = Packer::new(&all, 1).map_err(overflow)?;
        packer.fits(len, origin)?;
        let in_one_piece = all.runs() <= 1;
        // Inside of the buffer, as was just checked.
        let contiguous =
            in_one_piece.then(|| (origin as i64).wrapping_add(all.true_lower_bound()) as usize);
        let placement = MemoryPlacement { origin, datatype: datatype.clone(), count, start: 0 };
        Ok(Self {
            len: all.size(),
            contiguous,
            runs: all.runs(),
            description: Arc::new(Description { packer, placement }).into(),
        })
    }

    /// Of memory that makes its stream itself: it has no description, and is one piece to the
    /// methods, which get it in a buffer.
    const fn made(len: u64) -> Self {
        let runs = if len > 0 { 1 } else { 0 };
        Self { len, contiguous: None, runs, description: OnceLock::new() }
    }

    #[inline]
    const fn bytes(len: usize) -> Self {
        let runs = if len > 0 { 1 } else { 0 };
        Self { len: len as u64, contiguous: Some(0), runs, description: OnceLock::new() }
    }

    fn description(&self) -> &Description {
        self.description.get_or_init(|| {
            // A slice is never longer than 2⁶³ − 1 bytes.
            let datatype = Datatype::bytes(self.len).expect("the length of a slice fits");
            let packer = Packer::new(&datatype, 1).expect("one copy fits");
            let placement = MemoryPlacement { origin: 0, datatype, count: 1, start: 0 };
            Arc::new(Description { packer, placement })
        })
    }

    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    pub(crate) const fn runs(&self) -> u64 {
        self.runs
    }

    pub(crate) fn placement(&self) -> &MemoryPlacement {
        &self.description().placement
    }

    pub(crate) fn packer(&self) -> &Packer {
        &self.description().packer
    }

    /// Index of the first byte, if the stream lies in one piece.
    pub(crate) const fn contiguous(&self) -> Option<usize> {
        self.contiguous
    }
}

/// Memory that makes the stream of bytes to be written itself.
///
/// # Contract
///
/// Any part may be requested, in any order, more than once, and by several threads at once. The
/// stream stays the same until the call ends. The buffer that it is made in is not used by other
/// threads meanwhile.
pub trait Gather: Debug + Sync {
    /// Bytes of the stream.
    fn stream_len(&self) -> u64;

    /// Fills `stream` with the part from byte `position` on.
    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError>;
}

/// Memory that takes the stream of bytes that was read.
///
/// # Contract
///
/// Parts may come in any order, each byte once; they need not end where elements do.
pub trait Scatter: Debug {
    /// Bytes of the stream.
    fn stream_len(&self) -> u64;

    /// Takes the part from byte `position` on.
    fn scatter(&mut self, position: u64, stream: &[u8]) -> Result<(), FileError>;
}

/// Where the bytes of a write come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    Bytes(&'a [u8]),
    Made(&'a dyn Gather),
}

/// Where the bytes of a read go.
#[derive(Debug)]
pub(crate) enum ContentMut<'a> {
    Bytes(&'a mut [u8]),
    Made(&'a mut dyn Scatter),
}

/// Memory to write from.
#[derive(Clone, Debug)]
pub struct Memory<'a> {
    pub(crate) content: Content<'a>,
    pub(crate) shape: Shape,
}

impl<'a> Memory<'a> {
    /// `count` copies of `datatype`, the first of which has its origin at index `origin` of
    /// `bytes`.
    pub fn new(
        bytes: &'a [u8],
        origin: usize,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Self, PackError> {
        let shape = Shape::new(bytes.len(), origin, count, datatype)?;
        Ok(Self { content: Content::Bytes(bytes), shape })
    }

    /// Memory that makes its stream itself.
    pub fn gathered(source: &'a dyn Gather) -> Self {
        let shape = Shape::made(source.stream_len());
        Self { content: Content::Made(source), shape }
    }

    /// The buffer; empty if the memory makes its stream itself, which the callers rule out.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        match self.content {
            Content::Bytes(bytes) => bytes,
            Content::Made(_) => &[],
        }
    }

    /// Bytes of data.
    pub const fn len(&self) -> u64 {
        self.shape.len()
    }

    /// Whether there is no data.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a [u8]> for Memory<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self { content: Content::Bytes(bytes), shape: Shape::bytes(bytes.len()) }
    }
}

impl<'a> From<&'a Vec<u8>> for Memory<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Memory<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

/// Memory to read into. Its gaps stay as they are.
#[derive(Debug)]
pub struct MemoryMut<'a> {
    pub(crate) content: ContentMut<'a>,
    pub(crate) shape: Shape,
}

impl<'a> MemoryMut<'a> {
    /// `count` copies of `datatype`, the first of which has its origin at index `origin` of
    /// `bytes`.
    pub fn new(
        bytes: &'a mut [u8],
        origin: usize,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Self, PackError> {
        let shape = Shape::new(bytes.len(), origin, count, datatype)?;
        Ok(Self { content: ContentMut::Bytes(bytes), shape })
    }

    /// Memory that takes the stream itself.
    pub fn scattered(target: &'a mut dyn Scatter) -> Self {
        let shape = Shape::made(target.stream_len());
        Self { content: ContentMut::Made(target), shape }
    }

    /// The buffer; empty if the memory takes its stream itself, which the callers rule out.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match &mut self.content {
            ContentMut::Bytes(bytes) => bytes,
            ContentMut::Made(_) => &mut [],
        }
    }

    /// Bytes of data.
    pub const fn len(&self) -> u64 {
        self.shape.len()
    }

    /// Whether there is no data.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a mut [u8]> for MemoryMut<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8]) -> Self {
        let shape = Shape::bytes(bytes.len());
        Self { content: ContentMut::Bytes(bytes), shape }
    }
}

impl<'a> From<&'a mut Vec<u8>> for MemoryMut<'a> {
    fn from(bytes: &'a mut Vec<u8>) -> Self {
        bytes.as_mut_slice().into()
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for MemoryMut<'a> {
    fn from(bytes: &'a mut [u8; N]) -> Self {
        bytes.as_mut_slice().into()
    }
}

/// What a nonblocking write owns until it is complete: a buffer, or a [`Typed`] one.
pub trait Source: Send + 'static {
    /// The bytes to write.
    fn memory(&self) -> Memory<'_>;
}

/// What a nonblocking read owns until it is complete: a buffer, or a [`Typed`] one.
pub trait Target: Send + 'static {
    /// Where the bytes go.
    fn memory_mut(&mut self) -> MemoryMut<'_>;
}

impl<B: AsRef<[u8]> + Send + 'static> Source for B {
    fn memory(&self) -> Memory<'_> {
        self.as_ref().into()
    }
}

impl<B: AsMut<[u8]> + Send + 'static> Target for B {
    fn memory_mut(&mut self) -> MemoryMut<'_> {
        self.as_mut().into()
    }
}

/// Memory of a caller in another language, which does not use it while a request does. With a
/// description it is a [`Typed`] buffer.
#[derive(Debug)]
pub struct Borrowed {
    address: std::ptr::NonNull<u8>,
    len: usize,
}

// SAFETY: by the promise of the constructor no other code uses the memory, from whatever thread.
unsafe impl Send for Borrowed {}

impl Borrowed {
    /// `len` bytes from `address` on.
    ///
    /// # Safety
    ///
    /// Until this value is dropped, the bytes can be read, and no other code changes them. If it is
    /// used as a [`Target`], they can be written, too, and no other code reads them.
    pub const unsafe fn new(address: std::ptr::NonNull<u8>, len: usize) -> Self {
        Self { address, len }
    }
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the promise of the constructor.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for Borrowed {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the promise of the constructor.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.len) }
    }
}

/// A buffer and the bytes of it that are meant.
#[derive(Clone, Debug)]
pub struct Typed<B> {
    buffer: B,
    shape: Shape,
}

impl<B: AsRef<[u8]>> Typed<B> {
    /// `count` copies of `datatype`, the first of which has its origin at index `origin` of the
    /// buffer.
    pub fn new(
        buffer: B,
        origin: usize,
        count: u64,
        datatype: &Datatype,
    ) -> Result<Self, PackError> {
        let shape = Shape::new(buffer.as_ref().len(), origin, count, datatype)?;
        Ok(Self { buffer, shape })
    }

    /// The buffer.
    pub fn into_inner(self) -> B {
        self.buffer
    }
}

impl<B: AsRef<[u8]> + Send + 'static> Source for Typed<B> {
    fn memory(&self) -> Memory<'_> {
        Memory { content: Content::Bytes(self.buffer.as_ref()), shape: self.shape.clone() }
    }
}

impl<B: AsMut<[u8]> + Send + 'static> Target for Typed<B> {
    fn memory_mut(&mut self) -> MemoryMut<'_> {
        MemoryMut { content: ContentMut::Bytes(self.buffer.as_mut()), shape: self.shape.clone() }
    }
}
