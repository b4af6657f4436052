use proptest::prelude::*;
use striate_testing::splitmix::SplitMix64;

use super::*;

/// Numbers that are the same in every run.
struct Deviations(SplitMix64);

impl Deviations {
    fn even(&mut self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * self.0.draw_unit() - 1.0)
    }

    fn normal(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.draw_unit()).ln()).sqrt();
        1.0 + deviation * radius * (std::f64::consts::TAU * self.0.draw_unit()).cos()
    }
}

fn kept(bandwidths: &[f64]) -> usize {
    choose(bandwidths, DELTA).cut
}

/// `healthy` targets of 100 and then the others.
fn with_slow(healthy: usize, slow: &[f64]) -> Vec<f64> {
    let mut bandwidths = vec![100.0; healthy];
    bandwidths.extend(slow);
    bandwidths
}

#[test]
fn nothing_and_one() {
    assert_eq!(choose(&[], DELTA), Choice::default());
    let one = choose(&[7.0], DELTA);
    assert_eq!((one.chosen, one.cut, one.peak, one.lower_bound), (vec![0], 1, 1, 7.0));
}

#[test]
fn all_alike_are_kept() {
    for n in 1..=200 {
        assert_eq!(kept(&vec![3.3; n]), n);
    }
}

#[test]
fn one_straggler_is_dropped() {
    for n in [4, 12, 156] {
        for factor in [9.0, 3.0, 2.0] {
            let choice = choose(&with_slow(n - 1, &[100.0 / factor]), DELTA);
            assert_eq!(choice.cut, n - 1, "{factor} times slower, one of {n}");
            assert!(!choice.is_chosen(n - 1));
        }
    }
    // Of two targets, one that is half as fast does not hold up the other.
    assert_eq!(kept(&[100.0, 50.0]), 2);
    assert_eq!(kept(&[100.0, 11.0]), 1);
}

#[test]
fn several_stragglers_are_dropped() {
    for n in [12, 156] {
        for slow in [vec![50.0; 3], vec![33.0, 11.0], vec![60.0, 50.0, 40.0, 30.0, 20.0]] {
            assert_eq!(kept(&with_slow(n - slow.len(), &slow)), n - slow.len(), "{slow:?} of {n}");
        }
    }
    // A staircase: no step is large, but the fall is.
    let stairs: Vec<f64> = (1..20).map(|i| 100.0 * 0.92f64.powi(i)).collect();
    let choice = choose(&with_slow(60, &stairs), DELTA);
    assert!((61..=65).contains(&choice.cut), "{}", choice.cut);
}

#[test]
fn the_slow_half_stays_where_it_helps() {
    assert_eq!(kept(&with_slow(78, &[60.0; 78])), 156);
    assert_eq!(kept(&with_slow(78, &[51.0; 78])), 156);
    assert_eq!(kept(&with_slow(78, &[49.0; 78])), 78);
    assert_eq!(kept(&with_slow(78, &[20.0; 78])), 78);
}

/// \[SON\]: of 156 targets, the aggregate is highest with 128, falls a little up to 144, and the
/// twelve others, all below 50 MB/s, one of them 9 times slower than most, are dropped.
fn paper(at_peak: f64, behind: f64, first_slow: f64) -> Vec<f64> {
    let line = |from: f64, to: f64, i: usize, n: usize| from + (to - from) * i as f64 / n as f64;
    let fast = (1..=128).map(|i| line(1.25 * at_peak, at_peak, i, 128));
    let middle = (1..=16).map(|i| line(at_peak, behind, i, 16));
    let slow = (0..12).map(|i| line(first_slow, at_peak / 9.0, i, 11));
    fast.chain(middle).chain(slow).collect()
}

#[test]
fn the_sample_of_the_paper_is_cut_where_the_paper_cuts() {
    for (at_peak, behind, first_slow) in
        [(62.0, 52.0, 43.0), (80.0, 62.0, 49.0), (100.0, 80.0, 49.9), (150.0, 120.0, 45.0)]
    {
        let bandwidths = paper(at_peak, behind, first_slow);
        let choice = choose(&bandwidths, DELTA);
        assert_eq!((choice.peak, choice.cut + 1), (128, 145), "{at_peak} {behind} {first_slow}");
        assert!(choice.order[choice.cut..].iter().all(|&target| bandwidths[target] < 50.0));
        assert!(choice.lower_bound >= 50.0);
        assert_eq!(bandwidths.len() - choice.chosen.len(), 12);
    }
}

#[test]
fn noise_of_a_fifth_drops_no_target() {
    let mut dice = Deviations(SplitMix64::new(1));
    for n in 2..=200 {
        for _ in 0..200 {
            let bandwidths: Vec<f64> = (0..n).map(|_| 100.0 * dice.even(0.2)).collect();
            assert_eq!(kept(&bandwidths), n, "{bandwidths:?}");
        }
    }
}

#[test]
fn normal_noise_drops_almost_no_target() {
    let mut dice = Deviations(SplitMix64::new(2));
    let (mut all, mut dropped) = (0, 0);
    for n in 2..=200 {
        for _ in 0..100 {
            let bandwidths: Vec<f64> = (0..n).map(|_| 100.0 * dice.normal(0.1)).collect();
            all += n;
            dropped += n - kept(&bandwidths);
        }
    }
    assert!(dropped * 500 < all, "{dropped} of {all}");
}

#[test]
fn noise_does_not_hide_a_straggler() {
    let mut dice = Deviations(SplitMix64::new(3));
    for n in [4, 12, 156] {
        for _ in 0..1000 {
            let mut bandwidths: Vec<f64> = (0..n).map(|_| 100.0 * dice.even(0.2)).collect();
            bandwidths[0] /= 9.0;
            let choice = choose(&bandwidths, DELTA);
            assert_eq!(choice.chosen, (1..n).collect::<Vec<_>>(), "{bandwidths:?}");
        }
    }
}

/// Targets that share a link are measured slower, the more of them are measured at once; the last
/// ones, measured with fewer others, seem faster. That is no reason to drop the slower ones.
#[test]
fn targets_behind_one_link_are_kept() {
    for n in 1..40 {
        for at_once in 1..=n {
            let alone = n % at_once;
            let share = |i: usize| 100.0 / if i < alone { alone } else { at_once } as f64;
            assert_eq!(kept(&(0..n).map(share).collect::<Vec<_>>()), n, "{n} {at_once}");
        }
    }
}

#[test]
fn failed_targets_are_chosen_only_if_all_have_failed() {
    let bandwidths = [0.0, 90.0, f64::NAN, -5.0, 100.0, f64::INFINITY, f64::NEG_INFINITY];
    let choice = choose(&bandwidths, DELTA);
    assert_eq!(choice.chosen, [1, 4]);
    assert_eq!(choice.order, [4, 1, 0, 2, 3, 5, 6]);
    assert_eq!(choice.aggregate, [100.0, 180.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert!((choice.full_aggregate() - 180.0).abs() < 1e-9);
    // However much may be given up.
    assert_eq!(choose(&bandwidths, 1e9).chosen, [1, 4]);

    let none = choose(&[0.0, f64::NAN], DELTA);
    assert_eq!((none.chosen.as_slice(), none.cut, none.peak), (&[0, 1][..], 2, 0));
    assert!(none.lower_bound == 0.0 && none.chosen_aggregate() == 0.0);
}

#[test]
fn delta_is_what_may_be_given_up() {
    let bandwidths = with_slow(9, &[85.0, 70.0, 40.0]);
    let cuts = [f64::NAN, -1.0, 0.0, 0.06, 0.15, 0.5, 1.0, f64::INFINITY]
        .map(|delta| choose(&bandwidths, delta).cut);
    assert_eq!(cuts, [9, 9, 9, 10, 11, 12, 12, 12]);
}

#[test]
fn large_and_small_units_do_not_matter() {
    for unit in [1e-300, 1.0, 1e300] {
        assert_eq!(kept(&[10.0 * unit, 9.0 * unit, 9.0 * unit, unit]), 3);
    }
    assert_eq!(kept(&[f64::MAX, f64::MAX, f64::MIN_POSITIVE / 2.0]), 2);
}

fn bandwidth() -> impl Strategy<Value = f64> {
    prop_oneof![
        10 => 1e-3..1e3,
        4 => (1u32..20).prop_map(f64::from),
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => -10.0..0.0,
    ]
}

fn sorted(choice: &Choice, bandwidths: &[f64]) -> Vec<u64> {
    let mut values: Vec<u64> = choice.chosen.iter().map(|&t| bandwidths[t].to_bits()).collect();
    values.sort_unstable();
    values
}

proptest! {
    #[test]
    fn the_order_of_the_input_does_not_matter(
        (given, shuffled) in prop::collection::vec(bandwidth(), 0..60)
            .prop_flat_map(|given| (Just(given.clone()), Just(given).prop_shuffle())),
        delta in 0.0..1.0,
    ) {
        let (one, other) = (choose(&given, delta), choose(&shuffled, delta));
        prop_assert_eq!(sorted(&one, &given), sorted(&other, &shuffled));
        prop_assert_eq!(one.aggregate, other.aggregate);
        prop_assert_eq!((one.cut, one.peak), (other.cut, other.peak));
    }

    #[test]
    fn the_unit_does_not_matter(
        given in prop::collection::vec(bandwidth(), 0..60),
        unit in 1e-6..1e6,
        delta in 0.0..1.0,
    ) {
        let scaled: Vec<f64> = given.iter().map(|bandwidth| bandwidth * unit).collect();
        let (one, other) = (choose(&given, delta), choose(&scaled, delta));
        prop_assert_eq!(one.chosen, other.chosen);
        prop_assert_eq!((one.cut, one.peak), (other.cut, other.peak));
    }

    #[test]
    fn all_at_or_above_the_bound_are_chosen_and_give_enough(
        given in prop::collection::vec(bandwidth(), 1..60),
        delta in 0.0..1.0,
    ) {
        let choice = choose(&given, delta);
        prop_assert!(!choice.chosen.is_empty());
        prop_assert_eq!(choice.chosen.len(), choice.cut);
        let mut all = choice.order.clone();
        all.sort_unstable();
        prop_assert_eq!(all, (0..given.len()).collect::<Vec<_>>());
        if given.iter().any(|&bandwidth| is_usable(bandwidth)) {
            for (target, &bandwidth) in given.iter().enumerate() {
                let above = is_usable(bandwidth) && bandwidth >= choice.lower_bound;
                prop_assert_eq!(choice.is_chosen(target), above);
            }
            // No subset gives more than the best, and this one nearly as much.
            let best = choice.aggregate.iter().copied().fold(0.0, f64::max);
            prop_assert!(choice.chosen_aggregate() >= best * (1.0 - delta) * (1.0 - 1e-6));
            prop_assert!(choice.cut >= choice.peak && choice.peak > 0);
        }
    }

    #[test]
    fn more_may_be_given_up_for_more_targets(
        given in prop::collection::vec(bandwidth(), 1..60),
        delta in 0.0..1.0,
        more in 0.0..1.0,
    ) {
        prop_assert!(choose(&given, delta).cut <= choose(&given, delta + more).cut);
    }

    /// The aggregate keeps 0.8 / 1.2 of its peak, whatever the samples are.
    #[test]
    fn noise_of_a_fifth_never_costs_more_than_a_third(
        given in prop::collection::vec(prop_oneof![Just(0.8), Just(1.2), 0.8..1.2], 1..200),
    ) {
        prop_assert_eq!(choose(&given, 1.0 / 3.0).cut, given.len());
    }
}
