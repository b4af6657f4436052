//! [`Dataspace`]: how many elements there are, and in which shape.

/// The shape of a dataset or an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dataspace {
    /// No elements and no shape.
    Null,
    /// One element.
    Scalar,
    /// An array, slowest dimension first.
    Simple(Vec<Dimension>),
}

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// How long it is.
    pub size: u64,
    /// How long it can become; `None` if there is no limit.
    pub maximum: Option<u64>,
}

impl Dimension {
    /// A dimension that keeps its size.
    pub const fn fixed(size: u64) -> Self {
        Self { size, maximum: Some(size) }
    }

    /// A dimension that can grow without limit.
    pub const fn unlimited(size: u64) -> Self {
        Self { size, maximum: None }
    }
}

impl Dataspace {
    /// An array that keeps its shape.
    pub fn fixed(sizes: &[u64]) -> Self {
        Self::Simple(sizes.iter().copied().map(Dimension::fixed).collect())
    }

    /// The dimensions; none of a scalar or null dataspace.
    pub fn dimensions(&self) -> &[Dimension] {
        match self {
            Self::Null | Self::Scalar => &[],
            Self::Simple(dimensions) => dimensions,
        }
    }

    /// How many dimensions there are.
    pub fn rank(&self) -> usize {
        self.dimensions().len()
    }

    /// The sizes of the dimensions.
    pub fn sizes(&self) -> Vec<u64> {
        self.dimensions().iter().map(|dimension| dimension.size).collect()
    }

    /// How many elements there are; `None` if that is beyond 64 bits.
    pub fn elements(&self) -> Option<u64> {
        match self {
            Self::Null => Some(0),
            Self::Scalar => Some(1),
            Self::Simple(dimensions) => {
                if dimensions.iter().any(|dimension| dimension.size == 0) {
                    return Some(0);
                }
                dimensions.iter().try_fold(1_u64, |count, one| count.checked_mul(one.size))
            }
        }
    }
}
