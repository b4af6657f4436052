//! [`Datatype`]: a description in normal form, with the bounds MPI gives it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::node::Node;
use crate::normal::Placed;
use crate::span::Span;
use crate::{Element, TypeError};

/// Which bytes, in which order: an immutable description that is cheap to clone and share.
///
/// A datatype stands for a sequence of byte offsets (its *stream*), relative to an origin that is
/// chosen when it is used, and has an *extent*: the distance at which copies of it follow each
/// other. It is held as a tree of loops in normal form, never as a list of regions, so the cost of
/// everything here depends on the depth of the tree and not on the number of bytes or regions.
///
/// Two datatypes are equal if they have the same normal form and the same bounds. Accesses that
/// programs describe in different ways (a subarray, nested vectors, a block-distributed array, a
/// list of its rows) are then equal:
///
/// ```
/// use striate_datatype::{Datatype, Element, Order};
/// let i32 = Datatype::from(Element::I32);
/// let rows = Datatype::vector(3, 2, 10, &i32)?;
/// let block = Datatype::subarray(&[3, 10], &[3, 2], &[0, 0], Order::C, &i32)?;
/// let list = Datatype::indexed(&[(2, 0), (2, 10), (2, 20)], &i32)?;
/// assert_eq!(rows, list);
/// assert_eq!(rows, Datatype::resized(&block, 0, rows.extent())?);
/// # Ok::<(), striate_datatype::TypeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Datatype {
    node: Arc<Node>,
    /// Where the first byte of the stream lies; 0 for an empty type.
    offset: i64,
    lb: i64,
    extent: i64,
    /// Strictest alignment of the elements: used by the struct constructor only, not part of the
    /// description.
    align: u32,
}

impl Datatype {
    pub(crate) fn from_parts(
        placed: Placed,
        bounds: Bounds,
        align: u32,
    ) -> Result<Self, TypeError> {
        let extent = bounds.extent()?;
        placed.node.span().shift(placed.offset)?;
        let (offset, align) = if placed.node.size() == 0 { (0, 1) } else { (placed.offset, align) };
        Ok(Self { node: placed.node, offset, lb: bounds.lb, extent, align })
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        self.node.size()
    }

    /// Distance at which copies follow each other; may be smaller than what one copy spans, or
    /// negative.
    pub const fn extent(&self) -> i64 {
        self.extent
    }

    /// Lower bound: where a copy begins, gaps included.
    pub const fn lower_bound(&self) -> i64 {
        self.lb
    }

    /// Upper bound: the lower bound plus the extent.
    pub const fn upper_bound(&self) -> i64 {
        self.lb + self.extent
    }

    /// Smallest offset that holds data; 0 if there is none.
    pub fn true_lower_bound(&self) -> i64 {
        self.span().low
    }

    /// One past the largest offset that holds data; 0 if there is none.
    pub fn true_upper_bound(&self) -> i64 {
        self.span().high
    }

    /// Bytes from the first to the last that holds data.
    pub fn true_extent(&self) -> u64 {
        let span = self.span();
        span.high.abs_diff(span.low)
    }

    /// Number of contiguous runs in stream order, neighbours coalesced; found without walking.
    pub fn runs(&self) -> u64 {
        self.node.span().runs
    }

    /// Data bytes as a part of the bytes spanned: 1 for a solid block, 0 for an empty type. Above 1
    /// when the type visits bytes more than once.
    pub fn density(&self) -> f64 {
        let extent = self.true_extent();
        if extent == 0 { 0.0 } else { self.size() as f64 / extent as f64 }
    }

    /// Whether the type is valid as a file view: offsets are not negative and ascend without
    /// overlap, within one copy and from copy to copy.
    pub fn is_monotonic(&self) -> bool {
        let span = self.span();
        self.is_ascending() && span.low >= 0 && self.copies_ascend()
    }

    /// Whether the bytes of one copy come in ascending order without overlap.
    pub fn is_ascending(&self) -> bool {
        self.node.span().ascending
    }

    /// Whether each copy lies wholly after the one before.
    pub(crate) fn copies_ascend(&self) -> bool {
        self.size() == 0 || self.extent >= self.node.true_extent()
    }

    /// Whether the data of one copy is a single run.
    pub fn is_contiguous(&self) -> bool {
        self.runs() <= 1
    }

    /// Depth of the loop nest; 0 for a single run of bytes.
    pub fn depth(&self) -> u32 {
        self.node.depth()
    }

    /// Bytes of memory that the description takes, at most: parts of it may be shared.
    pub fn memory_len(&self) -> u64 {
        size_of::<Self>() as u64 + self.node.memory_len()
    }

    /// The outermost loop. Its first byte lies at [`Datatype::first_offset`].
    pub fn root(&self) -> &Node {
        &self.node
    }

    /// Where the first byte of the stream lies.
    pub const fn first_offset(&self) -> i64 {
        self.offset
    }

    pub(crate) const fn node(&self) -> &Arc<Node> {
        &self.node
    }

    pub(crate) const fn alignment(&self) -> u32 {
        self.align
    }

    pub(crate) fn placed(&self) -> Placed {
        Placed { offset: self.offset, node: Arc::clone(&self.node) }
    }

    pub(crate) const fn bounds(&self) -> Bounds {
        Bounds { lb: self.lb, ub: self.lb + self.extent }
    }

    /// The summary at its place. Construction has checked that it fits.
    pub(crate) fn span(&self) -> Span {
        self.node.span().shift(self.offset).unwrap_or(Span::EMPTY)
    }

    /// The summary of `count` copies.
    pub(crate) fn span_of(&self, count: u64) -> Result<Span, TypeError> {
        self.span().repeat(count, self.extent)
    }
}

impl PartialEq for Datatype {
    fn eq(&self, other: &Self) -> bool {
        (self.offset, self.lb, self.extent) == (other.offset, other.lb, other.extent)
            && self.node == other.node
    }
}

impl Eq for Datatype {}

impl Hash for Datatype {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.offset, self.lb, self.extent).hash(state);
        self.node.hash(state);
    }
}

impl From<Element> for Datatype {
    fn from(element: Element) -> Self {
        let size = element.size();
        let node = Node::bytes(size).expect("an element is a few bytes");
        Self { node, offset: 0, lb: 0, extent: size as i64, align: size as u32 }
    }
}

/// Lower and upper bound of a type, gaps included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub lb: i64,
    pub ub: i64,
}

impl Bounds {
    pub(crate) const ZERO: Self = Self { lb: 0, ub: 0 };

    pub(crate) fn extent(self) -> Result<i64, TypeError> {
        self.ub.checked_sub(self.lb).ok_or(TypeError::overflow("extent"))
    }

    pub(crate) fn shift(self, by: i64) -> Result<Self, TypeError> {
        let add = |x: i64| x.checked_add(by).ok_or(TypeError::overflow("displacement"));
        Ok(Self { lb: add(self.lb)?, ub: add(self.ub)? })
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self { lb: self.lb.min(other.lb), ub: self.ub.max(other.ub) }
    }

    /// Bounds of `count` copies; none at all are at 0.
    pub(crate) fn repeat(self, count: u64, stride: i64) -> Result<Self, TypeError> {
        if count == 0 {
            return Ok(Self::ZERO);
        }
        Ok(self.union(self.shift(crate::span::last_shift(count, stride)?)?))
    }
}
