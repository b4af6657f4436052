//! The types section: enumerations, opaque, variable-length and compound types.
//!
//! A type refers to types before it only, so types cannot contain themselves. Members of a compound
//! type are aligned as in C.

use std::collections::HashSet;

use striate_hdf5::write::netcdf::AtomicType;

use super::document::{CdlField, CdlShape, CdlType, CdlUserType, atomic_size};
use super::group::Parser;
use super::names::{ANYWHERE, NameKind};
use super::place::{Fault, Parsed, quoted};
use super::token::Token;
use super::{MAX_DEPTH, MAX_TYPE_SIZE, constant, special};

/// Bytes of the descriptor of a sequence.
const DESCRIPTOR: u32 = 16;

/// The type of netCDF that a word means.
pub(super) fn atomic_named(word: &str) -> Option<AtomicType> {
    Some(match word {
        "byte" => AtomicType::Byte,
        "char" => AtomicType::Char,
        "short" => AtomicType::Short,
        "int" | "long" | "integer" => AtomicType::Int,
        "float" | "real" => AtomicType::Float,
        "double" => AtomicType::Double,
        "ubyte" => AtomicType::UByte,
        "ushort" => AtomicType::UShort,
        "uint" | "ulong" | "uinteger" => AtomicType::UInt,
        "int64" => AtomicType::Int64,
        "uint64" => AtomicType::UInt64,
        "string" => AtomicType::String,
        _ => return None,
    })
}

impl Parser<'_> {
    /// A type, whose first word was taken. `false` if it is none, but an attribute.
    pub(super) fn type_definition(&mut self, first: &Token<'_>, at: usize) -> Parsed<bool> {
        let word = if let Token::Name(word) = first { &**word } else { "" };
        let (next, _) = self.peek()?;
        match (word, next) {
            ("compound" | "struct" | "structure", Token::Name(_)) => self.compound(at)?,
            ("opaque", Token::Mark(b'(')) => self.opaque(at)?,
            (_, Token::Name(next)) if &*next == "enum" => self.enumeration(first, at)?,
            (_, Token::Mark(b'(')) => self.sequence(first, at)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn enumeration(&mut self, first: &Token<'_>, at: usize) -> Parsed<()> {
        let base = match self.type_of(first, at)? {
            Some(CdlType::Atomic(base)) if constant::range(base).is_some() => base,
            _ => return Err(Fault::expected(at, "an integer type", first)),
        };
        self.next()?;
        let name = self.type_name()?;
        self.mark(b'{')?;
        let mut members: Vec<(String, i128)> = Vec::new();
        let mut known = HashSet::new();
        loop {
            let (name, at) = self.name("the name of a value")?;
            if !known.insert(name.clone()) {
                return Err(Fault::new(at, format!("there is a value {} already", quoted(&name))));
            }
            self.mark(b'=')?;
            let value = match self.next()? {
                (Token::Number(number), at) => {
                    let value = special::whole(number).filter(|&value| is_in(base, value));
                    let out = || format!("{number} is out of the range of the enumeration's type");
                    value.ok_or_else(|| Fault::new(at, out()))?
                }
                (other, at) => return Err(Fault::expected(at, "an integer", other)),
            };
            members.push((name, value));
            if !self.takes(b',')? {
                break;
            }
        }
        self.mark(b'}')?;
        let size = atomic_size(base);
        self.define(name, CdlShape::Enumeration { base, members }, size, size, 1, at)
    }

    fn opaque(&mut self, at: usize) -> Parsed<()> {
        self.mark(b'(')?;
        let size = match self.next()? {
            (Token::Number(number), at) => {
                let size = special::whole(number).and_then(|size| u32::try_from(size).ok());
                let problem = format!("an opaque type has from 1 to {MAX_TYPE_SIZE} bytes");
                let size = size.filter(|size| (1..=MAX_TYPE_SIZE).contains(size));
                size.ok_or_else(|| Fault::new(at, problem))?
            }
            (other, at) => return Err(Fault::expected(at, "a number of bytes", other)),
        };
        self.mark(b')')?;
        let name = self.type_name()?;
        self.define(name, CdlShape::Opaque, size, 1, 1, at)
    }

    fn sequence(&mut self, first: &Token<'_>, at: usize) -> Parsed<()> {
        let base = self.known_type(first, at)?;
        self.mark(b'(')?;
        self.mark(b'*')?;
        self.mark(b')')?;
        let name = self.type_name()?;
        let depth = self.depth(base) + 1;
        self.define(name, CdlShape::Sequence(base), DESCRIPTOR, 8, depth, at)
    }

    fn compound(&mut self, at: usize) -> Parsed<()> {
        let name = self.type_name()?;
        self.mark(b'{')?;
        let mut compound = CompoundLayout::default();
        let mut known = HashSet::new();
        loop {
            let (first, at) = self.next()?;
            if first == Token::Mark(b'}') && !compound.fields.is_empty() {
                break;
            }
            let of = self.known_type(&first, at)?;
            loop {
                let (name, at) = self.name("the name of a field")?;
                if !known.insert(name.clone()) {
                    let problem = format!("there is a field {} already", quoted(&name));
                    return Err(Fault::new(at, problem));
                }
                let dimensions = self.field_dimensions()?;
                let (size, alignment) = (self.document.size(of), self.alignment(of));
                let fits = compound.add(name, of, dimensions, size, alignment);
                fits.ok_or_else(|| {
                    Fault::new(at, format!("the type has more than {MAX_TYPE_SIZE} bytes"))
                })?;
                compound.depth = compound.depth.max(self.depth(of) + 1);
                if !self.takes(b',')? {
                    break;
                }
            }
            self.mark(b';')?;
        }
        let CompoundLayout { fields, size, alignment, depth } = compound;
        let size = size.next_multiple_of(alignment.max(1));
        self.define(name, CdlShape::Compound(fields), size, alignment, depth, at)
    }

    fn field_dimensions(&mut self) -> Parsed<Vec<u32>> {
        let mut dimensions = Vec::new();
        if !self.takes(b'(')? {
            return Ok(dimensions);
        }
        loop {
            match self.next()? {
                (Token::Number(number), at) => {
                    let length = special::whole(number).and_then(|it| u32::try_from(it).ok());
                    let length = length.filter(|&length| length > 0);
                    let problem = "the length of a field is a positive integer";
                    dimensions.push(length.ok_or_else(|| Fault::new(at, problem))?);
                    if dimensions.len() > 32 {
                        return Err(Fault::new(at, "a field has at most 32 dimensions"));
                    }
                }
                (other, at) => return Err(Fault::expected(at, "the length of a field", other)),
            }
            if !self.takes(b',')? {
                self.mark(b')')?;
                return Ok(dimensions);
            }
        }
    }

    /// The name of a new type.
    fn type_name(&mut self) -> Parsed<String> {
        let number = self.document.types.len();
        let (name, _) = self.new_name(NameKind::Type, number)?;
        self.names.add(ANYWHERE, NameKind::Type, &name, number);
        Ok(name)
    }

    fn define(
        &mut self,
        name: String,
        shape: CdlShape,
        size: u32,
        alignment: u32,
        depth: usize,
        at: usize,
    ) -> Parsed<()> {
        if depth > MAX_DEPTH {
            let problem = format!("types are in each other more than {MAX_DEPTH} deep");
            return Err(Fault::new(at, problem));
        }
        let group = self.group;
        self.document.types.push(CdlUserType { group, name, shape, size, alignment, depth });
        Ok(())
    }

    fn known_type(&self, reference: &Token<'_>, at: usize) -> Parsed<CdlType> {
        match self.type_of(reference, at)? {
            // A type whose definition is not finished has its name already.
            Some(CdlType::User(number)) if number >= self.document.types.len() => {
                Err(Fault::new(at, format!("the type {reference} contains itself")))
            }
            Some(of) => Ok(of),
            None if matches!(reference, Token::Name(_) | Token::Path(_)) => {
                Err(Fault::new(at, format!("there is no type {reference}")))
            }
            None => Err(Fault::expected(at, "a type", reference)),
        }
    }

    fn alignment(&self, of: CdlType) -> u32 {
        match of {
            CdlType::Atomic(atomic) => atomic_size(atomic).min(8),
            CdlType::User(number) => self.document.types.get(number).map_or(1, |it| it.alignment),
        }
    }

    fn depth(&self, of: CdlType) -> usize {
        match of {
            CdlType::Atomic(_) => 0,
            CdlType::User(number) => self.document.types.get(number).map_or(0, |it| it.depth),
        }
    }
}

/// A compound type that is being defined.
#[derive(Debug, Default)]
struct CompoundLayout {
    fields: Vec<CdlField>,
    size: u32,
    alignment: u32,
    depth: usize,
}

impl CompoundLayout {
    /// Adds a field; `None` if the type becomes too large.
    fn add(
        &mut self,
        name: String,
        of: CdlType,
        dimensions: Vec<u32>,
        size: u32,
        alignment: u32,
    ) -> Option<()> {
        let offset = self.size.next_multiple_of(alignment.max(1));
        let values = dimensions.iter().try_fold(1_u32, |all, &one| all.checked_mul(one))?;
        let end = values.checked_mul(size).and_then(|bytes| offset.checked_add(bytes))?;
        // With the padding at its end.
        if end > MAX_TYPE_SIZE - 8 {
            return None;
        }
        self.fields.push(CdlField { name, of, dimensions, offset });
        self.size = end;
        self.alignment = self.alignment.max(alignment);
        Some(())
    }
}

fn is_in(base: AtomicType, value: i128) -> bool {
    constant::range(base).is_some_and(|(low, high)| (low..=high).contains(&value))
}
