//! Blocks of equal size, dealt round robin to the ranks.

use striate_datatype::{Datatype, Order, TypeError};

use super::{RankAccess, Workload, in_range};

/// Block `i` of rank `r` lies at `(i × ranks + r) × block`; memory is contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Ranks.
    pub ranks: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Blocks of a rank.
    pub count: u64,
}

impl Workload for Strided {
    fn name(&self) -> &'static str {
        "strided"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn access(&self, rank: u64) -> Result<RankAccess, TypeError> {
        in_range(rank, self.ranks)?;
        let byte = Datatype::bytes(1)?;
        let (sizes, subsizes) = ([self.ranks, self.block], [1, self.block]);
        let file = Datatype::subarray(&sizes, &subsizes, &[rank, 0], Order::C, &byte)?;
        let memory = Datatype::contiguous(self.count, &Datatype::bytes(self.block)?)?;
        Ok(RankAccess { memory, memory_count: 1, file, file_count: self.count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_dealt_round_robin() {
        let strided = Strided { ranks: 3, block: 10, count: 4 };
        for rank in 0..3 {
            let access = strided.access(rank).unwrap();
            let runs = access.file.flatten(access.file_count).unwrap();
            let offsets: Vec<i64> = runs.iter().map(|run| run.offset).collect();
            assert_eq!(offsets, [0, 30, 60, 90].map(|at| at + 10 * rank as i64));
            assert_eq!(access.memory.size(), 40);
            assert!(access.file.is_monotonic());
        }
        assert!(strided.access(3).is_err());
    }
}
