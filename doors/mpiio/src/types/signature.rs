//! The type signature: the elements of a type's stream, in the order of its typemap, without
//! displacements.
//!
//! A [`Signature`] is a tree of repetitions and sequences over runs of equal elements, never longer
//! than the type itself: an array of a billion doubles is one run. It maps positions in the stream
//! of external32 to positions in the stream of memory, and gives the conversion of each element.

use std::ops::Range;
use std::sync::Arc;

use striate_datatype::TypeError;

use super::element::Element;

/// The elements of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// Bytes of the stream in memory.
    native: u64,
    /// Bytes of the stream in external32.
    external: u64,
    /// Whether every element has the same size on both sides.
    same_sizes: bool,
    /// Whether both streams are the same.
    plain: bool,
    /// Whether it is known how to convert all elements.
    known: bool,
    shape: Shape,
}

#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Run { element: Element, count: u64 },
    Repeat { count: u64, of: Arc<Signature> },
    Sequence(Box<[Item]>),
}

/// A part of a sequence.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    native_start: u64,
    external_start: u64,
    of: Arc<Signature>,
}

/// Elements of one kind, contiguous in both streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) element: Element,
    pub(super) count: u64,
    /// Where the first begins in the stream of memory.
    pub(super) native: u64,
    /// Where the first begins in the stream of external32.
    pub(super) external: u64,
}

impl Run {
    pub(super) const fn native_end(&self) -> u64 {
        self.native + self.count * self.element.native()
    }

    pub(super) const fn external_end(&self) -> u64 {
        self.external + self.count * self.element.external()
    }
}

impl Signature {
    /// No elements.
    pub(super) fn empty() -> Arc<Self> {
        Arc::new(Self {
            native: 0,
            external: 0,
            same_sizes: true,
            plain: true,
            known: true,
            shape: Shape::Sequence(Box::default()),
        })
    }

    /// `count` elements.
    pub(super) fn run(element: Element, count: u64) -> Result<Arc<Self>, TypeError> {
        if count == 0 || element.native() == 0 {
            return Ok(Self::empty());
        }
        Ok(Arc::new(Self {
            native: times(element.native(), count)?,
            external: times(element.external(), count)?,
            same_sizes: element.native() == element.external(),
            plain: element.is_plain(),
            known: !matches!(element, Element::Unknown(_)),
            shape: Shape::Run { element, count },
        }))
    }

    /// `count` times the same.
    pub(super) fn repeated(self: &Arc<Self>, count: u64) -> Result<Arc<Self>, TypeError> {
        if count == 1 || self.native == 0 {
            return Ok(Arc::clone(self));
        }
        if count == 0 {
            return Ok(Self::empty());
        }
        let (count, of) = match &self.shape {
            Shape::Run { element, count: each } => {
                return Self::run(*element, times(*each, count)?);
            }
            Shape::Repeat { count: each, of } => (times(*each, count)?, of),
            Shape::Sequence(_) => (count, self),
        };
        Ok(Arc::new(Self {
            native: times(of.native, count)?,
            external: times(of.external, count)?,
            same_sizes: of.same_sizes,
            plain: of.plain,
            known: of.known,
            shape: Shape::Repeat { count, of: Arc::clone(of) },
        }))
    }

    /// Concatenation.
    pub(super) fn sequence(
        parts: impl IntoIterator<Item = Arc<Self>>,
    ) -> Result<Arc<Self>, TypeError> {
        let mut merged: Vec<Arc<Self>> = Vec::new();
        for part in parts.into_iter().filter(|part| part.native > 0) {
            let joined = match (merged.last().map(|last| &last.shape), &part.shape) {
                (
                    Some(Shape::Run { element, count }),
                    Shape::Run { element: next, count: more },
                ) if element == next => {
                    let count = count.checked_add(*more).ok_or(OVERFLOW)?;
                    Some(Self::run(*element, count)?)
                }
                _ => None,
            };
            match (joined, merged.last_mut()) {
                (Some(joined), Some(last)) => *last = joined,
                _ => merged.push(part),
            }
        }
        if merged.len() <= 1 {
            return Ok(merged.pop().unwrap_or_else(Self::empty));
        }
        let (mut native, mut external) = (0u64, 0u64);
        let mut items = Vec::with_capacity(merged.len());
        for of in merged {
            let (native_start, external_start) = (native, external);
            native = native.checked_add(of.native).ok_or(OVERFLOW)?;
            external = external.checked_add(of.external).ok_or(OVERFLOW)?;
            items.push(Item { native_start, external_start, of });
        }
        Ok(Arc::new(Self {
            native,
            external,
            same_sizes: items.iter().all(|item| item.of.same_sizes),
            plain: items.iter().all(|item| item.of.plain),
            known: items.iter().all(|item| item.of.known),
            shape: Shape::Sequence(items.into()),
        }))
    }

    /// Bytes of the stream in memory.
    pub(super) const fn native(&self) -> u64 {
        self.native
    }

    /// Bytes of the stream in external32.
    pub(super) const fn external(&self) -> u64 {
        self.external
    }

    /// Whether every element has the same size on both sides.
    pub(super) const fn has_same_sizes(&self) -> bool {
        self.same_sizes
    }

    /// Whether both streams are the same.
    pub(super) const fn is_plain(&self) -> bool {
        self.plain
    }

    /// Whether it is known how to convert all elements.
    pub(super) const fn is_known(&self) -> bool {
        self.known
    }

    /// How many elements are completely in the first `bytes` bytes of the stream of external32.
    pub(super) fn items_within(&self, bytes: u64) -> u64 {
        match &self.shape {
            Shape::Run { element, count } => (bytes / element.external()).min(*count),
            Shape::Repeat { count, of } => {
                let copies = (bytes / of.external).min(*count);
                let rest = if copies < *count { bytes % of.external } else { 0 };
                copies * of.items_within(of.external) + of.items_within(rest)
            }
            Shape::Sequence(items) => items
                .iter()
                .map(|item| item.of.items_within(bytes.saturating_sub(item.external_start)))
                .sum(),
        }
    }

    /// The element that byte `external` of the stream of external32 belongs to, which is inside of
    /// it.
    pub(super) fn locate(&self, external: u64) -> Run {
        let (mut at, mut here) = (external, self);
        let mut base = (0, 0);
        loop {
            match &here.shape {
                Shape::Run { element, .. } => {
                    let index = at / element.external();
                    return Run {
                        element: *element,
                        count: 1,
                        native: base.0 + index * element.native(),
                        external: base.1 + index * element.external(),
                    };
                }
                Shape::Repeat { of, .. } => {
                    let index = at / of.external;
                    base = (base.0 + index * of.native, base.1 + index * of.external);
                    at %= of.external;
                    here = of;
                }
                Shape::Sequence(items) => {
                    let item = &items[first_behind(items, at).saturating_sub(1)];
                    base = (base.0 + item.native_start, base.1 + item.external_start);
                    at -= item.external_start;
                    here = &item.of;
                }
            }
        }
    }

    /// Shows `visit` the elements that have bytes in the part `range` of the stream of external32,
    /// in order. The first and the last may lie there only partly.
    pub(super) fn runs(&self, range: Range<u64>, visit: &mut impl FnMut(Run)) {
        if range.start < range.end {
            self.visit(range, (0, 0), visit);
        }
    }

    fn visit(&self, range: Range<u64>, base: (u64, u64), visit: &mut impl FnMut(Run)) {
        match &self.shape {
            Shape::Run { element, .. } => {
                let size = element.external();
                let (first, last) = (range.start / size, range.end.div_ceil(size));
                visit(Run {
                    element: *element,
                    count: last - first,
                    native: base.0 + first * element.native(),
                    external: base.1 + first * size,
                });
            }
            Shape::Repeat { of, .. } => {
                for index in range.start / of.external..range.end.div_ceil(of.external) {
                    let start = index * of.external;
                    let part =
                        range.start.saturating_sub(start)..(range.end - start).min(of.external);
                    of.visit(part, (base.0 + index * of.native, base.1 + start), visit);
                }
            }
            Shape::Sequence(items) => {
                let first = first_behind(items, range.start).saturating_sub(1);
                for item in &items[first..first_behind(items, range.end - 1)] {
                    let start = item.external_start;
                    let part = range.start.saturating_sub(start)
                        ..(range.end - start).min(item.of.external);
                    item.of.visit(part, (base.0 + item.native_start, base.1 + start), visit);
                }
            }
        }
    }
}

/// The first item that begins behind `external`.
fn first_behind(items: &[Item], external: u64) -> usize {
    items.partition_point(|item| item.external_start <= external)
}

const OVERFLOW: TypeError = TypeError::Overflow { what: "size" };

fn times(size: u64, count: u64) -> Result<u64, TypeError> {
    size.checked_mul(count).filter(|&n| i64::try_from(n).is_ok()).ok_or(OVERFLOW)
}
