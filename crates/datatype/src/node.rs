//! The five loop kinds over byte leaves \[CHING\].
//!
//! A [`Node`] is in *normal position*: the first byte of its stream is at offset 0. Its offset is
//! stored once, in the loop above it or in the [`crate::Datatype`] at the root. Together with
//! strides in bytes (an inner extent is a stride of the loop above) this makes equal accesses equal
//! descriptions.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::span::Span;
use crate::{MAX_DEPTH, MAX_NODES, TypeError};

/// One loop of a description, with the summary of its whole tree.
#[derive(Debug)]
pub struct Node {
    kind: Loop,
    span: Span,
    depth: u32,
    /// Loops and leaves in the tree. A shared part counts as often as it occurs, because a walk of
    /// the tree visits it as often.
    nodes: u32,
}

/// The loop kinds. Offsets are in bytes and relative to the loop's own first byte.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Loop {
    /// A leaf: contiguous bytes.
    Bytes,
    /// Copies that touch: each begins where the one before ends.
    Contig {
        /// Number of copies.
        count: u64,
        /// What is repeated.
        child: Arc<Node>,
    },
    /// Copies at a constant stride.
    Vector {
        /// Number of copies.
        count: u64,
        /// Bytes from one copy to the next.
        stride: i64,
        /// What is repeated.
        child: Arc<Node>,
    },
    /// Copies at listed offsets.
    BlockIndexed {
        /// Where each copy lies.
        offsets: Box<[i64]>,
        /// What is repeated.
        child: Arc<Node>,
    },
    /// Blocks of differing lengths at listed offsets.
    Indexed {
        /// The blocks, their lengths counted in children.
        blocks: Box<[Block]>,
        /// What a block consists of.
        child: Arc<Node>,
        /// Bytes from one child of a block to the next.
        stride: i64,
    },
    /// Different parts at listed offsets.
    Struct {
        /// The parts, in stream order.
        fields: Box<[Field]>,
    },
}

/// A block of an [`Loop::Indexed`] loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Where it lies.
    pub offset: i64,
    /// Children in it.
    pub len: u64,
    /// Children in the blocks before it.
    pub start: u64,
}

/// A field of a [`Loop::Struct`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Where it lies.
    pub offset: i64,
    /// What it holds.
    pub child: Arc<Node>,
    /// Bytes of the stream before it.
    pub start: u64,
}

impl Node {
    /// Computes the summary; the caller has put the loop in normal position.
    pub(crate) fn new(kind: Loop) -> Result<Arc<Self>, TypeError> {
        let (span, depth, nodes) = match &kind {
            Loop::Bytes => return Self::bytes(1),
            Loop::Contig { count, child } => {
                (child.span.repeat(*count, child.true_extent())?, child.depth, child.nodes)
            }
            Loop::Vector { count, stride, child } => {
                (child.span.repeat(*count, *stride)?, child.depth, child.nodes)
            }
            Loop::BlockIndexed { offsets, child } => {
                let mut span = Span::EMPTY;
                for &offset in offsets {
                    span = span.then(child.span.shift(offset)?)?;
                }
                (span, child.depth, child.nodes)
            }
            Loop::Indexed { blocks, child, stride } => {
                let mut span = Span::EMPTY;
                for block in blocks {
                    let block_span = child.span.repeat(block.len, *stride)?;
                    span = span.then(block_span.shift(block.offset)?)?;
                }
                (span, child.depth, child.nodes)
            }
            Loop::Struct { fields } => {
                let (mut span, mut depth, mut nodes) = (Span::EMPTY, 0, 0u32);
                for field in fields {
                    span = span.then(field.child.span.shift(field.offset)?)?;
                    depth = depth.max(field.child.depth);
                    nodes = nodes.saturating_add(field.child.nodes);
                }
                (span, depth, nodes)
            }
        };
        let (depth, nodes) = (depth + 1, nodes.saturating_add(1));
        if depth > MAX_DEPTH {
            return Err(TypeError::TooDeep { limit: MAX_DEPTH });
        }
        if nodes > MAX_NODES {
            return Err(TypeError::TooManyLoops { limit: MAX_NODES });
        }
        debug_assert!(span.is_empty() || span.first == 0, "a node starts at its first byte");
        Ok(Arc::new(Self { kind, span, depth, nodes }))
    }

    pub(crate) fn bytes(len: u64) -> Result<Arc<Self>, TypeError> {
        Ok(Arc::new(Self { kind: Loop::Bytes, span: Span::leaf(len)?, depth: 0, nodes: 1 }))
    }

    /// The loop.
    pub const fn kind(&self) -> &Loop {
        &self.kind
    }

    /// Bytes of data in the whole loop.
    pub const fn size(&self) -> u64 {
        self.span.size
    }

    /// Loops and leaves in the whole tree.
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Bytes of memory that the whole tree takes. A shared part counts as often as it occurs.
    pub(crate) fn memory_len(&self) -> u64 {
        // With the two counters of an `Arc`.
        let own = (size_of::<Self>() + 2 * size_of::<usize>()) as u64;
        own + match &self.kind {
            Loop::Bytes => 0,
            Loop::Contig { child, .. } | Loop::Vector { child, .. } => child.memory_len(),
            Loop::BlockIndexed { offsets, child } => {
                size_of_val(&**offsets) as u64 + child.memory_len()
            }
            Loop::Indexed { blocks, child, .. } => {
                size_of_val(&**blocks) as u64 + child.memory_len()
            }
            Loop::Struct { fields } => {
                let children: u64 = fields.iter().map(|field| field.child.memory_len()).sum();
                size_of_val(&**fields) as u64 + children
            }
        }
    }

    /// Loops from here down to the leaf.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    pub(crate) const fn is_bytes(&self) -> bool {
        matches!(self.kind, Loop::Bytes)
    }

    /// An indexed loop whose blocks are runs of bytes, counted in bytes.
    pub(crate) fn is_list_of_bytes(&self) -> bool {
        match &self.kind {
            Loop::Indexed { child, stride, .. } => {
                child.is_bytes() && child.size() == 1 && *stride == 1
            }
            _ => false,
        }
    }

    /// Bytes from the lowest to the highest offset touched.
    pub(crate) const fn true_extent(&self) -> i64 {
        self.span.high - self.span.low
    }

    /// A contig or vector loop as (count, stride, child).
    pub(crate) fn repetition(&self) -> Option<(u64, i64, &Arc<Self>)> {
        match &self.kind {
            Loop::Contig { count, child } => Some((*count, child.true_extent(), child)),
            Loop::Vector { count, stride, child } => Some((*count, *stride, child)),
            _ => None,
        }
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.span == other.span && self.kind == other.kind)
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.span.size.hash(state);
        self.kind.hash(state);
    }
}
