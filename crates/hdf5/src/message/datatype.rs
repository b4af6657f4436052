//! Datatype message, versions 1 to 5.

use crate::cursor::{Cursor, encoded_width, until_zero};
use crate::model::{
    ByteOrder, CharacterSet, Class, Datatype, EnumerationMember, FixedPoint, FloatingPoint, Member,
    Name, Normalization, Padding, ReferenceKind, StringPadding,
};
use crate::{Reason, Result};

/// The most types within each other.
const DEEPEST: u32 = 32;

/// Decodes a type and those of which it consists.
pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Datatype> {
    nested(cursor, 0)
}

fn nested(cursor: &mut Cursor<'_>, depth: u32) -> Result<Datatype> {
    if depth >= DEEPEST {
        let (found, limit) = (u64::from(depth) + 1, u64::from(DEEPEST));
        return Err(cursor.error(Reason::Limit { what: "nested types", found, limit }));
    }
    let word = cursor.u32()?;
    let (version, class, bits) = ((word >> 4 & 15) as u8, word & 15, word >> 8);
    if !(1..=5).contains(&version) {
        return Err(cursor.error(Reason::Version(version)));
    }
    let size = cursor.u32()?;
    if size == 0 {
        return Err(cursor.invalid("elements of 0 bytes"));
    }
    let class = match class {
        0 => fixed_point(cursor, bits)?,
        1 => floating_point(cursor, bits)?,
        2 => Class::Time { order: order(bits), precision: cursor.u16()? },
        3 => Class::String {
            padding: string_padding(cursor, bits)?,
            charset: charset(cursor, bits >> 4)?,
        },
        4 => Class::Bitfield {
            order: order(bits),
            offset: cursor.u16()?,
            precision: cursor.u16()?,
            padding: padding(bits),
        },
        5 => {
            let tag = cursor.take((bits & 0xFF) as usize)?;
            Class::Opaque { tag: Name::from(until_zero(tag)) }
        }
        6 => compound(cursor, version, bits, size, depth)?,
        7 => Class::Reference(reference(cursor, bits)?),
        8 => enumeration(cursor, version, bits, depth)?,
        9 => variable_length(cursor, bits, depth)?,
        10 => array(cursor, version, size, depth)?,
        11 => complex(cursor, bits, size, depth)?,
        class => {
            return Err(cursor.error(Reason::Unsupported(format!("datatype class {class}"))));
        }
    };
    check_bits(cursor, &class, size)?;
    Ok(Datatype::new(size, class))
}

/// The bits that count are within the element.
fn check_bits(cursor: &Cursor<'_>, class: &Class, size: u32) -> Result<()> {
    let (offset, precision) = match class {
        Class::FixedPoint(FixedPoint { offset, precision, .. })
        | Class::FloatingPoint(FloatingPoint { offset, precision, .. })
        | Class::Bitfield { offset, precision, .. } => (*offset, *precision),
        _ => return Ok(()),
    };
    if precision == 0 || u64::from(offset) + u64::from(precision) > 8 * u64::from(size) {
        return Err(cursor.invalid("the precision is 0 or beyond the element"));
    }
    Ok(())
}

fn order(bits: u32) -> ByteOrder {
    if bits & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big }
}

fn padding(bits: u32) -> Padding {
    Padding { low: bits & 2 != 0, high: bits & 4 != 0 }
}

fn fixed_point(cursor: &mut Cursor<'_>, bits: u32) -> Result<Class> {
    Ok(Class::FixedPoint(FixedPoint {
        order: order(bits),
        signed: bits & 8 != 0,
        offset: cursor.u16()?,
        precision: cursor.u16()?,
        padding: padding(bits),
    }))
}

fn floating_point(cursor: &mut Cursor<'_>, bits: u32) -> Result<Class> {
    let order = match bits & 0x41 {
        0x00 => ByteOrder::Little,
        0x01 => ByteOrder::Big,
        0x41 => ByteOrder::Vax,
        _ => return Err(cursor.invalid("an unknown order of bytes")),
    };
    let normalization = match bits >> 4 & 3 {
        0 => Normalization::None,
        1 => Normalization::MostSignificantSet,
        2 => Normalization::Implied,
        _ => return Err(cursor.invalid("an unknown normalization of mantissas")),
    };
    let float = FloatingPoint {
        order,
        padding: padding(bits),
        internal_padding: bits & 8 != 0,
        normalization,
        sign_location: (bits >> 8) as u8,
        offset: cursor.u16()?,
        precision: cursor.u16()?,
        exponent_location: cursor.u8()?,
        exponent_size: cursor.u8()?,
        mantissa_location: cursor.u8()?,
        mantissa_size: cursor.u8()?,
        exponent_bias: cursor.u32()?,
    };
    let within = |location: u8, size: u8| {
        size > 0 && u16::from(location) + u16::from(size) <= float.offset + float.precision
    };
    if u32::from(float.offset) + u32::from(float.precision) > u32::from(u16::MAX)
        || !within(float.exponent_location, float.exponent_size)
        || !within(float.mantissa_location, float.mantissa_size)
        || !within(float.sign_location, 1)
    {
        return Err(cursor.invalid("sign, exponent or mantissa are beyond the precision"));
    }
    Ok(Class::FloatingPoint(float))
}

fn string_padding(cursor: &Cursor<'_>, bits: u32) -> Result<StringPadding> {
    match bits & 15 {
        0 => Ok(StringPadding::NullTerminated),
        1 => Ok(StringPadding::NullPadded),
        2 => Ok(StringPadding::SpacePadded),
        _ => Err(cursor.invalid("an unknown padding of strings")),
    }
}

fn charset(cursor: &Cursor<'_>, bits: u32) -> Result<CharacterSet> {
    match bits & 15 {
        0 => Ok(CharacterSet::Ascii),
        1 => Ok(CharacterSet::Utf8),
        _ => Err(cursor.invalid("an unknown character set")),
    }
}

fn reference(cursor: &Cursor<'_>, bits: u32) -> Result<ReferenceKind> {
    let version = (bits >> 4 & 15) as u8;
    match bits & 15 {
        0 => Ok(ReferenceKind::Object),
        1 => Ok(ReferenceKind::Region),
        2 => Ok(ReferenceKind::StandardObject { version }),
        3 => Ok(ReferenceKind::StandardRegion { version }),
        4 => Ok(ReferenceKind::StandardAttribute { version }),
        _ => Err(cursor.invalid("an unknown kind of reference")),
    }
}

/// A name and its closing zero; before version 3 filled to a multiple of 8.
fn member_name(cursor: &mut Cursor<'_>, version: u8) -> Result<Name> {
    let name = cursor.terminated()?;
    if version < 3 {
        let stored = name.len() + 1;
        cursor.skip(stored.next_multiple_of(8) - stored)?;
    }
    Ok(name)
}

fn compound(
    cursor: &mut Cursor<'_>,
    version: u8,
    bits: u32,
    size: u32,
    depth: u32,
) -> Result<Class> {
    let mut members = Vec::new();
    for _ in 0..bits & 0xFFFF {
        let name = member_name(cursor, version)?;
        let width = if version < 3 { 4 } else { encoded_width(u64::from(size)) };
        let offset = cursor.uint(width)? as u32;
        let dimensions = if version == 1 { old_dimensions(cursor)? } else { Vec::new() };
        let mut datatype = nested(cursor, depth + 1)?;
        if !dimensions.is_empty() {
            let bytes = array_size(cursor, &datatype, &dimensions)?;
            datatype = Datatype::new(bytes, Class::Array { base: Box::new(datatype), dimensions });
        }
        if u64::from(offset) + u64::from(datatype.size) > u64::from(size) {
            return Err(cursor.invalid("a member beyond its compound"));
        }
        members.push(Member { name, offset, datatype });
    }
    if members.is_empty() {
        return Err(cursor.invalid("a compound without members"));
    }
    Ok(Class::Compound { members })
}

/// Version 1 had no array types: members had dimensions.
fn old_dimensions(cursor: &mut Cursor<'_>) -> Result<Vec<u32>> {
    let rank = usize::from(cursor.u8()?);
    cursor.skip(3 + 4 + 4)?;
    let sizes = [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
    let sizes = sizes.get(..rank);
    sizes.map(<[u32]>::to_vec).ok_or_else(|| cursor.invalid("a member of more than 4 dimensions"))
}

fn array_size(cursor: &Cursor<'_>, base: &Datatype, dimensions: &[u32]) -> Result<u32> {
    let size = dimensions.iter().try_fold(base.size, |size, &n| size.checked_mul(n));
    let size = size.filter(|&size| size > 0);
    size.ok_or_else(|| cursor.invalid("an array of 0 elements, or of more than 4 GiB"))
}

fn enumeration(cursor: &mut Cursor<'_>, version: u8, bits: u32, depth: u32) -> Result<Class> {
    let base = Box::new(nested(cursor, depth + 1)?);
    let count = bits & 0xFFFF;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(member_name(cursor, version)?);
    }
    let mut members = Vec::with_capacity(names.len());
    for name in names {
        let value = cursor.take(base.size as usize)?.to_vec();
        members.push(EnumerationMember { name, value });
    }
    Ok(Class::Enumeration { base, members })
}

fn variable_length(cursor: &mut Cursor<'_>, bits: u32, depth: u32) -> Result<Class> {
    let base = Box::new(nested(cursor, depth + 1)?);
    match bits & 15 {
        0 => Ok(Class::Sequence { base }),
        1 => Ok(Class::VariableString {
            base,
            padding: string_padding(cursor, bits >> 4)?,
            charset: charset(cursor, bits >> 8)?,
        }),
        _ => Err(cursor.invalid("an unknown kind of variable-length type")),
    }
}

fn array(cursor: &mut Cursor<'_>, version: u8, size: u32, depth: u32) -> Result<Class> {
    let rank = cursor.u8()?;
    if version < 3 {
        cursor.skip(3)?;
    }
    let dimensions = (0..rank).map(|_| cursor.u32()).collect::<Result<Vec<_>>>()?;
    if version < 3 {
        // Permutations, which were never used.
        cursor.skip(4 * usize::from(rank))?;
    }
    let base = Box::new(nested(cursor, depth + 1)?);
    if array_size(cursor, &base, &dimensions)? != size {
        return Err(cursor.invalid("the size of an array is not that of its elements"));
    }
    Ok(Class::Array { base, dimensions })
}

fn complex(cursor: &mut Cursor<'_>, bits: u32, size: u32, depth: u32) -> Result<Class> {
    // Bit 0: both parts have one type. Then the form, of which 0 is rectangular.
    if bits & 1 == 0 || bits >> 1 & 3 != 0 {
        return Err(cursor.error(Reason::Unsupported("this form of complex numbers".into())));
    }
    let base = Box::new(nested(cursor, depth + 1)?);
    if base.size.checked_mul(2) != Some(size) {
        return Err(cursor.invalid("a complex number that is not two parts"));
    }
    Ok(Class::Complex { base })
}
