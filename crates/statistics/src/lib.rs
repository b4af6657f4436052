//! Medians, spreads and ratios of samples, with their confidence intervals.
//!
//! Times on shared machines are not normally distributed \[SEIZ\], so no function assumes that they
//! are: the interval of a [`median`] comes from order statistics, that of [`spreads`] from the
//! [`bootstrap()`]. [`Ratio`] compares two series round by round. Benchmarks and the comparison of
//! their results both use this crate, which depends on neither.

mod bootstrap;
mod ratio;

use serde::Serialize;

pub use bootstrap::bootstrap;
pub use ratio::Ratio;

/// A median and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// Lower and upper end of the interval.
    pub ci95: [f64; 2],
}

/// The median of `samples` with its interval; `None` of none.
///
/// The interval lies between the order statistics whose ranks enclose the median with at least 95 %
/// probability (binomial with p = ½); with fewer than six samples it is their whole range.
pub fn median(samples: &[f64]) -> Option<Median> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let value = match n {
        0 => return None,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    };
    let rank = outside_ranks(n);
    Some(Median { value, ci95: [sorted[rank], sorted[n - 1 - rank]] })
}

/// How many samples at each end may lie outside of the interval.
fn outside_ranks(n: usize) -> usize {
    // P(at most k of n samples lie below the median), for as long as one tail stays under 2.5 %.
    let mut term = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut tail = term;
    let mut rank = 0;
    while tail <= 0.025 {
        rank += 1;
        term *= (n - rank + 1) as f64 / rank as f64;
        tail += term;
    }
    rank.saturating_sub(1)
}

/// How much samples vary: their standard deviation over their mean; `None` of fewer than two.
pub fn spread(samples: &[f64]) -> Option<f64> {
    let n = samples.len() as f64;
    if samples.len() < 2 {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (mean > 0.0).then(|| (squares / (n - 1.0)).sqrt() / mean)
}

/// Spread of the first over that of the second, with its 95 % interval; `None` if either has none.
///
/// The interval is that of the [`bootstrap()`] over rounds.
pub fn spreads(first: &[f64], second: &[f64]) -> Option<(f64, [f64; 2])> {
    // A spread below what clocks can measure: a resample that drew the same round every time.
    const LEAST: f64 = 1e-6;
    let value = spread(first)? / spread(second)?.max(LEAST);
    let interval = bootstrap(first, second, |first, second| {
        Some(spread(first)? / spread(second).filter(|spread| *spread > LEAST)?)
    });
    Some((value, interval.unwrap_or([value; 2])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[]), None);
        for (samples, value) in
            [(&[3.0][..], 3.0), (&[4.0, 1.0, 3.0], 3.0), (&[4.0, 1.0, 3.0, 2.0], 2.5)]
        {
            assert!((median(samples).unwrap().value - value).abs() < 1e-12);
        }
    }

    #[test]
    fn spread_is_the_deviation_over_the_mean() {
        assert_eq!(spread(&[1.0]), None);
        assert_eq!(spread(&[2.0, 2.0]), Some(0.0));
        // Deviations of -1, 0 and 1 around 4.
        assert!((spread(&[3.0, 4.0, 5.0]).unwrap() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn spreads_are_compared_with_an_interval() {
        let wide: Vec<f64> = (0..20).map(|i| 10.0 + f64::from(i % 5)).collect();
        let narrow: Vec<f64> = wide.iter().map(|sample| 50.0 + sample / 10.0).collect();
        let (value, [low, high]) = spreads(&wide, &narrow).unwrap();
        assert!(low > 5.0 && low <= value && value <= high, "{value} [{low}, {high}]");
        assert_eq!(spreads(&wide, &[1.0]), None);
        // What does not vary at all does not divide by zero.
        assert!(spreads(&wide, &[1.0, 1.0]).unwrap().0.is_finite());
    }

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // Tables of the sign test: ranks (from 1) 1..5 at n = 5, 1..6 at 6, 2..8 at 9, 4..12 at 15,
        // 6..15 at 20, 10..21 at 30.
        for (n, low) in [(1, 1), (5, 1), (6, 1), (9, 2), (15, 4), (20, 6), (30, 10)] {
            let samples: Vec<f64> = (1..=n).map(f64::from).collect();
            let [from, to] = median(&samples).unwrap().ci95;
            assert_eq!((from, to), (f64::from(low), f64::from(n + 1 - low)), "n = {n}");
        }
    }
}
