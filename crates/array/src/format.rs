//! The netCDF classic formats CDF-1, CDF-2 and CDF-5: what a header says, and its bytes.
//!
//! Everything here is pure: [`Header`] is plain data, made by hand or by [`Header::decode`], laid out by
//! [`Header::arrange`], written by [`Header::encode`] and judged by [`validate`]. There is no I/O.

mod arrange;
mod decode;
mod difference;
mod encode;
mod header;
mod held;
mod name;
mod types;
mod validate;
mod values;

pub use arrange::{Alignment, LimitError};
pub use decode::{DecodeError, Problem};
pub use header::{Attribute, Dimension, Header, Variable};
pub use name::{NameError, check_name};
pub use types::{Format, Type};
pub use validate::{Violation, validate};
pub use values::Values;
