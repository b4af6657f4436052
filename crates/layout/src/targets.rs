//! Which storage targets to use: Algorithm 1 of \[SON\], with a walk that starts at the peak.
//!
//! Equal shares of a file on the `i` fastest targets are written as fast as the slowest of them
//! allows: together they give 𝔹ᵢ = i × Bᵢ, the *aggregate*. With the bandwidths sorted from fast to
//! slow, it rises while targets are alike and falls where a slow one delays the others.
//!
//! [`choose`] sorts, finds the peak of the aggregate, and walks on from there until the aggregate
//! has fallen *significantly*: by more than δ of its peak. The bandwidth before that is the lower
//! bound; every target at or above it is chosen.
//!
//! # What is meant by the derivative
//!
//! \[SON\] walks from the first target on, and stops where the derivative of the aggregate is
//! negative beyond a threshold. Taken literally, as the difference 𝔹ᵢ − 𝔹ᵢ₋₁, that has three
//! faults:
//!
//! * A fall before the peak is no reason to stop. Of 78 targets of 100 MB/s and 78 of 60 MB/s, the
//!   79th makes the aggregate fall from 7,800 to 4,740 MB/s, yet all together give 9,360.
//! * Many small steps are a large fall. Targets that are each 8 % slower than the one before pass
//!   any threshold for a single step that noise passes, too.
//! * Its unit is MB/s, so that a threshold would fit one machine and one number of targets only.
//!
//! So the walk begins at the (last) highest point, and what is compared with δ is the sum of the
//! derivative since then, in parts of the peak: (𝔹ₚ − 𝔹ᵢ) / 𝔹ₚ. It has no unit, and δ has a
//! meaning: **how much of the best aggregate may be given up to use more targets.** Whatever the
//! bandwidths are, the chosen targets give at least 1 − δ of what any choice could give, if the
//! samples are right.
//!
//! The first small declines behind the peak are mostly noise of the samples. A target that is
//! measured as 10 % slower than it is costs 10 % of the aggregate only on paper, and leaving it out
//! costs its share. With noise of ± 20 %, no target is ever left out if δ is a third or more (the
//! aggregate keeps 0.8 / 1.2 of its peak), and practically none from δ = 0.2 on, since that takes
//! all others to be near the upper end. `docs/targets.md` has the study that [`DELTA`] comes from
//! (`cargo run --release --example target_study -p striate-layout`).

#[cfg(test)]
mod tests;

/// The default fraction of the highest aggregate that may be given up to use more targets.
pub const DELTA: f64 = 0.2;

/// Sums and products of equal samples differ by less than this part; so do equal aggregates.
const ROUNDING: f64 = 1e-9;

/// Which targets to use, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// The targets, as indices of what was given, from fast to slow. Those that cannot be used
    /// come last.
    pub order: Vec<usize>,
    /// Element `i` is what the first `i + 1` of the order give together: i + 1 times the bandwidth
    /// of the slowest of them. 0 from the first on that cannot be used.
    pub aggregate: Vec<f64>,
    /// The chosen targets, as indices of what was given, ascending.
    pub chosen: Vec<usize>,
    /// How many targets of the order are chosen: the first that is not is target `cut`, counted
    /// from 0.
    pub cut: usize,
    /// The bandwidth of the slowest chosen target.
    pub lower_bound: f64,
    /// How many targets of the order give the highest aggregate.
    pub peak: usize,
}

impl Choice {
    /// Whether a target is chosen.
    pub fn is_chosen(&self, target: usize) -> bool {
        self.chosen.binary_search(&target).is_ok()
    }

    /// What the chosen targets give together.
    pub fn chosen_aggregate(&self) -> f64 {
        self.cut.checked_sub(1).and_then(|last| self.aggregate.get(last)).copied().unwrap_or(0.0)
    }

    /// What all targets that can be used give together.
    pub fn full_aggregate(&self) -> f64 {
        self.aggregate.iter().copied().rfind(|&aggregate| aggregate > 0.0).unwrap_or(0.0)
    }
}

/// Chooses among targets by their bandwidths, in any unit.
///
/// A bandwidth that is no positive, finite number says that the target cannot be used; such targets
/// are chosen, all of them, only if there are no others. A `delta` below 0, or no number, counts as
/// 0: the targets of the highest aggregate.
///
/// ```
/// use striate_layout::targets::{DELTA, choose};
/// // One of four targets is three times slower than the others.
/// let choice = choose(&[100.0, 33.0, 95.0, 104.0], DELTA);
/// assert_eq!(choice.order, [3, 0, 2, 1]);
/// assert_eq!(choice.aggregate, [104.0, 200.0, 285.0, 132.0]);
/// assert_eq!((choice.peak, choice.cut, choice.lower_bound), (3, 3, 95.0));
/// assert_eq!(choice.chosen, [0, 2, 3]);
/// ```
pub fn choose(bandwidths: &[f64], delta: f64) -> Choice {
    let speed = |&target: &usize| bandwidths[target];
    let (mut order, unusable): (Vec<usize>, Vec<usize>) =
        (0..bandwidths.len()).partition(|target| is_usable(speed(target)));
    // Equally fast ones stay in the order of their indices.
    order.sort_by(|a, b| speed(b).total_cmp(&speed(a)));
    let usable = order.len();
    let (Some(fastest), Some(_)) = (order.first().map(speed), order.last()) else {
        return Choice {
            aggregate: vec![0.0; unusable.len()],
            chosen: unusable.clone(),
            cut: unusable.len(),
            order: unusable,
            ..Choice::default()
        };
    };
    let count = |i: usize| i as f64 + 1.0;
    // In parts of the fastest, so that sums stay in range whatever the unit is.
    let relative: Vec<f64> =
        order.iter().enumerate().map(|(i, t)| count(i) * (speed(t) / fastest)).collect();
    let highest = relative.iter().copied().fold(0.0, f64::max);
    let reaches = |part: f64| move |&aggregate: &f64| aggregate >= highest * (part - ROUNDING);
    let peak = relative.iter().rposition(reaches(1.0)).map_or(usable, |last| last + 1);
    let least = 1.0 - if delta > 0.0 { delta } else { 0.0 };
    let behind = &relative[peak..];
    let cut = peak
        + behind.iter().position(|aggregate| !reaches(least)(aggregate)).unwrap_or(behind.len());

    let mut chosen = order[..cut].to_vec();
    chosen.sort_unstable();
    let mut aggregate: Vec<f64> =
        order.iter().enumerate().map(|(i, t)| count(i) * speed(t)).collect();
    aggregate.resize(bandwidths.len(), 0.0);
    let lower_bound = order[..cut].last().map_or(0.0, speed);
    order.extend(unusable);
    Choice { order, aggregate, chosen, cut, lower_bound, peak }
}

/// Whether a bandwidth is one that was measured.
fn is_usable(bandwidth: f64) -> bool {
    bandwidth.is_finite() && bandwidth > 0.0
}
