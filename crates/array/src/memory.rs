//! [`Source`] and [`Sink`]: the program's memory to write from and to read into.
//!
//! Both are elements with a layout ([`MemoryLayout`]): dense in the order of the file, mapped by
//! strides (netCDF's imap), with permuted dimensions, or described by a datatype. All but the first
//! become a datatype that walks the elements in the order of the file, so a transposition is a pack
//! with other strides and needs no copy of the array. Views of `ndarray` with gaps are walked row
//! by row by `ndarray` itself: their gaps may be borrowed elsewhere, so there is no slice of them.

use ndarray::{ArrayBase, ArrayViewD, ArrayViewMutD, Dimension, ViewRepr};
use striate_datatype::{Datatype, TypeError};

use crate::value::Value;

/// The layout of the elements of an access in memory.
#[derive(Clone, Debug)]
pub(crate) enum MemoryLayout {
    /// Contiguous, the last dimension varying fastest.
    Dense,
    /// Strides in elements for each dimension of the file; the first element is at `origin`.
    Mapped { origin: usize, map: Vec<i64>, shape: Option<Vec<u64>> },
    /// Dense, with permuted dimensions: dimension `k` of the memory is dimension `axes[k]` of the
    /// file.
    Permuted(Vec<usize>),
    /// The bytes of `count` copies of a datatype, in the order of the file.
    Typed { origin: usize, count: u64, datatype: Datatype },
}

/// Elements to write.
#[derive(Clone, Debug)]
pub struct Source<'a, T>(pub(crate) Elements<'a, T>);

/// Memory for elements to be read. Its gaps are not written.
#[derive(Debug)]
pub struct Sink<'a, T>(pub(crate) ElementsMut<'a, T>);

#[derive(Clone, Debug)]
pub(crate) enum Elements<'a, T> {
    Slice(&'a [T], MemoryLayout),
    View(ArrayViewD<'a, T>),
}

#[derive(Debug)]
pub(crate) enum ElementsMut<'a, T> {
    Slice(&'a mut [T], MemoryLayout),
    View(ArrayViewMutD<'a, T>),
}

macro_rules! memory {
    ($name:ident, $kind:ident, $slice:ty) => {
        impl<'a, T: Value> $name<'a, T> {
            /// Dense elements in the order of the file.
            pub const fn new(elements: $slice) -> Self {
                Self($kind::Slice(elements, MemoryLayout::Dense))
            }

            /// Strided elements (netCDF's imap): index `(i, j, …)` of the access is element
            /// `i · map[0] + j · map[1] + …`.
            pub fn mapped(elements: $slice, map: &[i64]) -> Self {
                Self($kind::Slice(
                    elements,
                    MemoryLayout::Mapped { origin: 0, map: map.to_vec(), shape: None },
                ))
            }

            /// Dense elements whose dimension `k` is dimension `axes[k]` of the file.
            pub fn permuted(elements: $slice, axes: &[usize]) -> Self {
                Self($kind::Slice(elements, MemoryLayout::Permuted(axes.to_vec())))
            }

            /// The elements of `count` copies of `datatype`, in the order of the file; the first
            /// copy has its origin at element `origin`.
            pub fn typed(elements: $slice, origin: usize, count: u64, datatype: &Datatype) -> Self {
                let layout = MemoryLayout::Typed { origin, count, datatype: datatype.clone() };
                Self($kind::Slice(elements, layout))
            }
        }
    };
}

memory!(Source, Elements, &'a [T]);
memory!(Sink, ElementsMut, &'a mut [T]);

impl<'a, T: Value> From<&'a [T]> for Source<'a, T> {
    fn from(elements: &'a [T]) -> Self {
        Self::new(elements)
    }
}

impl<'a, T: Value> From<&'a Vec<T>> for Source<'a, T> {
    fn from(elements: &'a Vec<T>) -> Self {
        Self::new(elements)
    }
}

impl<'a, T: Value, const N: usize> From<&'a [T; N]> for Source<'a, T> {
    fn from(elements: &'a [T; N]) -> Self {
        Self::new(elements)
    }
}

impl<'a, T: Value> From<&'a mut [T]> for Sink<'a, T> {
    fn from(elements: &'a mut [T]) -> Self {
        Self::new(elements)
    }
}

impl<'a, T: Value> From<&'a mut Vec<T>> for Sink<'a, T> {
    fn from(elements: &'a mut Vec<T>) -> Self {
        Self::new(elements)
    }
}

impl<'a, T: Value, const N: usize> From<&'a mut [T; N]> for Sink<'a, T> {
    fn from(elements: &'a mut [T; N]) -> Self {
        Self::new(elements)
    }
}

/// A view has the shape of the access.
impl<'a, T: Value, D: Dimension> From<ArrayBase<ViewRepr<&'a T>, D>> for Source<'a, T> {
    fn from(view: ArrayBase<ViewRepr<&'a T>, D>) -> Self {
        let view = view.into_dyn();
        let layout = layout_of_view(view.shape(), view.strides());
        match view.clone().to_slice_memory_order() {
            Some(elements) => Self(Elements::Slice(elements, layout)),
            None => Self(Elements::View(view)),
        }
    }
}

/// A view has the shape of the access.
impl<'a, T: Value, D: Dimension> From<ArrayBase<ViewRepr<&'a mut T>, D>> for Sink<'a, T> {
    fn from(mut view: ArrayBase<ViewRepr<&'a mut T>, D>) -> Self {
        let layout = layout_of_view(view.shape(), view.strides());
        if view.as_slice_memory_order_mut().is_none() {
            return Self(ElementsMut::View(view.into_dyn()));
        }
        // It is a slice, as the check above has shown.
        let elements = view.into_slice_memory_order().unwrap_or_default();
        Self(ElementsMut::Slice(elements, layout))
    }
}

/// The layout of a view without gaps in its slice.
fn layout_of_view(shape: &[usize], strides: &[isize]) -> MemoryLayout {
    let backwards = |(&len, &stride): (&usize, &isize)| {
        if stride < 0 { len.saturating_sub(1) * stride.unsigned_abs() } else { 0 }
    };
    MemoryLayout::Mapped {
        origin: shape.iter().zip(strides).map(backwards).sum(),
        map: strides.iter().map(|&stride| stride as i64).collect(),
        shape: Some(shape.iter().map(|&len| len as u64).collect()),
    }
}

/// Where the elements of an access are in a slice.
#[derive(Clone, Debug)]
pub(crate) enum ResolvedLayout {
    /// Contiguous from the first element on.
    Dense,
    /// As a type describes, its origin at that byte.
    Typed { origin: usize, datatype: Datatype },
}

impl MemoryLayout {
    /// Where `count` elements of `size` bytes are in a slice of `len` elements; the error is the
    /// reason why they are not inside of it.
    pub(crate) fn resolve(
        &self,
        count: &[u64],
        size: usize,
        len: usize,
    ) -> Result<ResolvedLayout, String> {
        let wanted: u64 = count.iter().product();
        let cannot = |error: TypeError| format!("the memory cannot be described: {error}");
        let origin_of = |origin: usize| {
            let outside = || format!("element {origin} lies outside of {len} elements in memory");
            origin.checked_mul(size).ok_or_else(outside)
        };
        match self {
            Self::Dense if len as u64 == wanted => Ok(ResolvedLayout::Dense),
            Self::Dense => Err(format!("{len} elements in memory for {wanted} in the file")),
            Self::Mapped { shape: Some(shape), .. } if shape != count => {
                Err(format!("a view of shape {shape:?} for {count:?} elements"))
            }
            Self::Mapped { map, .. } if map.len() != count.len() => {
                Err(format!("{} strides of memory for {} dimensions", map.len(), count.len()))
            }
            Self::Mapped { origin, map, .. } => {
                let datatype = strided(count, map, size).map_err(cannot)?;
                dense_or_typed(datatype, origin_of(*origin)?, len * size)
            }
            Self::Permuted(axes) => {
                let mut seen = vec![false; count.len()];
                for &axis in axes {
                    match seen.get_mut(axis) {
                        Some(seen) if !*seen => *seen = true,
                        _ => return Err(not_a_permutation(axes, count.len())),
                    }
                }
                if axes.len() != count.len() {
                    return Err(not_a_permutation(axes, count.len()));
                }
                if len as u64 != wanted {
                    return Err(format!("{len} elements in memory for {wanted} in the file"));
                }
                let mut map = vec![0; count.len()];
                let mut step = 1;
                for &axis in axes.iter().rev() {
                    map[axis] = step as i64;
                    step *= count[axis];
                }
                dense_or_typed(strided(count, &map, size).map_err(cannot)?, 0, len * size)
            }
            Self::Typed { origin, count: copies, datatype } => {
                let datatype = Datatype::contiguous(*copies, datatype).map_err(cannot)?;
                if u128::from(datatype.size()) != u128::from(wanted) * size as u128 {
                    let has = datatype.size();
                    return Err(format!(
                        "the memory's datatype has {has} bytes for {wanted} elements of {size}"
                    ));
                }
                dense_or_typed(datatype, origin_of(*origin)?, len * size)
            }
        }
    }
}

fn not_a_permutation(axes: &[usize], dimensions: usize) -> String {
    format!("{axes:?} is not an order of {dimensions} dimensions")
}

/// A type that walks strided elements in the order of the file.
fn strided(count: &[u64], map: &[i64], size: usize) -> Result<Datatype, TypeError> {
    let mut datatype = Datatype::bytes(size as u64)?;
    for (&count, &stride) in count.iter().zip(map).rev() {
        let far = TypeError::Overflow { what: "a stride in memory" };
        let stride = stride.checked_mul(size as i64).ok_or(far)?;
        let stride = if count == 1 { 0 } else { stride };
        datatype = Datatype::hvector(count, 1, stride, &datatype)?;
    }
    Ok(datatype)
}

fn dense_or_typed(datatype: Datatype, origin: usize, len: usize) -> Result<ResolvedLayout, String> {
    let packer = striate_datatype::Packer::new(&datatype, 1)
        .map_err(|error| format!("the memory cannot be described: {error}"))?;
    packer.fits(len, origin).map_err(|error| error.to_string())?;
    let whole = datatype.runs() <= 1 && datatype.size() == len as u64;
    Ok(if whole { ResolvedLayout::Dense } else { ResolvedLayout::Typed { origin, datatype } })
}
