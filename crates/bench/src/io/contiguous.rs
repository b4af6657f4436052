//! [`Contiguous`]: the bytes of another pattern's calls, each call in one contiguous piece, as the
//! limit for all methods on the same storage.

use striate_datatype::{Datatype, TypeError};

use super::IoOp;
use super::plan::{Call, IoPlan, Pattern};

/// As many bytes per rank and call as another pattern, without gaps: rank after rank, step after
/// step.
#[derive(Clone, Debug)]
pub(super) struct Contiguous {
    name: &'static str,
    /// Bytes of a call, rank by rank.
    lens: Vec<u64>,
    steps: u64,
}

impl Contiguous {
    /// The limit of a pattern whose steps are one call each.
    pub(super) fn of(pattern: &dyn Pattern) -> Result<Self, TypeError> {
        let plans = (0..pattern.ranks()).map(|rank| pattern.plan(rank, IoOp::Read));
        let plans = plans.collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            name: pattern.name(),
            lens: plans.iter().map(IoPlan::call_bytes).collect(),
            steps: plans.first().map_or(0, |plan| plan.steps.len() as u64),
        })
    }

    fn step_bytes(&self) -> u64 {
        self.lens.iter().sum()
    }
}

impl Pattern for Contiguous {
    fn name(&self) -> &'static str {
        self.name
    }

    fn ranks(&self) -> u64 {
        self.lens.len() as u64
    }

    fn plan(&self, rank: u64, _op: IoOp) -> Result<IoPlan, TypeError> {
        let size = self.ranks();
        let len = *self.lens.get(rank as usize).ok_or(TypeError::Rank { rank, size })?;
        let start: u64 = self.lens[..rank as usize].iter().sum();
        let call = |step| vec![Call { offset: step * self.step_bytes() + start, origin: 0 }];
        let steps = (0..self.steps).map(call).collect();
        IoPlan::new(0, &Datatype::bytes(1)?, &Datatype::bytes(len)?, 1, steps)
    }

    fn file_bytes(&self) -> Result<u64, TypeError> {
        Ok(self.step_bytes() * self.steps)
    }

    fn block(&self) -> Result<u64, TypeError> {
        Ok(self.lens.first().copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::plan::Repeated;
    use crate::workload::Block3d;

    #[test]
    fn calls_follow_each_other() {
        let blocks = Repeated { workload: Block3d::near_cubic(3, 2), steps: 2 };
        let limit = Contiguous::of(&blocks).unwrap();
        // Two planes of 36 bytes, and one.
        assert_eq!(limit.lens, [72, 36]);
        let offsets = |rank| -> Vec<u64> {
            let plan = limit.plan(rank, IoOp::Write).unwrap();
            plan.steps.iter().flatten().map(|call| call.offset).collect()
        };
        assert_eq!((offsets(0), offsets(1)), (vec![0, 108], vec![72, 180]));
        assert_eq!(limit.file_bytes(), Ok(216));
        assert!(limit.plan(2, IoOp::Read).is_err());
    }
}
