//! [`Elements`]: values as they are stored, with those of variable length beside them.
//!
//! In a file, a string or sequence is a descriptor of 16 bytes that points into a global heap. Here
//! the heap's part hangs at the descriptor, so that values are independent of addresses.

use std::ops::Range;

use super::fragment::{BlockId, Fragment};
use super::global_heap::HeapBuilder;
use super::image::Image;
use crate::Result;
use crate::model::{Class, Datatype};
use crate::value::to_native;

/// Bytes of the descriptor of a value of variable length.
pub const DESCRIPTOR: usize = 16;

/// Bytes before an object of a heap.
const OBJECT_HEAD: u64 = 16;

/// Elements of a dataset or an attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Elements {
    bytes: Vec<u8>,
    outside: Vec<Outside>,
}

/// What a descriptor points to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Outside {
    /// Where the descriptor is.
    at: usize,
    /// How many elements there are.
    count: u32,
    elements: Elements,
}

impl Elements {
    /// No elements.
    pub fn new() -> Self {
        Self::default()
    }

    /// Elements of a fixed size, in the byte order of their type.
    pub fn fixed(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), outside: Vec::new() }
    }

    /// Strings of variable length.
    pub fn strings<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Self {
        let mut all = Self::new();
        for string in strings {
            all.push_string(string.as_ref());
        }
        all
    }

    /// Bytes with their descriptors.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether all is in the bytes.
    pub fn is_fixed(&self) -> bool {
        self.outside.is_empty()
    }

    /// The bytes; descriptors are zeros.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, which are not copied.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What the descriptor at a byte points to: how many elements, and these. `None` if there is no
    /// descriptor, or that of nothing.
    pub fn heap_value(&self, at: usize) -> Option<(u32, &Self)> {
        let found = self.outside.binary_search_by_key(&at, |one| one.at).ok()?;
        self.outside.get(found).map(|one| (one.count, &one.elements))
    }

    /// Appends bytes of a fixed size, for example a member of a compound element.
    pub fn push_fixed(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Appends a string of variable length. An empty one is not the same as none.
    pub fn push_string(&mut self, string: &[u8]) {
        self.push_sequence(string.len() as u32, Self::fixed(string));
    }

    /// Appends a sequence of `count` elements.
    pub fn push_sequence(&mut self, count: u32, elements: Self) {
        self.outside.push(Outside { at: self.bytes.len(), count, elements });
        self.bytes.resize(self.bytes.len() + DESCRIPTOR, 0);
    }

    /// Appends the descriptor of nothing: a string or sequence that is not there.
    pub fn push_null(&mut self) {
        self.bytes.resize(self.bytes.len() + DESCRIPTOR, 0);
    }

    /// Bytes whose descriptors, at these places, point to so many elements, or to nothing. `None`
    /// if two descriptors overlap or one is not within the bytes.
    pub(crate) fn with_heap_values(
        mut bytes: Vec<u8>,
        mut values: Vec<(usize, Option<(u32, Self)>)>,
    ) -> Option<Self> {
        values.sort_by_key(|(at, _)| *at);
        let mut outside = Vec::with_capacity(values.len());
        let mut end = 0;
        for (at, value) in values {
            let behind = at.checked_add(DESCRIPTOR).filter(|_| at >= end)?;
            bytes.get_mut(at..behind)?.fill(0);
            outside.extend(value.map(|(count, elements)| Outside { at, count, elements }));
            end = behind;
        }
        Some(Self { bytes, outside })
    }

    /// Bytes that are kept in memory, with values of variable length.
    pub(crate) fn retained(&self) -> u64 {
        let outside = self.outside.iter().map(|one| one.elements.retained() + 64);
        self.bytes.len() as u64 + outside.sum::<u64>()
    }

    /// A copy of the elements in a range of bytes, which cuts no descriptor.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let first = self.outside.partition_point(|one| one.at < range.start);
        let end = self.outside.partition_point(|one| one.at < range.end);
        let moved = |one: &Outside| Outside { at: one.at - range.start, ..one.clone() };
        Self {
            bytes: self.bytes.get(range.clone()).unwrap_or_default().to_vec(),
            outside: self.outside[first..end].iter().map(moved).collect(),
        }
    }

    /// Bytes that the values of variable length in a range need in heaps, without the rest of their
    /// collections.
    pub fn heap_bytes(&self, range: Range<usize>) -> u64 {
        let first = self.outside.partition_point(|one| one.at < range.start);
        let end = self.outside.partition_point(|one| one.at < range.end);
        let one = |one: &Outside| {
            let own = one.elements.len() as u64 + OBJECT_HEAD;
            own.saturating_add(one.elements.heap_bytes(0..one.elements.len()))
        };
        self.outside[first..end].iter().map(one).fold(0, u64::saturating_add)
    }

    /// Replaces the elements in a range of bytes by as many others.
    pub fn replace(&mut self, at: usize, other: &Self) {
        let end = at + other.len();
        let Some(place) = self.bytes.get_mut(at..end) else { return };
        place.copy_from_slice(&other.bytes);
        let first = self.outside.partition_point(|one| one.at < at);
        let last = self.outside.partition_point(|one| one.at < end);
        let moved = |one: &Outside| Outside { at: one.at + at, ..one.clone() };
        self.outside.splice(first..last, other.outside.iter().map(moved));
    }

    /// Changes elements of a type from the byte order of the type to that of this machine, or back.
    pub fn to_native(&mut self, datatype: &Datatype) -> Result<()> {
        to_native(datatype, &mut self.bytes)?;
        let size = (datatype.size as usize).max(1);
        for one in &mut self.outside {
            if let Some(base) = sequence_base(datatype, one.at % size) {
                one.elements.to_native(base)?;
            }
        }
        Ok(())
    }

    /// Whether they are whole elements of a type, with values of variable length where the type has
    /// them and nowhere else.
    pub fn fits(&self, datatype: &Datatype) -> bool {
        let size = (datatype.size as usize).max(1);
        let mut places = Vec::new();
        descriptors(datatype, 0, &mut places);
        let mut found = 0;
        let elements = self.bytes.chunks_exact(size).enumerate();
        let all_fit = elements.into_iter().all(|(number, element)| {
            places.iter().all(|(at, base)| match self.heap_value(number * size + at) {
                Some((count, value)) => {
                    found += 1;
                    let each = base.map_or(1, |base| base.size as usize);
                    let whole = value.len() as u64 == u64::from(count) * each as u64;
                    whole && base.map_or_else(|| value.is_fixed(), |base| value.fits(base))
                }
                None => element
                    .get(*at..at + DESCRIPTOR)
                    .is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0)),
            })
        });
        all_fit && found == self.outside.len() && self.bytes.len().is_multiple_of(size)
    }

    /// Appends other elements.
    pub fn append(&mut self, other: Self) {
        let shift = self.bytes.len();
        self.bytes.extend(other.bytes);
        let outside = other.outside.into_iter();
        self.outside.extend(outside.map(|one| Outside { at: one.at + shift, ..one }));
    }

    /// The bytes, with what is outside put into a heap.
    pub(crate) fn resolve(&self, image: &mut Image, heap: &mut HeapBuilder) -> Fragment {
        let mut out = Fragment::with_capacity(self.bytes.len());
        let mut done = 0;
        for outside in &self.outside {
            out.raw(&self.bytes[done..outside.at]);
            let object = outside.elements.resolve(image, heap);
            let place = heap.insert(image, &object);
            descriptor(&mut out, outside.count, place);
            done = outside.at + DESCRIPTOR;
        }
        out.raw(&self.bytes[done..]);
        out
    }
}

/// The places of the descriptors of an element that begins at a byte, and for sequences the types
/// of their values.
fn descriptors<'t>(
    datatype: &'t Datatype,
    at: usize,
    places: &mut Vec<(usize, Option<&'t Datatype>)>,
) {
    if !datatype.has_descriptors() {
        return;
    }
    match &datatype.class {
        Class::VariableString { .. } => places.push((at, None)),
        Class::Sequence { base } => places.push((at, Some(base))),
        Class::Array { base, .. } => {
            let each = (base.size as usize).max(1);
            for number in 0..datatype.size as usize / each {
                descriptors(base, at + number * each, places);
            }
        }
        Class::Compound { members } => {
            for member in members {
                descriptors(&member.datatype, at + member.offset as usize, places);
            }
        }
        _ => {}
    }
}

/// The type of the values of the sequence at a byte of an element; `None` if it is a string.
fn sequence_base(datatype: &Datatype, at: usize) -> Option<&Datatype> {
    match &datatype.class {
        Class::Sequence { base } => Some(base),
        Class::Array { base, .. } => sequence_base(base, at % (base.size as usize).max(1)),
        Class::Compound { members } => members.iter().find_map(|member| {
            let within = at.checked_sub(member.offset as usize)?;
            let is_in = within < member.datatype.size as usize;
            is_in.then(|| sequence_base(&member.datatype, within)).flatten()
        }),
        _ => None,
    }
}

/// A descriptor of elements in a heap.
pub(crate) fn descriptor(out: &mut Fragment, count: u32, (collection, number): (BlockId, u32)) {
    out.u32(count);
    out.reference(collection, 0);
    out.u32(number);
}

/// Elements of a dataset and the heap collections that they need, which get a place of their own.
#[derive(Debug)]
pub struct HeapedElements {
    image: Image,
    elements: Fragment,
}

impl HeapedElements {
    /// Distributes the values over collections.
    pub fn new(elements: &Elements) -> Self {
        let mut image = Image::new();
        let mut heap = HeapBuilder::new();
        let elements = elements.resolve(&mut image, &mut heap);
        heap.finish(&mut image);
        Self { image, elements }
    }

    /// Bytes of the collections.
    pub fn heap_len(&self) -> u64 {
        self.image.len()
    }

    /// The bytes of the elements, and those of the collections at an address.
    pub fn link(&self, address: u64) -> (Vec<u8>, Vec<u8>) {
        (self.image.resolve(&self.elements, address), self.image.link(address))
    }
}
