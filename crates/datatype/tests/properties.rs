//! Every operation agrees with the obvious twin, for random descriptions.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;

use proptest::prelude::*;
use striate_datatype::notation::Notation;
use striate_datatype::{Cursor, Datatype, Order, Packer, Piece, Pieces, Run, Strips};
use striate_testing::type_map::{TypeMap, any_notation, any_view, runs};

/// Streams longer than this are left out: the twin is slow.
const MAX_BYTES: usize = 4000;

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1500), ..config }
}

fn build(notation: &Notation) -> Option<(Datatype, TypeMap)> {
    let twin = TypeMap::of(notation);
    (twin.offsets.len() <= MAX_BYTES)
        .then(|| (notation.build().expect("small types are valid"), twin))
}

fn hash_of(ty: &Datatype) -> u64 {
    let mut hasher = DefaultHasher::new();
    ty.hash(&mut hasher);
    hasher.finish()
}

fn ascends(offsets: &[i64]) -> bool {
    offsets.windows(2).all(|pair| pair[0] < pair[1])
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_type_has_the_bytes_and_bounds_mpi_gives_it(notation in any_notation(), count in 0u64..4) {
        let Some((ty, twin)) = build(&notation) else { return Ok(()) };
        prop_assert_eq!(ty.size() as usize, twin.offsets.len());
        prop_assert_eq!((ty.lower_bound(), ty.extent()), (twin.lb, twin.extent()), "{}", ty);
        prop_assert_eq!(ty.true_lower_bound(), twin.offsets.iter().min().copied().unwrap_or(0));
        prop_assert_eq!(ty.true_upper_bound(), twin.offsets.iter().max().map_or(0, |max| max + 1));
        prop_assert_eq!(ty.runs() as usize, runs(&twin.offsets).len());
        prop_assert_eq!(ty.is_ascending(), ascends(&twin.offsets));
        prop_assert_eq!(ty.flatten(count).unwrap(), runs(&twin.copies(count)));
        let valid_view = ascends(&twin.copies(3)) && twin.copies(3).iter().all(|&o| o >= 0);
        prop_assert_eq!(ty.is_monotonic(), valid_view);
    }

    #[test]
    fn a_list_of_the_bytes_walks_alike_and_is_normal(notation in any_notation()) {
        let Some((ty, twin)) = build(&notation) else { return Ok(()) };
        let blocks: Vec<_> = twin.offsets.iter().map(|&offset| (1, offset)).collect();
        let list = Datatype::hindexed(&blocks, &Datatype::bytes(1).unwrap()).unwrap();
        let list = Datatype::resized(&list, twin.lb, twin.extent()).unwrap();
        prop_assert_eq!(list.flatten(1).unwrap(), ty.flatten(1).unwrap());
        // The normal form of a normal form is itself.
        prop_assert_eq!(&Notation::from(&list).build().unwrap(), &list);
        prop_assert_eq!(&Notation::from(&ty).build().unwrap(), &ty);
    }

    #[test]
    fn blocks_of_arrays_are_equal_however_they_are_written(
        dims in prop::collection::vec((1u64..6, 1u64..6, 0u64..4, 0u64..4), 1..5),
        element in 1u64..9,
    ) {
        // A block of `taken` at `before`, with `after` behind it, per dimension.
        let element = Datatype::bytes(element).unwrap();
        let taken: Vec<u64> = dims.iter().map(|d| d.0 * d.1).collect();
        let before: Vec<u64> = dims.iter().map(|d| d.2).collect();
        let sizes: Vec<u64> = dims.iter().map(|d| d.0 * d.1 + d.2 + d.3).collect();
        let block = Datatype::subarray(&sizes, &taken, &before, Order::C, &element).unwrap();

        let reversed = |list: &[u64]| list.iter().rev().copied().collect::<Vec<_>>();
        let (s, t, b) = (reversed(&sizes), reversed(&taken), reversed(&before));
        let fortran = Datatype::subarray(&s, &t, &b, Order::Fortran, &element).unwrap();
        prop_assert_eq!(&fortran, &block);

        // Nested vectors, each dimension in two factors.
        let (mut nested, mut stride, mut offset) = (element.clone(), element.extent(), 0);
        for (d, size) in dims.iter().zip(&sizes).rev() {
            nested = Datatype::hvector(d.0, 1, stride, &nested).unwrap();
            nested = Datatype::hvector(d.1, 1, d.0 as i64 * stride, &nested).unwrap();
            offset += d.2 as i64 * stride;
            stride *= *size as i64;
        }
        let nested = nested.displaced(offset).unwrap();
        prop_assert_eq!(&Datatype::resized(&nested, 0, block.extent()).unwrap(), &block);

        // The list of its runs, and the same in pieces.
        let byte = Datatype::bytes(1).unwrap();
        let runs: Vec<_> = block.flatten(1).unwrap().iter().map(|r| (r.len, r.offset)).collect();
        let list = Datatype::hindexed(&runs, &byte).unwrap();
        prop_assert_eq!(&Datatype::resized(&list, 0, block.extent()).unwrap(), &block);
        let fields: Vec<_> = runs
            .iter()
            .flat_map(|&(len, at)| {
                let half = len / 2;
                [(half, at, byte.clone()), (len - half, at + half as i64, byte.clone())]
            })
            .collect();
        let structure = Datatype::structure(&fields).unwrap();
        prop_assert_eq!(&Datatype::resized(&structure, 0, block.extent()).unwrap(), &block);
        prop_assert_eq!(hash_of(&structure), hash_of(&list));
    }

    #[test]
    fn notation_and_binary_form_round_trip(notation in any_notation()) {
        let parsed: Notation = notation.to_string().parse().unwrap();
        prop_assert_eq!(&parsed, &notation);
        let Some((ty, _)) = build(&notation) else { return Ok(()) };
        let reparsed: Datatype = ty.to_string().parse().unwrap();
        prop_assert_eq!(&reparsed, &ty, "{}", ty);
        let bytes = ty.encode();
        prop_assert_eq!(&Datatype::decode(&bytes).unwrap(), &ty);
        for cut in 0..bytes.len() {
            prop_assert!(Datatype::decode(&bytes[..cut]).is_err());
        }
        let mut longer = bytes;
        longer.push(0);
        prop_assert!(Datatype::decode(&longer).is_err());
    }

    #[test]
    fn a_cursor_resumes_and_seeks_anywhere(
        notation in any_notation(),
        count in 0u64..4,
        steps in prop::collection::vec((any::<prop::sample::Index>(), 1u64..40), 1..12),
    ) {
        let Some((ty, twin)) = build(&notation) else { return Ok(()) };
        let offsets = twin.copies(count);
        let mut cursor = Cursor::new(&ty, count).unwrap();
        for (index, max) in steps {
            let position = index.index(offsets.len() + 1);
            cursor.seek(position as u64);
            prop_assert_eq!(cursor.position() as usize, position);
            prop_assert_eq!(cursor.offset(), offsets.get(position).copied());
            let run = cursor.next_run(max);
            let limited = |run: &Run| Run { len: run.len.min(max), ..*run };
            let expected = runs(&offsets[position..]).first().map(limited);
            prop_assert_eq!(run, expected);
            let after = position + run.map_or(0, |run| run.len as usize);
            prop_assert_eq!(cursor.position() as usize, after);
            prop_assert_eq!(cursor.clone().collect::<Vec<_>>(), runs(&offsets[after..]));
        }
    }

    #[test]
    fn a_window_is_what_lies_inside(
        notation in any_view(),
        count in 0u64..4,
        ends in prop::collection::vec((-5i64..300, 0i64..120), 1..8),
    ) {
        let Some((ty, twin)) = build(&notation) else { return Ok(()) };
        let offsets = twin.copies(count);
        let works = ascends(&twin.offsets) && (count < 2 || ascends(&twin.copies(2)));
        prop_assert_eq!(ty.window(count, 0..10).is_ok(), works);
        if !works {
            return Ok(());
        }
        for (low, len) in ends {
            let high = low + len;
            let inside: Vec<i64> =
                offsets.iter().copied().filter(|&o| low <= o && o < high).collect();
            let before = offsets.iter().filter(|&&o| o < low).count();
            let window: Vec<_> = ty.window(count, low..high).unwrap().collect();
            let found: Vec<Run> = window.iter().map(|(_, run)| *run).collect();
            prop_assert_eq!(found, runs(&inside));
            let mut position = before as u64;
            for (at, run) in window {
                prop_assert_eq!(at, position);
                position += run.len;
            }
            prop_assert_eq!(ty.bytes_before(count, low).unwrap(), before as u64);
        }
    }

    #[test]
    fn the_next_byte_in_strips_is_the_smallest_of_all(
        notation in any_view(),
        count in 0u64..4,
        start in -300i64..300,
        period in prop_oneof![Just(1u64), 1u64..9, 1u64..150, 1u64..2000, Just(u64::MAX)],
        width in prop_oneof![Just(u64::MAX), 1u64..4, 1u64..100],
        from in prop::collection::vec(-50i64..400, 1..8),
    ) {
        let Some((ty, twin)) = build(&notation) else { return Ok(()) };
        let strips = Strips::new(start, NonZeroU64::new(period).unwrap(), width);
        let works = ascends(&twin.offsets) && (count < 2 || ascends(&twin.copies(2)));
        prop_assert_eq!(ty.next_in_strips(count, 0, strips).is_ok(), works);
        if !works {
            return Ok(());
        }
        let inside = |x: i64| {
            (i128::from(x) - i128::from(start)).rem_euclid(i128::from(period)) < i128::from(width)
        };
        let inside: Vec<i64> = twin.copies(count).into_iter().filter(|&x| inside(x)).collect();
        for from in from.into_iter().chain([i64::MIN, i64::MAX]) {
            let first = inside.iter().copied().find(|&x| x >= from);
            prop_assert_eq!(ty.next_in_strips(count, from, strips).unwrap(), first, "{}", ty);
        }
    }

    #[test]
    fn a_part_of_memory_suffices_for_the_bytes_in_it(
        notation in any_view(),
        count in 0u64..4,
        ends in prop::collection::vec((-5i64..300, 0i64..120), 1..8),
    ) {
        let Some((ty, twin)) = build(&notation) else { return Ok(()) };
        let offsets = twin.copies(count);
        let packer = Packer::new(&ty, count).unwrap();
        for (low, len) in ends {
            let inside: Vec<i64> =
                offsets.iter().copied().filter(|&o| low <= o && o < low + len).collect();
            let memory: Vec<u8> = (0..len).map(|i| (i * 131 + 7) as u8).collect();
            let mut stream = vec![0; inside.len()];
            if !ascends(&offsets) {
                let refused = packer.pack_part(&memory, low, 0, &mut [0]);
                prop_assert!(offsets.is_empty() || refused.is_err());
                continue;
            }
            let before = offsets.iter().filter(|&&o| o < low).count() as u64;
            packer.pack_part(&memory, low, before, &mut stream).unwrap();
            let expected: Vec<u8> = inside.iter().map(|o| memory[(o - low) as usize]).collect();
            prop_assert_eq!(&stream, &expected);

            let mut scattered = vec![0; len as usize];
            packer.unpack_part(before, &stream, &mut scattered, low).unwrap();
            let mut expected = vec![0; len as usize];
            for &o in &inside {
                expected[(o - low) as usize] = memory[(o - low) as usize];
            }
            prop_assert_eq!(&scattered, &expected);

            // One byte more than lies inside is refused, and copies nothing.
            if before + (inside.len() as u64) < offsets.len() as u64 {
                let longer = vec![1; inside.len() + 1];
                prop_assert!(packer.unpack_part(before, &longer, &mut scattered, low).is_err());
                prop_assert_eq!(&scattered, &expected);
            }
        }
    }

    #[test]
    fn two_cursors_pair_their_streams(
        memory in any_notation(), file in any_view(), skip in 0usize..50,
    ) {
        let (Some((mem, mem_twin)), Some((fil, file_twin))) = (build(&memory), build(&file)) else {
            return Ok(());
        };
        let mut mem_cursor = Cursor::new(&mem, 2).unwrap();
        let mut file_cursor = Cursor::new(&fil, 3).unwrap();
        mem_cursor.seek(skip as u64);
        file_cursor.seek(skip as u64);
        let mut pairs: Vec<(i64, i64)> =
            mem_twin.copies(2).into_iter().zip(file_twin.copies(3)).skip(skip).collect();
        pairs.reverse();
        for Piece { memory, file, len } in Pieces::new(mem_cursor, file_cursor) {
            prop_assert!(len > 0);
            for i in 0..len as i64 {
                prop_assert_eq!(pairs.pop(), Some((memory + i, file + i)));
            }
        }
        prop_assert!(pairs.is_empty());
    }

    #[test]
    fn pack_and_unpack_move_exactly_the_bytes(
        notation in any_notation(),
        count in 0u64..4,
        window in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let Some((ty, twin)) = build(&notation) else { return Ok(()) };
        let offsets = twin.copies(count);
        let low = offsets.iter().min().copied().unwrap_or(0).min(0);
        let high = offsets.iter().max().map_or(0, |max| max + 1).max(0);
        let origin = (-low) as usize;
        let memory: Vec<u8> = (0..high - low).map(|i| (i * 131 + (i >> 8) + 7) as u8).collect();
        let packer = Packer::new(&ty, count).unwrap();

        let expected: Vec<u8> = offsets.iter().map(|o| memory[(o - low) as usize]).collect();
        let mut stream = vec![0; offsets.len()];
        packer.pack(&memory, origin, &mut stream).unwrap();
        prop_assert_eq!(&stream, &expected);

        let (a, b) = (window.0.index(stream.len() + 1), window.1.index(stream.len() + 1));
        let (start, end) = (a.min(b), a.max(b));
        let mut part = vec![0; end - start];
        packer.pack_window(&memory, origin, start as u64, &mut part).unwrap();
        prop_assert_eq!(&part, &expected[start..end]);

        let data: Vec<u8> = (0..offsets.len()).map(|i| (i * 37 + 1) as u8).collect();
        for (start, end) in [(0, data.len()), (start, end)] {
            let mut scattered = memory.clone();
            packer.unpack_window(start as u64, &data[start..end], &mut scattered, origin).unwrap();
            let mut expected = memory.clone();
            for i in start..end {
                expected[(offsets[i] - low) as usize] = data[i];
            }
            prop_assert_eq!(scattered, expected);
        }

        if let (Some(&lowest), Some(&highest)) = (offsets.iter().min(), offsets.iter().max()) {
            let end = origin + (highest.max(-1) + 1) as usize;
            if highest >= 0 {
                prop_assert!(packer.pack(&memory[..end - 1], origin, &mut stream).is_err());
            }
            if lowest < 0 {
                prop_assert!(packer.pack(&memory, (-lowest) as usize - 1, &mut stream).is_err());
            }
            prop_assert!(packer.pack_window(&memory, origin, 1, &mut stream).is_err());
        }
    }
}
