//! Owners of the chunks that several ranks have elements of.
//!
//! Encoding takes far longer than sending: deflate does about 100 MB/s on a core, a message between
//! two processes of a node GB/s. So balance comes first: in a round, each rank owns equally many
//! chunks. Within that, a chunk belongs to the rank that has most of its bytes, which do not
//! travel. Chunks of one round that all ranks have equally much of go to ranks in turn.

use super::super::chunk_cache::ChunkKey;

/// A chunk, and how many bytes of it ranks have; ranks ascend.
#[derive(Debug)]
pub(super) struct SharedChunk {
    pub(super) key: ChunkKey,
    pub(super) bytes: Vec<(usize, u64)>,
}

/// The owner of each chunk of a round.
pub(super) fn owners(round: &[SharedChunk], ranks: usize) -> Vec<usize> {
    let most = round.len().div_ceil(ranks.max(1));
    let mut owned = vec![0; ranks];
    let mut owners = vec![usize::MAX; round.len()];
    // Those first with whose owner most is saved.
    let mut order: Vec<(u64, usize)> = round
        .iter()
        .enumerate()
        .map(|(at, chunk)| {
            let mut bytes: Vec<u64> = chunk.bytes.iter().map(|&(_, bytes)| bytes).collect();
            bytes.sort_unstable_by_key(|&bytes| std::cmp::Reverse(bytes));
            let next = bytes.get(1).copied().unwrap_or(0);
            (bytes.first().map_or(0, |first| first - next), at)
        })
        .collect();
    order.sort_unstable_by_key(|&(saved, at)| (std::cmp::Reverse(saved), at));
    for (_, at) in order {
        let has = |rank: usize| {
            let own = round[at].bytes.binary_search_by_key(&rank, |&(rank, _)| rank);
            own.map_or(0, |found| round[at].bytes[found].1)
        };
        let free = (0..ranks).filter(|&rank| owned[rank] < most);
        let turn = |rank: usize| (rank + ranks - at % ranks) % ranks;
        let best = free.min_by_key(|&rank| (std::cmp::Reverse(has(rank)), owned[rank], turn(rank)));
        // There is room for all.
        let owner = best.unwrap_or(0);
        owned[owner] += 1;
        owners[at] = owner;
    }
    owners
}

#[cfg(test)]
mod tests {
    use striate_testing::splitmix::SplitMix64;

    use super::*;

    fn chunk(number: u64, bytes: &[(usize, u64)]) -> SharedChunk {
        SharedChunk { key: (0, vec![number]), bytes: bytes.to_vec() }
    }

    fn moved(round: &[SharedChunk], owners: &[usize]) -> u64 {
        let others = round.iter().zip(owners).flat_map(|(chunk, owner)| {
            chunk.bytes.iter().filter(move |(rank, _)| rank != owner).map(|(_, bytes)| bytes)
        });
        others.sum()
    }

    #[test]
    fn most_bytes_stay_where_they_are() {
        // Rows of ranks that end in the middle of chunks.
        let round: Vec<_> = (0..6)
            .map(|at| chunk(at, &[(at as usize / 2, 70), (at as usize / 2 + 1, 30)]))
            .collect();
        let found = owners(&round, 4);
        assert_eq!(moved(&round, &found), 6 * 30);
        let in_turn: Vec<usize> = (0..6).map(|at| at % 4).collect();
        assert_eq!(moved(&round, &in_turn), 470);
    }

    #[test]
    fn work_is_balanced_and_less_moves_than_in_turn() {
        let mut sums = (0, 0);
        for seed in 0..300 {
            let random = &mut SplitMix64::new(seed);
            let ranks = 1 + random.below(7) as usize;
            let count = random.below(40);
            let round: Vec<_> = (0..count)
                .map(|at| {
                    let first = random.below(ranks as u64) as usize;
                    let bytes: Vec<_> =
                        (first..ranks).map(|rank| (rank, 1 + random.below(50))).collect();
                    chunk(at, &bytes)
                })
                .collect();
            let found = owners(&round, ranks);
            for rank in 0..ranks {
                let owned = found.iter().filter(|&&owner| owner == rank).count();
                assert!(owned <= round.len().div_ceil(ranks), "case {seed}");
            }
            let in_turn: Vec<usize> = (0..round.len()).map(|at| at % ranks).collect();
            sums = (sums.0 + moved(&round, &found), sums.1 + moved(&round, &in_turn));
        }
        assert!(sums.0 < sums.1 * 9 / 10, "{sums:?}");
    }

    #[test]
    fn one_writer_shares_the_work() {
        let round: Vec<_> = (0..8).map(|at| chunk(at, &[(2, 100)])).collect();
        let found = owners(&round, 4);
        for rank in 0..4 {
            assert_eq!(found.iter().filter(|&&owner| owner == rank).count(), 2);
        }
    }
}
