//! The normal form: combines loops so that equal accesses become equal descriptions.
//!
//! Every constructor goes through the functions here, children first, so a loop is normal when it
//! exists. The rules \[CHING §loop fusion\]:
//!
//! * empty loops are dropped, a single copy is its child, offsets move to the root;
//! * a leaf whose copies touch is a longer leaf; two nested loops that continue each other are one;
//! * neighbouring blocks merge, a list with a period becomes a loop over its period (so a list of
//!   the rows of a block becomes the block again), equal block lengths become a blockindexed loop;
//! * a struct whose fields are all bytes is an indexed loop, one whose fields are all alike a
//!   blockindexed one, and a struct within a struct is part of it.

use std::sync::Arc;

use crate::TypeError;
use crate::node::{Block, Field, Loop, Node};

/// A normal loop and where its first byte lies.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub offset: i64,
    pub node: Arc<Node>,
}

impl Placed {
    pub(crate) fn bytes(len: u64) -> Result<Self, TypeError> {
        Ok(Self { offset: 0, node: Node::bytes(len)? })
    }

    fn empty() -> Result<Self, TypeError> {
        Self::bytes(0)
    }

    fn is_empty(&self) -> bool {
        self.node.size() == 0
    }

    pub(crate) fn shift(self, by: i64) -> Result<Self, TypeError> {
        if self.is_empty() {
            return Ok(self);
        }
        self.node.span().shift(add(self.offset, by)?)?;
        Ok(Self { offset: self.offset + by, ..self })
    }
}

fn add(a: i64, b: i64) -> Result<i64, TypeError> {
    a.checked_add(b).ok_or(TypeError::overflow("displacement"))
}

fn sub(a: i64, b: i64) -> Result<i64, TypeError> {
    a.checked_sub(b).ok_or(TypeError::overflow("displacement"))
}

/// `count` copies of `child`, `stride` bytes apart.
pub(crate) fn repeated(count: u64, stride: i64, child: Placed) -> Result<Placed, TypeError> {
    if count == 0 || child.is_empty() {
        return Placed::empty();
    }
    if count == 1 {
        return Ok(child);
    }
    let Placed { offset, node } = child;
    if node.is_bytes() && node.size() == stride as u64 && stride > 0 {
        let len = node.size().checked_mul(count).ok_or(TypeError::overflow("size"))?;
        return Placed::bytes(len)?.shift(offset);
    }
    if let Some((inner_count, inner_stride, grandchild)) = node.repetition()
        && i64::try_from(inner_count).ok().and_then(|n| n.checked_mul(inner_stride)) == Some(stride)
    {
        let count = count.checked_mul(inner_count).ok_or(TypeError::overflow("size"))?;
        let grandchild = Placed { offset, node: Arc::clone(grandchild) };
        return repeated(count, inner_stride, grandchild);
    }
    let kind = if node.span().ascending && stride == node.true_extent() {
        Loop::Contig { count, child: node }
    } else {
        Loop::Vector { count, stride, child: node }
    };
    Placed { offset: 0, node: Node::new(kind)? }.shift(offset)
}

/// Copies of `child` at `offsets`.
pub(crate) fn scattered(offsets: &[i64], child: &Placed) -> Result<Placed, TypeError> {
    if offsets.is_empty() || child.is_empty() {
        return Placed::empty();
    }
    if child.node.is_bytes() {
        let blocks = offsets.iter().map(|&offset| (offset, child.node.size())).collect();
        return listed(blocks)?.shift(child.offset);
    }
    let n = offsets.len();
    let period = period(n, |i, j| {
        offsets[i + 1].wrapping_sub(offsets[i]) == offsets[j + 1].wrapping_sub(offsets[j])
    });
    if period < n {
        let stride = sub(offsets[period], offsets[0])?;
        let group = scattered(&offsets[..period], child)?;
        return repeated((n / period) as u64, stride, group);
    }
    if n == 1 {
        return child.clone().shift(offsets[0]);
    }
    let first = offsets[0];
    let relative = offsets.iter().map(|&o| sub(o, first)).collect::<Result<_, _>>()?;
    let node = Node::new(Loop::BlockIndexed { offsets: relative, child: Arc::clone(&child.node) })?;
    Placed { offset: 0, node }.shift(add(first, child.offset)?)
}

/// Blocks of bytes: (offset, length) in stream order.
pub(crate) fn listed(mut blocks: Vec<(i64, u64)>) -> Result<Placed, TypeError> {
    blocks.retain(|&(_, len)| len > 0);
    for &(offset, len) in &blocks {
        let len = i64::try_from(len).map_err(|_| TypeError::overflow("block length"))?;
        add(offset, len)?;
    }
    blocks.dedup_by(|next, previous| {
        let touches = previous.0.checked_add_unsigned(previous.1) == Some(next.0);
        if touches {
            previous.1 += next.1; // at most the distance of two offsets: fits
        }
        touches
    });
    listed_merged(&blocks)
}

fn listed_merged(blocks: &[(i64, u64)]) -> Result<Placed, TypeError> {
    let n = blocks.len();
    let Some(&(first, len)) = blocks.first() else {
        return Placed::empty();
    };
    if n == 1 {
        return Placed::bytes(len)?.shift(first);
    }
    let period = period(n, |i, j| {
        blocks[i].1 == blocks[j].1
            && blocks[i + 1].0.wrapping_sub(blocks[i].0)
                == blocks[j + 1].0.wrapping_sub(blocks[j].0)
    });
    // The comparison above sees the lengths of all blocks but the last.
    if period < n && blocks[n - 1].1 == blocks[n - 1 - period].1 {
        let stride = sub(blocks[period].0, first)?;
        return repeated((n / period) as u64, stride, listed_merged(&blocks[..period])?);
    }
    let kind = if blocks.iter().all(|block| block.1 == len) {
        let offsets = blocks.iter().map(|block| sub(block.0, first)).collect::<Result<_, _>>()?;
        Loop::BlockIndexed { offsets, child: Node::bytes(len)? }
    } else {
        indexed_loop(blocks, first, Node::bytes(1)?, 1)?
    };
    Placed { offset: 0, node: Node::new(kind)? }.shift(first)
}

fn indexed_loop(
    blocks: &[(i64, u64)],
    first: i64,
    child: Arc<Node>,
    stride: i64,
) -> Result<Loop, TypeError> {
    let mut start = 0u64;
    let blocks = blocks
        .iter()
        .map(|&(offset, len)| {
            let block = Block { offset: sub(offset, first)?, len, start };
            start = start.checked_add(len).ok_or(TypeError::overflow("size"))?;
            Ok(block)
        })
        .collect::<Result<_, TypeError>>()?;
    Ok(Loop::Indexed { blocks, child, stride })
}

/// Blocks of `len` copies of `child`, `stride` bytes apart: (offset, len) in stream order.
pub(crate) fn indexed(
    mut blocks: Vec<(i64, u64)>,
    stride: i64,
    child: &Placed,
) -> Result<Placed, TypeError> {
    blocks.retain(|&(_, len)| len > 0);
    if child.is_empty() || blocks.is_empty() {
        return Placed::empty();
    }
    let size = child.node.size();
    if child.node.is_bytes() && stride == size as i64 {
        for block in &mut blocks {
            block.1 = block.1.checked_mul(size).ok_or(TypeError::overflow("size"))?;
        }
        return listed(blocks)?.shift(child.offset);
    }
    for &(_, len) in &blocks {
        child.node.span().repeat(len, stride)?;
    }
    blocks.dedup_by(|next, previous| {
        let end = i64::try_from(previous.1)
            .ok()
            .and_then(|n| n.checked_mul(stride))
            .and_then(|n| n.checked_add(previous.0));
        let touches = end == Some(next.0);
        if touches {
            previous.1 += next.1; // both are less than 2^63: fits
        }
        touches
    });
    let (first, len) = blocks[0];
    if blocks.iter().all(|block| block.1 == len) {
        let offsets: Vec<i64> = blocks.iter().map(|block| block.0).collect();
        return scattered(&offsets, &repeated(len, stride, child.clone())?);
    }
    let kind = indexed_loop(&blocks, first, Arc::clone(&child.node), stride)?;
    Placed { offset: 0, node: Node::new(kind)? }.shift(add(first, child.offset)?)
}

/// Parts one after the other in the stream, wherever they lie.
pub(crate) fn sequence(parts: Vec<Placed>) -> Result<Placed, TypeError> {
    let mut fields: Vec<Placed> = Vec::with_capacity(parts.len());
    for part in parts {
        if let Loop::Struct { fields: inner } = part.node.kind() {
            for field in inner {
                let placed = Placed { offset: field.offset, node: Arc::clone(&field.child) };
                fields.push(placed.shift(part.offset)?);
            }
        } else if !part.is_empty() {
            fields.push(part);
        }
    }
    fields.dedup_by(|next, previous| {
        let touches = previous.node.is_bytes()
            && next.node.is_bytes()
            && previous.offset.checked_add(previous.node.true_extent()) == Some(next.offset);
        if touches && let Ok(node) = Node::bytes(previous.node.size() + next.node.size()) {
            previous.node = node;
            return true;
        }
        false
    });
    if fields.iter().all(|field| field.node.is_bytes()) {
        return listed(fields.iter().map(|field| (field.offset, field.node.size())).collect());
    }
    if fields.windows(2).all(|pair| pair[0].node == pair[1].node) {
        let offsets: Vec<i64> = fields.iter().map(|field| field.offset).collect();
        return scattered(&offsets, &Placed { offset: 0, node: Arc::clone(&fields[0].node) });
    }
    let n = fields.len();
    let period = period(n, |i, j| {
        fields[i + 1].offset.wrapping_sub(fields[i].offset)
            == fields[j + 1].offset.wrapping_sub(fields[j].offset)
            && fields[i].node == fields[j].node
    });
    if period < n && fields[n - 1].node == fields[n - 1 - period].node {
        let stride = sub(fields[period].offset, fields[0].offset)?;
        fields.truncate(period);
        return repeated((n / period) as u64, stride, sequence(fields)?);
    }
    let (first, mut start) = (fields[0].offset, 0u64);
    let fields = fields
        .into_iter()
        .map(|Placed { offset, node: child }| {
            let field = Field { offset: sub(offset, first)?, start, child };
            start = start.checked_add(field.child.size()).ok_or(TypeError::overflow("size"))?;
            Ok(field)
        })
        .collect::<Result<_, TypeError>>()?;
    Placed { offset: 0, node: Node::new(Loop::Struct { fields })? }.shift(first)
}

/// The smallest period of a list of `n` entries that divides `n`; `n` if there is none.
///
/// `same_step(i, j)` compares the steps from entry `i` and from entry `j` to their successors. The
/// smallest period of the steps comes from the failure function of Knuth, Morris and Pratt, in
/// linear time.
fn period(n: usize, same_step: impl Fn(usize, usize) -> bool) -> usize {
    if n < 3 {
        return if n == 2 { 1 } else { n };
    }
    let steps = n - 1;
    let mut failure = vec![0usize; steps];
    for i in 1..steps {
        let mut k = failure[i - 1];
        while k > 0 && !same_step(i, k) {
            k = failure[k - 1];
        }
        failure[i] = if same_step(i, k) { k + 1 } else { 0 };
    }
    let period = steps - failure[steps - 1];
    // A period as long as the list of steps is not a period.
    if period < steps && n.is_multiple_of(period) { period } else { n }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_is_the_smallest_that_divides() {
        let of = |offsets: &[i64]| {
            period(offsets.len(), |i, j| offsets[i + 1] - offsets[i] == offsets[j + 1] - offsets[j])
        };
        assert_eq!(of(&[0]), 1);
        assert_eq!(of(&[0, 5]), 1);
        assert_eq!(of(&[0, 5, 10]), 1);
        assert_eq!(of(&[0, 1, 10, 11, 20, 21]), 2);
        assert_eq!(of(&[0, 1, 10, 11, 20]), 5);
        assert_eq!(of(&[0, 1, 5, 9, 10, 14]), 3);
        assert_eq!(of(&[0, 1, 5, 7]), 4);
    }
}
