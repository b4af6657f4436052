//! Combining the values of ranks that are threads, in order of rank.

use crate::comm::{Reduction, truth};
use crate::error::CommError;

/// A number that can be reduced.
pub(super) trait Reducible: Copy + Send + Sync + 'static {
    /// The value to be combined.
    fn prepare(self, _with: Reduction) -> Self {
        self
    }

    /// Combines two values.
    fn combine(self, with: Reduction, other: Self) -> Self;
}

impl Reducible for u64 {
    fn combine(self, with: Reduction, other: Self) -> Self {
        match with {
            Reduction::Min => self.min(other),
            Reduction::Max => self.max(other),
            Reduction::Sum => self.wrapping_add(other),
            Reduction::And => self & other,
        }
    }
}

impl Reducible for i64 {
    fn combine(self, with: Reduction, other: Self) -> Self {
        match with {
            Reduction::Min => self.min(other),
            Reduction::Max => self.max(other),
            Reduction::Sum => self.wrapping_add(other),
            Reduction::And => self & other,
        }
    }
}

impl Reducible for f64 {
    fn prepare(self, with: Reduction) -> Self {
        if with == Reduction::And { truth(self) } else { self }
    }

    fn combine(self, with: Reduction, other: Self) -> Self {
        match with {
            Reduction::Min | Reduction::And => self.min(other),
            Reduction::Max => self.max(other),
            Reduction::Sum => self + other,
        }
    }
}

/// Combines the values of all ranks, which must agree on the operation and the length.
pub(super) fn reduce<N: Reducible>(
    call: &'static str,
    given: Vec<(Reduction, Vec<N>)>,
) -> Result<Vec<N>, CommError> {
    let mut given = given.into_iter();
    let Some((with, mut values)) = given.next() else { return Ok(Vec::new()) };
    for value in &mut values {
        *value = value.prepare(with);
    }
    for (rank, (other_with, others)) in given.enumerate() {
        if other_with != with || others.len() != values.len() {
            let detail = format!(
                "rank 0 asks for {with:?} of {} numbers, rank {} for {other_with:?} of {}",
                values.len(),
                rank + 1,
                others.len()
            );
            return Err(CommError::Mismatch { call, detail });
        }
        for (value, other) in values.iter_mut().zip(others) {
            *value = value.combine(with, other.prepare(with));
        }
    }
    Ok(values)
}
