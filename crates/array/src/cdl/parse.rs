//! [`parse`]: CDL, the text form of netCDF, as definitions and values (what `ncgen` reads).
//!
//! The main type is [`CdlDocument`]: groups, dimensions, types, variables and attributes of a text.
//! Lists of values are not kept. Their syntax is checked, and they are read again, value by value,
//! when somebody asks for the elements of an attribute or a variable ([`VariableReader`]), so
//! memory grows with the definitions and not with the data.
//!
//! The language is that of netCDF 4.9. Where `ncgen` loses values silently (too many values,
//! numbers out of the range of a type, fractions for integers), this is an error with its line and
//! column. Any bytes give a document or an error: groups, types and braces are nested up to
//! [`MAX_DEPTH`] deep, and an element of a type has [`MAX_TYPE_SIZE`] bytes at most.

mod attribute;
mod constant;
mod datatype;
mod document;
mod element;
mod escape;
mod group;
mod lengths;
mod list;
mod names;
mod place;
mod reader;
mod special;
mod statement;
mod text_run;
mod token;
mod type_section;

pub use document::{
    CdlAttribute, CdlDimension, CdlDocument, CdlField, CdlFormat, CdlGroup, CdlShape, CdlType,
    CdlUserType, CdlVariable, ValueList, external_type,
};
pub use place::CdlSyntaxError;
pub use reader::VariableReader;
pub use special::{StorageKind, VariableSettings};

/// How deep groups, types and braces are nested at most.
pub const MAX_DEPTH: usize = 64;

/// Bytes of an element of a user-defined type at most.
pub const MAX_TYPE_SIZE: u32 = 1 << 24;

/// Reads a text.
pub fn parse(text: &[u8]) -> Result<CdlDocument<'_>, CdlSyntaxError> {
    let document = group::Parser::new(text).document();
    let document = document.and_then(lengths::measure);
    document.map_err(|fault| fault.in_text(text))
}

#[cfg(test)]
mod tests;
