//! [`ChunkTree`]: version-1 B-trees of chunks, built from the leaves up.
//!
//! The only chunk index of netCDF-4 files. Nodes are filled, since the tree is written anew at
//! every commit; a library that adds chunks splits them. Which chunks a node has follows from its
//! level and its number, so the tree is arithmetic over one list of chunks.

use super::fragment::{BlockId, Fragment};
use super::image::Image;
use crate::model::Address;
use crate::{Error, Reason, Result, Structure};

/// The most entries of a node: twice the rank, which is 32 in files that name no other.
const FANOUT: usize = 64;

/// Bytes before the entries of a node.
const HEAD: usize = 24;

/// The chunks of a dataset, in the order of their offsets.
#[derive(Debug)]
pub(crate) struct ChunkTree {
    /// The shape of a chunk in elements, then the bytes of an element.
    shape: Vec<u64>,
    /// The offsets of all chunks, as many numbers each as the shape has.
    offsets: Vec<u64>,
    stored: Vec<StoredChunk>,
}

/// Where a chunk is, and what filters made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredChunk {
    /// Where it begins.
    pub address: Address,
    /// Bytes as stored.
    pub size: u32,
    /// Filters that were left out, bit 0 for the first of the pipeline.
    pub filter_mask: u32,
}

impl ChunkTree {
    pub(crate) fn new(chunk: &[u64], element_size: u32) -> Self {
        let shape = chunk.iter().copied().chain([element_size.into()]).collect();
        Self { shape, offsets: Vec::new(), stored: Vec::new() }
    }

    /// Adds the next chunk, by its place in the grid of chunks.
    pub(crate) fn push(&mut self, place: &[u64], stored: StoredChunk) -> Result<()> {
        let refuse = |reason| Error::at(Structure::Chunk, stored.address, reason);
        let from = self.offsets.len();
        for (&place, &len) in place.iter().zip(&self.shape) {
            let far = || refuse(Reason::Invalid("is beyond the largest dataset"));
            self.offsets.push(place.checked_mul(len).ok_or_else(far)?);
        }
        self.offsets.push(0);
        let before = from.checked_sub(self.shape.len()).map(|at| &self.offsets[at..from]);
        if before.is_some_and(|before| before >= &self.offsets[from..]) {
            return Err(refuse(Reason::Invalid("is not behind the chunk before it")));
        }
        self.stored.push(stored);
        Ok(())
    }

    /// Adds the tree to an image; returns where its root is, `None` without chunks.
    pub(crate) fn build(&self, image: &mut Image) -> Option<(BlockId, u64)> {
        if self.stored.is_empty() {
            return None;
        }
        let block = image.reserve();
        let mut out = Fragment::new();
        let mut below = ChildLevel { block, first: 0, span: 1, children: self.stored.len() };
        for height in 0.. {
            let nodes = below.children.div_ceil(FANOUT);
            let first = out.len() / self.node_size();
            for node in 0..nodes {
                self.node(&mut out, height, first, nodes, node, &below);
            }
            below = ChildLevel { block, first, span: below.span * FANOUT, children: nodes };
            if nodes == 1 {
                break;
            }
        }
        let root = out.len() - self.node_size();
        image.set(block, out);
        Some((block, root as u64))
    }

    fn key_size(&self) -> usize {
        8 + 8 * self.shape.len()
    }

    fn node_size(&self) -> usize {
        HEAD + FANOUT * (self.key_size() + 8) + self.key_size()
    }

    /// The key before a chunk, or behind the last one.
    fn key(&self, out: &mut Fragment, chunk: usize) {
        let rank = self.shape.len();
        if let Some(stored) = self.stored.get(chunk) {
            out.u32(stored.size);
            out.u32(stored.filter_mask);
            for &offset in &self.offsets[chunk * rank..][..rank] {
                out.u64(offset);
            }
        } else {
            out.u64(0);
            let last = &self.offsets[self.offsets.len() - rank..];
            for (&offset, &len) in last.iter().zip(&self.shape) {
                out.u64(offset.saturating_add(len));
            }
        }
    }

    /// A node: `node` of the `nodes` of its level, the first of which is node `first` of the tree.
    fn node(
        &self,
        out: &mut Fragment,
        height: u8,
        first: usize,
        nodes: usize,
        node: usize,
        below: &ChildLevel,
    ) {
        let begin = out.len();
        let size = self.node_size();
        let children = node * FANOUT..below.children.min((node + 1) * FANOUT);
        out.raw(b"TREE");
        out.u8(1);
        out.u8(height);
        out.u16(children.len() as u16);
        let sibling = |out: &mut Fragment, node: Option<usize>| match node {
            Some(node) => out.reference(below.block, ((first + node) * size) as u64),
            None => out.address(None),
        };
        sibling(out, node.checked_sub(1));
        sibling(out, Some(node + 1).filter(|&node| node < nodes));
        for child in children.clone() {
            self.key(out, child * below.span);
            if height == 0 {
                out.address(Some(self.stored[child].address));
            } else {
                out.reference(below.block, ((below.first + child) * size) as u64);
            }
        }
        self.key(out, children.end.saturating_mul(below.span));
        out.zeros(begin + size - out.len());
    }
}

/// What the nodes of a level point to: chunks, or the nodes of the level below.
struct ChildLevel {
    block: BlockId,
    /// The first node.
    first: usize,
    /// Chunks below a child that is not the last.
    span: usize,
    /// How many there are.
    children: usize,
}
