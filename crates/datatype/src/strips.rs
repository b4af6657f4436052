//! [`Strips`]: equal strips at a constant distance, and the next byte of a description inside of
//! one.
//!
//! The strips that a server holds of a striped file are such a set. A server or a client needs the
//! next byte of a description in a strip; the bytes in the gaps must not be walked.
//!
//! Copies at a constant stride stand at the residues `a`, `a + s`, `a + 2 s`, … modulo the period,
//! and the first of them that reaches into a strip is the first whose residue lies in an interval.
//! [`first_below`] finds it as Euclid finds a divisor. What a copy itself covers modulo the period
//! is one interval again ([`Search::shadow`]): a vector whose stride is a multiple of the period is
//! no wider than one of its blocks, and one that drifts a little is as wide as its drift. In a
//! list, the next strip tells where to bisect.
//!
//! # Cost
//!
//! O(depth · log) where every shadow is exact: for leaves, for loops that fit into a period, and
//! for all others whose gaps, seen modulo the period, are narrower than a strip. Elsewhere a copy
//! may be entered that has nothing in the strips, and the search goes on with the next. Then these
//! are bounds: of a loop at most `period / gcd(period, stride)` copies are entered, since the
//! residues repeat after that, and no more than there are; of a list no more than its entries, and
//! no more than there are strips over it; nested, these multiply. Copies whose residues are
//! scattered hit a strip after `period / width` tries on average. A caller with descriptions of
//! untrusted origin sets a limit ([`Datatype::next_in_strips_within`]).

use std::cell::Cell;
use std::num::NonZeroU64;

use crate::node::{Loop, Node};
use crate::{Datatype, TypeError};

/// The offsets `x` for which `(x − start) mod period < width`, before `start` as well as behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strips {
    start: i64,
    period: NonZeroU64,
    width: u64,
}

impl Strips {
    /// Teeth of `width` bytes, one of which begins at `start`, at a distance of `period`. A width
    /// above the period is the period: there are no gaps.
    pub fn new(start: i64, period: NonZeroU64, width: u64) -> Self {
        Self { start, period, width: width.min(period.get()) }
    }

    /// Whether a byte at `offset` is inside of a strip.
    pub const fn contains(&self, offset: i64) -> bool {
        self.residue(offset) < self.width
    }

    /// How far `offset` is behind the last strip that begins at or before it.
    const fn residue(&self, offset: i64) -> u64 {
        let period = self.period.get();
        let distance = offset.abs_diff(self.start) % period;
        if offset >= self.start || distance == 0 { distance } else { period - distance }
    }
}

impl Datatype {
    /// The smallest offset at or after `from` of a byte of `count` copies that lies in the strips;
    /// `None` if there is none. What lies in the gaps of the strips is not walked.
    ///
    /// Needs ascending bytes, as [`crate::Cursor::seek_offset`] does.
    ///
    /// ```
    /// use std::num::NonZeroU64;
    /// use striate_datatype::{Datatype, Strips};
    ///
    /// // A billion blocks that drift by a byte: the last byte of block 61 is the first in a strip.
    /// let blocks: Datatype = "hvector(1000000000, 4, stride=1001)".parse()?;
    /// let strips = Strips::new(64, NonZeroU64::new(1000).unwrap(), 8);
    /// assert_eq!(blocks.next_in_strips(1, 0, strips)?, Some(61 * 1001 + 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_in_strips(
        &self,
        count: u64,
        from: i64,
        strips: Strips,
    ) -> Result<Option<i64>, TypeError> {
        self.next_in_strips_within(count, from, strips, u64::MAX)
    }

    /// Like [`Datatype::next_in_strips`], but gives up after so many steps, with
    /// [`TypeError::Scattered`]: a description can be made so that the search takes years.
    pub fn next_in_strips_within(
        &self,
        count: u64,
        from: i64,
        strips: Strips,
        steps: u64,
    ) -> Result<Option<i64>, TypeError> {
        let size = self.span_of(count)?.size;
        if !self.is_ascending() || (count > 1 && !self.copies_ascend()) {
            return Err(TypeError::NotMonotonic);
        }
        if size == 0 || strips.width == 0 {
            return Ok(None);
        }
        let first = self.first_offset();
        let left = Cell::new(steps);
        let search = Search { period: strips.period.get(), width: strips.width, left: &left };
        // What saturates lies behind all copies, for together they span less than 2⁶³ bytes.
        let from = from.saturating_sub(first).max(0) as u64;
        let copies = Copies { count, stride: self.extent(), child: self.root() };
        let found = search.copies(&copies, strips.residue(first), from);
        match found {
            None if left.get() == 0 => Err(TypeError::Scattered { steps }),
            _ => Ok(found.map(|offset| first + offset as i64)),
        }
    }
}

/// The strips without their place. Where a node lies in it is a *phase*: how far its first byte is
/// behind the beginning of a strip, less than the period. Offsets count from the node's first byte,
/// which is its lowest, since it ascends.
#[derive(Clone, Copy, Debug)]
struct Search<'s> {
    period: u64,
    width: u64,
    /// Steps that may still be taken; at 0 nothing more is found.
    left: &'s Cell<u64>,
}

/// Copies at a constant stride, each wholly after the one before.
struct Copies<'t> {
    count: u64,
    /// Means nothing for a single copy.
    stride: i64,
    child: &'t Node,
}

/// An interval that holds all offsets of a node modulo the period. It may run over the end of the
/// period.
#[derive(Clone, Copy, Debug)]
struct ResidueInterval {
    /// Less than the period.
    start: u64,
    /// At least 1, and at most the period.
    len: u64,
}

impl Search<'_> {
    /// Counts a step; `None` if it was one too many.
    fn step(self) -> Option<()> {
        #[cfg(test)]
        tests::count_step();
        self.left.set(self.left.get().saturating_sub(1));
        (self.left.get() > 0).then_some(())
    }

    /// The first byte of `node` in the strips at or after `from`.
    fn find(self, node: &Node, phase: u64, from: u64) -> Option<u64> {
        self.step()?;
        let from = self.next_strip(phase, from)?;
        if from >= node.span().high as u64 {
            return None;
        }
        match node.kind() {
            Loop::Bytes => Some(from),
            Loop::Contig { count, child } => {
                let stride = child.true_extent();
                self.copies(&Copies { count: *count, stride, child }, phase, from)
            }
            Loop::Vector { count, stride, child } => {
                self.copies(&Copies { count: *count, stride: *stride, child }, phase, from)
            }
            Loop::BlockIndexed { offsets, child } => {
                let high = child.span().high;
                let bounds = |&offset: &i64| (offset as u64, (offset + high) as u64);
                let find = |_: &i64, phase, from| self.find(child, phase, from);
                self.listed(offsets, bounds, find, phase, from)
            }
            Loop::Indexed { blocks, child, stride } => {
                let bytes = node.is_list_of_bytes();
                let reach = |len: u64| (len as i64 - 1) * stride + child.span().high;
                let bounds = |block: &crate::Block| {
                    (block.offset as u64, (block.offset + reach(block.len)) as u64)
                };
                let find = |block: &crate::Block, phase, from| {
                    if bytes {
                        return Some(from);
                    }
                    let copies = Copies { count: block.len, stride: *stride, child };
                    self.copies(&copies, phase, from)
                };
                self.listed(blocks, bounds, find, phase, from)
            }
            Loop::Struct { fields } => {
                let bounds = |field: &crate::Field| {
                    (field.offset as u64, (field.offset + field.child.span().high) as u64)
                };
                let find = |field: &crate::Field, phase, from| self.find(&field.child, phase, from);
                self.listed(fields, bounds, find, phase, from)
            }
        }
    }

    /// The first byte of copies, of which the first is at 0.
    fn copies(self, copies: &Copies<'_>, phase: u64, from: u64) -> Option<u64> {
        let &Copies { count, child, .. } = copies;
        if count == 1 {
            return self.find(child, phase, from);
        }
        // A second copy lies behind the first, so the stride is positive.
        let stride = copies.stride as u64;
        let high = child.span().high as u64;
        let mut copy = from.checked_sub(high).map_or(0, |past| past / stride + 1);
        let phase_of = |copy: u64| self.plus(phase, copy * stride);
        // At most one copy is cut by `from`; it is searched separately.
        if copy < count && copy * stride < from {
            let at = copy * stride;
            if let Some(found) = self.find(child, phase_of(copy), from - at) {
                return Some(at + found);
            }
            copy += 1;
        }

        let shadow = self.shadow(child);
        // The shadow reaches into a strip if its last byte does, or is behind one by less than the
        // shadow's length. If that is more than a period, it always does.
        let last = self.plus(shadow.start, shadow.len - 1);
        let reach = (self.width - 1).saturating_add(shadow.len).min(self.period);
        let mut end = count;
        let mut entered = false;
        while copy < end && self.left.get() > 0 {
            let residue = self.plus(phase_of(copy), last);
            let skipped = first_below(residue, stride % self.period, self.period, reach)?;
            copy = copy.checked_add(skipped).filter(|&copy| copy < end)?;
            if let Some(found) = self.find(child, phase_of(copy), 0) {
                return Some(copy * stride + found);
            }
            if !entered {
                // The residues repeat: a copy of the same residue has no byte in the strips either.
                let different = self.period / greatest_divisor(self.period, stride);
                end = end.min(copy.saturating_add(different));
                entered = true;
            }
            copy += 1;
        }
        None
    }

    /// The first byte of the entries of a list, which ascend. `bounds` says where an entry begins
    /// and ends; `find` finds the first byte of an entry, given its phase, at or after an offset
    /// that lies in the entry and in the strips.
    fn listed<T>(
        self,
        mut entries: &[T],
        bounds: impl Fn(&T) -> (u64, u64),
        find: impl Fn(&T, u64, u64) -> Option<u64>,
        phase: u64,
        mut from: u64,
    ) -> Option<u64> {
        loop {
            self.step()?;
            from = self.next_strip(phase, from)?;
            entries = &entries[entries.partition_point(|entry| bounds(entry).1 <= from)..];
            let (entry, behind) = entries.split_first()?;
            let (start, end) = bounds(entry);
            if start > from {
                from = self.next_strip(phase, start)?;
            }
            if from < end {
                if let Some(found) = find(entry, self.plus(phase, start), from - start) {
                    return Some(start + found);
                }
                (entries, from) = (behind, end);
            }
        }
    }

    /// The first offset in the strips at or after `from`.
    fn next_strip(self, phase: u64, from: u64) -> Option<u64> {
        match self.plus(phase, from) {
            residue if residue < self.width => Some(from),
            residue => from.checked_add(self.period - residue),
        }
    }

    /// The shadow of a node. It is as long as it needs to be for leaves, for what fits into a
    /// period, and for loops that drift slowly; for others it is the whole period.
    fn shadow(self, node: &Node) -> ResidueInterval {
        let whole = ResidueInterval { start: 0, len: self.period };
        let high = node.span().high as u64;
        if high <= self.period {
            return ResidueInterval { start: 0, len: high };
        }
        let Some((count, stride, child)) = node.repetition() else { return whole };
        let ResidueInterval { start, len } = self.shadow(child);
        let ahead = stride as u64 % self.period;
        let drifted = |by: u64| {
            let drift = (count - 1).checked_mul(by)?;
            drift.checked_add(len).filter(|&len| len < self.period).map(|len| (drift, len))
        };
        if let Some((_, len)) = drifted(ahead) {
            ResidueInterval { start, len }
        } else if let Some((back, len)) = drifted(self.period - ahead) {
            ResidueInterval { start: self.plus(start, self.period - back), len }
        } else {
            whole
        }
    }

    /// `phase + by` modulo the period.
    const fn plus(self, phase: u64, by: u64) -> u64 {
        let by = by % self.period;
        let left = self.period - by;
        if phase >= left { phase - left } else { phase + by }
    }
}

/// The smallest `i` for which `(a + i × step) mod modulus < bound`; `a` and `step` are less than
/// the modulus.
fn first_below(a: u64, step: u64, modulus: u64, bound: u64) -> Option<u64> {
    if a < bound {
        return Some(0);
    }
    // Seen from `a`, the interval begins at the distance to the modulus, and does not wrap.
    first_between(step, modulus, modulus - a, modulus - a + (bound - 1))
}

/// The smallest `i` for which `low ≤ i × step mod modulus ≤ high`, where `0 < low ≤ high <
/// modulus`.
///
/// If no multiple of the step is in the interval before the first wrap, then `i × step − y ×
/// modulus` is, for a `y` that is to be as small as can be. Modulo the step that is an interval for
/// `y × modulus`: the same question with smaller numbers, as in Euclid's algorithm.
fn first_between(step: u64, modulus: u64, low: u64, high: u64) -> Option<u64> {
    #[cfg(test)]
    tests::count_step();
    if step == 0 {
        return None;
    }
    let first = low.div_ceil(step);
    if first <= high / step {
        return Some(first);
    }
    // No multiple of the step lies between, so neither remainder is 0, and they are in order.
    let wraps = first_between(modulus % step, step, step - high % step, step - low % step)?;
    let reached = u128::from(wraps) * u128::from(modulus) + u128::from(low);
    // Less than the modulus, after which the residues repeat.
    Some(reached.div_ceil(u128::from(step)) as u64)
}

const fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests;
