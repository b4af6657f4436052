//! Striping and shares agree with a twin that assigns byte by byte.

use proptest::prelude::*;
use striate_datatype::{Datatype, TypeError};

use super::*;

fn striping(strip: u64, servers: u32) -> Striping {
    Striping { strip: NonZeroU64::new(strip).unwrap(), servers: NonZeroU32::new(servers).unwrap() }
}

fn bytes(len: u64) -> Datatype {
    Datatype::bytes(len).unwrap()
}

fn every(count: u64, stride: i64, ty: &Datatype) -> Datatype {
    Datatype::hvector(count, 1, stride, ty).unwrap()
}

/// Assigns the bytes of a file one by one: the server of each and its offset in the object.
fn dealt(striping: Striping, len: u64) -> Vec<(u32, u64)> {
    let mut objects = vec![0; striping.servers.get() as usize];
    let deal = |offset: u64| {
        let server = offset / striping.strip % objects.len() as u64;
        let place = objects[server as usize];
        objects[server as usize] += 1;
        (server as u32, place)
    };
    (0..len).map(deal).collect()
}

/// The parts of a share, found by asking each byte of the access where it lies.
fn twin(striping: Striping, server: u32, offsets: &[u64], stream: Range<u64>) -> Vec<Part> {
    let dealt = dealt(striping, offsets.last().map_or(0, |last| last + 1));
    let mut parts = Vec::<Part>::new();
    for position in stream.start..stream.end.min(offsets.len() as u64) {
        let offset = offsets[position as usize];
        let (owner, object) = dealt[offset as usize];
        if owner != server {
            continue;
        }
        match parts.last_mut() {
            Some(part) if part.file.start / striping.strip == offset / striping.strip => {
                part.file.end = offset + 1;
                part.stream.end = position + 1;
            }
            _ => parts.push(Part {
                file: offset..offset + 1,
                stream: position..position + 1,
                object,
            }),
        }
    }
    parts
}

fn offsets(ty: &Datatype) -> Vec<u64> {
    let runs = ty.flatten(1).unwrap();
    runs.iter().flat_map(|run| run.offset as u64..run.end() as u64).collect()
}

/// Ascending types of every loop kind.
fn any_access() -> impl Strategy<Value = Datatype> {
    let leaf = (1u64..9).prop_map(bytes);
    let nested = leaf.prop_recursive(3, 16, 3, |inner| {
        let gap = || 0i64..60;
        prop_oneof![
            (inner.clone(), 1u64..6, gap()).prop_map(|(ty, n, gap)| every(
                n,
                ty.true_extent() as i64 + gap,
                &ty
            )),
            (inner.clone(), prop::collection::vec((1u64..4, gap()), 1..6)).prop_map(
                |(ty, blocks)| {
                    let extent = ty.true_extent() as i64 + 1;
                    let ty = Datatype::resized(&ty, 0, extent).unwrap();
                    let mut at = 0;
                    let place = |&(len, gap): &(u64, i64)| {
                        let here = at;
                        at += len as i64 * extent + gap;
                        (len, here)
                    };
                    let blocks: Vec<_> = blocks.iter().map(place).collect();
                    Datatype::hindexed(&blocks, &ty).unwrap()
                }
            ),
            prop::collection::vec((inner, gap()), 1..4).prop_map(|fields| {
                let mut at = 0;
                let place = |(ty, gap): (Datatype, i64)| {
                    let here = at - ty.true_lower_bound();
                    at += ty.true_extent() as i64 + gap;
                    (1, here, ty)
                };
                let fields: Vec<_> = fields.into_iter().map(place).collect();
                Datatype::structure(&fields).unwrap()
            }),
        ]
    });
    (nested, 0i64..100).prop_map(|(ty, at)| ty.displaced(at - ty.true_lower_bound()).unwrap())
}

/// `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(1000), ..config }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_byte_has_one_place(strip in 1u64..20, servers in 1u32..6, len in 0u64..300) {
        let striping = striping(strip, servers);
        let dealt = dealt(striping, len);
        for (offset, &(server, place)) in dealt.iter().enumerate() {
            prop_assert_eq!(striping.locate(offset as u64), (server, place));
            prop_assert_eq!(striping.offset_of(server, place), offset as u64);
        }
        for server in 0..servers {
            let of_server = || (0..len).filter(|&x| dealt[x as usize].0 == server);
            let object_len = of_server().count() as u64;
            prop_assert_eq!(striping.object_len(server, len), object_len);
            let file_len = of_server().next_back().map_or(0, |last| last + 1);
            prop_assert_eq!(striping.file_len(server, object_len), file_len);
            for x in 0..len as i64 {
                let inside = dealt[x as usize].0 == server;
                prop_assert_eq!(striping.strips_of(server).contains(x), inside);
            }
        }
        let longest = (0..servers)
            .map(|server| striping.file_len(server, striping.object_len(server, len)))
            .max();
        prop_assert_eq!(longest, Some(len));
    }

    #[test]
    fn the_next_strip_is_the_first_that_ends_behind(
        strip in 1u64..20, servers in 1u32..6, from in 0u64..300,
    ) {
        let striping = striping(strip, servers);
        for server in 0..servers {
            let range = striping.strip_at(server, from);
            let owned = |x: u64| x / strip % u64::from(servers) == u64::from(server);
            let first = (from..from + 200).find(|&x| owned(x)).unwrap();
            prop_assert_eq!(range, first..(first / strip + 1) * strip);
        }
    }

    #[test]
    fn large_offsets_convert_back(strip in 1u64.., servers in 1u32.., offset: u64, from: u64) {
        let striping = striping(strip, servers);
        let (server, place) = striping.locate(offset);
        prop_assert!(server < servers && place <= offset);
        prop_assert_eq!(striping.offset_of(server, place), offset);
        prop_assert_eq!(striping.object_len(server, offset), place);
        let end = striping.file_len(server, place.saturating_add(1));
        prop_assert_eq!(end, offset.saturating_add(1));
        let next = striping.strip_at(server, from);
        prop_assert!(next.start >= from && next.end >= next.start);
        prop_assert!(from > offset || next.start <= offset);
        let signed = offset >> 1;
        let owner = striping.locate(signed).0;
        prop_assert!(striping.strips_of(owner).contains(signed as i64));
        let neighbour = (owner + 1) % servers;
        prop_assert_eq!(striping.strips_of(neighbour).contains(signed as i64), servers == 1);
    }

    #[test]
    fn shares_partition_an_access(
        access in any_access(),
        strip in 1u64..50,
        servers in 1u32..6,
        ends in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        whole: bool,
    ) {
        let striping = striping(strip, servers);
        let offsets = offsets(&access);
        let (a, b) = (ends.0.index(offsets.len() + 1), ends.1.index(offsets.len() + 1));
        let stream =
            if whole { 0..access.size() + 7 } else { a.min(b) as u64..a.max(b) as u64 };
        let mut total = 0;
        for server in 0..servers {
            let parts: Vec<Part> =
                Share::of(striping, server, &access, stream.clone()).unwrap().collect();
            prop_assert_eq!(&parts, &twin(striping, server, &offsets, stream.clone()));
            total += parts.iter().map(|part| part.stream.end - part.stream.start).sum::<u64>();
        }
        prop_assert_eq!(total, stream.end.min(access.size()) - stream.start);
    }

    #[test]
    fn contiguous_shares_are_ranges_of_objects(
        strip in 1u64..50, servers in 1u32..6, start in 0u64..300, len in 0u64..300,
    ) {
        let striping = striping(strip, servers);
        let range = start..start + len;
        let offsets: Vec<u64> = range.clone().collect();
        for server in 0..servers {
            let parts: Vec<Part> = Share::of_range(striping, server, range.clone()).collect();
            prop_assert_eq!(&parts, &twin(striping, server, &offsets, 0..len));
            let mut object = striping.object_range(server, range.clone());
            for part in &parts {
                prop_assert_eq!(part.object, object.start);
                object.start += part.file.end - part.file.start;
            }
            prop_assert!(object.is_empty());
        }
    }
}

// The steps of a search are counted where it is written. The accesses below have so many runs that
// a share which walked them would not come to an end.

const STRIP: i64 = 64 << 10;
const PERIOD: i64 = 4 * STRIP;

fn servers() -> Striping {
    striping(STRIP as u64, 4)
}

fn parts(server: u32, access: &Datatype) -> Vec<Part> {
    Share::of(servers(), server, access, 0..access.size()).unwrap().collect()
}

#[test]
fn a_vector_on_another_server_is_passed_at_once() {
    let many = 1u64 << 42;
    let vector = every(many, PERIOD, &bytes(100));
    let end = many as i64 * PERIOD;
    let runs: Vec<(u64, i64)> = (0..100).map(|i| (8, 2 * STRIP + i * i * PERIOD)).collect();
    let list = Datatype::hindexed(&runs, &bytes(1)).unwrap();
    let access = Datatype::structure(&[(1, 0, vector), (1, end, list)]).unwrap();
    let found = parts(2, &access);
    assert_eq!(found.len(), 100);
    for (i, (part, run)) in found.iter().zip(&runs).enumerate() {
        let (start, position) = ((end + run.1) as u64, many * 100 + i as u64 * 8);
        assert_eq!((&part.file, &part.stream), (&(start..start + 8), &(position..position + 8)));
        assert_eq!((2, part.object), servers().locate(start));
    }
    assert!(parts(1, &access).is_empty() && parts(3, &access).is_empty());
}

#[test]
fn drifting_blocks_are_found_where_they_touch() {
    // A billion blocks drift by a byte each through strips of as many bytes; the last hundred have
    // come to the next server.
    let (many, strip) = (1u64 << 30, 1u64 << 30);
    let striping = striping(strip, 4);
    let access = every(many, 4 * strip as i64 + 1, &bytes(1)).displaced(100).unwrap();
    let found: Vec<Part> = Share::of(striping, 1, &access, 0..many).unwrap().collect();
    let expected = (0..100).map(|i| {
        let block = many - 100 + i;
        let offset = 100 + block * (4 * strip + 1);
        Part { file: offset..offset + 1, stream: block..block + 1, object: block * strip + i }
    });
    assert!(found.into_iter().eq(expected));
    assert_eq!(Share::of(striping, 2, &access, 0..many).unwrap().count(), 0);
}

#[test]
fn nested_vectors_are_found_where_they_touch() {
    // Planes of a hundred rows on the same server. From plane to plane they drift by a byte, and
    // the last plane alone has a byte of each row on the next server.
    let strip = 1u64 << 24;
    let (planes, apart) = (strip - 2, 2000 * strip + 1);
    let rows = every(100, 12 * strip as i64, &bytes(4));
    let access = every(planes, apart as i64, &rows);
    let of = |server| Share::of(striping(strip, 4), server, &access, 0..access.size()).unwrap();
    let expected = (0..100).map(|row| {
        let offset = (planes - 1) * apart + row * 12 * strip + 3;
        let position = ((planes - 1) * 100 + row) * 4 + 3;
        let object = offset / (4 * strip) * strip;
        Part { file: offset..offset + 1, stream: position..position + 1, object }
    });
    assert!(of(1).eq(expected));
    assert_eq!(of(2).count() + of(3).count(), 0);
    // Those of server 0 are found as fast, the last ones too.
    let last = Share::of(striping(strip, 4), 0, &access, access.size() - 400..access.size());
    assert!(last.unwrap().all(|part| part.stream.end - part.stream.start == 3));
}

#[test]
fn the_last_offsets_are_found() {
    let max = i64::MAX as u64;
    for (strip, count) in [(1, 1), (1, 3), (1 << 62, 3), (1 << 63, 2), (u64::MAX, u32::MAX), (7, 5)]
    {
        let striping = striping(strip, count);
        let range = max - 20..max;
        let pairs = every(7, 3, &bytes(2)).displaced(max as i64 - 20).unwrap();
        let solid = bytes(20).displaced(max as i64 - 20).unwrap();
        let owners: Vec<u32> = range.clone().map(|x| striping.locate(x).0).collect();
        for server in 0..count.min(6) {
            let own = owners.iter().filter(|&&owner| owner == server).count() as u64;
            let total = |share: Share<'_>| -> u64 {
                share
                    .map(|part| {
                        assert!(part.file.start >= range.start && part.file.end <= range.end);
                        assert_eq!(striping.locate(part.file.start), (server, part.object));
                        part.stream.end - part.stream.start
                    })
                    .sum()
            };
            assert_eq!(total(Share::of_range(striping, server, range.clone())), own);
            assert_eq!(total(Share::of(striping, server, &solid, 0..20).unwrap()), own);
            let of_pairs = (0..20).filter(|i| i % 3 < 2 && owners[*i] == server).count() as u64;
            assert_eq!(total(Share::of(striping, server, &pairs, 0..14).unwrap()), of_pairs);
        }
        assert!(Share::of_range(striping, 0, u64::MAX - 3..u64::MAX).count() <= 3);
    }
}

#[test]
fn invalid_accesses_are_refused() {
    let back = every(3, -10, &bytes(4)).displaced(100).unwrap();
    assert_eq!(Share::of(servers(), 0, &back, 0..9).unwrap_err(), TypeError::NotMonotonic);
    let negative = every(3, 10, &bytes(4)).displaced(-1).unwrap();
    let error = Share::of(servers(), 0, &negative, 0..9).unwrap_err();
    assert_eq!(error, TypeError::Negative { what: "an offset in the file", value: -1 });
    assert_eq!(Share::of(servers(), 0, &bytes(0), 0..9).unwrap().next(), None);
    assert_eq!(Share::of_range(servers(), 0, 9..9).next(), None);
}
