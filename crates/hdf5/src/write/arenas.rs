//! [`Arenas`]: space behind the end of a file that ranks take without telling each other.
//!
//! All ranks have the same plan, hence know the same end. Behind it, rank `r`'s arena number `k` is
//! the block `k · ranks + r`: no other rank takes it, so no message is needed. A rank uses its
//! arenas with [`ArenaSpace`], and before them its share of the space that is free
//! ([`super::FilePlan::free_share`]). When all ranks meet, they exchange how many each has claimed;
//! the plan's end moves behind the last one, and what is not used becomes free
//! ([`super::FilePlan::end_arenas`]).
//!
//! No superblock refers to what is there before that, so a killed writer leaves nothing of it.

use super::free_list::FreeList;
use crate::{Error, Reason, Result, Structure};

/// Where the arenas of all ranks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arenas {
    /// Where the first one begins.
    pub base: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// How many ranks there are.
    pub ranks: u64,
}

impl Arenas {
    /// Where an arena of a rank begins.
    pub fn arena(&self, rank: u64, number: u64) -> Result<u64> {
        let block = number.checked_mul(self.ranks).and_then(|first| first.checked_add(rank));
        let offset = block.and_then(|block| block.checked_mul(self.bytes));
        let begin = offset.and_then(|offset| offset.checked_add(self.base));
        let end = begin.and_then(|begin| begin.checked_add(self.bytes));
        let fits = end.is_some_and(|end| i64::try_from(end).is_ok());
        begin.filter(|_| fits).ok_or_else(|| {
            let limit = i64::MAX as u64;
            Error::of(Structure::File, Reason::Limit { what: "bytes", found: u64::MAX, limit })
        })
    }
}

/// The space of one rank: its arenas, and what it kept of those before.
#[derive(Clone, Debug, Default)]
pub struct ArenaSpace {
    arenas: Option<Arenas>,
    rank: u64,
    claimed: u64,
    free: FreeList,
}

impl ArenaSpace {
    /// Whether it is known where arenas are.
    pub const fn is_placed(&self) -> bool {
        self.arenas.is_some()
    }

    /// Sets where arenas are, until [`ArenaSpace::end`].
    pub const fn place(&mut self, arenas: Arenas, rank: u64) {
        (self.arenas, self.rank) = (Some(arenas), rank);
    }

    /// Whether it has free blocks that the other ranks do not know.
    pub fn has_free(&self) -> bool {
        self.free.blocks().next().is_some()
    }

    /// Takes a block at a multiple of `boundary`, no larger than an arena; claims an arena if there
    /// is no room. `None` if arenas have no place.
    pub fn take(&mut self, boundary: u64, bytes: u64) -> Result<Option<u64>> {
        loop {
            if let Some(address) = self.free.take(boundary, bytes) {
                return Ok(Some(address));
            }
            let Some(arenas) = self.arenas.filter(|arenas| bytes > 0 && bytes <= arenas.bytes)
            else {
                return Ok(None);
            };
            self.free.add(arenas.arena(self.rank, self.claimed)?, arenas.bytes);
            self.claimed += 1;
        }
    }

    /// Gives back a block that was taken.
    pub fn free(&mut self, address: u64, bytes: u64) {
        self.free.add(address, bytes);
    }

    /// How many arenas were claimed.
    pub const fn claimed(&self) -> u64 {
        self.claimed
    }

    /// What is free, as address and bytes. It belongs to all ranks then: the next arenas are
    /// elsewhere. Blocks that were taken stay those of the rank.
    pub fn end(&mut self) -> Vec<(u64, u64)> {
        (self.arenas, self.claimed) = (None, 0);
        std::mem::take(&mut self.free).blocks().collect()
    }
}

#[cfg(test)]
mod tests {
    use striate_testing::splitmix::SplitMix64;

    use super::*;

    #[test]
    fn no_byte_is_given_to_two_ranks() {
        let arenas = Arenas { base: 1000, bytes: 100, ranks: 3 };
        let mut random = SplitMix64::new(5);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for rank in 0..3 {
            let mut space = ArenaSpace::default();
            assert_eq!(space.take(1, 10).unwrap(), None, "arenas have no place");
            space.place(arenas, rank);
            let mut own: Vec<(u64, u64)> = Vec::new();
            for _ in 0..60 {
                if random.once_in(3) && !own.is_empty() {
                    let (address, bytes) = own.swap_remove(random.below(own.len() as u64) as usize);
                    space.free(address, bytes);
                }
                let bytes = 1 + random.below(60);
                let address = space.take(8, bytes).unwrap().unwrap();
                assert_eq!(address % 8, 0);
                own.push((address, bytes));
            }
            assert_eq!(space.take(1, 101).unwrap(), None, "larger than an arena");
            let claimed = space.claimed();
            let mut all = own.clone();
            all.extend(space.end());
            let bytes: u64 = all.iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(bytes, claimed * 100, "nothing is lost");
            taken.extend(all);
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
        assert!(arenas.arena(2, u64::MAX / 2).is_err());
    }
}
