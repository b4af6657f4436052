//! The copy kernels against the list of runs: every block length they treat apart, every order of
//! loops, aligned and not, in the caches and around them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use striate_datatype::{Cursor, Datatype, Packer};

const LENGTHS: [u64; 30] = [
    1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 200, 256,
    300, 1000, 1024, 1100, 5000,
];

/// Packs and unpacks one copy, whole and in uneven windows, and compares with a walk over the runs.
fn check(ty: &Datatype, misalignment: usize) {
    let origin = (-ty.true_lower_bound()).max(0) as usize + misalignment;
    let len = origin + ty.true_upper_bound().max(0) as usize;
    let memory: Vec<u8> = (0..len).map(|i| (i * 131 + (i >> 8) * 29 + 7) as u8).collect();
    let at = |offset: i64| (origin as i64 + offset) as usize;

    let mut expected = Vec::with_capacity(ty.size() as usize);
    for run in Cursor::new(ty, 1).unwrap() {
        expected.extend_from_slice(&memory[at(run.offset)..at(run.end())]);
    }
    let packer = Packer::new(ty, 1).unwrap();
    let mut stream = vec![0; expected.len()];
    packer.pack(&memory, origin, &mut stream).unwrap();
    assert!(stream == expected, "pack of {ty}");

    let third = stream.len() / 3;
    stream.fill(0);
    for (start, end) in [(0, third), (third, 2 * third + 1), (2 * third + 1, stream.len())] {
        if start <= end && end <= stream.len() {
            packer.pack_window(&memory, origin, start as u64, &mut stream[start..end]).unwrap();
        }
    }
    if stream.len() >= 3 {
        assert!(stream == expected, "pack of {ty} in windows");
    }

    let data: Vec<u8> = (0..expected.len()).map(|i| (i * 167 + (i >> 8) * 41 + 3) as u8).collect();
    let mut expected = memory.clone();
    let mut position = 0;
    for run in Cursor::new(ty, 1).unwrap() {
        let next = position + run.len as usize;
        expected[at(run.offset)..at(run.end())].copy_from_slice(&data[position..next]);
        position = next;
    }
    let mut scattered = memory;
    packer.unpack(&data, &mut scattered, origin).unwrap();
    assert!(scattered == expected, "unpack of {ty}");
}

#[test]
fn vectors_of_every_block_length() {
    for len in LENGTHS {
        let block = Datatype::bytes(len).unwrap();
        for (count, gap) in [(3, 1), (200, 5), (130, 64), (70, 1000)] {
            let stride = (len + gap) as i64;
            check(&Datatype::hvector(count, 1, stride, &block).unwrap(), 0);
            check(&Datatype::hvector(count, 1, -stride, &block).unwrap(), 3);
        }
    }
}

#[test]
fn lists_of_every_block_length() {
    for len in LENGTHS {
        let irregular = |i: i64| i * (len as i64 + 9) + (i * i) % 7;
        let offsets: Vec<i64> = (0..90).map(irregular).collect();
        check(&Datatype::hindexed_block(1, &offsets, &Datatype::bytes(len).unwrap()).unwrap(), 1);
        let blocks: Vec<_> =
            (0..90).map(|i| (len - len * (i as u64 % 3) / 4, irregular(i))).collect();
        check(&Datatype::hindexed(&blocks, &Datatype::bytes(1).unwrap()).unwrap(), 5);
    }
}

#[test]
fn nests_in_every_order_of_loops() {
    // A 4-D array of blocks, its loops in all orders: all but one are transpositions.
    let counts = [5u64, 37, 3, 9];
    for len in [1u64, 4, 8, 12, 20, 64, 80, 300] {
        let mut strides = [0i64; 4];
        let mut stride = len as i64 + 4;
        for (slot, count) in strides.iter_mut().zip(counts) {
            *slot = stride;
            stride *= count as i64;
        }
        for order in permutations() {
            let mut ty = Datatype::bytes(len).unwrap();
            for i in order {
                ty = Datatype::hvector(counts[i], 1, strides[i], &ty).unwrap();
            }
            check(&ty, 0);
        }
    }
}

#[test]
fn overlapping_blocks_are_unpacked_in_stream_order() {
    let block = Datatype::bytes(8).unwrap();
    let inner = Datatype::hvector(40, 1, 100, &block).unwrap();
    for stride in [0, 1, 4, 7, -3] {
        check(&Datatype::hvector(24, 1, stride, &inner).unwrap(), 0);
    }
}

#[test]
fn copies_larger_than_the_caches() {
    let size = 9 << 20;
    check(&Datatype::bytes(size).unwrap(), 7);
    let blocks: Vec<_> = (0..size / 40).map(|i| (20 + i * i % 41, (i * 70) as i64)).collect();
    check(&Datatype::hindexed(&blocks, &Datatype::bytes(1).unwrap()).unwrap(), 1);
    for len in [64u64, 300, 1024, 1500, 70_000] {
        for gap in [4u64, len] {
            let block = Datatype::bytes(len).unwrap();
            let ty = Datatype::hvector(size / len + 1, 1, (len + gap) as i64, &block).unwrap();
            check(&ty, 0);
            check(&ty, 13);
        }
    }
}

fn permutations() -> Vec<[usize; 4]> {
    let mut all = Vec::new();
    for code in 0..256usize {
        let order = [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6];
        let mut seen = [false; 4];
        for i in order {
            seen[i] = true;
        }
        if seen == [true; 4] {
            all.push(order);
        }
    }
    all
}
