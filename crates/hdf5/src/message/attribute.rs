//! Attribute message, versions 1 to 3: the parts of which an attribute consists.
//!
//! Its type and dataspace may be somewhere else in the file, which only [`crate::shared`] finds.

use crate::Result;
use crate::cursor::{Cursor, until_zero};
use crate::model::CharacterSet;

/// An attribute with its type and dataspace still encoded.
#[derive(Debug)]
pub(crate) struct EncodedAttribute<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) charset: CharacterSet,
    pub(crate) datatype: EncodedPart<'a>,
    pub(crate) dataspace: EncodedPart<'a>,
    /// At the elements.
    pub(crate) value: Cursor<'a>,
}

/// The body of a message, or that of a reference to a shared one.
#[derive(Clone, Debug)]
pub(crate) struct EncodedPart<'a> {
    pub(crate) shared: bool,
    pub(crate) cursor: Cursor<'a>,
}

pub(crate) fn decode<'a>(cursor: &mut Cursor<'a>) -> Result<EncodedAttribute<'a>> {
    let version = cursor.version(1..=3)?;
    let flags = cursor.u8()?;
    let flags = if version == 1 { 0 } else { flags };
    let name_size = usize::from(cursor.u16()?);
    let type_size = usize::from(cursor.u16()?);
    let space_size = usize::from(cursor.u16()?);
    let charset =
        if version == 3 { super::link::character_set(cursor)? } else { CharacterSet::Ascii };
    let padded = |size: usize| if version == 1 { size.next_multiple_of(8) } else { size };
    let name = until_zero(cursor.take(padded(name_size))?);
    let mut part = |size: usize, shared: bool| {
        let part = cursor.part(padded(size))?;
        Ok(EncodedPart { shared, cursor: part })
    };
    let datatype = part(type_size, flags & 1 != 0)?;
    let dataspace = part(space_size, flags & 2 != 0)?;
    let value = cursor.clone();
    Ok(EncodedAttribute { name, charset, datatype, dataspace, value })
}
