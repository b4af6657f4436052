//! Writing: from definitions to bytes at addresses.
//!
//! [`FilePlan`] is the main type: it has the definitions of a netCDF-4 file
//! ([`netcdf::FileDefinition`]), knows where the elements of each variable belong ([`Placement`]),
//! and says what a commit writes, in which order ([`Commit`]). It computes and does nothing: no
//! file, no rank, no time. The same calls give the same bytes.
//!
//! What is written is what HDF5 1.8 and every later library reads, and what netCDF-4 allows:
//! superblock 2, object headers 2, version-1 B-trees of chunks. The design is in
//! `docs/design/netcdf4.md`.

mod arenas;
mod chunk_tree;
mod datatype;
mod dense_attributes;
mod elements;
mod fragment;
mod free_list;
mod global_heap;
mod image;
mod message;
pub mod netcdf;
mod object_header;
mod placement;
mod plan;
mod released_space;
mod space;
mod superblock;

pub use arenas::{ArenaSpace, Arenas};
pub use chunk_tree::StoredChunk;
pub use elements::{DESCRIPTOR, Elements, HeapedElements};
pub use free_list::FreeList;
pub use placement::{ChunkBox, Chunks, Placement};
pub use plan::{Commit, CommitStep, FilePlan, PlanOptions};
pub use space::DataAlignment;
pub use superblock::{SUPERBLOCK_SIZE, superblock};
