//! [`ObjectHeader`]: the messages of which a group, a dataset or a committed type consists.

use std::fmt;

use smallvec::SmallVec;

use super::Address;

/// An object of a file: its header, and what that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Where its header is.
    pub address: Address,
    /// What it is.
    pub kind: ObjectKind,
    /// Its header.
    pub header: ObjectHeader,
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A group.
    Group,
    /// A dataset.
    Dataset,
    /// A committed datatype.
    Datatype,
}

/// An object header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectHeader {
    /// 1 or 2.
    pub version: u8,
    /// Hard links to the object.
    pub reference_count: u32,
    /// Times, if version 2 stores them. Version 1 has messages for them.
    pub times: Option<Times>,
    /// Attributes carry numbers in the order of creation.
    pub attribute_order_tracked: bool,
    /// There is an index of that order.
    pub attribute_order_indexed: bool,
    /// When attributes move to a heap; `None` is the default of 8 and 6.
    pub attribute_phase_change: Option<AttributePhaseChange>,
    /// The messages of all blocks in their order, without the continuations that connect those.
    pub messages: Vec<Message>,
}

/// Times of an object, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// Last access.
    pub access: u32,
    /// Last modification of data.
    pub modification: u32,
    /// Last change of metadata.
    pub change: u32,
    /// Creation.
    pub birth: u32,
}

/// Numbers of attributes at which they move between header and heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttributePhaseChange {
    /// The most that a header holds.
    pub maximum_compact: u16,
    /// The fewest that a heap holds.
    pub minimum_dense: u16,
}

/// A message of an object header, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// What it is.
    pub kind: MessageKind,
    /// How it is treated.
    pub flags: MessageFlags,
    /// The number in the order of creation, if tracked: of attributes and links.
    pub creation_order: Option<u16>,
    /// Where its body begins.
    pub address: Address,
    /// Its body. A file of thousands of variables has ten times as many messages, most of them
    /// short.
    pub body: SmallVec<[u8; 64]>,
}

/// Flags of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MessageFlags(pub u8);

impl MessageFlags {
    /// The message never changes.
    pub const CONSTANT: Self = Self(0x01);
    /// The body says where the message is.
    pub const SHARED: Self = Self(0x02);
    /// Never to be shared.
    pub const DO_NOT_SHARE: Self = Self(0x04);
    /// A program that does not know it must not open the object for writing.
    pub const FAIL_IF_UNKNOWN_AND_WRITING: Self = Self(0x08);
    /// A program that does not know it sets the next flag.
    pub const MARK_IF_UNKNOWN: Self = Self(0x10);
    /// A program that does not know it has changed the object.
    pub const WAS_UNKNOWN: Self = Self(0x20);
    /// The message could be shared.
    pub const SHAREABLE: Self = Self(0x40);
    /// A program that does not know it must not open the object.
    pub const FAIL_IF_UNKNOWN: Self = Self(0x80);

    /// Whether all of these are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

/// What a message is: its number in the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKind(pub u16);

impl MessageKind {
    /// Nothing: room.
    pub const NIL: Self = Self(0x00);
    /// Dataspace.
    pub const DATASPACE: Self = Self(0x01);
    /// Link info: where dense links are.
    pub const LINK_INFO: Self = Self(0x02);
    /// Datatype.
    pub const DATATYPE: Self = Self(0x03);
    /// Fill value of old files.
    pub const FILL_VALUE_OLD: Self = Self(0x04);
    /// Fill value.
    pub const FILL_VALUE: Self = Self(0x05);
    /// Link.
    pub const LINK: Self = Self(0x06);
    /// External files of a dataset.
    pub const EXTERNAL_FILES: Self = Self(0x07);
    /// Data layout.
    pub const LAYOUT: Self = Self(0x08);
    /// For tests of HDF5 itself.
    pub const BOGUS: Self = Self(0x09);
    /// Group info.
    pub const GROUP_INFO: Self = Self(0x0A);
    /// Filter pipeline.
    pub const FILTER_PIPELINE: Self = Self(0x0B);
    /// Attribute.
    pub const ATTRIBUTE: Self = Self(0x0C);
    /// Comment.
    pub const COMMENT: Self = Self(0x0D);
    /// Modification time of old files, as text.
    pub const MODIFICATION_TIME_OLD: Self = Self(0x0E);
    /// Table of shared messages.
    pub const SHARED_MESSAGE_TABLE: Self = Self(0x0F);
    /// Continuation: another block of messages.
    pub const CONTINUATION: Self = Self(0x10);
    /// Symbol table: where the links of an old group are.
    pub const SYMBOL_TABLE: Self = Self(0x11);
    /// Modification time.
    pub const MODIFICATION_TIME: Self = Self(0x12);
    /// Ranks of B-trees.
    pub const TREE_RANKS: Self = Self(0x13);
    /// Driver information.
    pub const DRIVER_INFORMATION: Self = Self(0x14);
    /// Attribute info: where dense attributes are.
    pub const ATTRIBUTE_INFO: Self = Self(0x15);
    /// Reference count.
    pub const REFERENCE_COUNT: Self = Self(0x16);
    /// File space info.
    pub const FILE_SPACE_INFO: Self = Self(0x17);

    /// Metadata cache image: newer metadata than that in its places.
    pub const CACHE_IMAGE: Self = Self(0x18);

    /// The highest number that is known.
    pub const HIGHEST: Self = Self::CACHE_IMAGE;
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
