//! The bootstrap: a confidence interval of any statistic of two series, by drawing samples again.
//!
//! The generator has a fixed seed, so the same samples always have the same interval.

/// How often both series are drawn.
const RESAMPLES: usize = 2000;

/// The 95 % interval of `statistic` over resamples of both series, each drawn with replacement and
/// as long as its series; `None` if no resample has a value.
pub fn bootstrap(
    first: &[f64],
    second: &[f64],
    statistic: impl Fn(&[f64], &[f64]) -> Option<f64>,
) -> Option<[f64; 2]> {
    let mut state = 1u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below as u64) as usize
    };
    let mut resample = |samples: &[f64]| -> Vec<f64> {
        samples.iter().map(|_| samples[random(samples.len())]).collect()
    };
    let mut values: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let first = resample(first);
            statistic(&first, &resample(second))
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let outside = values.len() / 40;
    let last = values.len().checked_sub(outside + 1)?;
    Some([values[outside], values[last]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_encloses_the_ratio_of_means() {
        let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
        let first: Vec<f64> = (0..20).map(|i| 20.0 + f64::from(i % 5)).collect();
        let second: Vec<f64> = first.iter().map(|sample| sample / 2.0).collect();
        let ratio = |a: &[f64], b: &[f64]| Some(mean(a) / mean(b));
        let [low, high] = bootstrap(&first, &second, ratio).unwrap();
        assert!(1.9 < low && low < 2.0 && 2.0 < high && high < 2.1, "[{low}, {high}]");
        assert_eq!(bootstrap(&first, &second, ratio), Some([low, high]), "the seed is fixed");
        assert_eq!(bootstrap(&first, &second, |_, _| None), None);
    }
}
