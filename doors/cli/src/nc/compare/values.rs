//! Comparison of the values of two datasets.
//!
//! Ranks take parts of variables in turn, each with one of either dataset in memory; in the end
//! they put together what they found.

use std::cmp::Ordering;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use striate_array::format::{Header, StoredValues};
use striate_array::{ArrayError, Dataset, Slab, SlabBatches, Values, VariableId, cdl};
use striate_comm::{Comm, agree};

use super::Difference;
use crate::{CommandError, ranks};

/// Bytes of a variable that a rank has in memory.
const PART: u64 = 8 << 20;

/// Bytes that a value of variable length is taken to have at least.
const LONG: u64 = 256;

/// How far numbers that are the same may be apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    pub(super) absolute: f64,
    /// Of the larger of both.
    pub(super) relative: f64,
}

impl Tolerance {
    /// Whether numbers are the same that differ by `distance`, of which the larger is `size`. What
    /// has no distance, or an infinite one, is not.
    fn allows(self, distance: f64, size: f64) -> bool {
        distance.is_finite() && (distance <= self.absolute || distance <= self.relative * size)
    }
}

/// What was found in a variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Found {
    differing: u64,
    /// The first in the order of the file, and its values.
    place: u64,
    first: String,
    second: String,
    /// The bits of the largest difference of numbers.
    largest: Option<u64>,
    /// The same, divided by the larger of both.
    largest_relative: Option<u64>,
}

impl Found {
    /// What both found together.
    fn and(self, other: Self) -> Self {
        let (mut early, late) =
            if other.differing == 0 || (self.differing > 0 && self.place < other.place) {
                (self, other)
            } else {
                (other, self)
            };
        early.differing += late.differing;
        // Of numbers that are not negative, the bits have the order of the numbers.
        early.largest = early.largest.max(late.largest);
        early.largest_relative = early.largest_relative.max(late.largest_relative);
        early
    }
}

/// All differences of values of variables that both have, with the same type and shape. Collective.
pub(super) fn compare(
    comm: &dyn Comm,
    first: &mut Dataset,
    second: &mut Dataset,
    tolerance: Tolerance,
    bar: &ProgressBar,
) -> Result<Vec<Difference>, CommandError> {
    let header = first.header().clone();
    let pairs = pairs(&header, first, second);
    if comm.rank() == 0 {
        bar.set_length(pairs.iter().map(|pair| 2 * pair.bytes()).sum());
    }
    let mine = agree(
        comm,
        pairs
            .iter()
            .map(|pair| pair.compare(comm, first, second, tolerance, bar))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.to_string()),
    )?;
    let bytes = serde_json::to_vec(&mine)
        .map_err(|error| CommandError::failed("cannot tell what differs", error, ""))?;
    let mut all = vec![Found::default(); pairs.len()];
    for bytes in comm.allgather(&bytes)? {
        let theirs: Vec<Found> = serde_json::from_slice(&bytes)
            .map_err(|error| CommandError::failed("cannot tell what differs", error, ""))?;
        all = all.into_iter().zip(theirs).map(|(one, other)| one.and(other)).collect();
    }
    let differing = pairs.into_iter().zip(all).filter(|(_, found)| found.differing > 0);
    Ok(differing.map(|(pair, found)| pair.difference(found)).collect())
}

/// A variable that both have.
struct Pair {
    name: String,
    shape: Vec<u64>,
    /// Elements of a part.
    most: u64,
    /// Bytes of one.
    element: u64,
    ids: [VariableId; 2],
}

fn pairs(header: &Header, first: &Dataset, second: &Dataset) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (variable, id) in header.variables.iter().zip(first.variables()) {
        let path = header.path(variable.group, &variable.name);
        let Ok(other) = second.variable(&path) else { continue };
        let shape = first.shape(id);
        let of_other = second.header().variables[other.index()].external;
        let same_type = header.type_text(variable.external) == second.header().type_text(of_other);
        if same_type && second.shape(other) == shape {
            let element = variable.external.size();
            // Nobody knows how long values of variable length are before they are read.
            let is_variable = header.has_variable_length(variable.external);
            let in_memory = if is_variable { element.max(LONG) } else { element };
            let (most, name) = ((PART / in_memory).max(1), path);
            pairs.push(Pair { name, shape, most, element, ids: [id, other] });
        }
    }
    pairs
}

impl Pair {
    fn bytes(&self) -> u64 {
        self.shape.iter().fold(self.element, |bytes, &len| bytes.saturating_mul(len))
    }

    /// This rank's share of the work.
    fn compare(
        &self,
        comm: &dyn Comm,
        first: &mut Dataset,
        second: &mut Dataset,
        tolerance: Tolerance,
        bar: &ProgressBar,
    ) -> Result<Found, ArrayError> {
        // Ranks that are processes show what the first of them has done, for all.
        let shown = if ranks::is_job() { comm.size() as u64 } else { 1 };
        let mut found = Found::default();
        let mut place = 0;
        for (number, (start, count)) in SlabBatches::new(&self.shape, self.most).enumerate() {
            let elements: u64 = count.iter().product();
            if number % comm.size() == comm.rank() {
                let slab = Slab::new(&start, &count);
                let one = first.values(self.ids[0], &slab)?;
                let other = second.values(self.ids[1], &slab)?;
                let mut here = difference(&one, &other, tolerance);
                here.place += place;
                found = found.and(here);
                bar.inc(2 * shown * elements * self.element);
            }
            place += elements;
        }
        Ok(found)
    }

    fn difference(self, found: Found) -> Difference {
        let mut index = vec![0; self.shape.len()];
        let mut place = found.place;
        for (index, len) in index.iter_mut().zip(&self.shape).rev() {
            *index = place % len;
            place /= len;
        }
        Difference::Values {
            variable: self.name,
            elements: self.shape.iter().product(),
            differing: found.differing,
            index,
            first: found.first,
            second: found.second,
            largest_difference: found.largest.map(f64::from_bits),
            largest_relative_difference: found.largest_relative.map(f64::from_bits),
        }
    }
}

/// How far two elements are apart; `None` if they are the same, a number that is none if that
/// cannot be said.
trait Distance: Copy {
    fn distance(self, other: Self) -> Option<f64>;
    /// How large a number is, without its sign.
    fn magnitude(self) -> f64;
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Distance for $type {
            fn distance(self, other: Self) -> Option<f64> {
                let distance: u64 = self.abs_diff(other).into();
                (distance > 0).then_some(distance as f64)
            }

            fn magnitude(self) -> f64 {
                self.distance(0).unwrap_or(0.0)
            }
        }
    )+};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($type:ty),+) => {$(
        impl Distance for $type {
            fn distance(self, other: Self) -> Option<f64> {
                // Equal infinities have no difference that is a number.
                let same = self.total_cmp(&other).is_eq() || (self.is_nan() && other.is_nan());
                let distance = (f64::from(self) - f64::from(other)).abs();
                (!same && distance.partial_cmp(&0.0) != Some(Ordering::Equal)).then_some(distance)
            }

            fn magnitude(self) -> f64 {
                f64::from(self).abs()
            }
        }
    )+};
}

floats!(f32, f64);

/// Compares values of the same type; text has no distance.
fn difference(first: &Values, second: &Values, tolerance: Tolerance) -> Found {
    macro_rules! each {
        ($($variant:ident),+) => {
            match (first, second) {
                (Values::Char(one), Values::Char(other)) => {
                    let found = difference_of(one, other, Tolerance::default(), |c| {
                        Values::Char(vec![c])
                    });
                    Found { largest: None, largest_relative: None, ..found }
                }
                (Values::Stored(one), Values::Stored(other)) => stored_difference(one, other),
                $((Values::$variant(one), Values::$variant(other)) => {
                    difference_of(one, other, tolerance, |value| Values::$variant(vec![value]))
                })+
                // Types that differ were found before.
                _ => Found::default(),
            }
        };
    }
    each!(Byte, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64)
}

/// Strings and elements of types of users are the same or not.
fn stored_difference(first: &StoredValues, second: &StoredValues) -> Found {
    let mut found = Found::default();
    for place in 0..first.len().min(second.len()) {
        let (one, other) = (first.shown(place), second.shown(place));
        if one == other {
            continue;
        }
        if found.differing == 0 {
            (found.place, found.first, found.second) = (place as u64, one, other);
        }
        found.differing += 1;
    }
    found
}

fn difference_of<T: Distance>(
    first: &[T],
    second: &[T],
    tolerance: Tolerance,
    values: impl Fn(T) -> Values,
) -> Found {
    let mut found = Found::default();
    for (place, (&one, &other)) in first.iter().zip(second).enumerate() {
        let Some(distance) = one.distance(other) else { continue };
        let size = one.magnitude().max(other.magnitude());
        if tolerance.allows(distance, size) {
            continue;
        }
        if found.differing == 0 {
            found.place = place as u64;
            found.first = cdl::values(&values(one));
            found.second = cdl::values(&values(other));
        }
        found.differing += 1;
        if !distance.is_nan() {
            found.largest = found.largest.max(Some(distance.to_bits()));
            let relative = Some(distance / size).filter(|relative| relative.is_finite());
            found.largest_relative = found.largest_relative.max(relative.map(f64::to_bits));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_distance() {
        let difference = |one: &Values, other: &Values, absolute: f64| {
            super::difference(one, other, Tolerance { absolute, relative: 0.0 })
        };
        let found = difference(&vec![1i64, i64::MIN, 5].into(), &vec![1, i64::MAX, 7].into(), 0.0);
        assert_eq!((found.differing, found.place), (2, 1));
        assert_eq!(found.largest, Some((u64::MAX as f64).to_bits()));
        assert_eq!(found.second, "9223372036854775807LL");
        let (one, other) = ([1.0, f64::NAN, f64::NAN, -0.0], [1.5, f64::NAN, 3.0, 0.0]);
        let found = difference(&one.to_vec().into(), &other.to_vec().into(), 0.5);
        assert_eq!((found.differing, found.place, found.largest), (1, 2, None));
        let found = difference(&one.to_vec().into(), &other.to_vec().into(), 0.1);
        assert_eq!((found.differing, found.place), (2, 0));
        assert_eq!(found.largest.map(f64::from_bits), Some(0.5));
        let found = difference(&"abc".into(), &"axc".into(), 100.0);
        assert_eq!((found.differing, found.place, found.largest), (1, 1, None));
    }

    #[test]
    fn a_difference_may_be_relative_to_the_numbers() {
        let differing = |one: f64, other: f64, absolute: f64, relative: f64| {
            let values = |value: f64| Values::from(vec![value]);
            difference(&values(one), &values(other), Tolerance { absolute, relative }).differing
        };
        assert_eq!(differing(1e6, 1.000_001e6, 0.0, 2e-6), 0);
        assert_eq!(differing(1e6, 1.000_001e6, 0.0, 5e-7), 1);
        assert_eq!(differing(-1e6, -1.000_001e6, 0.0, 2e-6), 0);
        // Of the larger one, in whichever order.
        assert_eq!((differing(90.0, 100.0, 0.0, 0.1), differing(100.0, 90.0, 0.0, 0.1)), (0, 0));
        // Near 0 nothing is relatively close; one of both rules is enough.
        assert_eq!((differing(0.0, 1e-20, 0.0, 0.5), differing(0.0, 1e-20, 1e-15, 0.5)), (1, 0));
        assert_eq!((differing(5.0, 5.5, 0.5, 0.0), differing(5.0, 5.6, 0.5, 0.01)), (0, 1));
        // NaN is not close to any number.
        let infinite = f64::INFINITY;
        assert_eq!(differing(infinite, 1.0, 1e300, 1.0), 1);
        assert_eq!(differing(infinite, -infinite, 1e300, 1.0), 1);
        assert_eq!(
            (differing(infinite, infinite, 0.0, 0.0), differing(f64::NAN, 1.0, 1e9, 9.0)),
            (0, 1)
        );
        assert_eq!(differing(f64::NAN, -f64::NAN, 0.0, 0.0), 0);
        let ints = |value: i32| Values::from(vec![value]);
        let tolerance = Tolerance { absolute: 0.0, relative: 0.01 };
        assert_eq!(difference(&ints(1000), &ints(1010), tolerance).differing, 0);
        assert_eq!(difference(&ints(1000), &ints(1011), tolerance).differing, 1);
    }

    #[test]
    fn findings_add_up_in_any_order() {
        let found = |differing, place, largest: f64| Found {
            differing,
            place,
            first: place.to_string(),
            second: String::new(),
            largest: Some(largest.to_bits()),
            largest_relative: None,
        };
        let all = [found(2, 10, 1.0), Found::default(), found(1, 3, 0.5), found(4, 20, 7.0)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let sum = order.iter().fold(Found::default(), |sum, &i| sum.and(all[i].clone()));
            assert_eq!((sum.differing, sum.place, sum.first.as_str()), (7, 3, "3"));
            assert_eq!(sum.largest.map(f64::from_bits), Some(7.0));
        }
    }
}
