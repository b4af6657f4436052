//! [`Packer`]: packs and unpacks typed memory to and from a contiguous stream.
//!
//! The tree is walked recursively down to loops that a copy kernel handles as a whole; only the two
//! ends of a window are walked piece by piece. Since packing is a permutation of bytes, the order
//! of copying is free: [`nest`] reorders regular loops for the cache.
//!
//! # Soundness
//!
//! All checks are made in [`Packer::check`] and [`Packer::check_part`], once per call. From there
//! on one invariant holds, inside of this module only: *a node handed on with a [`Position`] lies,
//! with all bytes of its stream that are asked for, inside of the memory and the stream of the
//! call*. The root does by the check, and every child lies inside of its parent, because the
//! summary of a [`Node`] covers its children. Pointers are moved by wrapping arithmetic and only
//! the kernels use them.

mod kernel;
mod nest;
mod rows;
mod simd;
mod swap;
mod transpose;

use std::ops::Range;

use crate::node::{Block, Loop, Node};
use crate::span::Span;
use crate::{Cursor, Datatype, PackError, TypeError};
use kernel::Direction;

pub use swap::{swap_copy, swap_in_place};

/// Copies of at least this size are written around the caches where that is faster: their beginning
/// has left the caches of a core before their end is reached.
const STREAMING: u64 = 8 << 20;

/// Copies between `count` copies of a type in memory and their stream.
///
/// Memory is a slice and an *origin*: the index of the byte that the type calls offset 0 (types may
/// reach below it). Gaps are never written.
///
/// ```
/// use striate_datatype::{Datatype, Packer};
/// let every_other = Datatype::vector(3, 1, 2, &Datatype::bytes(1)?)?;
/// let packer = Packer::new(&every_other, 1)?;
/// let mut stream = [0; 3];
/// packer.pack(b"abcde", 0, &mut stream)?;
/// assert_eq!(&stream, b"ace");
/// let mut memory = *b".....";
/// packer.unpack_window(1, &stream[1..], &mut memory, 0)?;
/// assert_eq!(&memory, b"..c.e");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Packer {
    ty: Datatype,
    span: Span,
}

impl Packer {
    /// A packer for `count` copies of `ty`.
    pub fn new(ty: &Datatype, count: u64) -> Result<Self, TypeError> {
        let ty = Datatype::contiguous(count, ty)?;
        let span = ty.span();
        Ok(Self { ty, span })
    }

    /// Length of the stream.
    pub const fn size(&self) -> u64 {
        self.span.size
    }

    /// Checks that `len` bytes of memory with this origin hold all that the type describes.
    pub fn fits(&self, len: usize, origin: usize) -> Result<(), PackError> {
        self.check(len, origin, 0, 0).map(drop)
    }

    /// Gathers the whole stream from `memory` into `stream`, which has its length.
    pub fn pack(&self, memory: &[u8], origin: usize, stream: &mut [u8]) -> Result<(), PackError> {
        self.check_whole(stream.len())?;
        self.pack_window(memory, origin, 0, stream)
    }

    /// Scatters the whole `stream` into `memory`.
    pub fn unpack(&self, stream: &[u8], memory: &mut [u8], origin: usize) -> Result<(), PackError> {
        self.check_whole(stream.len())?;
        self.unpack_window(0, stream, memory, origin)
    }

    /// Gathers the `stream.len()` bytes from byte `start` of the stream on.
    pub fn pack_window(
        &self,
        memory: &[u8],
        origin: usize,
        start: u64,
        stream: &mut [u8],
    ) -> Result<(), PackError> {
        let window = self.check(memory.len(), origin, start, stream.len())?;
        // Packing reads memory and writes the stream: the cast writes nothing.
        let origin = memory.as_ptr().cast_mut().wrapping_add(origin);
        self.copy::<{ Direction::PACK }>(origin, stream.as_mut_ptr(), window);
        Ok(())
    }

    /// Scatters `stream` to where the bytes from byte `start` of the stream on lie.
    pub fn unpack_window(
        &self,
        start: u64,
        stream: &[u8],
        memory: &mut [u8],
        origin: usize,
    ) -> Result<(), PackError> {
        let window = self.check(memory.len(), origin, start, stream.len())?;
        // Unpacking reads the stream and writes memory: the cast writes nothing.
        let origin = memory.as_mut_ptr().wrapping_add(origin);
        self.copy::<{ Direction::UNPACK }>(origin, stream.as_ptr().cast_mut(), window);
        Ok(())
    }

    /// Gathers like [`Packer::pack_window`], but from a part of memory that need only hold the
    /// bytes asked for: `memory` holds the offsets from `base` on. The type's bytes must ascend.
    ///
    /// ```
    /// use striate_datatype::{Datatype, Packer};
    /// let every_other = Datatype::vector(500, 1, 2, &Datatype::bytes(1)?)?;
    /// let packer = Packer::new(&every_other, 1)?;
    /// let mut stream = [0; 3];
    /// // Offsets 100 to 104 of the type; byte 50 of the stream lies at 100.
    /// packer.pack_part(b"abcde", 100, 50, &mut stream)?;
    /// assert_eq!(&stream, b"ace");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pack_part(
        &self,
        memory: &[u8],
        base: i64,
        start: u64,
        stream: &mut [u8],
    ) -> Result<(), PackError> {
        let window = self.check_part(memory.len(), base, start, stream.len())?;
        // Packing reads memory and writes the stream: the cast writes nothing.
        let origin = memory.as_ptr().cast_mut().wrapping_offset((base as isize).wrapping_neg());
        self.copy::<{ Direction::PACK }>(origin, stream.as_mut_ptr(), window);
        Ok(())
    }

    /// Scatters like [`Packer::unpack_window`], into a part of memory as [`Packer::pack_part`] has
    /// it.
    pub fn unpack_part(
        &self,
        start: u64,
        stream: &[u8],
        memory: &mut [u8],
        base: i64,
    ) -> Result<(), PackError> {
        // SAFETY: the slice is writable, and the reference to it is unique.
        unsafe { self.unpack_part_at(start, stream, memory.as_mut_ptr(), memory.len(), base) }
    }

    /// [`Packer::unpack_part`] into memory that other threads or processes write at the same time,
    /// at other bytes.
    ///
    /// # Safety
    ///
    /// `memory` is valid for writes of `len` bytes, and no other thread or process accesses the
    /// bytes of the part of the stream during the call.
    pub unsafe fn unpack_part_at(
        &self,
        start: u64,
        stream: &[u8],
        memory: *mut u8,
        len: usize,
        base: i64,
    ) -> Result<(), PackError> {
        let window = self.check_part(len, base, start, stream.len())?;
        // Unpacking reads the stream and writes memory: the cast writes nothing.
        let origin = memory.wrapping_offset((base as isize).wrapping_neg());
        self.copy::<{ Direction::UNPACK }>(origin, stream.as_ptr().cast_mut(), window);
        Ok(())
    }

    /// The window as a range of stream positions, if it lies between `base` and `base + memory`.
    /// Since the bytes ascend, it does if its first and its last byte do.
    fn check_part(
        &self,
        memory: usize,
        base: i64,
        start: u64,
        len: usize,
    ) -> Result<Range<u64>, PackError> {
        let end = self.check_window(start, len)?;
        if len == 0 {
            return Ok(start..end);
        }
        let offset_of = |position| {
            let mut cursor = Cursor::new(&self.ty, 1).ok()?;
            cursor.seek(position);
            cursor.offset()
        };
        let (low, last) = (offset_of(start), offset_of(end - 1));
        let (Some(low), Some(last), true) = (low, last, self.ty.is_ascending()) else {
            return Err(PackError::NotAscending);
        };
        let inside = low >= base && i128::from(last) < i128::from(base) + memory as i128;
        if !inside {
            let (low, high) = (low.saturating_sub(base), last.saturating_sub(base) + 1);
            return Err(PackError::Memory { low, high, before: 0, after: memory as u64 });
        }
        Ok(start..end)
    }

    /// The end of a window of `len` bytes from `start` on, if it is inside of the stream.
    fn check_window(&self, start: u64, len: usize) -> Result<u64, PackError> {
        let (len, size) = (len as u64, self.span.size);
        let end = start.checked_add(len).filter(|&end| end <= size);
        end.ok_or(PackError::Window { start, len, size })
    }

    const fn check_whole(&self, len: usize) -> Result<(), PackError> {
        if len as u64 == self.span.size {
            return Ok(());
        }
        Err(PackError::Window { start: 0, len: len as u64, size: self.span.size })
    }

    /// The window as a range of stream positions, if it and the memory are large enough.
    fn check(
        &self,
        memory: usize,
        origin: usize,
        start: u64,
        len: usize,
    ) -> Result<Range<u64>, PackError> {
        let end = self.check_window(start, len)?;
        let Span { low, high, .. } = self.span;
        let (before, after) = (origin as u64, memory.saturating_sub(origin) as u64);
        let inside = origin <= memory
            && -i128::from(low) <= i128::from(before)
            && i128::from(high) <= i128::from(after);
        if self.span.size > 0 && !inside {
            return Err(PackError::Memory { low, high, before, after });
        }
        Ok(start..end)
    }

    fn copy<const DIRECTION: bool>(&self, origin: *mut u8, stream: *mut u8, window: Range<u64>) {
        if window.is_empty() {
            return;
        }
        let streaming = window.end - window.start >= STREAMING;
        let place = Position { memory: origin, stream, streaming }.at(self.ty.first_offset());
        part::<DIRECTION>(self.ty.node(), place, window);
        if streaming {
            simd::end_of_streaming();
        }
    }
}

/// The addresses of the next bytes on both sides.
#[derive(Clone, Copy)]
struct Position {
    memory: *mut u8,
    stream: *mut u8,
    /// Whether long blocks are written around the caches.
    streaming: bool,
}

impl Position {
    /// The same stream position, memory `offset` bytes further on.
    #[inline]
    fn at(self, offset: i64) -> Self {
        Self { memory: self.memory.wrapping_offset(offset as isize), ..self }
    }

    /// The same memory, the stream `len` bytes further on.
    #[inline]
    fn after(self, len: u64) -> Self {
        Self { stream: self.stream.wrapping_add(len as usize), ..self }
    }
}

/// Copies bytes `range` of the stream of `node`. `place.memory` is the node's first byte,
/// `place.stream` the first byte of the range.
fn part<const DIRECTION: bool>(node: &Node, place: Position, range: Range<u64>) {
    if range.start == 0 && range.end == node.size() {
        return whole::<DIRECTION>(node, place);
    }
    match node.kind() {
        Loop::Bytes => {
            let place = place.at(range.start as i64);
            // SAFETY: the module's invariant.
            unsafe { kernel::run::<DIRECTION>(place, range.end - range.start) };
        }
        Loop::Contig { .. } | Loop::Vector { .. } => {
            let Some((_, stride, child)) = node.repetition() else { return };
            split(child.size(), range, |part_of| match part_of {
                LoopPart::Of { index, range, skipped } => {
                    let place = place.after(skipped).at(index as i64 * stride);
                    part::<DIRECTION>(child, place, range);
                }
                LoopPart::All { indices, skipped } => {
                    let place = place.after(skipped).at(indices.start as i64 * stride);
                    nest::copy::<DIRECTION>(indices.end - indices.start, stride, child, place);
                }
            });
        }
        Loop::BlockIndexed { offsets, child } => {
            split(child.size(), range, |part_of| match part_of {
                LoopPart::Of { index, range, skipped } => {
                    let place = place.after(skipped).at(offsets[index as usize]);
                    part::<DIRECTION>(child, place, range);
                }
                LoopPart::All { indices, skipped } => {
                    let offsets = &offsets[indices.start as usize..indices.end as usize];
                    scattered::<DIRECTION>(offsets, child, place.after(skipped));
                }
            });
        }
        Loop::Indexed { blocks, .. } if node.is_list_of_bytes() => {
            listed_part::<DIRECTION>(blocks, place, range);
        }
        Loop::Indexed { blocks, child, stride } => {
            let size = child.size();
            let first = blocks.partition_point(|block| block.start * size <= range.start) - 1;
            let mut position = range.start;
            for block in &blocks[first..] {
                if position >= range.end {
                    break;
                }
                let start = block.start * size;
                let end = (start + block.len * size).min(range.end);
                let here = place.after(position - range.start).at(block.offset);
                split(size, position - start..end - start, |part_of| match part_of {
                    LoopPart::Of { index, range, skipped } => {
                        let place = here.after(skipped).at(index as i64 * stride);
                        part::<DIRECTION>(child, place, range);
                    }
                    LoopPart::All { indices, skipped } => {
                        let place = here.after(skipped).at(indices.start as i64 * stride);
                        nest::copy::<DIRECTION>(indices.end - indices.start, *stride, child, place);
                    }
                });
                position = end;
            }
        }
        Loop::Struct { fields } => {
            let first = fields.partition_point(|field| field.start <= range.start) - 1;
            let mut position = range.start;
            for field in &fields[first..] {
                if position >= range.end {
                    break;
                }
                let end = (field.start + field.child.size()).min(range.end);
                let here = place.after(position - range.start).at(field.offset);
                part::<DIRECTION>(&field.child, here, position - field.start..end - field.start);
                position = end;
            }
        }
    }
}

/// Copies bytes `range` of the stream of listed runs: the end of one, whole ones, the start of
/// another.
fn listed_part<const DIRECTION: bool>(blocks: &[Block], place: Position, range: Range<u64>) {
    let first = blocks.partition_point(|block| block.start + block.len <= range.start);
    let last = blocks.partition_point(|block| block.start + block.len <= range.end);
    // Where the stream of the whole list would begin.
    let list = Position { stream: place.stream.wrapping_sub(range.start as usize), ..place };
    let piece = |block: &Block| {
        let from = range.start.max(block.start);
        let to = range.end.min(block.start + block.len);
        if from < to {
            let here = list.at(block.offset + (from - block.start) as i64).after(from);
            // SAFETY: the module's invariant.
            unsafe { kernel::run::<DIRECTION>(here, to - from) };
        }
    };
    let mut whole = first..last;
    if first < last && blocks[first].start < range.start {
        piece(&blocks[first]);
        whole.start += 1;
    }
    if !whole.is_empty() {
        // SAFETY: the module's invariant.
        unsafe { rows::copy::<DIRECTION>(&blocks[whole], std::iter::once(list)) };
    }
    if let Some(block) = blocks.get(last) {
        piece(block);
    }
}

/// Copies all of `node`.
fn whole<const DIRECTION: bool>(node: &Node, place: Position) {
    match node.kind() {
        // SAFETY: the module's invariant.
        Loop::Bytes => unsafe { kernel::run::<DIRECTION>(place, node.size()) },
        Loop::Contig { .. } | Loop::Vector { .. } => {
            if let Some((count, stride, child)) = node.repetition() {
                nest::copy::<DIRECTION>(count, stride, child, place);
            }
        }
        Loop::BlockIndexed { offsets, child } => {
            scattered::<DIRECTION>(offsets, child, place);
        }
        Loop::Indexed { blocks, child, stride } => {
            if node.is_list_of_bytes() {
                // SAFETY: the module's invariant.
                return unsafe { rows::copy::<DIRECTION>(&**blocks, std::iter::once(place)) };
            }
            for block in blocks {
                let here = place.at(block.offset).after(block.start * child.size());
                nest::copy::<DIRECTION>(block.len, *stride, child, here);
            }
        }
        Loop::Struct { fields } => {
            for field in fields {
                let here = place.at(field.offset).after(field.start);
                whole::<DIRECTION>(&field.child, here);
            }
        }
    }
}

/// Copies `child` at each of the offsets.
fn scattered<const DIRECTION: bool>(offsets: &[i64], child: &Node, place: Position) {
    if child.is_bytes() {
        // SAFETY: the module's invariant.
        return unsafe { kernel::scattered::<DIRECTION>(offsets, child.size(), place) };
    }
    for (i, &offset) in offsets.iter().enumerate() {
        whole::<DIRECTION>(child, place.at(offset).after(i as u64 * child.size()));
    }
}

/// A part of a loop over children of equal size, `skipped` bytes into the range.
enum LoopPart {
    /// A range of one child.
    Of { index: u64, range: Range<u64>, skipped: u64 },
    /// Several children as a whole.
    All { indices: Range<u64>, skipped: u64 },
}

/// Splits a range of a loop's stream into the end of one child, whole children and the start of
/// another.
fn split(size: u64, range: Range<u64>, mut copy: impl FnMut(LoopPart)) {
    let (first, last) = (range.start / size, range.end / size);
    if first == last {
        let range = range.start - first * size..range.end - first * size;
        return copy(LoopPart::Of { index: first, range, skipped: 0 });
    }
    let head = range.start - first * size;
    let whole_from = if head > 0 { first + 1 } else { first };
    if head > 0 {
        copy(LoopPart::Of { index: first, range: head..size, skipped: 0 });
    }
    if whole_from < last {
        let skipped = whole_from * size - range.start;
        copy(LoopPart::All { indices: whole_from..last, skipped });
    }
    let tail = range.end - last * size;
    if tail > 0 {
        copy(LoopPart::Of { index: last, range: 0..tail, skipped: last * size - range.start });
    }
}
