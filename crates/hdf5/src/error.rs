//! [`Error`]: what was attempted, at which address, and why it failed.
//!
//! One type for the crate. A caller that only shows it gets a sentence; one that decides by it
//! looks at [`Reason`]: a file that is damaged, one that needs what is not supported, and storage
//! that failed are different things.

use std::fmt;
use std::io;

use crate::filter::FilterError;
use crate::model::{Address, Name};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct Error {
    /// What was being read or written.
    pub structure: Structure,
    /// Where it is, if it has a place in the file.
    pub address: Option<Address>,
    /// What failed; part of the sentence that is shown.
    pub reason: Reason,
}

impl Error {
    /// An error in a structure at an address.
    pub fn at(structure: Structure, address: Address, reason: impl Into<Reason>) -> Self {
        Self { structure, address: Some(address), reason: reason.into() }
    }

    /// An error in something that has no address of its own.
    pub fn of(structure: Structure, reason: impl Into<Reason>) -> Self {
        Self { structure, address: None, reason: reason.into() }
    }

    fn sentence(&self) -> String {
        match self.address {
            Some(address) => format!("{} at {address}: {}", self.structure, self.reason),
            None => format!("{}: {}", self.structure, self.reason),
        }
    }
}

/// What failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// There are fewer bytes than the structure says.
    #[error("needs {needed} bytes, of which {available} are there")]
    Truncated {
        /// How many bytes it takes.
        needed: u64,
        /// How many there are.
        available: u64,
    },
    /// The file ends before the address at which its superblock says it ends.
    #[error("the file has {length} bytes, but its superblock says that it ends at {end}")]
    FileTruncated {
        /// Bytes of the file.
        length: u64,
        /// Where it should end.
        end: u64,
    },
    /// No superblock was found: this is no HDF5 file.
    #[error("no HDF5 signature at 0, 512, 1024, …")]
    NotHdf5,
    /// Other bytes than the structure's signature.
    #[error("begins with \"{}\" instead of \"{}\"", found.escape_ascii(), expected.escape_ascii())]
    Signature {
        /// The structure's.
        expected: [u8; 4],
        /// Those in the file.
        found: [u8; 4],
    },
    /// A version that does not exist, or not yet.
    #[error("version {0} is not known")]
    Version(u8),
    /// The bytes are not those of which the checksum was made.
    #[error("checksum is {computed:#010x}, stored is {stored:#010x}")]
    Checksum {
        /// That in the file.
        stored: u32,
        /// That of the bytes.
        computed: u32,
    },
    /// A structure that contains itself.
    #[error("refers to itself, directly or through others")]
    Cycle,
    /// More levels, entries or bytes than any sound file of this length has.
    #[error("{what}: {found} where at most {limit} are possible")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there seem to be.
        found: u64,
        /// How many there can be.
        limit: u64,
    },
    /// A field that contradicts the format or another field.
    #[error("{0}")]
    Invalid(&'static str),
    /// Sound, but nothing that this crate reads or writes.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A path leads nowhere.
    #[error("there is no \"{0}\"")]
    NotFound(Name),
    /// A path leads to another file.
    #[error("is in another file, \"{file}\", as \"{path}\"")]
    InAnotherFile {
        /// The name of that file, as the link has it.
        file: Name,
        /// The path in that file.
        path: Name,
    },
    /// A filter did not decode or encode.
    #[error("{0}")]
    Filter(#[from] FilterError),
    /// Storage failed.
    #[error("{0}")]
    Storage(#[from] io::Error),
}

/// The structures of the format, as errors name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Structure {
    /// The file as a whole.
    File,
    /// Superblock.
    Superblock,
    /// Object header, version 1 or 2.
    ObjectHeader,
    /// A message of an object header, by its number.
    Message(u16),
    /// A message in the table or heap of shared messages.
    SharedMessage,
    /// Dataspace.
    Dataspace,
    /// Datatype.
    Datatype,
    /// Fill value.
    FillValue,
    /// Data layout.
    Layout,
    /// Filter pipeline.
    FilterPipeline,
    /// Attribute.
    Attribute,
    /// Link.
    Link,
    /// A group's links.
    Group,
    /// Node of a version-1 B-tree.
    BTree1,
    /// Header or node of a version-2 B-tree.
    BTree2,
    /// Symbol table node.
    SymbolTableNode,
    /// Local heap.
    LocalHeap,
    /// Global heap collection.
    GlobalHeap,
    /// Fractal heap.
    FractalHeap,
    /// Fixed array of chunks.
    FixedArray,
    /// Extensible array of chunks.
    ExtensibleArray,
    /// A chunk of a dataset.
    Chunk,
    /// The values of a dataset.
    Data,
    /// A value of an element.
    Value,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Superblock => "superblock",
            Self::ObjectHeader => "object header",
            Self::Message(number) => return write!(f, "message {number:#06x} of object header"),
            Self::SharedMessage => "shared message",
            Self::Dataspace => "dataspace",
            Self::Datatype => "datatype",
            Self::FillValue => "fill value",
            Self::Layout => "data layout",
            Self::FilterPipeline => "filter pipeline",
            Self::Attribute => "attribute",
            Self::Link => "link",
            Self::Group => "group",
            Self::BTree1 => "version-1 B-tree",
            Self::BTree2 => "version-2 B-tree",
            Self::SymbolTableNode => "symbol table node",
            Self::LocalHeap => "local heap",
            Self::GlobalHeap => "global heap collection",
            Self::FractalHeap => "fractal heap",
            Self::FixedArray => "fixed array of chunks",
            Self::ExtensibleArray => "extensible array of chunks",
            Self::Chunk => "chunk",
            Self::Data => "data of a dataset",
            Self::Value => "value",
        })
    }
}
