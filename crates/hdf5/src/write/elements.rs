//! [`Elements`]: values as they are stored, with those of variable length beside them.
//!
//! In a file, a string or sequence is a descriptor of 16 bytes that points into a global heap. Here
//! the heap's part hangs at the descriptor, so that values are independent of addresses.

use super::fragment::{BlockId, Fragment};
use super::global_heap::HeapBuilder;
use super::image::Image;

/// Bytes of the descriptor of a value of variable length.
pub(crate) const DESCRIPTOR: usize = 16;

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
