//! \[BARTZ\]'s access patterns: IOR's segments and blocks in a variable of doubles.

use super::super::ArrayBenchError;
use super::super::plan::{
    Access, Area, ArrayPlan, Footprint, MemoryLayout, Number, VariableStorage,
};
use super::{ArrayWorkload, CALL_BYTES, ValueKind, elements, one_file};

/// Segments of one block per rank, each of several calls.
///
/// With one block, each rank has a piece of its own (the disjoint pattern); with blocks of x
/// stripes over as many servers as ranks, each rank uses x of these (x-OST).
#[derive(Clone, Debug)]
pub struct ArrayIor {
    /// Ranks.
    pub ranks: u64,
    /// Bytes of a rank: a multiple of the block.
    pub size: u64,
    /// Bytes of a rank that lie together: a multiple of the transfer.
    pub block: u64,
    /// Bytes of a call: a multiple of 8.
    pub transfer: u64,
    /// Bytes of a chunk: a multiple of 8; none leaves the variable contiguous if it can be.
    pub chunk: Option<u64>,
    /// The shape of the variable.
    pub shape: IorShape,
}

/// The shape of [`ArrayIor`]'s variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IorShape {
    /// One dimension.
    Line,
    /// Two: a row has a transfer of each rank.
    Plane,
    /// The same, and rows are records: each call of all ranks adds one. The block must be the
    /// transfer.
    Records,
}

/// Bytes of an element.
const SIZE: u64 = Number::Double.size() as u64;

impl ArrayWorkload for ArrayIor {
    fn name(&self) -> &'static str {
        match self.shape {
            IorShape::Line => "ior",
            IorShape::Plane => "ior-2d",
            IorShape::Records => "ior-records",
        }
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("ior");
        let own = elements(&[self.size / SIZE], self.ranks)?;
        let transfer = self.transfer / SIZE;
        let row = self.ranks * transfer;
        let file = &mut plan.files[0];
        let calls = self.size / self.transfer;
        let dimensions = match self.shape {
            IorShape::Line => vec![file.schema.dimension("x", self.ranks * own as u64)],
            IorShape::Plane => {
                vec![file.schema.dimension("y", calls), file.schema.dimension("x", row)]
            }
            IorShape::Records => {
                vec![file.schema.unlimited("y", calls), file.schema.dimension("x", row)]
            }
        };
        let variable = file.schema.variable("data", Number::Double, &dimensions);
        let chunk = self.chunk.map(|chunk| chunk / SIZE);
        // No longer than the dimension, which does not grow.
        let chunk = match self.shape {
            IorShape::Line => chunk.map(|chunk| vec![chunk.min(self.ranks * own as u64)]),
            IorShape::Plane => chunk.map(|chunk| vec![1, chunk.min(row)]),
            IorShape::Records => Some(vec![1, chunk.unwrap_or(transfer).min(row)]),
        };
        file.schema.variables[variable].storage = VariableStorage { chunk, deflate: None };
        let in_block = self.block / self.transfer;
        file.steps = (0..calls)
            .map(|call| {
                let (segment, within) = (call / in_block, call % in_block);
                let block = (segment * self.ranks + rank) * self.block / SIZE;
                let at = block + within * transfer;
                let (start, count) = match self.shape {
                    IorShape::Line => (vec![at], vec![transfer]),
                    _ => (vec![at / row, at % row], vec![1, transfer]),
                };
                let lay = MemoryLayout::Dense { first: (call * transfer) as usize };
                vec![Access { variable, start, count, area: 0, lay, seed: 0 }]
            })
            .collect();
        plan.areas.push(Area { number: Number::Double, len: own, values: ValueKind::Any });
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        let calls = (self.size / self.transfer.max(1)).saturating_mul(CALL_BYTES);
        Footprint::of_elements(&[self.size / SIZE], Number::Double)
            .and(Footprint { plan: calls, ..Footprint::default() })
    }
}
