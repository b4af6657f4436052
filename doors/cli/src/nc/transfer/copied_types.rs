//! [`CopiedTypes`]: the types that users defined in a source, in its copy.

use striate_array::format::Header;
use striate_array::{
    ArrayError, CompoundMember, Definition, Format, GroupId, Type, UserTypeClass, UserTypeId,
    Values,
};

/// For each type of the source the one of the copy.
pub(super) struct CopiedTypes(Vec<Option<UserTypeId>>);

impl CopiedTypes {
    /// Defines the types of a source, those within others first. In a format that has no types,
    /// nothing is defined: what is of such a type is an error of its own.
    pub(super) fn define(
        definition: &mut Definition,
        header: &Header,
        groups: &[GroupId],
    ) -> Result<Self, ArrayError> {
        let mut copied = Self(vec![None; header.types.len()]);
        if definition.format() != Format::Netcdf4 {
            return Ok(copied);
        }
        // Each pass defines at least one type, unless types have each other.
        loop {
            let before = copied.missing();
            for number in 0..header.types.len() {
                copied.define_one(definition, header, groups, number)?;
            }
            match copied.missing() {
                0 => return Ok(copied),
                missing if missing == before => {
                    let what = "types".into();
                    let reason = "there are types that have each other".into();
                    return Err(ArrayError::Definition { what, reason });
                }
                _ => {}
            }
        }
    }

    fn missing(&self) -> usize {
        self.0.iter().filter(|one| one.is_none()).count()
    }

    /// Defines a type if all within it are.
    fn define_one(
        &mut self,
        definition: &mut Definition,
        header: &Header,
        groups: &[GroupId],
        number: usize,
    ) -> Result<(), ArrayError> {
        let one = &header.types[number];
        if self.0[number].is_some() {
            return Ok(());
        }
        definition.enter(groups[one.group as usize])?;
        let defined = match &one.class {
            UserTypeClass::Opaque => definition.opaque(&one.name, one.size)?,
            UserTypeClass::Enumeration { base, members } => {
                let members: Vec<(&str, i128)> =
                    members.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                definition.enumeration(&one.name, *base, &members)?
            }
            UserTypeClass::Sequence(of) => match self.known(*of) {
                Some(of) => definition.sequence(&one.name, of)?,
                None => return Ok(()),
            },
            UserTypeClass::Compound(members) => {
                let member = |member: &CompoundMember| {
                    Some(CompoundMember { of: self.known(member.of)?, ..member.clone() })
                };
                match members.iter().map(member).collect::<Option<Vec<_>>>() {
                    Some(members) => definition.compound(&one.name, one.size as usize, &members)?,
                    None => return Ok(()),
                }
            }
        };
        self.0[number] = Some(defined);
        Ok(())
    }

    /// The type of the copy, if it is defined.
    fn known(&self, of: Type) -> Option<Type> {
        match of {
            Type::User(id) => self.0.get(id.index()).copied().flatten().map(Type::User),
            of => Some(of),
        }
    }

    /// The type of the copy.
    pub(super) fn of(&self, of: Type) -> Type {
        self.known(of).unwrap_or(of)
    }

    /// The values of an attribute for a copy of that format. A single string becomes text where
    /// there are no strings.
    pub(super) fn values(&self, values: &Values, format: Format) -> Values {
        match values {
            Values::Stored(stored) if format == Format::Netcdf4 => {
                Values::stored(self.of(stored.of), stored.elements.clone())
            }
            Values::Stored(stored) => match stored.texts().as_deref() {
                Some([one]) => Values::Char(one.to_vec()),
                _ => values.clone(),
            },
            values => values.clone(),
        }
    }
}
