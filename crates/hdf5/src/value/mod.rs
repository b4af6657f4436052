//! [`Value`]: an element as something that can be shown or computed with.
//!
//! For dump tools, attributes and tests. Programs that move arrays of numbers take the bytes and
//! [`to_native`], which changes nothing but the order of bytes.

mod elements;
mod number;

use crate::file::File;
use crate::heap::global::Collection;
use crate::model::{Address, ByteOrder, Class, Datatype, Name, ReferenceKind, StringPadding};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Source, Structure};

/// An element.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Integer(i128),
    /// A floating-point number; long doubles are rounded.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// A string, without what fills it up.
    String(Name),
    /// Bits.
    Bitfield(u64),
    /// Bytes without a meaning known here; also times.
    Opaque(Vec<u8>),
    /// The members of a compound, in the order of the type.
    Compound(Vec<Value>),
    /// A value of an enumeration, and its name if it has one.
    Enumeration(i128, Option<Name>),
    /// The values of an array, the last dimension fastest.
    Array(Vec<Value>),
    /// The values of a sequence.
    Sequence(Vec<Value>),
    /// A reference.
    Reference(Reference),
}

/// What a reference refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Nothing.
    Null,
    /// An object, by its header.
    Object(Address),
    /// Elements of a dataset.
    Region {
        /// The dataset's header.
        dataset: Address,
        /// The selection, as it is stored.
        selection: Vec<u8>,
    },
    /// A reference in the encoding of HDF5 1.12, as it is stored.
    Standard(Vec<u8>),
}

impl<S: Source> File<S> {
    /// An element from its bytes. Variable-length values are taken from the heaps of the file.
    pub fn value(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Value> {
        if bytes.len() != datatype.size as usize {
            let (needed, available) = (u64::from(datatype.size), bytes.len() as u64);
            return Err(Error::of(Structure::Value, Reason::Truncated { needed, available }));
        }
        value(&self.walk(), datatype, bytes)
    }

    /// All elements from their bytes.
    pub fn values(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Vec<Value>> {
        let size = (datatype.size as usize).max(1);
        bytes.chunks(size).map(|element| self.value(datatype, element)).collect()
    }
}

fn unsupported(what: String) -> Error {
    Error::of(Structure::Value, Reason::Unsupported(what))
}

/// The bytes are as many as the type has.
fn value(walk: &Walk<'_>, datatype: &Datatype, bytes: &[u8]) -> Result<Value> {
    match &datatype.class {
        Class::FixedPoint(kind) => {
            let number = number::integer(bytes, *kind);
            let bits = kind.precision;
            number.map(Value::Integer).ok_or_else(|| unsupported(format!("{bits}-bit integers")))
        }
        Class::FloatingPoint(kind) => {
            let number = number::float(bytes, kind);
            let bits = kind.precision;
            number.map(Value::Float).ok_or_else(|| unsupported(format!("{bits}-bit floats")))
        }
        Class::Complex { base } => {
            let (real, imaginary) = bytes.split_at(base.size as usize);
            match (value(walk, base, real)?, value(walk, base, imaginary)?) {
                (Value::Float(real), Value::Float(imaginary)) => {
                    Ok(Value::Complex(real, imaginary))
                }
                _ => Err(unsupported("complex numbers of other than floats".into())),
            }
        }
        Class::Time { .. } | Class::Opaque { .. } => Ok(Value::Opaque(bytes.to_vec())),
        Class::String { padding, .. } => Ok(Value::String(string(bytes, *padding))),
        Class::Bitfield { order, offset, precision, .. } => {
            let bits = number::bits(bytes, *order, *offset, *precision);
            let bits = bits.and_then(|bits| u64::try_from(bits).ok());
            bits.map(Value::Bitfield)
                .ok_or_else(|| unsupported(format!("bit fields of {precision} bits")))
        }
        Class::Compound { members } => {
            let member = |member: &crate::model::Member| {
                let begin = member.offset as usize;
                let end = begin + member.datatype.size as usize;
                let invalid = Reason::Invalid("a member beyond its compound");
                let part = bytes.get(begin..end);
                value(walk, &member.datatype, part.ok_or(Error::of(Structure::Value, invalid))?)
            };
            members.iter().map(member).collect::<Result<_>>().map(Value::Compound)
        }
        Class::Enumeration { base, members } => {
            let Value::Integer(number) = value(walk, base, bytes)? else {
                return Err(unsupported("enumerations of other than integers".into()));
            };
            let found = members.iter().find(|member| member.value == bytes);
            Ok(Value::Enumeration(number, found.map(|member| member.name.clone())))
        }
        Class::Array { base, .. } => several(walk, base, bytes).map(Value::Array),
        Class::Sequence { base } => {
            let data = variable(walk, bytes, base.size)?;
            several(walk, base, &data).map(Value::Sequence)
        }
        Class::VariableString { padding, .. } => {
            let data = variable(walk, bytes, 1)?;
            let padding = match padding {
                StringPadding::NullPadded => StringPadding::NullTerminated,
                other => *other,
            };
            Ok(Value::String(string(&data, padding)))
        }
        Class::Reference(kind) => reference(walk, *kind, bytes).map(Value::Reference),
    }
}

fn several(walk: &Walk<'_>, base: &Datatype, bytes: &[u8]) -> Result<Vec<Value>> {
    let size = (base.size as usize).max(1);
    bytes.chunks_exact(size).map(|element| value(walk, base, element)).collect()
}

/// A string without its padding.
fn string(bytes: &[u8], padding: StringPadding) -> Name {
    let behind = |index: Option<usize>| index.map_or(0, |index| index + 1);
    let end = match padding {
        StringPadding::NullTerminated => {
            bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len())
        }
        StringPadding::NullPadded => behind(bytes.iter().rposition(|&byte| byte != 0)),
        StringPadding::SpacePadded => behind(bytes.iter().rposition(|&byte| byte != b' ')),
    };
    Name::from(&bytes[..end])
}

/// What a descriptor of variable-length values points to.
fn variable(walk: &Walk<'_>, descriptor: &[u8], element: u32) -> Result<Vec<u8>> {
    Ok(heap_object(walk, descriptor, element)?.map(|(_, bytes)| bytes).unwrap_or_default())
}

/// The number of elements that a descriptor points to, and their bytes; `None` if it points to
/// nothing.
fn heap_object(walk: &Walk<'_>, descriptor: &[u8], element: u32) -> Result<Option<(u32, Vec<u8>)>> {
    let mut cursor = walk.cursor(descriptor, Structure::Value, Address(0));
    let count = cursor.u32()?;
    let heap = cursor.address()?;
    let index = cursor.u32()?;
    // An address of 0 is that of the superblock: nothing was written.
    let Some(heap) = heap.filter(|heap| heap.0 != 0) else {
        return Ok(None);
    };
    if count == 0 {
        return Ok(Some((0, Vec::new())));
    }
    let collection = Collection::read(walk, heap)?;
    let object = collection.object(heap, index)?;
    let needed = u64::from(count) * u64::from(element);
    // The same object may be the value of thousands of elements.
    walk.pay(Structure::GlobalHeap, heap, needed)?;
    let available = object.len() as u64;
    let data = usize::try_from(needed).ok().and_then(|needed| object.get(..needed));
    let reason = Reason::Truncated { needed, available };
    let data = data.ok_or_else(|| Error::at(Structure::GlobalHeap, heap, reason))?;
    Ok(Some((count, data.to_vec())))
}

fn reference(walk: &Walk<'_>, kind: ReferenceKind, bytes: &[u8]) -> Result<Reference> {
    let mut cursor = walk.cursor(bytes, Structure::Value, Address(0));
    match kind {
        ReferenceKind::Object => {
            let address = cursor.address()?.filter(|address| address.0 != 0);
            Ok(address.map_or(Reference::Null, Reference::Object))
        }
        ReferenceKind::Region => {
            let heap = cursor.address()?.filter(|heap| heap.0 != 0);
            let index = cursor.u32()?;
            let Some(heap) = heap else { return Ok(Reference::Null) };
            let collection = Collection::read(walk, heap)?;
            let object = collection.object(heap, index)?;
            walk.pay(Structure::GlobalHeap, heap, object.len() as u64)?;
            let mut cursor = walk.cursor(object, Structure::Value, heap);
            let dataset = cursor.defined_address("a region of no dataset")?;
            Ok(Reference::Region { dataset, selection: cursor.rest().to_vec() })
        }
        ReferenceKind::StandardObject { .. }
        | ReferenceKind::StandardRegion { .. }
        | ReferenceKind::StandardAttribute { .. } => Ok(Reference::Standard(bytes.to_vec())),
    }
}

/// Changes elements to the byte order of this machine, in place, in all parts of the type that are
/// numbers.
///
/// Numbers keep their precision and their place in the element. VAX floating point is an error.
pub fn to_native(datatype: &Datatype, bytes: &mut [u8]) -> Result<()> {
    let size = (datatype.size as usize).max(1);
    match &datatype.class {
        Class::FixedPoint(kind) => swap(kind.order, size, bytes),
        Class::FloatingPoint(kind) => swap(kind.order, size, bytes),
        Class::Bitfield { order, .. } | Class::Time { order, .. } => swap(*order, size, bytes),
        Class::Enumeration { base, .. } | Class::Array { base, .. } | Class::Complex { base } => {
            to_native(base, bytes)
        }
        Class::Compound { members } => {
            for element in bytes.chunks_exact_mut(size) {
                for member in members {
                    let begin = member.offset as usize;
                    let end = begin + member.datatype.size as usize;
                    let part = element.get_mut(begin..end);
                    let invalid = Reason::Invalid("a member beyond its compound");
                    let part = part.ok_or(Error::of(Structure::Value, invalid))?;
                    to_native(&member.datatype, part)?;
                }
            }
            Ok(())
        }
        Class::String { .. }
        | Class::Opaque { .. }
        | Class::Reference(_)
        | Class::Sequence { .. }
        | Class::VariableString { .. } => Ok(()),
    }
}

fn swap(order: ByteOrder, size: usize, bytes: &mut [u8]) -> Result<()> {
    let native = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
    match order {
        ByteOrder::Vax => Err(unsupported("VAX floating point".into())),
        order if order == native => Ok(()),
        _ => {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
            Ok(())
        }
    }
}
