//! Elements as they are stored, with values of variable length taken out of the file's heaps, so
//! that they can be written again at other addresses.

use super::heap_object;
use crate::file::File;
use crate::model::{Class, Datatype};
use crate::walk::Walk;
use crate::write::{DESCRIPTOR, Elements};
use crate::{Error, Reason, Result, Source, Structure};

/// The descriptors found so far: where each is, and what it points to.
type Descriptors = Vec<(usize, Option<(u32, Elements)>)>;

impl<S: Source> File<S> {
    /// Elements from their bytes, independent of addresses.
    pub fn elements(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Elements> {
        elements(&self.walk(), datatype, bytes)
    }

    /// The same of bytes that are kept if they have no descriptors.
    pub(crate) fn owned_elements(&self, datatype: &Datatype, bytes: Vec<u8>) -> Result<Elements> {
        if datatype.has_descriptors() {
            return self.elements(datatype, &bytes);
        }
        Ok(Elements::fixed(bytes))
    }
}

fn elements(walk: &Walk<'_>, datatype: &Datatype, bytes: &[u8]) -> Result<Elements> {
    if !datatype.has_descriptors() {
        return Ok(Elements::fixed(bytes));
    }
    let mut found = Vec::new();
    several(walk, datatype, bytes, 0, &mut found)?;
    let overlap = Reason::Invalid("members that overlap");
    Elements::with_heap_values(bytes.to_vec(), found)
        .ok_or_else(|| Error::of(Structure::Value, overlap))
}

fn several(
    walk: &Walk<'_>,
    datatype: &Datatype,
    bytes: &[u8],
    at: usize,
    found: &mut Descriptors,
) -> Result<()> {
    let size = (datatype.size as usize).max(1);
    for (number, element) in bytes.chunks_exact(size).enumerate() {
        one(walk, datatype, element, at + number * size, found)?;
    }
    Ok(())
}

/// Finds the descriptors of an element, which has as many bytes as its type.
fn one(
    walk: &Walk<'_>,
    datatype: &Datatype,
    bytes: &[u8],
    at: usize,
    found: &mut Descriptors,
) -> Result<()> {
    if !datatype.has_descriptors() {
        return Ok(());
    }
    match &datatype.class {
        Class::VariableString { .. } => {
            let value = described(walk, bytes, 1)?;
            found.push((at, value.map(|(count, bytes)| (count, Elements::fixed(bytes)))));
        }
        Class::Sequence { base } => {
            let value = match described(walk, bytes, base.size)? {
                Some((count, bytes)) => Some((count, elements(walk, base, &bytes)?)),
                None => None,
            };
            found.push((at, value));
        }
        Class::Array { base, .. } => several(walk, base, bytes, at, found)?,
        Class::Compound { members } => {
            for member in members {
                let begin = member.offset as usize;
                let part = bytes.get(begin..begin.saturating_add(member.datatype.size as usize));
                let invalid = Reason::Invalid("a member beyond its compound");
                let part = part.ok_or_else(|| Error::of(Structure::Value, invalid))?;
                one(walk, &member.datatype, part, at + begin, found)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn described(walk: &Walk<'_>, bytes: &[u8], element: u32) -> Result<Option<(u32, Vec<u8>)>> {
    if bytes.len() != DESCRIPTOR {
        let what = "values of variable length with addresses of other than 8 bytes".into();
        return Err(Error::of(Structure::Value, Reason::Unsupported(what)));
    }
    heap_object(walk, bytes, element)
}
