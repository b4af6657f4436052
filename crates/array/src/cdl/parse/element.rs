//! Values of a text as the elements of a type.

use striate_hdf5::model::ByteOrder;
use striate_hdf5::write::Elements;
use striate_hdf5::write::netcdf::{AtomicType, default_fill};

use super::constant::{Number, named, range};
use super::document::{CdlDocument, CdlField, CdlShape, CdlType};
use super::list::{Item, ListReader, is_nil_value};
use super::place::{Fault, Parsed, quoted};
use super::text_run::{TextRun, character};
use super::token::{Token, names_of_path};

impl<'t> CdlDocument<'t> {
    /// Appends the element that a part of a list is; of braces, the rest is taken as well.
    pub(super) fn value(
        &self,
        reader: &mut ListReader<'t>,
        item: Item<'t>,
        at: usize,
        of: CdlType,
        order: ByteOrder,
        out: &mut Elements,
    ) -> Parsed<()> {
        match of {
            CdlType::Atomic(atomic) => match item {
                Item::Value(token) => atomic_value(&token, at, atomic, order, out),
                item => Err(Fault::expected(at, "a value", item.shown())),
            },
            CdlType::User(number) => self.user_value(reader, item, at, number, out),
        }
    }

    fn user_value(
        &self,
        reader: &mut ListReader<'t>,
        item: Item<'t>,
        at: usize,
        number: usize,
        out: &mut Elements,
    ) -> Parsed<()> {
        let of = CdlType::User(number);
        let Some(user) = self.types.get(number) else { return Ok(()) };
        match (&user.shape, item) {
            (_, Item::Value(Token::Fill)) => self.fill(of, ByteOrder::Little, out),
            (CdlShape::Enumeration { base, members }, Item::Value(token)) => {
                let name = member_name(&token, at)?;
                // A name may have that of its type before it.
                let own = name.strip_prefix(&user.name).and_then(|it| it.strip_prefix('.'));
                let is_it = |one: &&(String, i128)| one.0 == name || Some(one.0.as_str()) == own;
                let member = members.iter().find(is_it);
                let (_, value) = member.ok_or_else(|| {
                    let problem = format!("{} is no value of type ", quoted(&name));
                    Fault::new(at, problem + &quoted(&user.name))
                })?;
                push_integer(*value, *base, ByteOrder::Little, out);
            }
            (CdlShape::Opaque, Item::Value(Token::Opaque(digits))) => {
                opaque(digits, at, user.size as usize, out)?;
            }
            (CdlShape::Sequence(base), Item::Open) => {
                let mut values = Elements::new();
                let count = if *base == CdlType::Atomic(AtomicType::Char) {
                    characters(reader, &mut values)?;
                    values.len() as u64
                } else {
                    self.sequence(reader, *base, &mut values)?
                };
                match u32::try_from(count) {
                    Ok(0) => out.push_null(),
                    Ok(count) => out.push_sequence(count, values),
                    Err(_) => return Err(Fault::new(at, "a sequence has too many values")),
                }
            }
            (CdlShape::Compound(fields), Item::Open) => {
                self.compound(reader, fields, user.size, out)?;
            }
            (shape, item) => {
                let wanted = match shape {
                    CdlShape::Enumeration { .. } => "the name of a value",
                    CdlShape::Opaque => "a hexadecimal value, as in 0x1f",
                    CdlShape::Sequence(_) | CdlShape::Compound(_) => "'{'",
                };
                let wanted = format!("{wanted} (type {})", quoted(&user.name));
                return Err(Fault::expected(at, wanted, item.shown()));
            }
        }
        Ok(())
    }

    /// Values up to the brace that closes them; returns their number.
    fn sequence(
        &self,
        reader: &mut ListReader<'t>,
        base: CdlType,
        out: &mut Elements,
    ) -> Parsed<u64> {
        let mut count = 0;
        loop {
            match reader.next()? {
                (Item::Close, _) => return Ok(count),
                (item, at) => self.value(reader, item, at, base, ByteOrder::Little, out)?,
            }
            count += 1;
        }
    }

    /// Fields up to the brace that closes them. Those that are missing have fill values.
    fn compound(
        &self,
        reader: &mut ListReader<'t>,
        fields: &[CdlField],
        size: u32,
        out: &mut Elements,
    ) -> Parsed<()> {
        let begin = out.len();
        let mut ended = false;
        for field in fields {
            pad(out, begin + field.offset as usize);
            let (item, at) = if ended { (Item::Close, 0) } else { reader.next()? };
            match item {
                Item::Close => {
                    ended = true;
                    self.fill_field(field, out);
                }
                Item::Value(Token::Fill) => self.fill_field(field, out),
                Item::Open if !field.dimensions.is_empty() => {
                    self.field_array(reader, field, at, out)?;
                }
                item if !field.dimensions.is_empty() => {
                    let wanted = format!("'{{' (field {})", quoted(&field.name));
                    return Err(Fault::expected(at, wanted, item.shown()));
                }
                item => self.value(reader, item, at, field.of, ByteOrder::Little, out)?,
            }
        }
        pad(out, begin + size as usize);
        if !ended {
            let (item, at) = reader.next()?;
            if item != Item::Close {
                let problem = format!("expected '}}' after {} fields", fields.len());
                return Err(Fault::new(at, format!("{problem}, found {}", item.shown())));
            }
        }
        Ok(())
    }

    /// The values of a field that is an array, up to the brace that closes them.
    fn field_array(
        &self,
        reader: &mut ListReader<'t>,
        field: &CdlField,
        at: usize,
        out: &mut Elements,
    ) -> Parsed<()> {
        let count = field.count();
        let many = || {
            let name = quoted(&field.name);
            Fault::new(at, format!("field {name} has {count} values, and more are given"))
        };
        if field.of == CdlType::Atomic(AtomicType::Char) {
            let unit = match field.dimensions.as_slice() {
                [_, .., last] => u64::from(*last),
                _ => 1,
            };
            let mut run = TextRun::new(unit, 0);
            let mut bytes = Vec::new();
            while let Some(byte) = run.next(reader)? {
                if bytes.len() as u64 == count {
                    return Err(many());
                }
                bytes.push(byte);
            }
            bytes.resize(count as usize, 0);
            out.push_fixed(&bytes);
            return Ok(());
        }
        let mut ended = false;
        for _ in 0..count {
            let (item, at) = if ended { (Item::Close, 0) } else { reader.next()? };
            match item {
                Item::Close => {
                    ended = true;
                    self.fill(field.of, ByteOrder::Little, out);
                }
                item => self.value(reader, item, at, field.of, ByteOrder::Little, out)?,
            }
        }
        if !ended && reader.next()?.0 != Item::Close {
            return Err(many());
        }
        Ok(())
    }

    /// Appends the default fill value of a type.
    pub(super) fn fill(&self, of: CdlType, order: ByteOrder, out: &mut Elements) {
        let number = match of {
            CdlType::Atomic(atomic) => return out.append(default_fill(&atomic.datatype(order))),
            CdlType::User(number) => number,
        };
        let Some(user) = self.types.get(number) else { return };
        match &user.shape {
            // Its first value, as in `ncgen`: netCDF-C cannot show one without a name.
            CdlShape::Enumeration { base, members } => {
                let value = members.first().map_or(0, |member| member.1);
                push_integer(value, *base, ByteOrder::Little, out);
            }
            CdlShape::Opaque => out.push_fixed(&vec![0; user.size as usize]),
            CdlShape::Sequence(_) => out.push_null(),
            CdlShape::Compound(fields) => {
                let begin = out.len();
                for field in fields {
                    pad(out, begin + field.offset as usize);
                    self.fill_field(field, out);
                }
                pad(out, begin + user.size as usize);
            }
        }
    }

    fn fill_field(&self, field: &CdlField, out: &mut Elements) {
        for _ in 0..field.count() {
            self.fill(field.of, ByteOrder::Little, out);
        }
    }
}

/// The bytes of texts and characters up to the end of their list, without padding.
pub(super) fn characters(reader: &mut ListReader<'_>, out: &mut Elements) -> Parsed<()> {
    loop {
        match reader.next()? {
            (Item::Close, _) => return Ok(()),
            (Item::Value(Token::Text(text)), _) => out.push_fixed(&text),
            (item, at) => match character(&item) {
                Some(byte) => out.push_fixed(&[byte]),
                None => return Err(Fault::expected(at, "text", item.shown())),
            },
        }
    }
}

/// Appends zeros up to a length.
fn pad(out: &mut Elements, len: usize) {
    out.push_fixed(&vec![0; len.saturating_sub(out.len())]);
}

/// The name that a value of an enumeration has.
fn member_name(token: &Token<'_>, at: usize) -> Parsed<String> {
    match token {
        Token::Name(name) => Ok(name.clone().into_owned()),
        Token::Path(path) => {
            let names = names_of_path(path, at)?;
            Ok(names.last().map(|name| name.clone().into_owned()).unwrap_or_default())
        }
        other => Err(Fault::expected(at, "the name of a value", other)),
    }
}

/// The bytes of an opaque value; a shorter one has zeros behind it.
fn opaque(digits: &[u8], at: usize, size: usize, out: &mut Elements) -> Parsed<()> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let pair = |pair: &[u8]| match pair {
        [high, low] => digit(*high) << 4 | digit(*low),
        [high] => digit(*high) << 4,
        _ => 0,
    };
    let mut bytes: Vec<u8> = digits.chunks(2).map(pair).collect();
    if bytes.len() > size {
        let problem = format!("the value has {} bytes, its type {size}", bytes.len());
        return Err(Fault::new(at, problem));
    }
    bytes.resize(size, 0);
    out.push_fixed(&bytes);
    Ok(())
}

fn atomic_value(
    token: &Token<'_>,
    at: usize,
    atomic: AtomicType,
    order: ByteOrder,
    out: &mut Elements,
) -> Parsed<()> {
    let number = match (atomic, token) {
        (_, Token::Fill) => {
            out.append(default_fill(&atomic.datatype(order)));
            return Ok(());
        }
        (AtomicType::String, Token::Text(text)) => {
            out.push_string(text);
            return Ok(());
        }
        (AtomicType::String, token) if is_nil_value(token) => {
            out.push_null();
            return Ok(());
        }
        (AtomicType::String, token) => return Err(Fault::expected(at, "text or NIL", token)),
        (AtomicType::Char, Token::Text(text)) if text.len() <= 1 => {
            out.push_fixed(&[text.first().copied().unwrap_or(0)]);
            return Ok(());
        }
        (AtomicType::Char, Token::Character(byte)) => {
            out.push_fixed(&[*byte]);
            return Ok(());
        }
        (AtomicType::Char, token) => return Err(Fault::expected(at, "one character", token)),
        (_, Token::Number(number)) => *number,
        (_, Token::Character(byte)) => Number::Integer(i128::from(*byte as i8), AtomicType::Byte),
        (_, Token::Name(name)) => {
            let number = named(name);
            number.ok_or_else(|| Fault::expected(at, "a number", token))?
        }
        (_, token) => return Err(Fault::expected(at, "a number", token)),
    };
    push_number(number, at, atomic, order, out)
}

/// Appends a number as a type has it; one that the type does not have is an error.
fn push_number(
    number: Number,
    at: usize,
    atomic: AtomicType,
    order: ByteOrder,
    out: &mut Elements,
) -> Parsed<()> {
    const OUT: &str = "is out of the range of its type";
    let refuse = |what: &str| Err(Fault::new(at, format!("{number} {what}")));
    match atomic {
        AtomicType::Float => {
            let value = match number {
                Number::Integer(value, _) => value as f32,
                Number::Float(value) => value,
                Number::Double(value) => value as f32,
            };
            if value.is_infinite() && matches!(number, Number::Double(it) if it.is_finite()) {
                return refuse(OUT);
            }
            push_ordered(&value.to_le_bytes(), order, out);
        }
        AtomicType::Double => {
            let value = match number {
                Number::Integer(value, _) => value as f64,
                Number::Float(value) => value.into(),
                Number::Double(value) => value,
            };
            push_ordered(&value.to_le_bytes(), order, out);
        }
        _ => {
            let value = match number {
                // A byte or short with its suffix fills the type, whichever sign it has.
                Number::Integer(value, AtomicType::Byte) if atomic == AtomicType::UByte => {
                    i128::from(value as u8)
                }
                Number::Integer(value, AtomicType::Short) if atomic == AtomicType::UShort => {
                    i128::from(value as u16)
                }
                Number::Integer(value, _) => value,
                Number::Float(value) if value.fract() == 0.0 => value as i128,
                Number::Double(value) if value.fract() == 0.0 => value as i128,
                _ => return refuse("is not an integer"),
            };
            if range(atomic).is_none_or(|(low, high)| value < low || value > high) {
                return refuse(OUT);
            }
            push_integer(value, atomic, order, out);
        }
    }
    Ok(())
}

/// Appends an integer that is in the range of its type.
fn push_integer(value: i128, atomic: AtomicType, order: ByteOrder, out: &mut Elements) {
    let size = super::document::atomic_size(atomic) as usize;
    push_ordered(value.to_le_bytes().get(..size).unwrap_or_default(), order, out);
}

/// Appends a number whose lowest byte is first.
fn push_ordered(bytes: &[u8], order: ByteOrder, out: &mut Elements) {
    if order == ByteOrder::Big {
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        out.push_fixed(&reversed);
    } else {
        out.push_fixed(bytes);
    }
}
