//! [`UserType`]: a type that a program defines in a netCDF-4 file: an enumeration, opaque bytes, a
//! compound or sequences of any length.
//!
//! Elements in memory have the layout that the type has in the file, in the byte order of the
//! machine: of a compound the size and the offsets of its definition, so that those of a structure
//! in C or Rust (`repr(C)`) can be given.

use super::{Header, Type};

/// A type of [`Header::types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserTypeId {
    pub(crate) number: u32,
    pub(crate) size: u32,
}

impl UserTypeId {
    /// Its index in [`Header::types`].
    pub const fn index(self) -> usize {
        self.number as usize
    }

    /// Bytes of an element; of a value of variable length those of its descriptor.
    pub const fn size(self) -> u64 {
        self.size as u64
    }
}

/// A type that a program defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserType {
    /// Its name.
    pub name: String,
    /// The group that it is in, as an index into [`Header::groups`] plus one; 0 is the root group.
    pub group: u32,
    /// Bytes of an element.
    pub size: u32,
    /// What it is.
    pub class: UserTypeClass,
}

/// Kinds of types that programs define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserTypeClass {
    /// Names for values of an integer type.
    Enumeration {
        /// The integer type.
        base: Type,
        /// The names and their values.
        members: Vec<(String, i128)>,
    },
    /// Bytes without a meaning known here.
    Opaque,
    /// Members at offsets.
    Compound(Vec<CompoundMember>),
    /// Sequences of any length (netCDF's vlen) of values of a type.
    Sequence(Type),
}

/// A member of a compound type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompoundMember {
    /// Its name.
    pub name: String,
    /// Where it begins, in bytes of the element.
    pub offset: u32,
    /// The type of its values.
    pub of: Type,
    /// The shape of an array; empty for a single value.
    pub shape: Vec<u32>,
}

impl CompoundMember {
    /// A single value.
    pub fn new(name: &str, offset: usize, of: impl Into<Type>) -> Self {
        Self::array(name, offset, of, &[])
    }

    /// An array of values.
    pub fn array(name: &str, offset: usize, of: impl Into<Type>, shape: &[u32]) -> Self {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        Self { name: name.into(), offset, of: of.into(), shape: shape.to_vec() }
    }

    /// Bytes of the member; `None` if they cannot be counted.
    pub fn size(&self) -> Option<u64> {
        let mut each = self.shape.iter().map(|&len| u64::from(len));
        each.try_fold(self.of.size(), u64::checked_mul)
    }
}

impl Header {
    /// The types that were defined, in the order of their definition.
    pub fn user_type_ids(&self) -> impl Iterator<Item = UserTypeId> + use<'_> {
        let numbered = self.types.iter().zip(0..);
        numbered.map(|(one, number)| UserTypeId { number, size: one.size })
    }

    /// The type of a user that a type is.
    pub fn user_type(&self, of: Type) -> Option<&UserType> {
        match of {
            Type::User(id) => self.types.get(id.index()),
            _ => None,
        }
    }

    /// Whether elements of a type are, or contain, values of variable length: strings, sequences.
    pub fn has_variable_length(&self, of: Type) -> bool {
        self.has_variable_length_within(of, self.types.len())
    }

    /// The same; types that are that deep within each other have a cycle.
    fn has_variable_length_within(&self, of: Type, depth: usize) -> bool {
        match (of, self.user_type(of).map(|one| &one.class)) {
            (Type::String, _) | (_, Some(UserTypeClass::Sequence(_))) => true,
            (_, Some(UserTypeClass::Compound(members))) if depth > 0 => {
                let has = |one: &CompoundMember| self.has_variable_length_within(one.of, depth - 1);
                members.iter().any(has)
            }
            _ => false,
        }
    }

    /// The integer type of an enumeration; any other type itself.
    pub fn base_type(&self, of: Type) -> Type {
        match self.user_type(of).map(|one| &one.class) {
            Some(UserTypeClass::Enumeration { base, .. }) => *base,
            _ => of,
        }
    }

    /// A type in full: its name, and what it consists of. Elements of types with the same text have
    /// the same bytes.
    pub fn type_text(&self, of: Type) -> String {
        let name = self.type_name(of);
        let Some(user) = self.user_type(of) else {
            return match of {
                Type::Text(size) => format!("{name} of {size} bytes"),
                _ => name,
            };
        };
        let list = |parts: Vec<String>| parts.join(", ");
        match &user.class {
            UserTypeClass::Opaque => format!("opaque({}) {name}", user.size),
            UserTypeClass::Sequence(base) => format!("{}(*) {name}", self.part_text(of, *base)),
            UserTypeClass::Enumeration { base, members } => {
                let members = members.iter().map(|(name, value)| format!("{name} = {value}"));
                format!("{base} enum {name} {{{}}}", list(members.collect()))
            }
            UserTypeClass::Compound(members) => {
                let member = |one: &CompoundMember| {
                    let shape = if one.shape.is_empty() {
                        String::new()
                    } else {
                        format!("{:?}", one.shape)
                    };
                    let of = self.part_text(of, one.of);
                    format!("{of} {}{shape} at {}", one.name, one.offset)
                };
                let members = list(members.iter().map(member).collect());
                format!("compound({}) {name} {{{members}}}", user.size)
            }
        }
    }

    /// The text of a type within another one. Types are smaller than those that have them or, as
    /// sequences have a descriptor, have another number.
    fn part_text(&self, of: Type, part: Type) -> String {
        if of == part { self.type_name(part) } else { self.type_text(part) }
    }

    /// The name of a type: that of CDL, or the path of a type of a user.
    pub fn type_name(&self, of: Type) -> String {
        self.user_type(of).map_or_else(|| of.to_string(), |one| self.path(one.group, &one.name))
    }
}
