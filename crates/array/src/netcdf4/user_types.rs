//! Types of a dataset as HDF5 types, and back.
//!
//! Elements in memory have the offsets and sizes of the type in the file, in the byte order of the
//! machine. If all numbers in a type have that order, which is so in all files that are written
//! here, memory is what is in the file; if not, [`byte_positions`] says where each byte belongs.

use std::sync::Arc;

use striate_hdf5::model::{self, CharacterSet, Class, Datatype, Member, StringPadding};
use striate_hdf5::netcdf::{AtomicType, FileDefinition, TypeDefinition};

use super::definition::atomic;
use crate::format::{
    ByteOrder, CompoundMember, Header, StoredValues, Type, UserType, UserTypeClass, UserTypeId,
};

/// The HDF5 type of elements; numbers have that byte order.
pub(super) fn hdf5_datatype(header: &Header, of: Type, order: model::ByteOrder) -> Datatype {
    match of {
        Type::String => AtomicType::String.datatype(order),
        Type::Text(size) => {
            let (padding, charset) = (StringPadding::NullPadded, CharacterSet::Utf8);
            Datatype::new(size, Class::String { padding, charset })
        }
        Type::User(id) => match header.types.get(id.index()) {
            Some(user) => hdf5_user_type(header, user, order),
            // An id of another dataset was refused before.
            None => Datatype::new(id.size, Class::Opaque { tag: "".into() }),
        },
        of => atomic(of).datatype(order),
    }
}

/// A type of a user as an HDF5 type.
pub(super) fn hdf5_user_type(
    header: &Header,
    user: &UserType,
    order: model::ByteOrder,
) -> Datatype {
    let class = match &user.class {
        // As netCDF-C has it: libraries do not convert between different tags.
        UserTypeClass::Opaque => Class::Opaque { tag: "".into() },
        UserTypeClass::Enumeration { base, members } => {
            let member = |(name, value): &(String, i128)| {
                let mut value = value.to_le_bytes()[..base.size() as usize].to_vec();
                if order == model::ByteOrder::Big {
                    value.reverse();
                }
                model::EnumerationMember { name: name.as_str().into(), value }
            };
            let members = members.iter().map(member).collect();
            Class::Enumeration { base: Box::new(hdf5_datatype(header, *base, order)), members }
        }
        UserTypeClass::Sequence(base) => {
            Class::Sequence { base: Box::new(hdf5_datatype(header, *base, order)) }
        }
        UserTypeClass::Compound(members) => {
            let member = |member: &CompoundMember| {
                let base = hdf5_datatype(header, member.of, order);
                let datatype = if member.shape.is_empty() {
                    base
                } else {
                    let size = member.size().and_then(|size| u32::try_from(size).ok());
                    let (base, dimensions) = (Box::new(base), member.shape.clone());
                    Datatype::new(size.unwrap_or(u32::MAX), Class::Array { base, dimensions })
                };
                Member { name: member.name.as_str().into(), offset: member.offset, datatype }
            };
            Class::Compound { members: members.iter().map(member).collect() }
        }
    };
    Datatype::new(user.size, class)
}

/// Whether values are those of their type.
pub(crate) fn fits(header: &Header, stored: &StoredValues) -> bool {
    stored.elements.fits(&hdf5_datatype(header, stored.of, NATIVE))
}

/// The types that users defined in a file, with the same numbers.
pub(super) fn user_types(definition: &FileDefinition) -> Vec<UserType> {
    let user_type = |one: &TypeDefinition| UserType {
        name: one.name.to_string(),
        group: one.group as u32,
        size: one.datatype.size,
        class: class_of(definition, &one.datatype).unwrap_or(UserTypeClass::Opaque),
    };
    definition.types.iter().map(user_type).collect()
}

fn class_of(definition: &FileDefinition, datatype: &Datatype) -> Option<UserTypeClass> {
    Some(match &datatype.class {
        Class::Enumeration { base, members } => {
            let (of, order) = type_of_elements(definition, base)?;
            // Only integers are enumerated; others are bytes.
            if !of.is_number() || matches!(of, Type::Float | Type::Double) {
                return None;
            }
            let value = |member: &model::EnumerationMember| {
                let mut bytes = member.value.clone();
                if order == ByteOrder::Big {
                    bytes.reverse();
                }
                (member.name.to_string(), integer(&bytes, of))
            };
            UserTypeClass::Enumeration { base: of, members: members.iter().map(value).collect() }
        }
        Class::Sequence { base } => UserTypeClass::Sequence(type_of_elements(definition, base)?.0),
        Class::Compound { members } => {
            let member = |member: &Member| {
                let (base, shape) = match &member.datatype.class {
                    Class::Array { base, dimensions } => (base.as_ref(), dimensions.clone()),
                    _ => (&member.datatype, Vec::new()),
                };
                let (of, _) = type_of_elements(definition, base)?;
                let (name, offset) = (member.name.to_string(), member.offset);
                Some(CompoundMember { name, offset, of, shape })
            };
            UserTypeClass::Compound(members.iter().map(member).collect::<Option<_>>()?)
        }
        _ => UserTypeClass::Opaque,
    })
}

/// An integer, its lowest byte first.
fn integer(bytes: &[u8], of: Type) -> i128 {
    let is_signed = matches!(of, Type::Byte | Type::Short | Type::Int | Type::Int64);
    let is_negative = is_signed && bytes.last().is_some_and(|&byte| byte >= 0x80);
    let mut value = [if is_negative { 0xff } else { 0 }; 16];
    if let Some(low) = value.get_mut(..bytes.len()) {
        low.copy_from_slice(bytes);
    }
    i128::from_le_bytes(value)
}

/// The type that elements of an HDF5 type have in a dataset, and the byte order of numbers; `None`
/// if there is none with their layout.
pub(super) fn type_of_elements(
    definition: &FileDefinition,
    datatype: &Datatype,
) -> Option<(Type, ByteOrder)> {
    match &datatype.class {
        Class::VariableString { .. } => return Some((Type::String, ByteOrder::Little)),
        Class::String { .. } if datatype.size != 1 => {
            return Some((Type::Text(datatype.size), ByteOrder::Little));
        }
        _ => {}
    }
    if let Some(found) = AtomicType::of(datatype) {
        let order = match &datatype.class {
            Class::FixedPoint(number) => number.order,
            Class::FloatingPoint(number) => number.order,
            _ => model::ByteOrder::Little,
        };
        let order = if order == model::ByteOrder::Big { ByteOrder::Big } else { ByteOrder::Little };
        return Some((Type::ALL.into_iter().find(|&of| atomic(of) == found)?, order));
    }
    let number = definition.type_of(datatype)?;
    has_layout_of(datatype, &definition.types[number].datatype).then_some(())?;
    let order = match &datatype.class {
        Class::Enumeration { base, .. } => type_of_elements(definition, base)?.1,
        _ => ByteOrder::Little,
    };
    let id = UserTypeId { number: u32::try_from(number).ok()?, size: datatype.size };
    Some((Type::User(id), order))
}

/// Whether two types that are the same to netCDF have their members at the same offsets, too.
fn has_layout_of(one: &Datatype, other: &Datatype) -> bool {
    one.size == other.size
        && match (&one.class, &other.class) {
            (Class::Compound { members: a }, Class::Compound { members: b }) => a
                .iter()
                .zip(b)
                .all(|(a, b)| a.offset == b.offset && has_layout_of(&a.datatype, &b.datatype)),
            (Class::Array { base: a, .. }, Class::Array { base: b, .. })
            | (Class::Sequence { base: a }, Class::Sequence { base: b }) => has_layout_of(a, b),
            _ => true,
        }
}

/// Where each byte of an element in the file is in memory; `None` if both are the same.
pub(super) fn byte_positions(datatype: &Datatype) -> Option<Arc<[u32]>> {
    let identity = |size: u32| (0..size).collect::<Vec<u32>>();
    if datatype.has_descriptors() || !has_foreign_order(datatype) {
        return None;
    }
    let mut positions = identity(datatype.size);
    reorder(datatype, &mut positions);
    Some(positions.into())
}

const NATIVE: model::ByteOrder =
    if cfg!(target_endian = "big") { model::ByteOrder::Big } else { model::ByteOrder::Little };

fn has_foreign_order(datatype: &Datatype) -> bool {
    match &datatype.class {
        Class::FixedPoint(number) => number.order != NATIVE && datatype.size > 1,
        Class::FloatingPoint(number) => number.order != NATIVE,
        Class::Enumeration { base, .. } | Class::Array { base, .. } => has_foreign_order(base),
        Class::Compound { members } => {
            members.iter().any(|member| has_foreign_order(&member.datatype))
        }
        _ => false,
    }
}

fn reorder(datatype: &Datatype, positions: &mut [u32]) {
    let size = (datatype.size as usize).max(1);
    match &datatype.class {
        Class::FixedPoint(_) | Class::FloatingPoint(_) if has_foreign_order(datatype) => {
            positions.chunks_exact_mut(size).for_each(<[u32]>::reverse);
        }
        Class::Enumeration { base, .. } | Class::Array { base, .. } => reorder(base, positions),
        Class::Compound { members } => {
            for element in positions.chunks_exact_mut(size) {
                for member in members {
                    let begin = member.offset as usize;
                    let end = begin.saturating_add(member.datatype.size as usize);
                    if let Some(part) = element.get_mut(begin..end) {
                        reorder(&member.datatype, part);
                    }
                }
            }
        }
        _ => {}
    }
}
