//! [`Layout`]: where the elements of a dataset are.

use super::{Address, Name};

/// Where the elements of a dataset are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// In the object header itself.
    Compact {
        /// All elements.
        data: Vec<u8>,
    },
    /// In one piece.
    Contiguous {
        /// Where; `None` as long as nothing is allocated.
        address: Option<Address>,
        /// Bytes.
        size: u64,
    },
    /// In chunks of equal shape.
    Chunked(ChunkedLayout),
    /// In other datasets.
    Virtual {
        /// The global heap collection with the mapping; `None` as long as there is no mapping.
        heap: Option<Address>,
        /// The object in that collection.
        index: u32,
    },
    /// In other files, one after the other.
    External {
        /// The parts, in order.
        files: Vec<ExternalFile>,
    },
}

/// A part of a dataset in another file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalFile {
    /// The name of the file.
    pub name: Name,
    /// Where the part begins in it.
    pub offset: u64,
    /// Bytes; `None` if the file may grow without limit.
    pub size: Option<u64>,
}

/// Chunks of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChunkedLayout {
    /// The shape of a chunk in elements, slowest dimension first. The rank is that of the dataset:
    /// the last number of the message, the element's size, is a field of its own.
    pub chunk: Vec<u64>,
    /// Bytes of an element.
    pub element_size: u32,
    /// Chunks that reach beyond the dataset are stored without filters (version 4 only).
    pub partial_chunks_unfiltered: bool,
    /// How chunks are found.
    pub index: ChunkIndex,
}

/// How chunks are found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChunkIndex {
    /// Version-1 B-tree, the only index of layout messages up to version 3.
    BTree1 {
        /// The root node; `None` as long as there are no chunks.
        root: Option<Address>,
    },
    /// The dataset is one chunk.
    Single {
        /// Where; `None` as long as it is not written.
        address: Option<Address>,
        /// With filters: what they left.
        filter: Option<SingleChunkFilter>,
    },
    /// All chunks one after the other, without filters.
    Implicit {
        /// The first; `None` as long as nothing is allocated.
        address: Option<Address>,
    },
    /// Fixed array: no dimension can grow.
    FixedArray {
        /// The header; `None` as long as there are no chunks.
        header: Option<Address>,
        /// Elements of a page of the data block, as a power of two.
        page_bits: u8,
    },
    /// Extensible array: one dimension can grow.
    ExtensibleArray {
        /// The header; `None` as long as there are no chunks.
        header: Option<Address>,
        /// Bits of the largest index.
        maximum_bits: u8,
        /// Elements in the index block.
        index_elements: u8,
        /// The fewest pointers of a secondary block.
        minimum_pointers: u8,
        /// The fewest elements of a data block.
        minimum_elements: u8,
        /// Elements of a page of a data block, as a power of two.
        page_bits: u8,
    },
    /// Version-2 B-tree: several dimensions can grow.
    BTree2 {
        /// The header; `None` as long as there are no chunks.
        header: Option<Address>,
        /// Bytes of a node.
        node_size: u32,
        /// Percent at which a node is split.
        split_percent: u8,
        /// Percent at which nodes are merged.
        merge_percent: u8,
    },
}

/// The one chunk of a filtered dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SingleChunkFilter {
    /// Bytes as stored.
    pub size: u64,
    /// Filters that were left out, bit 0 for the first of the pipeline.
    pub mask: u32,
}

/// A chunk as an index has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The array coordinates of its first element.
    pub offset: Vec<u64>,
    /// Where it is stored.
    pub address: Address,
    /// Bytes as stored.
    pub size: u64,
    /// Filters that were left out, bit 0 for the first of the pipeline.
    pub filter_mask: u32,
}
