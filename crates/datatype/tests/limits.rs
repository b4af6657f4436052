//! Large, absurd and hostile arguments: a typed error or an answer at once, never a panic.

use striate_datatype::notation::Notation;
use striate_datatype::{
    Cursor, Datatype, DecodeError, Distribution, Element, MAX_DEPTH, Order, TypeError,
};

fn f64() -> Datatype {
    Datatype::from(Element::F64)
}

#[test]
fn a_type_of_a_billion_runs_is_handled_without_walking() {
    let row = Datatype::vector(1_000_000, 1, 3, &f64()).unwrap();
    let ty = Datatype::hvector(1000, 1, 40_000_000, &row).unwrap();
    assert_eq!(ty.runs(), 1_000_000_000);
    assert_eq!(ty.size(), 8_000_000_000);
    assert!(ty.encode().len() < 30);
    assert!(ty.is_monotonic());

    let mut cursor = Cursor::new(&ty, 7).unwrap();
    cursor.seek(6 * ty.size() + 999 * row.size() + 8 * 123_456 + 5);
    let offset = 6 * ty.extent() + 999 * 40_000_000 + 24 * 123_456 + 5;
    assert_eq!(cursor.offset(), Some(offset));
    cursor.seek_offset(offset + 10).unwrap();
    assert_eq!(cursor.offset(), Some(offset + 19));
    assert_eq!(ty.window(7, offset..offset + 100).unwrap().count(), 5);
}

#[test]
fn overflow_is_an_error() {
    let max = i64::MAX as u64;
    let overflow = |result: Result<Datatype, TypeError>| {
        assert!(matches!(result, Err(TypeError::Overflow { .. })), "{result:?}");
    };
    overflow(Datatype::bytes(u64::MAX));
    overflow(Datatype::bytes(max + 1));
    overflow(Datatype::contiguous(max, &f64()));
    overflow(Datatype::contiguous(u64::MAX, &Datatype::bytes(1).unwrap()));
    overflow(Datatype::vector(2, 1, i64::MAX, &f64()));
    overflow(Datatype::hvector(3, 1, i64::MIN, &f64()));
    overflow(Datatype::indexed(&[(1, i64::MAX / 2)], &f64()));
    overflow(Datatype::hindexed(&[(1, i64::MAX - 3)], &f64()));
    overflow(Datatype::hindexed(&[(1, i64::MIN), (1, i64::MAX - 8)], &f64()));
    overflow(Datatype::structure(&[(u64::MAX, 0, f64())]));
    overflow(Datatype::resized(&f64(), i64::MAX, 1));
    overflow(Datatype::subarray(&[max, 2], &[1, 1], &[0, 0], Order::C, &f64()));
    overflow(Datatype::darray(0, &[max], &[Distribution::None], &[1], Order::C, &f64()));
    assert!(Cursor::new(&f64(), u64::MAX).is_err());
    assert_eq!(Datatype::bytes(max).unwrap().size(), max);
}

#[test]
fn arrays_that_do_not_fit_are_named() {
    let subarray = |sizes: &[u64], subsizes: &[u64], starts: &[u64]| {
        Datatype::subarray(sizes, subsizes, starts, Order::C, &f64()).unwrap_err()
    };
    assert!(matches!(subarray(&[], &[], &[]), TypeError::Dimensions { .. }));
    assert!(matches!(subarray(&[4, 4], &[2], &[0, 0]), TypeError::Dimensions { .. }));
    let error = subarray(&[4, 4], &[2, 3], &[0, 2]);
    assert!(matches!(error, TypeError::Dimension { dimension: 1, .. }));
    assert_eq!(error.to_string(), "subarray, dimension 1: 3 elements at 2 are not inside of 4");
    assert!(matches!(subarray(&[4], &[5], &[0]), TypeError::Dimension { .. }));

    let darray = |rank, distribution, grid: u64| {
        Datatype::darray(rank, &[10], &[distribution], &[grid], Order::C, &f64())
    };
    assert!(matches!(darray(3, Distribution::Block(None), 3), Err(TypeError::Rank { .. })));
    assert!(matches!(darray(0, Distribution::Block(None), 0), Err(TypeError::Rank { .. })));
    for (distribution, grid) in [
        (Distribution::None, 2),
        (Distribution::Cyclic(0), 2),
        (Distribution::Block(Some(3)), 3),
        (Distribution::Block(Some(0)), 3),
    ] {
        assert!(matches!(darray(0, distribution, grid), Err(TypeError::Dimension { .. })));
    }
}

#[test]
fn depth_and_number_of_loops_are_limited() {
    // Every loop at least doubles the data, so that the size is what ends this.
    let mut ty = Datatype::bytes(1).unwrap();
    let error = loop {
        match Datatype::hvector(2, 1, 3, &ty) {
            Ok(deeper) => ty = deeper,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TypeError::Overflow { .. }), "{error}");
    assert!((60..=MAX_DEPTH).contains(&ty.depth()), "{}", ty.depth());

    // Each dimension with a short last block doubles the loops.
    let darray = |dimensions: usize| {
        let distributions = vec![Distribution::Cyclic(2); dimensions];
        let (sizes, grid) = (vec![5; dimensions], vec![2; dimensions]);
        let byte = Datatype::bytes(1).unwrap();
        Datatype::darray(0, &sizes, &distributions, &grid, Order::C, &byte)
    };
    assert!(darray(10).is_ok());
    assert!(matches!(darray(26), Err(TypeError::TooManyLoops { .. })));
}

#[test]
fn decoding_names_what_is_wrong() {
    let bytes = Datatype::vector(3, 1, 2, &f64()).unwrap().encode();
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        Datatype::decode(&bytes)
    };
    assert_eq!(Datatype::decode(&[]), Err(DecodeError::Truncated(0)));
    assert_eq!(changed(0, 0xD2), Err(DecodeError::Version(0xD2)));
    assert_eq!(changed(4, 9), Err(DecodeError::Kind { kind: 9, position: 4 }));
    let mut longer = bytes.clone();
    longer.push(0);
    assert_eq!(Datatype::decode(&longer), Err(DecodeError::Trailing(1)));
    // A vector of one copy is no loop in normal form.
    assert_eq!(changed(5, 1), Err(DecodeError::NotNormal));
    // A list that claims 2^63 entries.
    let huge = [0xD1, 0, 0, 0, 3, 255, 255, 255, 255, 255, 255, 255, 255, 127];
    assert!(matches!(Datatype::decode(&huge), Err(DecodeError::Truncated(_))));
    let eleven = [0xD1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    assert_eq!(Datatype::decode(&eleven), Err(DecodeError::Number(1)));
    // Nested far deeper than any limit.
    let mut deep = vec![0xD1, 0, 0, 0];
    deep.extend([1, 2].repeat(10_000));
    assert!(matches!(Datatype::decode(&deep), Err(DecodeError::Type(TypeError::TooDeep { .. }))));
}

#[test]
fn a_list_of_the_rows_is_the_block_again() {
    // However the rows of a block are listed, the description is the block's.
    let block =
        Datatype::subarray(&[20, 30, 40], &[5, 6, 7], &[1, 2, 3], Order::C, &f64()).unwrap();
    let rows: Vec<(u64, i64)> =
        block.flatten(1).unwrap().iter().map(|run| (run.len / 8, run.offset)).collect();
    let list = Datatype::hindexed(&rows, &f64()).unwrap();
    let list = Datatype::resized(&list, 0, block.extent()).unwrap();
    assert_eq!(list, block);
    let grid = Datatype::darray(
        5,
        &[10, 30, 8],
        &[Distribution::Block(None); 3],
        &[2, 3, 1],
        Order::C,
        &f64(),
    )
    .unwrap();
    let same =
        Datatype::subarray(&[10, 30, 8], &[5, 10, 8], &[5, 20, 0], Order::C, &f64()).unwrap();
    assert_eq!(grid, same);
    let columns =
        Datatype::subarray(&[8, 30, 10], &[8, 10, 5], &[0, 20, 5], Order::Fortran, &f64());
    assert_eq!(columns.unwrap(), same);
    let mut hashes = std::collections::HashSet::new();
    hashes.insert(grid);
    assert!(hashes.contains(&same));
}

#[test]
fn notation_of_the_documentation_is_understood() {
    for (text, size, runs) in [
        ("vector(768, 3KiB, stride=7KiB)", 768 * 3072, 768),
        ("subarray([600,600,600] of i32, [300,300,300] at [0,300,0])", 108_000_000, 90_000),
        ("contiguous(5 of f64)", 40, 1),
        ("vector(10, 2 of f64, stride=5)", 160, 10),
        ("hvector(10, 2 of f64, stride=40)", 160, 10),
        ("indexed([2 at 0, 3 at 7] of i32)", 20, 2),
        ("hindexed([2 at 0, 3 at 28] of i32)", 20, 2),
        ("indexed_block(2 of i32, at [0, 7, 9])", 24, 2),
        ("struct(1 of i32 at 0, 3 of f64 at 8)", 28, 2),
        ("subarray([4,6] of f32, [2,2] at [1,1], order=fortran)", 16, 2),
        ("darray([64,64] of f64, dist=[block, cyclic(2)], grid=[2,2], rank=1)", 8192, 512),
        ("resized(f32, lb=0, extent=16)", 4, 1),
        ("dup(i32)", 4, 1),
        ("bytes(4m)", 4 << 20, 1),
    ] {
        let notation: Notation = text.parse().unwrap();
        let ty = notation.build().unwrap();
        assert_eq!((ty.size(), ty.runs()), (size, runs), "{text}");
        assert_eq!(notation.to_string().parse(), Ok(notation), "{text}");
    }
}
