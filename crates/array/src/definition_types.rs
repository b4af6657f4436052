//! Types that a program defines ([`Definition::enumeration`] and the like), and what they must
//! hold.

use std::collections::HashSet;

use crate::file_state::check_type;
use crate::format::{
    CompoundMember, Format, Header, StoredValues, Type, UserType, UserTypeClass, UserTypeId,
    check_name,
};
use crate::netcdf4;
use crate::{ArrayError, Definition};

impl Definition {
    /// Defines an enumeration in the current group: names for values of an integer type.
    pub fn enumeration(
        &mut self,
        name: &str,
        base: Type,
        members: &[(&str, i128)],
    ) -> Result<UserTypeId, ArrayError> {
        let refuse = |reason: String| Err(refused(name, reason));
        let Some((least, most)) = limits(base) else {
            return refuse(format!("an enumeration is of integers, not of {base}"));
        };
        let (mut names, mut values) = (HashSet::new(), HashSet::new());
        for (member, value) in members {
            if member.is_empty() || !names.insert(member) || !values.insert(value) {
                return refuse(format!("member '{member}' is there twice, or has no name"));
            }
            if *value < least || *value > most {
                return refuse(format!("member '{member}' is {value}, which {base} does not have"));
            }
        }
        if members.is_empty() {
            return refuse("it has no members".into());
        }
        let members = members.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        let class = UserTypeClass::Enumeration { base, members };
        self.add_type(name, base.size(), class)
    }

    /// Defines an opaque type in the current group: elements of `size` bytes.
    pub fn opaque(&mut self, name: &str, size: u32) -> Result<UserTypeId, ArrayError> {
        self.add_type(name, size.into(), UserTypeClass::Opaque)
    }

    /// Defines a compound type of `size` bytes in the current group. Elements in memory have the
    /// same size and offsets, for example those of a structure with `repr(C)`
    /// (`size_of`, `offset_of!`).
    pub fn compound(
        &mut self,
        name: &str,
        size: usize,
        members: &[CompoundMember],
    ) -> Result<UserTypeId, ArrayError> {
        let refuse = |reason: String| Err(refused(name, reason));
        if members.is_empty() {
            return refuse("it has no members".into());
        }
        let mut ranges = Vec::new();
        let mut names = HashSet::new();
        for member in members {
            let of = &member.name;
            check_type(self.header(), &format!("member '{of}' of type '{name}'"), member.of)?;
            if of.is_empty() || !names.insert(of) {
                return refuse(format!("member '{of}' is there twice, or has no name"));
            }
            let end = member.size().and_then(|bytes| bytes.checked_add(member.offset.into()));
            let Some(end) = end.filter(|&end| end <= size as u64 && !member.shape.contains(&0))
            else {
                return refuse(format!("member '{of}' is not within its {size} bytes"));
            };
            ranges.push((u64::from(member.offset), end));
        }
        ranges.sort_unstable();
        if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return refuse("two of its members overlap".into());
        }
        self.add_type(name, size as u64, UserTypeClass::Compound(members.to_vec()))
    }

    /// Defines a type of sequences of any length (netCDF's vlen) in the current group.
    pub fn sequence(&mut self, name: &str, of: impl Into<Type>) -> Result<UserTypeId, ArrayError> {
        let of = of.into();
        check_type(self.header(), &format!("the values of type '{name}'"), of)?;
        self.add_type(name, Type::String.size(), UserTypeClass::Sequence(of))
    }

    fn add_type(
        &mut self,
        name: &str,
        size: u64,
        class: UserTypeClass,
    ) -> Result<UserTypeId, ArrayError> {
        check_name(name)?;
        let format = self.header().format;
        if format != Format::Netcdf4 {
            let reason = format!("{format} has no types of users; netCDF-4 does");
            return Err(refused(name, reason));
        }
        let Some(size) = u32::try_from(size).ok().filter(|&size| size > 0) else {
            return Err(refused(name, format!("its elements cannot have {size} bytes")));
        };
        let group = self.group.0;
        let types = &mut self.state.header.types;
        if types.iter().any(|one| one.group == group && one.name == name) {
            return Err(ArrayError::Exists { what: "type", name: name.into() });
        }
        let id = UserTypeId { number: types.len() as u32, size };
        types.push(UserType { name: name.into(), group, size, class });
        Ok(id)
    }
}

fn refused(name: &str, reason: String) -> ArrayError {
    ArrayError::Definition { what: format!("type '{name}'"), reason }
}

/// The least and the largest value of an integer type.
fn limits(base: Type) -> Option<(i128, i128)> {
    Some(match base {
        Type::Byte => (i8::MIN.into(), i8::MAX.into()),
        Type::Short => (i16::MIN.into(), i16::MAX.into()),
        Type::Int => (i32::MIN.into(), i32::MAX.into()),
        Type::Int64 => (i64::MIN.into(), i64::MAX.into()),
        Type::UByte => (0, u8::MAX.into()),
        Type::UShort => (0, u16::MAX.into()),
        Type::UInt => (0, u32::MAX.into()),
        Type::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// An error if the values of an attribute are not those of their type.
pub(crate) fn check_stored(
    header: &Header,
    what: &str,
    stored: &StoredValues,
) -> Result<(), ArrayError> {
    if netcdf4::fits(header, stored) {
        return Ok(());
    }
    let reason = "the values are not those of its type".into();
    Err(ArrayError::Definition { what: what.into(), reason })
}
