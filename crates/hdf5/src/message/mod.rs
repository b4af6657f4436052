//! The messages of object headers, decoded: one file per message.
//!
//! A decoder is a function from a [`Cursor`](crate::cursor::Cursor) to a type of
//! [`model`](crate::model). It sees the bytes of its message and nothing else of the file.

pub(crate) mod attribute;
pub(crate) mod attribute_info;
pub(crate) mod dataspace;
pub(crate) mod datatype;
pub(crate) mod external_files;
pub(crate) mod fill_value;
pub(crate) mod filter_pipeline;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod link_info;
pub(crate) mod symbol_table;
