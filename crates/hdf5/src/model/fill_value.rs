//! [`FillValue`]: what elements are that nobody wrote, and when storage is allocated.

/// The fill value of a dataset, with the times that belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FillValue {
    /// When storage is allocated.
    pub allocation: AllocationTime,
    /// When fill values are written.
    pub time: FillTime,
    /// The value.
    pub value: Fill,
}

impl Default for FillValue {
    /// What a dataset without such a message has.
    fn default() -> Self {
        Self { allocation: AllocationTime::Late, time: FillTime::IfSet, value: Fill::Default }
    }
}

/// A value for elements that nobody wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fill {
    /// They may be anything.
    Undefined,
    /// The library's: all zeros.
    Default,
    /// An element, in the type of the dataset.
    Value(Vec<u8>),
}

/// When storage is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationTime {
    /// Not said.
    Unspecified,
    /// When the dataset is created.
    Early,
    /// When it is first written.
    Late,
    /// Chunk by chunk.
    Incremental,
}

/// When fill values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FillTime {
    /// With the allocation.
    OnAllocation,
    /// Never.
    Never,
    /// With the allocation, if a program has set a value.
    IfSet,
}
