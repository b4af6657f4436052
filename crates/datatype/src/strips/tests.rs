//! The modular search agrees with trying all residues, and its steps do not grow with the gaps.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Called where the search enters a node, looks at an entry of a list, or divides.
pub(super) fn count_step() {
    STEPS.set(STEPS.get() + 1);
}

fn strips(start: i64, period: u64, width: u64) -> Strips {
    Strips::new(start, NonZeroU64::new(period).unwrap(), width)
}

fn bytes(len: u64) -> Datatype {
    Datatype::bytes(len).unwrap()
}

fn every(count: u64, stride: i64, ty: &Datatype) -> Datatype {
    Datatype::hvector(count, 1, stride, ty).unwrap()
}

/// The first byte in every strip that has one, and the steps that finding all of them took.
fn strips_hit(ty: &Datatype, strips: Strips) -> (Vec<i64>, u64) {
    STEPS.set(0);
    let (mut found, mut from) = (Vec::new(), i64::MIN);
    while let Some(offset) = ty.next_in_strips(1, from, strips).unwrap() {
        assert!(offset >= from && strips.contains(offset));
        found.push(offset);
        // One past the strip.
        from = offset + (strips.width - strips.residue(offset)) as i64;
    }
    (found, STEPS.get())
}

proptest! {
    #[test]
    fn the_first_residue_below_a_bound_is_found(
        modulus in 1u64..300, a in 0u64..300, step in 0u64..300, bound in 1u64..300,
    ) {
        let (a, step, bound) = (a % modulus, step % modulus, bound.min(modulus));
        let slow = (0..modulus).find(|i| (a + i * step) % modulus < bound);
        prop_assert_eq!(first_below(a, step, modulus, bound), slow);
    }

    #[test]
    fn large_moduli_do_not_overflow(modulus in 1u64.., a: u64, step: u64, bound in 1u64..) {
        let (a, step, bound) = (a % modulus, step % modulus, bound.min(modulus));
        let residue = |i: u64| {
            let at = u128::from(a) + u128::from(i) * u128::from(step);
            (at % u128::from(modulus)) as u64
        };
        STEPS.set(0);
        let found = first_below(a, step, modulus, bound);
        prop_assert!(STEPS.get() < 100);
        if let Some(i) = found {
            prop_assert!(i < modulus && residue(i) < bound);
        }
        for i in 0..found.unwrap_or(100).min(100) {
            prop_assert!(residue(i) >= bound);
        }
    }

    #[test]
    fn strips_contain_the_offsets_of_their_definition(
        start: i64, period in 1u64.., width: u64, offset: i64,
    ) {
        let behind = (i128::from(offset) - i128::from(start)).rem_euclid(i128::from(period));
        prop_assert_eq!(strips(start, period, width).contains(offset), behind < i128::from(width));
    }

    #[test]
    fn shadows_hold_all_bytes(
        (a, s, b, t) in (1u64..6, 0i64..90, 1u64..6, 0i64..400),
        len in 1u64..20, period in 1u64..99,
    ) {
        let inner = every(a, len as i64 + s, &bytes(len));
        let ty = every(b, inner.true_extent() as i64 + t, &inner);
        let left = Cell::new(u64::MAX);
        let search = Search { period, width: 1, left: &left };
        let ResidueInterval { start, len } = search.shadow(ty.root());
        prop_assert!(start < period && 0 < len && len <= period);
        for run in ty.flatten(1).unwrap() {
            for offset in run.offset as u64..run.end() as u64 {
                prop_assert!((offset + period - start) % period < len);
            }
        }
    }
}

/// A server's strips: 64 KiB of every 256 KiB.
fn server_strips(server: i64) -> Strips {
    strips(server << 16, 4 << 16, 1 << 16)
}

#[test]
fn blocks_that_all_lie_in_gaps_are_passed_at_once() {
    // A hundred million blocks on server 0, then a list of a hundred runs on server 2.
    let vector = every(100_000_000, 4 << 16, &bytes(100));
    let end = 100_000_000i64 * (4 << 16);
    let runs: Vec<(u64, i64)> =
        (0..100).map(|i| (7 + i as u64 % 3, (2 << 16) + i * i * (4 << 16) + i)).collect();
    let list = Datatype::hindexed(&runs, &bytes(1)).unwrap();
    let ty = Datatype::structure(&[(1, 0, vector), (1, end, list)]).unwrap();
    assert_eq!(ty.runs(), 100_000_100);

    let (found, steps) = strips_hit(&ty, server_strips(2));
    assert_eq!(found, runs.iter().map(|run| end + run.1).collect::<Vec<_>>());
    assert!(steps < 1000, "{steps} steps");
    for server in [1, 3] {
        let (found, steps) = strips_hit(&ty, server_strips(server));
        assert!(found.is_empty() && steps < 1000, "{steps} steps");
    }
}

#[test]
fn drifting_blocks_are_skipped() {
    // A hundred million blocks drift through server 0's strips of 128 MiB, a byte at a time and
    // forwards or backwards, and the last hundred of them are beyond.
    let (count, strip) = (100_000_000i64, 128i64 << 20);
    for (drift, start, server) in [(1, strip - (count - 100), 1), (-1, count - 101, 3)] {
        let stride = 4 * strip + drift;
        let ty = every(count as u64, stride, &bytes(1)).displaced(start).unwrap();
        let server = strips(server * strip, 4 * strip as u64, strip as u64);
        let (found, steps) = strips_hit(&ty, server);
        let last: Vec<i64> = (count - 100..count).map(|i| start + i * stride).collect();
        assert_eq!(found, last);
        assert!(steps < 1000, "{steps} steps");
    }
}

#[test]
fn nested_loops_without_bytes_in_strips_are_not_entered() {
    let period = 4i64 << 16;
    // A thousand planes of a thousand rows of a hundred blocks. Rows and blocks stand at the same
    // residue, planes drift: the last one alone reaches server 1.
    let blocks = every(100, 3 * period, &bytes(8));
    let rows = every(1000, 400 * period, &blocks);
    let planes = every(1000, 500_000 * period + 64, &rows);
    let ty = planes.displaced((1 << 16) - 64 * 999 - 1).unwrap();
    assert_eq!(ty.runs(), 100_000_000);
    // The last bytes of the 998 before stay short of it.
    let (found, steps) = strips_hit(&ty.displaced(-7).unwrap(), server_strips(1));
    assert!(found.is_empty() && steps < 100, "{} found in {steps} steps", found.len());
    STEPS.set(0);
    let first = ty.next_in_strips(1, 0, server_strips(1)).unwrap().unwrap();
    assert_eq!(first, ty.first_offset() + 999 * (500_000 * period + 64) + 1);
    assert!(STEPS.get() < 20, "{} steps", STEPS.get());

    // Rows at half a period stand at two residues, between which the shadow cannot tell. The planes
    // come back to the same residues, so one is enough to tell for all.
    let rows = every(10_000, period / 2, &bytes(8));
    let planes = every(10_000, 10_000 * period, &rows);
    let (found, steps) = strips_hit(&planes, server_strips(1));
    assert!(found.is_empty() && steps < 20, "{steps} steps");
}

#[test]
fn a_list_is_bisected_between_strips() {
    // A hundred thousand entries at irregular places, a thousand of them to a strip and its gap.
    let at = |i: i64| i * 256 + i * i % 99;
    let offsets: Vec<i64> = (0..100_000).map(at).collect();
    let ty = Datatype::hindexed_block(1, &offsets, &bytes(16)).unwrap();
    let (found, steps) = strips_hit(&ty, server_strips(3));
    assert_eq!(found.len(), 97);
    assert!(steps < 500, "{steps} steps");
}

#[test]
fn extreme_offsets_are_found() {
    let max = i64::MAX;
    for start in [i64::MIN, -1, 0, 5, max] {
        for (period, width) in [(1, 1), (u64::MAX, 1), (u64::MAX, u64::MAX), (1 << 63, 7), (10, 3)]
        {
            let strips = strips(start, period, width);
            for at in [i64::MIN, -3, 0, max - 8, max - 4] {
                for ty in [
                    bytes(4).displaced(at).unwrap(),
                    Datatype::hindexed(&[(1, 0), (2, 2)], &bytes(1))
                        .unwrap()
                        .displaced(at)
                        .unwrap(),
                ] {
                    let runs = ty.flatten(1).unwrap();
                    let offsets = || runs.iter().flat_map(|run| run.offset..run.end());
                    for from in [i64::MIN, at, at.saturating_add(1), at.saturating_add(3), max] {
                        let slow = offsets().find(|&x| x >= from && strips.contains(x));
                        assert_eq!(ty.next_in_strips(1, from, strips).unwrap(), slow);
                    }
                }
            }
        }
    }
    // Two bytes as far apart as they can be.
    let ty = every(2, max - 1, &bytes(1));
    assert_eq!(ty.next_in_strips(1, 0, strips(max - 1, 1 << 40, 1)).unwrap(), Some(max - 1));
    assert_eq!(ty.next_in_strips(1, 1, strips(0, u64::MAX, 1)).unwrap(), None);
    assert_eq!(ty.next_in_strips(1, max, strips(0, 1, 1)).unwrap(), None);
}

#[test]
fn empty_types_and_strips_have_no_bytes() {
    let ty = every(9, 10, &bytes(4));
    assert_eq!(ty.next_in_strips(1, 0, strips(0, 5, 0)).unwrap(), None);
    assert_eq!(ty.next_in_strips(0, 0, strips(0, 5, 5)).unwrap(), None);
    assert_eq!(bytes(0).next_in_strips(7, 0, strips(0, 5, 5)).unwrap(), None);
    let back = every(9, -10, &bytes(4));
    assert_eq!(back.next_in_strips(1, 0, strips(0, 5, 5)), Err(TypeError::NotMonotonic));
}

/// Pairs whose bytes always lie between the strips, in loops that reach every phase repeatedly:
/// without a limit the search would take hours.
#[test]
fn a_search_stops_at_its_limit_of_steps() {
    let mut ty = every(2, 1024 * 700, &bytes(1));
    for (count, apart) in [(2048, 21), (2048, 33), (2048, 45)] {
        ty = every(count, (1 << apart) + 1024, &ty);
    }
    let strips_hit = strips(0, 4096 * 512, 512);
    let ty = ty.displaced(600).unwrap();
    let limited = ty.next_in_strips_within(1, 0, strips_hit, 100_000);
    assert_eq!(limited, Err(TypeError::Scattered { steps: 100_000 }));
    // A byte that is found within the limit is returned.
    let found = ty.next_in_strips_within(1, 0, strips(100, 4096 * 512, 512), 100);
    assert_eq!(found, Ok(Some(600)));
    assert_eq!(bytes(8).next_in_strips_within(1, 100, strips_hit, 2), Ok(None));
}
