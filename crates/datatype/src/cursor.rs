//! [`Cursor`]: walks a description from any position.
//!
//! The state is one frame per loop on the way to the current leaf, so stopping, resuming and
//! seeking do not depend on the number of skipped bytes: a seek divides in regular loops and
//! bisects lists. So a server can expand only the part of a description that is on its own strips
//! \[CHING\].

use std::iter::FusedIterator;
use std::ops::Range;

use crate::node::{Loop, Node};
use crate::{Datatype, TypeError};

/// Contiguous bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Where the first byte lies.
    pub offset: i64,
    /// Number of bytes.
    pub len: u64,
}

impl Run {
    /// One past the last byte.
    pub const fn end(&self) -> i64 {
        self.offset + self.len as i64
    }
}

/// A position in `count` copies of a type, and the way on from there.
///
/// As an iterator it yields the remaining runs, neighbours coalesced.
#[derive(Clone, Debug)]
pub struct Cursor<'t> {
    ty: &'t Datatype,
    count: u64,
    total: u64,
    /// Whether neighbouring leaf pieces can touch anywhere; if not, there is nothing to coalesce.
    coalesce: bool,
    position: u64,
    copy: u64,
    frames: Vec<Frame<'t>>,
    /// What is left of the current leaf piece; empty only at the end.
    piece: Run,
}

/// A loop on the way to the current leaf.
#[derive(Clone, Copy, Debug)]
struct Frame<'t> {
    node: &'t Node,
    /// Where the loop's first byte lies.
    at: i64,
    /// Which copy, block or field.
    index: u64,
    /// Which child of the block (indexed loops over other loops only).
    within: u64,
}

impl<'t> Cursor<'t> {
    /// A cursor at the start of `count` copies of `ty`.
    pub fn new(ty: &'t Datatype, count: u64) -> Result<Self, TypeError> {
        let span = ty.span_of(count)?;
        let mut cursor = Self {
            ty,
            count,
            total: span.size,
            coalesce: span.pieces > span.runs,
            position: 0,
            copy: 0,
            frames: Vec::with_capacity(ty.depth() as usize),
            piece: Run { offset: 0, len: 0 },
        };
        cursor.seek(0);
        Ok(cursor)
    }

    /// Bytes of the stream before the cursor.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of the stream from the cursor on.
    pub const fn remaining(&self) -> u64 {
        self.total - self.position
    }

    /// Where the next byte lies; `None` at the end.
    pub fn offset(&self) -> Option<i64> {
        (self.remaining() > 0).then_some(self.piece.offset)
    }

    /// The next run, of at most `max` bytes; `None` at the end or if `max` is 0.
    #[inline]
    pub fn next_run(&mut self, max: u64) -> Option<Run> {
        if max == 0 || self.piece.len == 0 {
            return None;
        }
        let mut run = Run { offset: self.piece.offset, len: self.take(max) };
        if self.coalesce {
            while run.len < max && self.piece.len > 0 && self.piece.offset == run.end() {
                run.len += self.take(max - run.len);
            }
        }
        Some(run)
    }

    /// Consumes at most `max` bytes of the current piece.
    #[inline]
    fn take(&mut self, max: u64) -> u64 {
        let len = self.piece.len.min(max);
        self.position += len;
        if len < self.piece.len {
            self.piece.offset += len as i64;
            self.piece.len -= len;
        } else {
            self.advance();
        }
        len
    }

    /// Moves to the byte at `position` of the stream, or to the end.
    pub fn seek(&mut self, position: u64) {
        self.frames.clear();
        if position >= self.total {
            self.finish();
            return;
        }
        let size = self.ty.size();
        self.position = position;
        self.copy = position / size;
        self.descend_to(self.ty.root(), self.copy_offset(), position % size);
    }

    /// Moves to the first byte at or after `offset`, or to the end.
    ///
    /// Needs a type whose bytes ascend ([`Datatype::is_monotonic`], or any ascending type when
    /// there is one copy); leaves the cursor alone otherwise.
    pub fn seek_offset(&mut self, offset: i64) -> Result<(), TypeError> {
        if !self.ty.is_ascending() || (self.count > 1 && !self.ty.copies_ascend()) {
            return Err(TypeError::NotMonotonic);
        }
        let node: &'t Node = self.ty.root();
        let first = self.ty.first_offset();
        let copy = first_reaching(offset.saturating_sub(first), self.ty.extent(), node.span().high);
        self.frames.clear();
        if self.total == 0 || copy >= self.count {
            self.finish();
            return Ok(());
        }
        self.copy = copy;
        let at = self.copy_offset();
        let skipped = self.descend_at(node, at, offset.saturating_sub(at));
        self.position = copy * node.size() + skipped;
        Ok(())
    }

    fn copy_offset(&self) -> i64 {
        self.ty.first_offset() + self.copy as i64 * self.ty.extent()
    }

    fn finish(&mut self) {
        self.position = self.total;
        self.copy = self.count;
        self.piece = Run { offset: 0, len: 0 };
    }

    /// Moves to the next leaf piece, or to the end.
    #[inline]
    fn advance(&mut self) {
        while let Some(frame) = self.frames.last_mut() {
            if let Some((child, at)) = frame.step() {
                match child {
                    Child::Piece(len) => self.piece = Run { offset: at, len },
                    Child::Node(node) => self.descend(node, at),
                }
                return;
            }
            self.frames.pop();
        }
        self.copy += 1;
        if self.copy < self.count && self.total > 0 {
            self.descend(self.ty.root(), self.copy_offset());
        } else {
            self.finish();
        }
    }

    /// Enters `node` at its first byte.
    fn descend(&mut self, mut node: &'t Node, mut at: i64) {
        loop {
            if node.is_bytes() {
                self.piece = Run { offset: at, len: node.size() };
                return;
            }
            let frame = Frame { node, at, index: 0, within: 0 };
            self.frames.push(frame);
            match frame.below() {
                (Child::Piece(len), offset) => {
                    self.piece = Run { offset, len };
                    return;
                }
                (Child::Node(child), offset) => (node, at) = (child, offset),
            }
        }
    }

    /// Enters `node` at byte `rest` of its stream.
    fn descend_to(&mut self, mut node: &'t Node, mut at: i64, mut rest: u64) {
        loop {
            let mut frame = Frame { node, at, index: 0, within: 0 };
            match node.kind() {
                Loop::Bytes => {
                    self.piece = Run { offset: at + rest as i64, len: node.size() - rest };
                    return;
                }
                Loop::Contig { child, .. }
                | Loop::Vector { child, .. }
                | Loop::BlockIndexed { child, .. } => {
                    frame.index = rest / child.size();
                    rest %= child.size();
                }
                Loop::Indexed { blocks, child, .. } => {
                    let unit = rest / child.size();
                    let block = blocks.partition_point(|block| block.start <= unit) - 1;
                    frame.index = block as u64;
                    frame.within = unit - blocks[block].start;
                    rest %= child.size();
                }
                Loop::Struct { fields } => {
                    let field = fields.partition_point(|field| field.start <= rest) - 1;
                    frame.index = field as u64;
                    rest -= fields[field].start;
                }
            }
            match frame.below() {
                // Where a block of bytes is the leaf, `within` counts bytes and stays in the piece.
                (Child::Piece(len), offset) => {
                    let skipped = std::mem::take(&mut frame.within);
                    self.frames.push(frame);
                    self.piece = Run { offset: offset + skipped as i64, len: len - skipped };
                    return;
                }
                (Child::Node(child), offset) => {
                    self.frames.push(frame);
                    (node, at) = (child, offset);
                }
            }
        }
    }

    /// Enters `node` at its first byte at or after `rel`, an offset relative to `at`; there is one.
    /// Returns the bytes of its stream before that.
    fn descend_at(&mut self, mut node: &'t Node, mut at: i64, mut rel: i64) -> u64 {
        let mut skipped = 0u64;
        loop {
            if rel <= 0 {
                self.descend(node, at);
                return skipped;
            }
            let mut frame = Frame { node, at, index: 0, within: 0 };
            match node.kind() {
                Loop::Bytes => {
                    self.piece = Run { offset: at + rel, len: node.size() - rel as u64 };
                    return skipped + rel as u64;
                }
                Loop::Contig { child, .. } => {
                    frame.index = first_reaching(rel, child.true_extent(), child.span().high);
                    skipped += frame.index * child.size();
                }
                Loop::Vector { child, stride, .. } => {
                    frame.index = first_reaching(rel, *stride, child.span().high);
                    skipped += frame.index * child.size();
                }
                Loop::BlockIndexed { offsets, child } => {
                    let high = child.span().high;
                    frame.index = offsets.partition_point(|&offset| offset + high <= rel) as u64;
                    skipped += frame.index * child.size();
                }
                Loop::Indexed { blocks, child, stride } => {
                    let high = child.span().high;
                    let index = blocks.partition_point(|block| {
                        block.offset + (block.len as i64 - 1) * stride + high <= rel
                    });
                    let block = &blocks[index];
                    frame.index = index as u64;
                    frame.within = first_reaching(rel - block.offset, *stride, high);
                    skipped += (block.start + frame.within) * child.size();
                }
                Loop::Struct { fields } => {
                    let index = fields
                        .partition_point(|field| field.offset + field.child.span().high <= rel);
                    frame.index = index as u64;
                    skipped += fields[index].start;
                }
            }
            match frame.below() {
                (Child::Piece(len), offset) => {
                    let within = std::mem::take(&mut frame.within);
                    self.frames.push(frame);
                    self.piece = Run { offset: offset + within as i64, len: len - within };
                    return skipped;
                }
                (Child::Node(child), offset) => {
                    self.frames.push(frame);
                    rel -= offset - at;
                    (node, at) = (child, offset);
                }
            }
        }
    }
}

/// What a frame points to: another loop, or a block of bytes that needs no frame of its own.
enum Child<'t> {
    Node(&'t Node),
    Piece(u64),
}

impl<'t> Frame<'t> {
    /// The child the frame points to, and where it lies.
    #[inline]
    fn below(&self) -> (Child<'t>, i64) {
        let index = self.index as i64;
        match self.node.kind() {
            Loop::Bytes => (Child::Piece(self.node.size()), self.at),
            Loop::Contig { child, .. } => {
                (Child::Node(child), self.at + index * child.true_extent())
            }
            Loop::Vector { stride, child, .. } => (Child::Node(child), self.at + index * stride),
            Loop::BlockIndexed { offsets, child } => {
                (Child::Node(child), self.at + offsets[self.index as usize])
            }
            Loop::Indexed { blocks, child, stride } => {
                let block = &blocks[self.index as usize];
                if self.node.is_list_of_bytes() {
                    (Child::Piece(block.len), self.at + block.offset)
                } else {
                    let offset = block.offset + self.within as i64 * stride;
                    (Child::Node(child), self.at + offset)
                }
            }
            Loop::Struct { fields } => {
                let field = &fields[self.index as usize];
                (Child::Node(&field.child), self.at + field.offset)
            }
        }
    }

    /// Moves to the next child; `None` after the last.
    #[inline]
    fn step(&mut self) -> Option<(Child<'t>, i64)> {
        let width = match self.node.kind() {
            Loop::Bytes => 1,
            Loop::Contig { count, .. } | Loop::Vector { count, .. } => *count,
            Loop::BlockIndexed { offsets, .. } => offsets.len() as u64,
            Loop::Indexed { blocks, .. } => {
                if !self.node.is_list_of_bytes()
                    && self.within + 1 < blocks[self.index as usize].len
                {
                    self.within += 1;
                    return Some(self.below());
                }
                self.within = 0;
                blocks.len() as u64
            }
            Loop::Struct { fields } => fields.len() as u64,
        };
        self.index += 1;
        (self.index < width).then(|| self.below())
    }
}

/// The first copy that ends after `rel`, when copies end at `high`, `high + stride`, …
const fn first_reaching(rel: i64, stride: i64, high: i64) -> u64 {
    match rel.saturating_sub(high) {
        before if before < 0 => 0,
        // A stride of 0 is ascending only for what has no second copy.
        _ if stride <= 0 => u64::MAX,
        past => (past / stride) as u64 + 1,
    }
}

impl Iterator for Cursor<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        self.next_run(u64::MAX)
    }
}

impl FusedIterator for Cursor<'_> {}

/// The runs of a description inside a range of offsets, with their places in the stream.
///
/// Nothing outside of the range is walked.
#[derive(Clone, Debug)]
pub struct Window<'t> {
    cursor: Cursor<'t>,
    end: i64,
}

impl Iterator for Window<'_> {
    type Item = (u64, Run);

    fn next(&mut self) -> Option<(u64, Run)> {
        let position = self.cursor.position();
        let offset = self.cursor.offset()?;
        if offset >= self.end {
            return None;
        }
        // From the lowest to the highest offset is more than an i64 holds.
        Some((position, self.cursor.next_run(self.end.abs_diff(offset))?))
    }
}

impl Datatype {
    /// The runs of `count` copies that lie inside `range`; see [`Cursor::seek_offset`] for which
    /// types this works.
    pub fn window(&self, count: u64, range: Range<i64>) -> Result<Window<'_>, TypeError> {
        let mut cursor = Cursor::new(self, count)?;
        cursor.seek_offset(range.start)?;
        Ok(Window { cursor, end: range.end })
    }

    /// How many bytes of `count` copies lie before `offset`: the place in the stream of the first
    /// byte at or after it.
    pub fn bytes_before(&self, count: u64, offset: i64) -> Result<u64, TypeError> {
        let mut cursor = Cursor::new(self, count)?;
        cursor.seek_offset(offset)?;
        Ok(cursor.position())
    }
}
