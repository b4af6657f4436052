//! The netCDF classic formats CDF-1, CDF-2 and CDF-5: headers and their bytes.
//!
//! Everything here is pure, without I/O: [`Header`] is plain data, filled by a program or by
//! [`Header::decode`], laid out by [`Header::arrange`], written by [`Header::encode`] and checked
//! by [`validate`].

mod arrange;
mod available;
mod decode;
mod difference;
mod encode;
mod header;
mod name;
mod types;
mod user_type;
mod validate;
mod values;

pub use arrange::{Alignment, LimitError};
pub use decode::{DecodeError, Problem};
pub use header::{
    Attribute, ByteOrder, ChunkFilter, Dimension, Group, Header, StorageLayout, StorageOptions,
    Variable,
};
pub use name::{NameError, check_name};
pub use types::{Format, Type};
pub use user_type::{CompoundMember, UserType, UserTypeClass, UserTypeId};
pub use validate::{Violation, validate};
pub use values::{StoredValues, Values};
