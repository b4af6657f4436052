//! [`Datum`]: an element of any type, and its text in CDL.
//!
//! Numbers of classic types do not come here unless they are parts of something: arrays of them are
//! [`crate::format::Values`].

use std::io::Write as _;

use striate_hdf5::model::{Class, Datatype, Name};
use striate_hdf5::{Error, File, Reason, Result, Source, Structure, Value};

use crate::cdl::Precision;
use crate::cdl::definitions::{DOUBLE_DIGITS, FLOAT_DIGITS};
use crate::cdl::element::{Element as _, Style};
use crate::cdl::text;

/// An element.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// An integer.
    Integer(i128),
    /// Single precision.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// A byte of text.
    Char(u8),
    /// Text; `None` is a string that is not there.
    String(Option<Vec<u8>>),
    /// Bytes.
    Opaque(Vec<u8>),
    /// A value of an enumeration, and its name if it has one.
    Enumeration(i128, Option<Name>),
    /// The members of a compound.
    Compound(Vec<Datum>),
    /// An array of a fixed shape, as a member of a compound.
    Array {
        /// The length of its last dimension.
        row: usize,
        /// Its values.
        values: Vec<Datum>,
    },
    /// Values of a variable number.
    Sequence(Vec<Datum>),
}

/// What gives values of elements: a file.
pub(super) trait ElementSource {
    /// The value of an element.
    fn element(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Value>;
}

impl<S: Source> ElementSource for File<S> {
    fn element(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Value> {
        self.value(datatype, bytes)
    }
}

/// Decodes elements from their bytes in a file.
#[derive(Clone, Copy)]
pub(super) struct DatumDecoder<'e> {
    source: &'e dyn ElementSource,
}

impl<'e> DatumDecoder<'e> {
    pub(super) fn new(source: &'e dyn ElementSource) -> Self {
        Self { source }
    }

    /// Elements that follow each other.
    pub(super) fn list(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Vec<Datum>> {
        let size = (datatype.size as usize).max(1);
        bytes.chunks_exact(size).map(|element| self.datum(datatype, element)).collect()
    }

    /// An element.
    fn datum(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Datum> {
        Ok(match &datatype.class {
            Class::String { .. } if datatype.size == 1 => {
                Datum::Char(bytes.first().copied().unwrap_or_default())
            }
            Class::String { .. } => Datum::String(Some(until_zero(bytes))),
            Class::VariableString { .. } if is_null(bytes) => Datum::String(None),
            Class::Sequence { base } => Datum::Sequence(self.sequence(base, bytes)?),
            Class::Array { base, dimensions } => {
                let row = dimensions.last().map_or(1, |&last| last as usize);
                Datum::Array { row, values: self.list(base, bytes)? }
            }
            Class::Compound { members } => {
                let member = |member: &striate_hdf5::model::Member| {
                    let begin = member.offset as usize;
                    let part = begin
                        .checked_add(member.datatype.size as usize)
                        .and_then(|end| bytes.get(begin..end));
                    let reason = Reason::Invalid("a member beyond its compound");
                    let part = part.ok_or_else(|| Error::of(Structure::Value, reason))?;
                    self.datum(&member.datatype, part)
                };
                Datum::Compound(members.iter().map(member).collect::<Result<_>>()?)
            }
            Class::Opaque { .. } => Datum::Opaque(bytes.to_vec()),
            _ => match self.source.element(datatype, bytes)? {
                Value::Integer(number) => Datum::Integer(number),
                Value::Float(number) if datatype.size <= 4 => Datum::Float(number as f32),
                Value::Float(number) => Datum::Double(number),
                Value::Enumeration(number, name) => Datum::Enumeration(number, name),
                Value::String(text) => Datum::String(Some(until_zero(text.as_bytes()))),
                _ => {
                    let what = "an element of a type that netCDF does not have".to_owned();
                    return Err(Error::of(Structure::Value, Reason::Unsupported(what)));
                }
            },
        })
    }

    fn sequence(&self, base: &Datatype, bytes: &[u8]) -> Result<Vec<Datum>> {
        // Its values as they are stored: they may have descriptors in turn.
        let stored = Datatype::new(base.size, Class::Opaque { tag: Name::default() });
        let class = Class::Sequence { base: Box::new(stored) };
        let sequence = Datatype::new(bytes.len() as u32, class);
        let Value::Sequence(values) = self.source.element(&sequence, bytes)? else {
            return Ok(Vec::new());
        };
        let value = |value: Value| match value {
            Value::Opaque(bytes) => self.datum(base, &bytes),
            _ => Ok(Datum::Opaque(Vec::new())),
        };
        values.into_iter().map(value).collect()
    }
}

/// Whether a descriptor of a value of variable length says that there is none: its address is 0.
fn is_null(descriptor: &[u8]) -> bool {
    let address = descriptor.len().checked_sub(4).and_then(|end| descriptor.get(4..end));
    address.is_none_or(|address| address.iter().all(|&byte| byte == 0))
}

/// Text as C sees it.
fn until_zero(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().take_while(|&&byte| byte != 0).copied().collect()
}

impl Datum {
    /// Whether it is printed as a fill value.
    pub(super) fn is_fill(&self, fill: &Self) -> bool {
        match (self, fill) {
            (Self::Float(value), Self::Float(fill)) => value.is_fill(*fill),
            (Self::Double(value), Self::Double(fill)) => value.is_fill(*fill),
            (Self::Enumeration(value, _), Self::Enumeration(fill, _)) => value == fill,
            (Self::Compound(values), Self::Compound(fills))
            | (Self::Sequence(values), Self::Sequence(fills))
            | (Self::Array { values, .. }, Self::Array { values: fills, .. }) => {
                let mut both = values.iter().zip(fills);
                values.len() == fills.len() && both.all(|(value, fill)| value.is_fill(fill))
            }
            _ => self == fill,
        }
    }

    /// Appends its text.
    pub(super) fn print(&self, out: &mut Vec<u8>, precision: Precision) {
        let style = |digits: u8| Style { format: None, digits: digits.into() };
        // Writing to memory does not fail.
        let _ = match self {
            Self::Integer(number) | Self::Enumeration(number, None) => write!(out, "{number}"),
            Self::Float(number) => {
                number.print(out, &style(precision.float.unwrap_or(FLOAT_DIGITS)));
                Ok(())
            }
            Self::Double(number) => {
                number.print(out, &style(precision.double.unwrap_or(DOUBLE_DIGITS)));
                Ok(())
            }
            Self::Char(0) => Ok(()),
            Self::Char(byte) => out.write_all(&[*byte]),
            Self::String(None) => out.write_all(b"NIL"),
            Self::String(Some(bytes)) => text::string(out, bytes),
            Self::Opaque(bytes) => {
                out.extend_from_slice(b"0X");
                bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))
            }
            Self::Enumeration(_, Some(name)) => out.write_all(name.as_bytes()),
            Self::Compound(members) => {
                in_braces(out, members, |out, member| match member {
                    Self::Char(byte) => text::characters(out, &[*byte]),
                    member => member.print(out, precision),
                });
                Ok(())
            }
            Self::Array { row, values } if matches!(values.first(), Some(Self::Char(_))) => {
                let bytes: Vec<u8> = values.iter().map(Self::character).collect();
                let rows: Vec<&[u8]> = bytes.chunks((*row).max(1)).collect();
                in_braces(out, &rows, |out, row| text::characters(out, row));
                Ok(())
            }
            Self::Array { values, .. } | Self::Sequence(values) => {
                in_braces(out, values, |out, value| value.print(out, precision));
                Ok(())
            }
        };
    }

    const fn character(&self) -> u8 {
        match self {
            Self::Char(byte) => *byte,
            _ => 0,
        }
    }
}

/// Appends a list in braces.
fn in_braces<T>(out: &mut Vec<u8>, list: &[T], print: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'{');
    for (index, one) in list.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        print(out, one);
    }
    out.push(b'}');
}
