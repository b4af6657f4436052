//! Which HDF5 types are netCDF types: the atomic ones, and those of users.
//!
//! NetCDF-C compares types in the form that they have in memory: byte order, offsets of members and
//! gaps between them do not count. A type that is stored with a dataset and not committed becomes a
//! type of the file with a made-up name.

use super::AtomicType;
use super::definition::{AttributeDefinition, FileDefinition, TypeDefinition};
use crate::model::{
    ByteOrder, Class, Dataspace, Datatype, EnumerationMember, FixedPoint, FloatingPoint, Name,
    Padding,
};

impl AtomicType {
    /// The type of variables whose elements are stored as `datatype`; `None` if that is a type of a
    /// user, or none of netCDF. Strings of a fixed length are strings, but for those of one byte.
    pub fn of(datatype: &Datatype) -> Option<Self> {
        match &datatype.class {
            Class::FixedPoint(number) => integer(*number, datatype.size),
            Class::FloatingPoint(number) => {
                let standard = |atomic: Self| {
                    let expected = atomic.datatype(number.order);
                    let plain = FloatingPoint {
                        padding: Padding::default(),
                        internal_padding: false,
                        ..*number
                    };
                    expected.size == datatype.size
                        && expected.class == Class::FloatingPoint(plain)
                        && number.order != ByteOrder::Vax
                };
                [Self::Float, Self::Double].into_iter().find(|&atomic| standard(atomic))
            }
            Class::String { .. } if datatype.size == 1 => Some(Self::Char),
            Class::String { .. } | Class::VariableString { .. } => Some(Self::String),
            _ => None,
        }
    }
}

impl AttributeDefinition {
    /// Its type, if that is not one of a user. One string of a fixed length is text, as many bytes
    /// of `NC_CHAR` as the type has; an array of them is an array of strings.
    pub fn atomic_type(&self) -> Option<AtomicType> {
        match (&self.datatype.class, &self.dataspace) {
            (Class::String { .. }, Dataspace::Simple(_)) => Some(AtomicType::String),
            (Class::String { .. }, _) => Some(AtomicType::Char),
            _ => AtomicType::of(&self.datatype),
        }
    }

    /// Its text, or its strings; `None` if its elements are something else. A string ends before
    /// its first zero; a text has all of its bytes.
    pub fn texts(&self) -> Option<Vec<Name>> {
        let bytes = self.elements.as_bytes();
        let size = (self.datatype.size as usize).max(1);
        let string =
            |bytes: &[u8]| Name::from(bytes.split(|&byte| byte == 0).next().unwrap_or(bytes));
        match (&self.datatype.class, self.atomic_type()?) {
            (Class::String { .. }, AtomicType::Char) => Some(vec![Name::from(bytes)]),
            (Class::String { .. }, _) => Some(bytes.chunks_exact(size).map(string).collect()),
            (Class::VariableString { .. }, _) => {
                let value = |number: usize| {
                    let value = self.elements.heap_value(number * size);
                    value.map_or_else(Name::default, |(_, value)| string(value.as_bytes()))
                };
                Some((0..bytes.len() / size).map(value).collect())
            }
            _ => None,
        }
    }
}

impl FileDefinition {
    /// The number of the first type of a user that elements of this type have.
    pub fn type_of(&self, datatype: &Datatype) -> Option<usize> {
        find(&self.types, datatype)
    }
}

fn integer(number: FixedPoint, size: u32) -> Option<AtomicType> {
    let whole = number.offset == 0
        && u32::from(number.precision) == size.checked_mul(8)?
        && number.order != ByteOrder::Vax;
    match (number.signed, size) {
        _ if !whole => None,
        (true, 1) => Some(AtomicType::Byte),
        (true, 2) => Some(AtomicType::Short),
        (true, 4) => Some(AtomicType::Int),
        (true, 8) => Some(AtomicType::Int64),
        (false, 1) => Some(AtomicType::UByte),
        (false, 2) => Some(AtomicType::UShort),
        (false, 4) => Some(AtomicType::UInt),
        (false, 8) => Some(AtomicType::UInt64),
        _ => None,
    }
}

/// The first type that is the same as another.
pub(super) fn find(types: &[TypeDefinition], datatype: &Datatype) -> Option<usize> {
    let exact = types.iter().position(|one| one.datatype == *datatype);
    exact.or_else(|| types.iter().position(|one| same_type(&one.datatype, datatype)))
}

/// Whether two types are the same in memory: byte order, offsets and gaps do not count.
pub fn same_type(one: &Datatype, other: &Datatype) -> bool {
    match (&one.class, &other.class) {
        (Class::FixedPoint(a), Class::FixedPoint(b)) => {
            one.size == other.size && a.signed == b.signed && a.precision == b.precision
        }
        (Class::FloatingPoint(a), Class::FloatingPoint(b)) => {
            let order = ByteOrder::Little;
            one.size == other.size && FloatingPoint { order, ..*a } == FloatingPoint { order, ..*b }
        }
        (Class::Compound { members: a }, Class::Compound { members: b }) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.name == b.name && same_type(&a.datatype, &b.datatype))
        }
        (
            Class::Enumeration { base: base_a, members: a },
            Class::Enumeration { base: base_b, members: b },
        ) => {
            same_type(base_a, base_b)
                && a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| a.name == b.name && little(base_a, a) == little(base_b, b))
        }
        (Class::Sequence { base: a }, Class::Sequence { base: b }) => same_type(a, b),
        (
            Class::Array { base: a, dimensions: of_a },
            Class::Array { base: b, dimensions: of_b },
        ) => of_a == of_b && same_type(a, b),
        (a, b) => one.size == other.size && a == b,
    }
}

/// The value of a member of an enumeration, lowest byte first.
fn little(base: &Datatype, member: &EnumerationMember) -> Vec<u8> {
    let mut value = member.value.clone();
    if let Class::FixedPoint(number) = &base.class
        && number.order == ByteOrder::Big
    {
        value.reverse();
    }
    value
}

/// Whether a type that is not atomic can be a type of a user: the reason if not. Types within it
/// must be atomic or among the types of the file.
pub(super) fn check_user_type(
    types: &[TypeDefinition],
    datatype: &Datatype,
) -> std::result::Result<(), String> {
    match &datatype.class {
        Class::Opaque { .. } => Ok(()),
        Class::Enumeration { base, .. } => match AtomicType::of(base) {
            Some(_) => Ok(()),
            None => Err(format!("an enumeration of {}", name(base))),
        },
        Class::Sequence { base } => check_part(types, base),
        Class::Compound { members } => members.iter().try_for_each(|member| {
            let datatype = match &member.datatype.class {
                Class::Array { base, .. } => base,
                _ => &member.datatype,
            };
            check_part(types, datatype).map_err(|why| format!("member \"{}\": {why}", member.name))
        }),
        _ => Err(format!("netCDF has no {}", name(datatype))),
    }
}

fn check_part(types: &[TypeDefinition], datatype: &Datatype) -> std::result::Result<(), String> {
    if AtomicType::of(datatype).is_some() || find(types, datatype).is_some() {
        return Ok(());
    }
    check_user_type(types, datatype)?;
    Err(format!("{} whose type is not committed within another type", name(datatype)))
}

/// The first part of the made-up name of a type that is not committed.
pub(super) fn anonymous_name(datatype: &Datatype) -> &'static str {
    match &datatype.class {
        Class::Enumeration { .. } => "_AnonymousEnum",
        Class::Compound { .. } => "_AnonymousCompound",
        Class::Sequence { .. } => "_AnonymousVlen",
        _ => "_AnonymousOpaque",
    }
}

/// What elements of a type are called.
pub(super) fn name(datatype: &Datatype) -> String {
    match &datatype.class {
        Class::FixedPoint(number) => format!("{}-bit integers", number.precision),
        Class::FloatingPoint(number) => format!("{}-bit floating-point numbers", number.precision),
        Class::Time { .. } => "times".into(),
        Class::String { .. } | Class::VariableString { .. } => "strings".into(),
        Class::Bitfield { .. } => "bit fields".into(),
        Class::Opaque { .. } => "opaque elements".into(),
        Class::Compound { .. } => "compounds".into(),
        Class::Reference(_) => "references".into(),
        Class::Enumeration { .. } => "enumerations".into(),
        Class::Sequence { .. } => "sequences".into(),
        Class::Array { .. } => "arrays as elements".into(),
        Class::Complex { .. } => "complex numbers".into(),
    }
}
