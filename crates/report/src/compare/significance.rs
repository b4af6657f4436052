//! Significance tests that make no assumption about the distribution of samples.

use striate_statistics::{bootstrap, median};

use super::{Change, Verdict};
use crate::durations::Durations;

/// What is taken for chance.
const LEVEL: f64 = 0.05;
/// Fewer samples than these say nothing.
const LEAST: usize = 4;

/// A test of two lists of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Test {
    pub(super) p: f64,
    /// The interval of the second median over the first.
    pub(super) ci95: [f64; 2],
}

/// Adds a test to a change. The verdict follows when all are there.
pub(super) fn tested(mut change: Change, test: Option<Test>) -> Change {
    if let Some(Test { p, ci95 }) = test {
        change.p = Some(p);
        change.ci95 = ci95.iter().all(|end| end.is_finite()).then_some(ci95);
    }
    change
}

/// Corrects the probabilities of all tests for their number, and judges.
pub(super) fn correct(changes: &mut [Change]) {
    let mut order: Vec<usize> = (0..changes.len()).filter(|n| changes[*n].p.is_some()).collect();
    let p = |change: &Change| change.p.unwrap_or(1.0);
    order.sort_by(|a, b| p(&changes[*a]).total_cmp(&p(&changes[*b])));
    let count = order.len() as f64;
    let mut least = 1.0f64;
    for (place, n) in order.iter().enumerate().rev() {
        least = least.min(p(&changes[*n]) * count / (place + 1) as f64);
        let change = &mut changes[*n];
        change.p = Some(least);
        let apart = change.ci95.is_none_or(|[low, high]| low > 1.0 || high < 1.0);
        let speaks = least < LEVEL && apart;
        change.verdict = if speaks { Verdict::Significant } else { Verdict::NotSignificant };
    }
}

/// Tests lists of samples.
pub(super) fn samples(a: &[f64], b: &[f64]) -> Option<Test> {
    if a.len().min(b.len()) < LEAST || a.iter().chain(b).any(|sample| !sample.is_finite()) {
        return None;
    }
    Some(Test { p: mann_whitney(a, b), ci95: ratio_interval(a, b)? })
}

/// The probability that two lists from the same distribution differ as much in their order.
fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|v| (*v, false)).chain(b.iter().map(|v| (*v, true))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    // Samples that are equal form groups.
    let mut groups: Vec<[u64; 2]> = Vec::new();
    let mut last = None;
    for (value, second) in all {
        if last != Some(value) {
            groups.push([0, 0]);
            last = Some(value);
        }
        if let Some(group) = groups.last_mut() {
            group[usize::from(second)] += 1;
        }
    }
    let ties = groups.iter().any(|group| group[0] + group[1] > 1);
    if !ties && a.len() + b.len() <= 40 {
        let mut u = 0u64;
        let mut below = 0;
        for group in &groups {
            u += group[0] * below;
            below += group[1];
        }
        return exact(a.len(), b.len(), u as usize);
    }
    grouped(&groups)
}

/// Of all orders of `n` and `m` samples, the part in which as many or more pairs lie on one side.
fn exact(n: usize, m: usize, u: usize) -> f64 {
    let most = n * m;
    // ways[j][u]: orders of i of the first and j of the second with u pairs; i grows.
    let mut ways = vec![vec![0f64; most + 1]; m + 1];
    for row in &mut ways {
        row[0] = 1.0;
    }
    for _ in 1..=n {
        let mut next = vec![vec![0f64; most + 1]; m + 1];
        for j in 0..=m {
            for u in 0..=most {
                // The largest is of the first: it lies above all j of the second; or it is of the
                // second.
                let first = if u >= j { ways[j][u - j] } else { 0.0 };
                let second = if j > 0 { next[j - 1][u] } else { 0.0 };
                next[j][u] = first + second;
            }
        }
        ways = next;
    }
    let ways = &ways[m];
    let all: f64 = ways.iter().sum();
    let u = u.min(most - u);
    let tail: f64 = ways[..=u].iter().sum();
    (2.0 * tail / all).min(1.0)
}

/// The same by the normal distribution, of samples in groups that are equal.
fn grouped(groups: &[[u64; 2]]) -> f64 {
    let (mut u, mut below, mut ties) = (0f64, 0f64, 0f64);
    let (mut n, mut m) = (0f64, 0f64);
    for [a, b] in groups {
        let (a, b) = (*a as f64, *b as f64);
        u += a * (below + b / 2.0);
        below += b;
        ties += (a + b).powi(3) - (a + b);
        n += a;
        m += b;
    }
    let all = n + m;
    if n == 0.0 || m == 0.0 {
        return 1.0;
    }
    let variance = n * m / 12.0 * ((all + 1.0) - ties / (all * (all - 1.0)).max(1.0));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    both_tails(z)
}

/// The probability of being farther from the mean than so many deviations (Abramowitz and Stegun,
/// 7.1.26).
fn both_tails(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = terms.into_iter().fold(0.0, |sum, term| (sum + term) * t);
    (sum * (-x * x).exp()).clamp(0.0, 1.0)
}

/// The interval of the second median over the first, by the bootstrap.
fn ratio_interval(a: &[f64], b: &[f64]) -> Option<[f64; 2]> {
    bootstrap(b, a, |b, a| Some(median(b)?.value / median(a)?.value))
}

/// Tests how long calls took.
pub(super) fn durations(a: &Durations, b: &Durations) -> Option<Test> {
    let (n, m) = (a.count(), b.count());
    if n.min(m) < LEAST as u64 {
        return None;
    }
    let mut groups: std::collections::BTreeMap<u16, [u64; 2]> = std::collections::BTreeMap::new();
    for (side, durations) in [a, b].into_iter().enumerate() {
        for (bucket, count) in durations.buckets() {
            groups.entry(bucket).or_default()[side] = count;
        }
    }
    let groups: Vec<[u64; 2]> = groups.into_values().collect();
    // Order statistics around both medians: together they enclose the ratio more often than said.
    let ends = |durations: &Durations| {
        let count = durations.count();
        let outside = ((count as f64 / 2.0 - 0.98 * (count as f64).sqrt()).max(0.0)) as u64;
        Some([durations.at(outside)?, durations.at(count - 1 - outside)?])
    };
    let ([low_a, high_a], [low_b, high_b]) = (ends(a)?, ends(b)?);
    let ci95 = [low_b / high_a.max(1.0), high_b / low_a.max(1.0)];
    Some(Test { p: grouped(&groups), ci95 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_tables() {
        // Complete separation of 4 and 4: 2 of 70 orders. Of 5 and 5: 2 of 252.
        let apart = |n: usize| {
            let a: Vec<f64> = (0..n).map(|v| v as f64).collect();
            let b: Vec<f64> = (0..n).map(|v| 100.0 + v as f64).collect();
            mann_whitney(&a, &b)
        };
        assert!((apart(4) - 2.0 / 70.0).abs() < 1e-12);
        assert!((apart(5) - 2.0 / 252.0).abs() < 1e-12);
        // The table of critical values: U = 17 is the last one at 9 and 9 for 5 % in both tails.
        assert!(exact(9, 9, 17) <= 0.05 && exact(9, 9, 18) > 0.05);
        assert!((exact(3, 3, 4) - 1.0).abs() < 1e-12 || exact(3, 3, 4) < 1.0);
        // The normal distribution.
        assert!((both_tails(1.959_964) - 0.05).abs() < 1e-5);
        assert!((both_tails(0.0) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn exact_counts_agree_with_all_orders() {
        // All orders of 3 and 4, one by one.
        let (n, m) = (3u32, 4u32);
        let mut counts = [0u64; 13];
        for order in 0..1u32 << (n + m) {
            if order.count_ones() != n {
                continue;
            }
            let (mut below, mut u) = (0, 0);
            for place in 0..n + m {
                if order >> place & 1 == 1 { u += below } else { below += 1 }
            }
            counts[u] += 1;
        }
        for u in 0..=12usize {
            let tail: u64 = counts[..=u.min(12 - u)].iter().sum();
            let expected = (2.0 * tail as f64 / 35.0).min(1.0);
            assert!((exact(3, 4, u) - expected).abs() < 1e-12, "{u}");
        }
    }

    #[test]
    fn the_same_is_not_significant_and_double_is() {
        let a: Vec<f64> = (0..20).map(|n| 100.0 + f64::from(n * 7 % 13)).collect();
        let shuffled: Vec<f64> = (0..20).map(|n| 100.5 + f64::from(n * 5 % 13)).collect();
        let double: Vec<f64> = a.iter().map(|v| v * 2.0).collect();
        assert!(samples(&a, &shuffled).unwrap().p > 0.05);
        let test = samples(&a, &double).unwrap();
        assert!(test.p < 1e-5 && test.ci95[0] > 1.8 && test.ci95[1] < 2.2, "{test:?}");
        assert_eq!(samples(&a[..3], &a), None);
        assert_eq!(samples(&[f64::NAN; 5], &a), None);
    }

    #[test]
    fn many_tests_are_corrected() {
        let change = |p| Change {
            p: Some(p),
            ..Change::measured("", "", super::super::Unit::Count, 1.0, 2.0)
        };
        let mut changes = [change(0.04), change(0.001), change(0.5), change(0.9)];
        correct(&mut changes);
        let p: Vec<f64> = changes.iter().filter_map(|change| change.p).collect();
        assert!((p[0] - 0.08).abs() < 1e-12 && (p[1] - 0.004).abs() < 1e-12, "{p:?}");
        assert_eq!(changes[0].verdict, Verdict::NotSignificant);
        assert_eq!(changes[1].verdict, Verdict::Significant);
    }

    #[test]
    fn durations_are_tested_over_calls() {
        let filled = |around: u64| {
            let mut durations = Durations::default();
            (0..1000).for_each(|n| durations.add(around + n % 100));
            durations
        };
        assert!(durations(&filled(1000), &filled(1000)).unwrap().p > 0.9);
        let test = durations(&filled(1000), &filled(3000)).unwrap();
        assert!(test.p < 1e-9 && test.ci95[0] > 2.0, "{test:?}");
    }
}
