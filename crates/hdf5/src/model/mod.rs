//! The structures of an HDF5 file, as plain data.
//!
//! Reading yields them, writing takes them. They follow the format's specification and not a
//! version of an encoding: what only says how something is encoded (versions of messages, widths
//! of fields, checksums) is not here, what a file can say is.

mod address;
mod attribute;
mod dataspace;
mod datatype;
mod fill_value;
mod filter;
mod layout;
mod link;
mod name;
mod object;
mod superblock;

pub use address::Address;
pub use attribute::Attribute;
pub use dataspace::{Dataspace, Dimension};
pub use datatype::{
    ByteOrder, Class, Datatype, EnumerationMember, FixedPoint, FloatingPoint, Member,
    Normalization, Padding, ReferenceKind, StringPadding,
};
pub use fill_value::{AllocationTime, Fill, FillTime, FillValue};
pub use filter::Filter;
pub use layout::{Chunk, ChunkIndex, ChunkedLayout, ExternalFile, Layout, SingleChunkFilter};
pub use link::{Link, LinkTarget};
pub use name::{CharacterSet, Name};
pub use object::{
    AttributePhaseChange, Message, MessageFlags, MessageKind, Object, ObjectHeader, ObjectKind,
    Times,
};
pub use superblock::{RootGroup, Superblock, TreeRanks};
