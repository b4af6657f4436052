//! Link message, version 1.

use crate::Result;
use crate::cursor::{Cursor, until_zero};
use crate::model::{CharacterSet, Link, LinkTarget, Name};

pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Link> {
    cursor.version(1..=1)?;
    let flags = cursor.u8()?;
    let kind = if flags & 8 != 0 { cursor.u8()? } else { 0 };
    let creation_order = if flags & 4 != 0 { Some(cursor.u64()? as i64) } else { None };
    let charset = if flags & 16 != 0 { character_set(cursor)? } else { CharacterSet::Ascii };
    let name_length = cursor.uint(1 << (flags & 3))?;
    let name_length = usize::try_from(name_length).unwrap_or(usize::MAX);
    let name = Name::from(cursor.take(name_length)?);
    if name.is_empty() {
        return Err(cursor.invalid("a link without a name"));
    }
    let target = match kind {
        0 => LinkTarget::Hard(cursor.defined_address("a hard link to no address")?),
        1 => LinkTarget::Soft(Name::from(until_zero(sized(cursor)?))),
        64 => external(cursor)?,
        65.. => LinkTarget::UserDefined { class: kind, data: sized(cursor)?.to_vec() },
        _ => return Err(cursor.invalid("an unknown kind of link")),
    };
    Ok(Link { name, charset, creation_order, target })
}

pub(crate) fn character_set(cursor: &mut Cursor<'_>) -> Result<CharacterSet> {
    match cursor.u8()? {
        0 => Ok(CharacterSet::Ascii),
        1 => Ok(CharacterSet::Utf8),
        _ => Err(cursor.invalid("an unknown character set")),
    }
}

fn sized<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let length = cursor.u16()?;
    cursor.take(usize::from(length))
}

/// Flags, the name of the file, the path in it.
fn external(cursor: &mut Cursor<'_>) -> Result<LinkTarget> {
    let data = sized(cursor)?;
    let Some((0, names)) = data.split_first() else {
        return Err(cursor.invalid("an external link of an unknown version"));
    };
    let mut parts = names.split(|&byte| byte == 0);
    match (parts.next(), parts.next()) {
        (Some(file), Some(path)) => {
            Ok(LinkTarget::External { file: Name::from(file), path: Name::from(path) })
        }
        _ => Err(cursor.invalid("an external link without a path")),
    }
}
