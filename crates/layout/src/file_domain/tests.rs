//! Every kind agrees with a twin that assigns units and bytes one by one.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn number(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

fn small(n: u64) -> NonZeroU32 {
    NonZeroU32::new(n as u32).unwrap()
}

fn domains(kind: DomainKind, range: Range<u64>, aggregators: u64, window: u64) -> Domains {
    Domains::new(kind, range, number(aggregators), number(window))
}

fn windows_of(domains: &Domains, aggregator: u64) -> Vec<Range<u64>> {
    (0..domains.windows(aggregator)).map(|i| domains.window(aggregator, i).unwrap()).collect()
}

/// The targets of each set: sizes by assigning one by one, then consecutive targets.
fn twin_sets(targets: u64, x: u64, n: u64) -> Vec<Vec<u64>> {
    let mut sizes = vec![0; targets.div_ceil(x).min(n) as usize];
    let sets = sizes.len();
    for target in 0..targets as usize {
        sizes[target % sets] += 1;
    }
    let mut next = 0..targets;
    sizes.iter().map(|&size| next.by_ref().take(size).collect()).collect()
}

/// The windows of each aggregator, found by computing for each byte its owner and its window of a
/// chunk. Bytes that agree on both form a window.
fn twin(kind: DomainKind, range: Range<u64>, n: u64, window: u64) -> Vec<Vec<Range<u64>>> {
    let len = range.end - range.start;
    let mut of_bytes = BTreeMap::<_, Vec<u64>>::new();
    let unit = match kind {
        DomainKind::Even => 1,
        DomainKind::Aligned { unit }
        | DomainKind::StaticCycling { unit }
        | DomainKind::GroupCycling { unit, .. }
        | DomainKind::XTarget { unit, .. } => unit.get(),
    };
    let units: Vec<u64> =
        range.clone().map(|byte| byte / unit).collect::<BTreeSet<_>>().into_iter().collect();
    // The number of units of each aggregator when they are assigned one by one.
    let mut shares = vec![0usize; n as usize];
    for i in 0..units.len() {
        shares[i % n as usize] += 1;
    }
    let mut rest = units.clone().into_iter();
    let aligned: Vec<Vec<u64>> =
        shares.iter().map(|&share| rest.by_ref().take(share).collect()).collect();

    for byte in range.clone() {
        let at = byte / unit;
        // The owner, a name for the chunk, and the chunk's first unit.
        let (owner, chunk, first) = match kind {
            DomainKind::Even => {
                let starts = |i: u64| range.start + len * i / n;
                let owner = (0..n).rfind(|&i| starts(i) <= byte).unwrap();
                (owner, 0, starts(owner))
            }
            DomainKind::Aligned { .. } => {
                let owner = aligned.iter().position(|units| units.contains(&at)).unwrap();
                (owner as u64, 0, aligned[owner][0])
            }
            DomainKind::StaticCycling { .. } => (at % n, at, at),
            DomainKind::GroupCycling { targets, .. } => {
                let targets = u64::from(targets.get());
                let stripes: Vec<u64> = units
                    .iter()
                    .map(|unit| unit / targets)
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect();
                let stripe = stripes.binary_search(&(at / targets)).unwrap() as u64;
                let group = stripe * n / stripes.len() as u64 / targets;
                let members = (0..n).filter(|a| a / targets == group).count() as u64;
                (group * targets + at % members, at, at)
            }
            DomainKind::XTarget { targets, x, .. } => {
                let targets = u64::from(targets.get());
                let sets = twin_sets(targets, u64::from(x.get()), n);
                let set = sets.iter().position(|set| set.contains(&(at % targets))).unwrap();
                let members: Vec<u64> =
                    (0..n).filter(|a| a % sets.len() as u64 == set as u64).collect();
                let row = at / targets;
                (members[row as usize % members.len()], row, row * targets + sets[set][0])
            }
        };
        let place = match kind {
            DomainKind::Even => ((byte - first) / window, 0),
            _ if window >= unit => ((at - first) / (window / unit), 0),
            _ => (at - first, byte % unit / window),
        };
        of_bytes.entry((owner, chunk, place)).or_default().push(byte);
    }
    let mut all = vec![Vec::new(); n as usize];
    for ((owner, ..), bytes) in of_bytes {
        let window = bytes[0]..bytes[bytes.len() - 1] + 1;
        assert_eq!(window.end - window.start, bytes.len() as u64, "a window is contiguous");
        all[owner as usize].push(window);
    }
    for windows in &mut all {
        windows.sort_by_key(|window| window.start);
    }
    all
}

fn any_kind() -> impl Strategy<Value = DomainKind> {
    let unit = || (1u64..12).prop_map(number);
    let targets = || (1u64..8).prop_map(small);
    prop_oneof![
        Just(DomainKind::Even),
        unit().prop_map(|unit| DomainKind::Aligned { unit }),
        unit().prop_map(|unit| DomainKind::StaticCycling { unit }),
        (unit(), targets()).prop_map(|(unit, targets)| DomainKind::GroupCycling { unit, targets }),
        (unit(), targets(), (1u64..9).prop_map(small))
            .prop_map(|(unit, targets, x)| DomainKind::XTarget { unit, targets, x }),
    ]
}

fn any_domains() -> impl Strategy<Value = Domains> {
    (any_kind(), 0u64..200, 0u64..300, 1u64..24, 1u64..40).prop_map(
        |(kind, start, len, aggregators, window)| {
            domains(kind, start..start + len, aggregators, window)
        },
    )
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(3000), ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn windows_agree_with_the_twin(d in any_domains()) {
        let twin = twin(d.kind, d.range(), d.aggregators(), d.window.get());
        for (aggregator, windows) in (0..).zip(&twin) {
            prop_assert_eq!(&windows_of(&d, aggregator), windows, "aggregator {}", aggregator);
            prop_assert_eq!(d.window(aggregator, windows.len() as u64), None);
            let extent = windows.first().map(|first| first.start..windows[windows.len() - 1].end);
            prop_assert_eq!(d.extent(aggregator), extent);
        }
        prop_assert_eq!(d.rounds(), twin.iter().map(Vec::len).max().unwrap() as u64);
        prop_assert_eq!(d.windows(d.aggregators()), 0);
    }

    #[test]
    fn windows_partition_the_range(d in any_domains()) {
        let mut all = Vec::new();
        for aggregator in 0..d.aggregators() {
            let windows = windows_of(&d, aggregator);
            let is_valid = |w: &Range<u64>| w.end - w.start <= d.window.get() && !w.is_empty();
            prop_assert!(windows.iter().all(is_valid));
            prop_assert!(windows.windows(2).all(|pair| pair[0].end <= pair[1].start));
            all.extend(windows);
        }
        all.sort_by_key(|window| window.start);
        let mut at = d.range.start;
        for window in all {
            prop_assert_eq!(window.start, at);
            at = window.end;
        }
        prop_assert_eq!(at, d.range.end);
    }

    #[test]
    fn offsets_find_their_windows(d in any_domains()) {
        for offset in d.range.start.saturating_sub(30)..d.range.end + 30 {
            let owner = d.owner(offset);
            prop_assert_eq!(owner.is_some(), d.range.contains(&offset));
            if let Some((aggregator, i)) = owner {
                let window = d.window(aggregator, i);
                prop_assert!(window.is_some_and(|window| window.contains(&offset)));
            }
        }
        for aggregator in 0..=d.aggregators() {
            let windows = windows_of(&d, aggregator);
            for offset in d.range.start.saturating_sub(30)..d.range.end + 30 {
                let scan = windows.iter().position(|window| window.end > offset);
                let scan = scan.unwrap_or(windows.len()) as u64;
                prop_assert_eq!(d.window_after(aggregator, offset), scan);
            }
        }
    }

    #[test]
    fn windows_hold_whole_units_or_lie_inside_of_one(d in any_domains()) {
        let unit = match d.kind {
            DomainKind::Even => return Ok(()),
            DomainKind::Aligned { unit }
            | DomainKind::StaticCycling { unit }
            | DomainKind::GroupCycling { unit, .. }
            | DomainKind::XTarget { unit, .. } => unit.get(),
        };
        let on_unit = |at: u64| at.is_multiple_of(unit) || at == d.range.start || at == d.range.end;
        for window in (0..d.aggregators()).flat_map(|aggregator| windows_of(&d, aggregator)) {
            let whole = on_unit(window.start) && on_unit(window.end);
            let inside = window.start / unit == (window.end - 1) / unit;
            let expected = if d.window.get() >= unit { whole } else { inside };
            prop_assert!(expected, "{:?}", window);
            let cycles = matches!(
                d.kind,
                DomainKind::StaticCycling { .. } | DomainKind::GroupCycling { .. }
            );
            prop_assert!(!cycles || inside);
        }
    }

    #[test]
    fn even_domains_differ_by_a_byte(start: u64, end: u64, count in 1u64..200) {
        let split = domains(DomainKind::Even, start..end, count, u64::MAX);
        let longest = end.saturating_sub(start).div_ceil(count);
        let mut at = start;
        for index in 0..count {
            let domain = split.extent(index).unwrap_or(at..at);
            prop_assert_eq!(domain.start, at);
            let len = domain.end - domain.start;
            prop_assert!(len == longest || len + 1 == longest);
            at = domain.end;
        }
        prop_assert_eq!(at, end.max(start));
    }

    #[test]
    fn aligned_domains_differ_by_a_unit(units in 0u64..60, unit in 1u64..20, n in 1u64..20) {
        let kind = DomainKind::Aligned { unit: number(unit) };
        let d = domains(kind, 3 * unit..(3 + units) * unit, n, 7);
        let lens: Vec<u64> =
            (0..n).map(|a| d.extent(a).map_or(0, |part| part.end - part.start) / unit).collect();
        prop_assert!(lens.is_sorted_by(|a, b| a >= b), "the empty ones are last");
        prop_assert!(lens[0] - lens[n as usize - 1] <= 1);
    }

    #[test]
    fn aggregators_of_full_groups_access_one_target_each(
        targets in 1u64..6, groups in 1u64..5, unit in 1u64..5,
    ) {
        let kind = DomainKind::GroupCycling { unit: number(unit), targets: small(targets) };
        let n = targets * groups;
        let d = domains(kind, 0..targets * unit * groups * 3, n, 100);
        for aggregator in 0..n {
            let windows = windows_of(&d, aggregator);
            prop_assert_eq!(windows.len(), 3);
            prop_assert!(windows.iter().all(|w| w.start / unit % targets == aggregator % targets));
            let group = aggregator / targets;
            let part = group * 3 * targets * unit..(group + 1) * 3 * targets * unit;
            prop_assert!(windows.iter().all(|w| part.contains(&w.start)));
        }
    }

    #[test]
    fn each_aggregator_accesses_x_targets(
        sets in 1u64..5, x in 1u64..5, per_set in 1u64..4, unit in 1u64..5, window in 1u64..30,
    ) {
        let (targets, n) = (sets * x, sets * per_set);
        let kind =
            DomainKind::XTarget { unit: number(unit), targets: small(targets), x: small(x) };
        let d = domains(kind, 0..targets * unit * per_set * 2, n, window);
        let mut aggregators_of = vec![0; targets as usize];
        for aggregator in 0..n {
            let windows = windows_of(&d, aggregator);
            let met: BTreeSet<u64> =
                windows.iter().cloned().flatten().map(|byte| byte / unit % targets).collect();
            prop_assert_eq!(met.len() as u64, x);
            for &target in &met {
                aggregators_of[target as usize] += 1;
            }
            prop_assert_eq!(windows.into_iter().flatten().count() as u64, 2 * x * unit);
        }
        prop_assert!(aggregators_of.iter().all(|&n| n == per_set));
    }

    #[test]
    fn no_number_is_too_large(
        kind in 0..5, unit: u64, targets: u32, x: u32, start: u64, end: u64, n: u64, window: u64,
        shrink in 0u32..64, probe: u64,
    ) {
        let at_least_1 = |n: u64| number(n.max(1));
        let (unit, targets) = (at_least_1(unit >> shrink), small(u64::from(targets.max(1))));
        let kind = match kind {
            0 => DomainKind::Even,
            1 => DomainKind::Aligned { unit },
            2 => DomainKind::StaticCycling { unit },
            3 => DomainKind::GroupCycling { unit, targets },
            _ => DomainKind::XTarget { unit, targets, x: small(u64::from(x.max(1))) },
        };
        let (start, end) = (start.min(end), start.max(end));
        let (n, window) = (at_least_1(n >> (shrink / 2)), at_least_1(window >> shrink));
        let d = Domains::new(kind, start..end, n, window);
        let offsets = [start, end - (end - start).min(1), start + probe % (end - start).max(1)];
        for offset in offsets {
            let Some((aggregator, i)) = d.owner(offset) else { continue };
            prop_assert!(aggregator < d.aggregators() && i < d.windows(aggregator));
            let window = d.window(aggregator, i).unwrap();
            prop_assert!(window.contains(&offset) && window.end - window.start <= d.window.get());
            prop_assert_eq!(d.owner(window.start), Some((aggregator, i)));
            prop_assert_eq!(d.owner(window.end - 1), Some((aggregator, i)));
            prop_assert!(d.rounds() >= d.windows(aggregator));
            for other in [0, probe % d.aggregators(), d.aggregators() - 1] {
                prop_assert!(d.windows(other) <= d.rounds());
                prop_assert!(d.window_after(other, offset) <= d.windows(other));
            }
        }
    }
}

#[test]
fn ten_bytes_over_four() {
    let split = domains(DomainKind::Even, 100..110, 4, 2);
    let all: Vec<_> = (0..5).map(|i| split.extent(i)).collect();
    assert_eq!(all, [Some(100..102), Some(102..105), Some(105..107), Some(107..110), None]);
    assert_eq!(windows_of(&split, 1), [102..104, 104..105]);
    assert_eq!(split.rounds(), 2);
}

#[test]
fn windows_end_on_units() {
    let kind = DomainKind::Aligned { unit: number(10) };
    // Units 0 to 9, of which the first and the last are cut; two units fit into a window.
    let d = domains(kind, 7..95, 3, 25);
    assert_eq!(windows_of(&d, 0), [7..20, 20..40]);
    assert_eq!(windows_of(&d, 1), [40..60, 60..70]);
    assert_eq!(windows_of(&d, 2), [70..90, 90..95]);
}

#[test]
fn aggregators_that_do_not_fill_a_group() {
    let kind = DomainKind::GroupCycling { unit: number(10), targets: small(4) };
    // Two thirds of the stripes for the group of four, the others for the group of two.
    let d = domains(kind, 0..120, 6, 10);
    assert_eq!(windows_of(&d, 3), [30..40, 70..80]);
    assert_eq!(windows_of(&d, 4), [80..90, 100..110]);
    assert_eq!(windows_of(&d, 5), [90..100, 110..120]);
    assert_eq!(domains(kind, 0..120, 3, 10).owner(50), Some((2, 1)));
}

#[test]
fn rows_of_two_targets() {
    let kind = DomainKind::XTarget { unit: number(10), targets: small(4), x: small(2) };
    let d = domains(kind, 0..160, 4, 100);
    assert_eq!(windows_of(&d, 0), [0..20, 80..100]);
    assert_eq!(windows_of(&d, 1), [20..40, 100..120]);
    assert_eq!(windows_of(&d, 2), [40..60, 120..140]);
    assert_eq!(windows_of(&d, 3), [60..80, 140..160]);
}

#[test]
fn names() {
    let unit = number(1);
    let (targets, x) = (small(1), small(1));
    let kinds = [
        DomainKind::Even,
        DomainKind::Aligned { unit },
        DomainKind::StaticCycling { unit },
        DomainKind::GroupCycling { unit, targets },
        DomainKind::XTarget { unit, targets, x },
    ];
    let names = kinds.map(|kind| kind.name());
    assert_eq!(names, ["even", "aligned", "static-cycling", "group-cycling", "x-target"]);
}
