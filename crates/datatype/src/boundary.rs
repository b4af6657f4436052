//! [`Boundary`]: boundary sums, which tell whether the accesses of many ranks tile a range of a
//! file exactly once.
//!
//! Offset `x` stands for the value `r^x` in the field of integers modulo 2⁶¹ − 1, for a random
//! [`Point`] `r`. The [`Boundary`] of an access is the sum over its runs `[a, b)` of `r^b − r^a`.
//! Where one run ends and another begins the terms cancel, whether they are of one rank or of two,
//! so the sum over all ranks tells where the number of ranks that want a byte changes, and by how
//! much. It is that of a single interval, `r^end − r^start`, if and only if each byte of the
//! interval is wanted once and no other byte is: a chain of runs from start to end.
//!
//! "Only if" holds for polynomials in `r`; at a random point two that differ agree with a chance of
//! at most degree / 2⁶¹ (Schwartz and Zippel). The degree that counts is the length of the range,
//! since the offset of the whole is a factor that is never 0. There are two points: for a range of
//! a gigabyte the chance is below 2⁻⁶⁰. This needs points that do not depend on the data, and runs
//! that reach less than 2⁶¹ bytes, for beyond that the powers repeat.
//!
//! The sum is computed from the description: `n` copies at a stride multiply the sum of one by a
//! geometric series. A range is cut out at its two ends only, so its cost does not depend on the
//! number of runs. Of a list, every entry that lies in the range is looked at.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Range, Sub};

use crate::node::{Loop, Node};
use crate::{Datatype, TypeError};

/// 2⁶¹ − 1, a prime for which a product is reduced by a shift and an addition.
const P: u64 = (1 << 61) - 1;

/// Bits of an exponent that one step of a power takes.
const DIGIT: u32 = 4;
const DIGITS: usize = 1 << DIGIT;
const STEPS: usize = 61usize.div_ceil(DIGIT as usize);

/// The two independent points at which boundary sums are evaluated. Sums are comparable only for
/// the same points.
///
/// It contains precomputed powers of a few kilobytes: create one and share it by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// `r` to the power of `d × 16^k`, at `[k][d]`.
    powers: [[ResiduePair; DIGITS]; STEPS],
}

/// A boundary sum, or a sum of them; see [`Datatype::boundary`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Boundary(ResiduePair);

impl Point {
    /// The points of a seed. It must not be known to a party that chooses the data.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut draw = || {
            loop {
                let point = split_mix(&mut state) & P;
                if (2..P).contains(&point) {
                    return point;
                }
            }
        };
        let mut base = ResiduePair([draw(), draw()]);
        let mut powers = [[ResiduePair::ONE; DIGITS]; STEPS];
        for step in &mut powers {
            for d in 1..DIGITS {
                step[d] = step[d - 1] * base;
            }
            base = step[DIGITS - 1] * base;
        }
        Self { powers }
    }

    /// The sum of a single run. Offsets may be negative.
    pub fn interval(&self, range: Range<i64>) -> Boundary {
        Boundary(self.power(range.end) - self.power(range.start))
    }

    fn power(&self, exponent: i64) -> ResiduePair {
        // The order of every r divides P − 1.
        let mut exponent = exponent.rem_euclid(P as i64 - 1) as usize;
        let mut power = ResiduePair::ONE;
        for step in &self.powers {
            if exponent == 0 {
                break;
            }
            power = power * step[exponent % DIGITS];
            exponent >>= DIGIT;
        }
        power
    }

    /// The sum of a whole loop whose first byte is at 0.
    fn whole(&self, node: &Node) -> ResiduePair {
        match node.kind() {
            Loop::Bytes => self.power(node.size() as i64) - ResiduePair::ONE,
            Loop::Contig { count, child } => {
                self.whole(child) * series(*count, self.power(child.true_extent()))
            }
            Loop::Vector { count, stride, child } => {
                self.whole(child) * series(*count, self.power(*stride))
            }
            Loop::BlockIndexed { offsets, child } => {
                self.whole(child) * offsets.iter().map(|&offset| self.power(offset)).sum()
            }
            Loop::Indexed { blocks, child, stride } => {
                let repeats = blocks.iter().map(|block| (block.offset, block.len));
                self.whole_blocks(node, repeats, child, *stride)
            }
            Loop::Struct { fields } => {
                fields.iter().map(|field| self.power(field.offset) * self.whole(&field.child)).sum()
            }
        }
    }

    /// The sum of whole blocks (offset, children) of the indexed loop `node`.
    fn whole_blocks(
        &self,
        node: &Node,
        blocks: impl Iterator<Item = (i64, u64)>,
        child: &Node,
        stride: i64,
    ) -> ResiduePair {
        if node.is_list_of_bytes() {
            let run = |(offset, len)| self.power(offset + len as i64) - self.power(offset);
            return blocks.map(run).sum();
        }
        let ratio = self.power(stride);
        let copies: ResiduePair =
            blocks.map(|(offset, len)| self.power(offset) * series(len, ratio)).sum();
        if copies == ResiduePair::ZERO { copies } else { copies * self.whole(child) }
    }

    /// The sum of what a loop has in `cut`, offsets relative to its first byte. The loop ascends.
    fn part(&self, node: &Node, cut: OffsetRange) -> ResiduePair {
        let high = node.span().high;
        if cut.hi <= 0 || cut.lo >= high || cut.lo >= cut.hi {
            return ResiduePair::ZERO;
        }
        if cut.holds(0, high) {
            return self.whole(node);
        }
        match node.kind() {
            Loop::Bytes => self.power(cut.hi.min(high)) - self.power(cut.lo.max(0)),
            Loop::Contig { count, child } => self.copies(*count, child.true_extent(), child, cut),
            Loop::Vector { count, stride, child } => self.copies(*count, *stride, child, cut),
            Loop::BlockIndexed { offsets, child } => {
                let high = child.span().high;
                let first = offsets.partition_point(|&offset| offset + high <= cut.lo);
                let end = offsets.partition_point(|&offset| offset < cut.hi);
                let listed = offsets.get(first..end).unwrap_or_default();
                let (ends, whole) = cut.split(listed, |&offset| (offset, offset + high));
                let whole: ResiduePair = whole.iter().map(|&offset| self.power(offset)).sum();
                let whole =
                    if whole == ResiduePair::ZERO { whole } else { whole * self.whole(child) };
                let ends = ends.into_iter().flatten();
                ends.map(|&offset| self.power(offset) * self.part(child, cut.seen_from(offset)))
                    .fold(whole, ResiduePair::add)
            }
            Loop::Indexed { blocks, child, stride } => {
                let reach = |len: u64| (len as i64 - 1) * stride + child.span().high;
                let first =
                    blocks.partition_point(|block| block.offset + reach(block.len) <= cut.lo);
                let end = blocks.partition_point(|block| block.offset < cut.hi);
                let listed = blocks.get(first..end).unwrap_or_default();
                let (ends, whole) =
                    cut.split(listed, |block| (block.offset, block.offset + reach(block.len)));
                let whole = whole.iter().map(|block| (block.offset, block.len));
                let whole = self.whole_blocks(node, whole, child, *stride);
                let ends = ends.into_iter().flatten();
                ends.map(|block| {
                    let part = self.copies(block.len, *stride, child, cut.seen_from(block.offset));
                    self.power(block.offset) * part
                })
                .fold(whole, ResiduePair::add)
            }
            Loop::Struct { fields } => {
                let first = fields
                    .partition_point(|field| field.offset + field.child.span().high <= cut.lo);
                let end = fields.partition_point(|field| field.offset < cut.hi);
                let listed = fields.get(first..end).unwrap_or_default();
                let of = |field: &crate::Field| {
                    let part = self.part(&field.child, cut.seen_from(field.offset));
                    self.power(field.offset) * part
                };
                listed.iter().map(of).sum()
            }
        }
    }

    /// The sum of what `count` copies have in `cut`. The first copy is at 0, and each lies wholly
    /// after the one before.
    fn copies(&self, count: u64, stride: i64, child: &Node, cut: OffsetRange) -> ResiduePair {
        let high = child.span().high;
        if count <= 1 || high == 0 {
            return if count == 0 { ResiduePair::ZERO } else { self.part(child, cut) };
        }
        if cut.hi <= 0 {
            return ResiduePair::ZERO;
        }
        // The copies that end after the cut begins, and begin before it ends.
        let ended = if cut.lo < high { 0 } else { (cut.lo - high) / stride + 1 };
        let begun = ((cut.hi - 1) / stride).saturating_add(1).min(count as i64);
        if ended >= begun {
            return ResiduePair::ZERO;
        }
        let (mut first, mut end) = (ended, begun);
        let mut sum = ResiduePair::ZERO;
        let mut cut_out = |copy: i64| {
            let at = copy * stride;
            sum += self.power(at) * self.part(child, cut.seen_from(at));
        };
        if !cut.holds(first * stride, first * stride + high) {
            cut_out(first);
            first += 1;
        }
        if first < end && !cut.holds((end - 1) * stride, (end - 1) * stride + high) {
            end -= 1;
            cut_out(end);
        }
        if first < end {
            let series = series((end - first) as u64, self.power(stride));
            sum += self.power(first * stride) * series * self.whole(child);
        }
        sum
    }
}

impl Datatype {
    /// The boundary sum of `count` copies: that of their runs, cut to `range`, without walking
    /// them.
    ///
    /// The sums of all ranks add up to [`Point::interval`] of the range if their accesses tile it
    /// exactly once. If they do not, they still add up to it with a chance of (length / 2⁶¹)² at
    /// most, for a point that was chosen without regard to the accesses.
    ///
    /// Needs ascending bytes, as [`crate::Cursor::seek_offset`] does.
    ///
    /// ```
    /// use striate_datatype::{Boundary, Datatype, Point};
    ///
    /// let point = Point::new(17);
    /// let even: Datatype = "vector(1000, 4, stride=8)".parse()?;
    /// let odd = even.displaced(4)?;
    /// let sums = [&even, &odd].map(|view| view.boundary(1, 30..6001, &point));
    /// let sum: Boundary = sums.into_iter().sum::<Result<_, _>>()?;
    /// assert_eq!(sum, point.interval(30..6001));
    /// let twice = even.boundary(2, 30..6001, &point)?;
    /// assert_ne!(twice, point.interval(30..6001));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn boundary(
        &self,
        count: u64,
        range: Range<i64>,
        point: &Point,
    ) -> Result<Boundary, TypeError> {
        self.span_of(count)?;
        if !self.is_ascending() || (count > 1 && !self.copies_ascend()) {
            return Err(TypeError::NotMonotonic);
        }
        let first = self.first_offset();
        let cut = OffsetRange { lo: range.start, hi: range.end }.seen_from(first);
        let sum = point.copies(count, self.extent(), self.root(), cut);
        Ok(Boundary(if sum == ResiduePair::ZERO { sum } else { point.power(first) * sum }))
    }
}

impl Boundary {
    /// As two words, to be sent to another rank.
    pub const fn to_words(self) -> [u64; 2] {
        self.0.0
    }

    /// From the words of [`Boundary::to_words`]; larger words are reduced.
    pub fn from_words(words: [u64; 2]) -> Self {
        Self(ResiduePair(words.map(|word| word % P)))
    }
}

impl Add for Boundary {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Boundary {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Boundary {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Boundary {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Self::default(), Self::add)
    }
}

/// A range of offsets. Those that leave 64 bits saturate: they are beyond every byte either way.
#[derive(Clone, Copy, Debug)]
struct OffsetRange {
    lo: i64,
    hi: i64,
}

impl OffsetRange {
    const fn seen_from(self, origin: i64) -> Self {
        Self { lo: self.lo.saturating_sub(origin), hi: self.hi.saturating_sub(origin) }
    }

    const fn holds(self, start: i64, end: i64) -> bool {
        self.lo <= start && end <= self.hi
    }

    /// Splits entries that overlap the range, in ascending order: the first and the last if they
    /// extend beyond it, and those that are inside.
    fn split<T>(self, listed: &[T], bounds: impl Fn(&T) -> (i64, i64)) -> ([Option<&T>; 2], &[T]) {
        let sticks_out = |entry: &T| {
            let (start, end) = bounds(entry);
            !self.holds(start, end)
        };
        let (first, rest) = match listed.split_first() {
            Some((first, rest)) if sticks_out(first) => (Some(first), rest),
            _ => (None, listed),
        };
        match rest.split_last() {
            Some((last, whole)) if sticks_out(last) => ([first, Some(last)], whole),
            _ => ([first, None], rest),
        }
    }
}

/// Two numbers below [`P`], one for each point: computed in parallel, which hides the latency of
/// the multiplications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ResiduePair([u64; 2]);

impl ResiduePair {
    const ZERO: Self = Self([0; 2]);
    const ONE: Self = Self([1; 2]);
}

impl Add for ResiduePair {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        let add = |a: u64, b: u64| reduced(a + b);
        Self([add(self.0[0], other.0[0]), add(self.0[1], other.0[1])])
    }
}

impl AddAssign for ResiduePair {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for ResiduePair {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        let sub = |a: u64, b: u64| reduced(a + P - b);
        Self([sub(self.0[0], other.0[0]), sub(self.0[1], other.0[1])])
    }
}

impl Mul for ResiduePair {
    type Output = Self;

    #[inline]
    fn mul(self, other: Self) -> Self {
        let mul = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            // 2⁶¹ is 1, so the high bits count as if they stood at the low end.
            reduced((product as u64 & P) + (product >> 61) as u64)
        };
        Self([mul(self.0[0], other.0[0]), mul(self.0[1], other.0[1])])
    }
}

impl Sum for ResiduePair {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Self::ZERO, Self::add)
    }
}

/// A number of at most 2 P, less P if it can be.
#[inline]
const fn reduced(x: u64) -> u64 {
    if x >= P { x - P } else { x }
}

/// 1 + q + q² + …, `count` terms. Found by doubling, which unlike the quotient (qⁿ − 1) / (q − 1)
/// needs no inverse and is right for q = 1.
fn series(count: u64, q: ResiduePair) -> ResiduePair {
    // The series of the leading bits of the count, and q to their power.
    let (mut sum, mut power) = (ResiduePair::ZERO, ResiduePair::ONE);
    for bit in (0..u64::BITS - count.leading_zeros()).rev() {
        sum = sum * (power + ResiduePair::ONE);
        power = power * power;
        if count >> bit & 1 == 1 {
            sum = sum * q + ResiduePair::ONE;
            power = power * q;
        }
    }
    sum
}

/// The generator of Steele, Lea and Flood: enough to spread a seed over the field.
const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Distribution, Order};

    /// `r^x` by multiplying, from the first powers alone.
    fn slow_power(point: &Point, exponent: i64) -> ResiduePair {
        let (mut power, mut square) = (ResiduePair::ONE, point.powers[0][1]);
        let mut exponent = exponent.rem_euclid(P as i64 - 1);
        while exponent > 0 {
            if exponent % 2 == 1 {
                power = power * square;
            }
            square = square * square;
            exponent /= 2;
        }
        power
    }

    fn slow(ty: &Datatype, count: u64, range: &Range<i64>, point: &Point) -> Boundary {
        let mut sum = Boundary::default();
        for run in ty.flatten(count).unwrap() {
            let (start, end) = (run.offset.max(range.start), run.end().min(range.end));
            if start < end {
                sum += Boundary(slow_power(point, end) - slow_power(point, start));
            }
        }
        sum
    }

    fn sum_of(views: &[Datatype], range: Range<i64>, point: &Point) -> Boundary {
        views.iter().map(|view| view.boundary(1, range.clone(), point).unwrap()).sum()
    }

    fn tiles(views: &[Datatype], range: Range<i64>) -> bool {
        let point = Point::new(42);
        sum_of(views, range.clone(), &point) == point.interval(range)
    }

    fn listed(blocks: &[(u64, i64)]) -> Datatype {
        Datatype::hindexed(blocks, &Datatype::bytes(1).unwrap()).unwrap()
    }

    /// Types that are often ascending, of every loop kind.
    fn any_type() -> impl Strategy<Value = Datatype> {
        let leaf = (0u64..9).prop_map(|len| Datatype::bytes(len).unwrap());
        leaf.prop_recursive(4, 32, 3, |inner| {
            let gaps = || prop::collection::vec((0u64..4, 0i64..30), 1..6);
            // Each entry behind the one before, at a distance; sometimes nearer than it is long.
            let placed = |gaps: &[(u64, i64)], extent: i64| -> Vec<(u64, i64)> {
                let mut at = -7;
                let place = |&(len, gap): &(u64, i64)| {
                    let here = at;
                    at += len as i64 * extent + gap - 1;
                    (len, here)
                };
                gaps.iter().map(place).collect()
            };
            prop_oneof![
                (0u64..5, inner.clone()).prop_map(|(n, of)| Datatype::contiguous(n, &of).unwrap()),
                (0u64..6, 0u64..4, -1i64..30, inner.clone()).prop_map(|(n, block, gap, of)| {
                    let stride = block as i64 * of.extent() + gap;
                    Datatype::hvector(n, block, stride, &of).unwrap()
                }),
                (0u64..6, -60i64..60, inner.clone())
                    .prop_map(|(n, stride, of)| Datatype::hvector(n, 1, stride, &of).unwrap()),
                (gaps(), inner.clone()).prop_map(move |(gaps, of)| {
                    Datatype::hindexed(&placed(&gaps, of.extent()), &of).unwrap()
                }),
                (gaps(), inner.clone()).prop_map(move |(gaps, of)| {
                    let gaps: Vec<_> = gaps.iter().map(|&(_, gap)| (1, gap)).collect();
                    Datatype::hindexed(&placed(&gaps, of.extent()), &of).unwrap()
                }),
                prop::collection::vec((0u64..3, 0i64..20, inner.clone()), 1..4).prop_map(
                    |fields| {
                        let mut at = 0;
                        let place = |(n, gap, of): (u64, i64, Datatype)| {
                            let here = at - of.lower_bound();
                            at += n as i64 * of.extent() + gap;
                            (n, here, of)
                        };
                        let fields: Vec<_> = fields.into_iter().map(place).collect();
                        Datatype::structure(&fields).unwrap()
                    }
                ),
                (0i64..40, inner).prop_map(|(more, of)| {
                    let extent = of.true_extent() as i64 + more - 3;
                    Datatype::resized(&of, of.lower_bound(), extent).unwrap()
                }),
            ]
        })
    }

    /// `PROPTEST_CASES` asks for more.
    fn config() -> ProptestConfig {
        let config = ProptestConfig::default();
        ProptestConfig { cases: config.cases.max(3000), ..config }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn sums_agree_with_flattening(
            ty in any_type(), count in 0u64..4, displacement in -50i64..5000,
            cuts in prop::collection::vec((any::<u64>(), any::<u64>()), 1..8), seed: u64,
        ) {
            let ty = ty.displaced(displacement).unwrap();
            if ty.size() * count > 20_000 {
                return Ok(());
            }
            let point = Point::new(seed);
            let ascends = ty.is_ascending() && (count <= 1 || ty.copies_ascend());
            let span = ty.span_of(count).unwrap();
            let (low, len) = (span.low - 3, (span.high - span.low) as u64 + 6);
            for (start, end) in cuts {
                let (start, end) = (low + (start % len) as i64, low + (end % len) as i64);
                for range in [start..end, end..start, i64::MIN..start, start..i64::MAX] {
                    let sum = ty.boundary(count, range.clone(), &point);
                    if ascends {
                        let expected = slow(&ty, count, &range, &point);
                        prop_assert_eq!(sum.unwrap(), expected, "{} in {:?}", ty, range);
                    } else {
                        prop_assert_eq!(sum.unwrap_err(), TypeError::NotMonotonic);
                    }
                }
            }
        }

        #[test]
        fn powers_agree(seed: u64, exponent: i64) {
            let point = Point::new(seed);
            prop_assert_eq!(point.power(exponent), slow_power(&point, exponent));
            let product = point.power(exponent) * point.power(exponent.wrapping_neg());
            prop_assert!(exponent == i64::MIN || product == ResiduePair::ONE);
        }

        #[test]
        fn a_series_is_the_sum_of_its_terms(count in 0u64..100, q in 1..P, one: bool) {
            let q = ResiduePair([if one { 1 } else { q }, q]);
            let mut terms = (ResiduePair::ZERO, ResiduePair::ONE);
            for _ in 0..count {
                terms = (terms.0 + terms.1, terms.1 * q);
            }
            prop_assert_eq!(series(count, q), terms.0);
        }

        #[test]
        fn parts_of_a_range_add_up(
            ty in any_type(), a in -9i64..900, b in -9i64..900, c in -9i64..900,
        ) {
            if !ty.is_ascending() {
                return Ok(());
            }
            let point = Point::new(1);
            let mut at = [a, b, c];
            at.sort_unstable();
            let of = |range| ty.boundary(1, range, &point).unwrap();
            prop_assert_eq!(of(at[0]..at[1]) + of(at[1]..at[2]), of(at[0]..at[2]));
        }

        #[test]
        fn random_pieces_tile_unless_a_byte_is_wrong(
            lens in prop::collection::vec((1u64..50, 0usize..4), 4..60),
            wrong in 0usize..60, lo in 0i64..500, len in 1i64..2000,
        ) {
            let mut of_ranks = vec![Vec::new(); 4];
            let mut at = 0;
            for &(len, rank) in &lens {
                of_ranks[rank].push((len, at));
                at += len as i64;
            }
            let views = |of_ranks: &[Vec<(u64, i64)>]| -> Vec<Datatype> {
                of_ranks.iter().map(|blocks| listed(blocks)).collect()
            };
            let end = (lo + len).min(at);
            prop_assert!(tiles(&views(&of_ranks), 0..at));
            prop_assert!(lo >= end || tiles(&views(&of_ranks), lo..end));

            // A block is a byte short, a byte further on, or there twice.
            let rank = lens[wrong % lens.len()].1;
            let index = wrong % of_ranks[rank].len();
            let block = of_ranks[rank][index];
            let mut short = of_ranks.clone();
            short[rank][index].0 -= 1;
            prop_assert!(!tiles(&views(&short), 0..at));
            let mut moved = views(&short);
            moved.push(listed(&[(1, block.1 + block.0 as i64)]));
            prop_assert!(!tiles(&moved, 0..at));
            let mut twice = views(&of_ranks);
            twice.push(listed(&[block]));
            prop_assert!(!tiles(&twice, 0..at));
        }
    }

    #[test]
    fn interleaved_vectors_tile() {
        let point = Point::new(7);
        let rows: Datatype = "vector(100000, 100, stride=300)".parse().unwrap();
        let views = [0, 100, 200].map(|at| rows.displaced(at).unwrap());
        for range in [0..30_000_000, 0..1, 99..101, 12_345..29_876_543, 150..250, 7..7] {
            assert!(tiles(&views, range));
        }
        // A rank is missing; it is there twice; it is a byte off.
        assert!(!tiles(&views[..2], 0..30_000_000));
        let doubled = [&views[..], &views[1..2]].concat();
        assert!(!tiles(&doubled, 0..30_000_000));
        let moved = [views[0].clone(), views[1].displaced(1).unwrap(), views[2].clone()];
        assert!(!tiles(&moved, 0..30_000_000));
        // A fault outside of the range is not detected.
        assert!(tiles(&moved, 0..100) && !tiles(&moved, 0..101));
        let all = sum_of(&views, 0..30_000_000, &point);
        assert_eq!(
            all - views[2].boundary(1, 0..30_000_000, &point).unwrap(),
            sum_of(&views[..2], 0..30_000_000, &point)
        );
    }

    #[test]
    fn a_hole_and_an_overlap_of_the_same_size_are_detected() {
        assert!(tiles(&[listed(&[(10, 0)]), listed(&[(10, 10)]), listed(&[(10, 20)])], 0..30));
        // [8, 18) is wanted twice in part, and [18, 20) not at all.
        assert!(!tiles(&[listed(&[(10, 0)]), listed(&[(10, 8)]), listed(&[(10, 20)])], 0..30));
        assert!(!tiles(&[listed(&[(10, 0), (10, 20)]), listed(&[(10, 0)])], 0..30));
        assert!(!tiles(&[listed(&[(20, 0)]), listed(&[(9, 20)])], 0..30));
    }

    #[test]
    fn blocks_of_an_array_tile() {
        let element = Datatype::bytes(8).unwrap();
        for (row, column) in [
            (Distribution::Block(None), Distribution::Block(None)),
            (Distribution::Cyclic(3), Distribution::Block(None)),
            (Distribution::Cyclic(2), Distribution::Cyclic(5)),
        ] {
            let view = |rank| {
                let (sizes, grid) = ([37, 53], [3, 4]);
                Datatype::darray(rank, &sizes, &[row, column], &grid, Order::C, &element).unwrap()
            };
            let views: Vec<Datatype> = (0..12).map(view).collect();
            let end = 37 * 53 * 8;
            for range in [0..end, 5..end, 1000..1001, 777..9_999] {
                assert!(tiles(&views, range.clone()));
                assert!(!tiles(&views[1..], 0..end));
            }
        }
    }

    #[test]
    fn words_convert_back() {
        let sum = Point::new(3).interval(-5..1 << 40);
        assert_eq!(Boundary::from_words(sum.to_words()), sum);
        assert_eq!(Boundary::from_words([P, P + 1]).to_words(), [0, 1]);
        assert_eq!(Point::new(3).interval(9..9), Boundary::default());
    }

    #[test]
    fn points_are_neither_0_nor_1_nor_alike() {
        for seed in 0..1000 {
            let ResiduePair([a, b]) = Point::new(seed).powers[0][1];
            assert!((2..P).contains(&a) && (2..P).contains(&b) && a != b);
        }
    }

    #[test]
    fn extreme_offsets_are_summed() {
        let point = Point::new(11);
        let far = Datatype::bytes(100).unwrap();
        for at in [i64::MIN, i64::MAX - 100, -50] {
            let view = far.displaced(at).unwrap();
            assert_eq!(
                view.boundary(1, i64::MIN..i64::MAX, &point).unwrap(),
                point.interval(at..at + 100)
            );
            let half = at + 50..i64::MAX;
            assert_eq!(view.boundary(1, half, &point).unwrap(), point.interval(at + 50..at + 100));
        }
    }
}
