//! Encoding of datatypes.
//!
//! Simple classes in version 1 of the message, which every library reads; compound, enumeration
//! and array types in version 3 (HDF5 1.8), which has no padding. A type that contains a type of
//! version 3 is of version 3, too, as the library writes it.

use super::fragment::Fragment;
use crate::model::{
    ByteOrder, CharacterSet, Class, Datatype, FixedPoint, FloatingPoint, Normalization, Padding,
    ReferenceKind, StringPadding,
};
use crate::{Error, Reason, Result, Structure};

/// The body of a datatype message.
pub(crate) fn encode(datatype: &Datatype) -> Result<Fragment> {
    let mut out = Fragment::new();
    put(datatype, &mut out)?;
    Ok(out)
}

fn refuse(reason: Reason) -> Error {
    Error::of(Structure::Datatype, reason)
}

/// The lowest version of the message that can hold the type.
fn version(datatype: &Datatype) -> u8 {
    match &datatype.class {
        Class::Compound { .. } | Class::Enumeration { .. } | Class::Array { .. } => 3,
        Class::Sequence { base } | Class::VariableString { base, .. } => version(base),
        _ => 1,
    }
}

fn put(datatype: &Datatype, out: &mut Fragment) -> Result<()> {
    let head = |out: &mut Fragment, class: u8, bits: u32| {
        out.u8(version(datatype) << 4 | class);
        out.sized(u64::from(bits), 3);
        out.u32(datatype.size);
    };
    if datatype.size == 0 {
        return Err(refuse(Reason::Invalid("has a size of 0")));
    }
    match &datatype.class {
        Class::FixedPoint(number) => {
            head(out, 0, fixed_point(*number)?);
            out.u16(number.offset);
            out.u16(number.precision);
        }
        Class::FloatingPoint(number) => {
            head(out, 1, floating_point(number));
            out.u16(number.offset);
            out.u16(number.precision);
            out.u8(number.exponent_location);
            out.u8(number.exponent_size);
            out.u8(number.mantissa_location);
            out.u8(number.mantissa_size);
            out.u32(number.exponent_bias);
        }
        Class::Time { order, precision } => {
            head(out, 2, u32::from(*order == ByteOrder::Big));
            out.u16(*precision);
        }
        Class::String { padding, charset } => {
            head(out, 3, string_padding(*padding) | character_set(*charset) << 4);
        }
        Class::Bitfield { order, offset, precision, padding } => {
            head(out, 4, u32::from(*order == ByteOrder::Big) | padding_bits(*padding));
            out.u16(*offset);
            out.u16(*precision);
        }
        Class::Opaque { tag } => {
            // A tag that is not empty ends with a zero and is padded to a multiple of 8.
            let len = if tag.is_empty() { 0 } else { (tag.len() + 1).next_multiple_of(8) };
            let bits = count("bytes of an opaque type's tag", len, 255)?;
            head(out, 5, bits);
            out.raw(tag.as_bytes());
            out.zeros(len - tag.len());
        }
        Class::Compound { members } => {
            head(out, 6, count("members of a compound type", members.len(), 0xffff)?);
            let width = offset_width(datatype.size);
            for member in members {
                out.raw(member.name.as_bytes());
                out.u8(0);
                out.sized(u64::from(member.offset), width);
                put(&member.datatype, out)?;
            }
        }
        Class::Reference(kind) => head(out, 7, reference(*kind)?),
        Class::Enumeration { base, members } => {
            head(out, 8, count("members of an enumeration", members.len(), 0xffff)?);
            put(base, out)?;
            for member in members {
                out.raw(member.name.as_bytes());
                out.u8(0);
            }
            for member in members {
                if member.value.len() != base.size as usize {
                    return Err(refuse(Reason::Invalid("has a value of another size")));
                }
                out.raw(&member.value);
            }
        }
        Class::Sequence { base } => {
            head(out, 9, 0);
            put(base, out)?;
        }
        Class::VariableString { base, padding, charset } => {
            head(out, 9, 1 | string_padding(*padding) << 4 | character_set(*charset) << 8);
            put(base, out)?;
        }
        Class::Array { base, dimensions } => {
            head(out, 10, 0);
            out.u8(count("dimensions of an array type", dimensions.len(), 32)? as u8);
            for &dimension in dimensions {
                out.u32(dimension);
            }
            put(base, out)?;
        }
        Class::Complex { .. } => {
            return Err(refuse(Reason::Unsupported("writing the class of complex numbers".into())));
        }
    }
    Ok(())
}

/// A count that must not exceed its field.
fn count(what: &'static str, found: usize, limit: u32) -> Result<u32> {
    u32::try_from(found)
        .ok()
        .filter(|&found| found <= limit)
        .ok_or_else(|| refuse(Reason::Limit { what, found: found as u64, limit: limit.into() }))
}

/// Bytes of an offset in a compound type of that size.
fn offset_width(size: u32) -> usize {
    (32 - size.leading_zeros()).div_ceil(8).max(1) as usize
}

fn padding_bits(padding: Padding) -> u32 {
    u32::from(padding.low) << 1 | u32::from(padding.high) << 2
}

fn fixed_point(number: FixedPoint) -> Result<u32> {
    let order = match number.order {
        ByteOrder::Little => 0,
        ByteOrder::Big => 1,
        ByteOrder::Vax => {
            return Err(refuse(Reason::Invalid("is an integer in the byte order of VAX floats")));
        }
    };
    Ok(order | padding_bits(number.padding) | u32::from(number.signed) << 3)
}

fn floating_point(number: &FloatingPoint) -> u32 {
    let order = match number.order {
        ByteOrder::Little => 0,
        ByteOrder::Big => 1,
        ByteOrder::Vax => 1 | 1 << 6,
    };
    let normalization = match number.normalization {
        Normalization::None => 0,
        Normalization::MostSignificantSet => 1,
        Normalization::Implied => 2,
    };
    order
        | padding_bits(number.padding)
        | u32::from(number.internal_padding) << 3
        | normalization << 4
        | u32::from(number.sign_location) << 8
}

fn string_padding(padding: StringPadding) -> u32 {
    match padding {
        StringPadding::NullTerminated => 0,
        StringPadding::NullPadded => 1,
        StringPadding::SpacePadded => 2,
    }
}

pub(super) fn character_set(charset: CharacterSet) -> u32 {
    match charset {
        CharacterSet::Ascii => 0,
        CharacterSet::Utf8 => 1,
    }
}

fn reference(kind: ReferenceKind) -> Result<u32> {
    match kind {
        ReferenceKind::Object => Ok(0),
        ReferenceKind::Region => Ok(1),
        _ => Err(refuse(Reason::Unsupported("writing references of HDF5 1.12".into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{EnumerationMember, Member};
    use crate::write::netcdf::AtomicType;

    fn hex(datatype: &Datatype) -> String {
        let bytes = encode(datatype).unwrap().plain();
        let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap();
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// What HDF5 1.10 writes for the same types.
    #[test]
    fn types_are_as_the_library_writes_them() {
        let little = |atomic: AtomicType| atomic.datatype(ByteOrder::Little);
        let int = "100800000400000000002000";
        let double = "11203f000800000000004000340b0034ff030000";
        assert_eq!(hex(&little(AtomicType::Int)), int);
        assert_eq!(hex(&little(AtomicType::Double)), double);
        let big = AtomicType::Float.datatype(ByteOrder::Big);
        assert_eq!(hex(&big), "11211f000400000000002000170800177f000000");
        assert_eq!(hex(&little(AtomicType::Char)), "1300000001000000");
        let string = "1901010010000000100000000100000000000800";
        assert_eq!(hex(&little(AtomicType::String)), string);

        let array =
            Class::Array { base: Box::new(little(AtomicType::Double)), dimensions: vec![3] };
        let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
        let members =
            vec![member("a", 0, little(AtomicType::Int)), member("b", 8, Datatype::new(24, array))];
        let compound = Datatype::new(32, Class::Compound { members });
        let expected = ["3602000020000000", "610000", int, "620008", "3a000000180000000103000000"];
        assert_eq!(hex(&compound), expected.concat() + double);

        let member =
            |name: &str, value| EnumerationMember { name: name.into(), value: vec![value] };
        let base = Box::new(little(AtomicType::UByte));
        let members = vec![member("X", 1), member("Y", 2)];
        let class = Class::Enumeration { base, members };
        let expected = "3802000001000000".to_string() + "100000000100000000000800" + "580059000102";
        assert_eq!(hex(&Datatype::new(1, class)), expected);
    }

    #[test]
    fn offsets_of_members_have_the_fewest_bytes() {
        let widths = [1, 255, 256, 65535, 65536, 1 << 24].map(offset_width);
        assert_eq!(widths, [1, 1, 2, 2, 3, 4]);
    }
}
