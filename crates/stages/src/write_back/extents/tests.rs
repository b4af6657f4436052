//! Tests of extents against a map of single bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Every byte for itself.
type Model = BTreeMap<u64, u8>;

#[derive(Clone, Debug)]
enum ExtentStep {
    Write(u64, Vec<u8>),
    Append(Vec<u8>),
    WriteOut(Range<u64>, usize),
    WriteTail(usize),
    Read(Range<u64>),
    Shrink,
}

fn steps() -> impl Strategy<Value = Vec<ExtentStep>> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..40);
    let range = || (0..200u64, 1..80u64).prop_map(|(start, length)| start..start + length);
    let step = prop_oneof![
        4 => (0..200u64, bytes()).prop_map(|(at, bytes)| ExtentStep::Write(at, bytes)),
        4 => bytes().prop_map(ExtentStep::Append),
        1 => (range(), 1..60usize).prop_map(|(range, count)| ExtentStep::WriteOut(range, count)),
        1 => (1..60usize).prop_map(ExtentStep::WriteTail),
        2 => range().prop_map(ExtentStep::Read),
        1 => Just(ExtentStep::Shrink),
    ];
    prop::collection::vec(step, 1..60)
}

fn check(extents: &Extents, model: &Model) {
    assert_eq!(extents.is_empty(), model.is_empty());
    assert_eq!(extents.end(), model.last_key_value().map_or(0, |(at, _)| at + 1));
    let mut cost = extents.tail.bytes.capacity();
    for block in extents.blocks.values() {
        let covered: usize = block.extents.values().map(Vec::len).sum();
        assert_eq!(block.covered, covered as u64);
        cost += block.extents.values().map(|bytes| EXTENT + bytes.capacity()).sum::<usize>();
    }
    assert_eq!(extents.cost(), cost);
    let mut seen = vec![7; 400];
    extents.overlay(0, &mut Memory::sink(&mut seen));
    let mut expected = vec![7; 400];
    for (at, byte) in model {
        expected[*at as usize] = *byte;
    }
    assert_eq!(seen, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn they_hold_what_was_written(block in 1..64u64, steps in steps()) {
        let (mut extents, mut model) = (Extents::new(block), Model::new());
        let mut last = 0;
        for step in steps {
            match step {
                ExtentStep::Write(at, bytes) => {
                    extents.put(at, &Memory::source(&bytes));
                    last = at + bytes.len() as u64;
                    model.extend((at..).zip(bytes));
                }
                ExtentStep::Append(bytes) => {
                    let at = last;
                    if last > 300 {
                        continue;
                    }
                    if extents.append(at, &bytes) == Appended::No {
                        extents.put(at, &Memory::source(&bytes));
                    }
                    last = at + bytes.len() as u64;
                    model.extend((at..).zip(bytes));
                }
                ExtentStep::WriteOut(range, most) => {
                    let mut staging = Vec::new();
                    let any = model.range(range.clone()).next().is_some();
                    prop_assert_eq!(extents.run(&range).is_some(), any);
                    let Some(run) = extents.run(&range) else { continue };
                    let (start, count) = (run.start, run.len().min(most));
                    let memory = run.memory(&mut staging);
                    let mut bytes = vec![0; run.len()];
                    memory.take(0, &mut bytes);
                    prop_assert!(start == 0 || start % block == 0 || !model.contains_key(&(start - 1)));
                    let end = start + bytes.len() as u64;
                    prop_assert!(end.is_multiple_of(block) || !model.contains_key(&end));
                    prop_assert_eq!(start / block, (end - 1) / block);
                    for (at, byte) in (start..).zip(&bytes) {
                        prop_assert_eq!(model.get(&at), Some(byte));
                    }
                    drop((memory, run));
                    extents.run_written(start, count);
                    (start..start + count as u64).for_each(|at| { model.remove(&at); });
                }
                ExtentStep::WriteTail(most) => {
                    let tail = extents.lone_tail().or_else(|| extents.due_tail());
                    let Some((start, bytes)) = tail else { continue };
                    let count = bytes.len().min(most);
                    for (at, byte) in (start..).zip(bytes) {
                        prop_assert_eq!(model.get(&at), Some(byte));
                    }
                    extents.tail_written(count);
                    (start..start + count as u64).for_each(|at| { model.remove(&at); });
                }
                ExtentStep::Read(range) => {
                    let there = model.range(range.clone()).count() as u64;
                    prop_assert_eq!(extents.covered(range.clone()), there);
                }
                ExtentStep::Shrink => extents.shrink(),
            }
            check(&extents, &model);
        }
        extents.clear();
        check(&extents, &Model::new());
    }
}

#[test]
fn blocks_are_complete_in_any_order() {
    let mut extents = Extents::new(100);
    for at in [60, 20, 80, 0, 140] {
        extents.put(at, &Memory::source(&[1; 20]));
        assert_eq!(extents.complete(at..at + 20), None);
    }
    extents.put(30, &Memory::source(&[2; 40]));
    assert_eq!(extents.complete(30..70), Some(0..100));
}

#[test]
fn a_backward_stream_copies_each_byte_once() {
    let mut extents = Extents::new(1 << 20);
    for n in (0..1 << 14).rev() {
        extents.put(n * 64, &Memory::source(&[7; 64]));
    }
    assert_eq!(extents.complete(0..64), Some(0..1 << 20));
    let mut staging = Vec::new();
    let run = extents.run(&(0..1)).unwrap();
    assert_eq!((run.start, run.len(), run.memory(&mut staging).parts().len()), (0, 1 << 20, 1));
}
