//! What only formats with chunks have: compression, and default shapes of chunks.

use striate_hdf5::chunk_shape::ChunkRule;

use super::super::ArrayBenchError;
use super::super::plan::{
    Access, Area, ArrayPlan, Footprint, MemoryLayout, Number, VariableStorage,
};
use super::{ArrayWorkload, CALL_BYTES, ValueKind, elements, one_file};

/// A field of floats in compressed chunks of a plane each, which ranks write whole in collective
/// calls.
#[derive(Clone, Debug)]
pub struct Compressed {
    /// Ranks.
    pub ranks: u64,
    /// Elements along both edges of a plane.
    pub edge: u64,
    /// Planes of a rank in a call.
    pub planes: u64,
    /// Calls.
    pub calls: u64,
    /// The level of deflate, after shuffle.
    pub level: u8,
}

/// A variable of doubles whose two dimensions are both unlimited, in chunks of the shape that a
/// rule chooses, written by rows: one more in each collective call.
#[derive(Clone, Debug)]
pub struct DefaultChunks {
    /// Ranks.
    pub ranks: u64,
    /// Rows.
    pub rows: u64,
    /// Elements of a rank in a row.
    pub elements: u64,
    /// The rule.
    pub rule: ChunkRule,
}

impl ArrayWorkload for Compressed {
    fn name(&self) -> &'static str {
        "compressed"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("compressed");
        let (edge, planes) = (self.edge, self.planes);
        let len = elements(&[edge, edge, planes, self.calls], self.ranks)?;
        let schema = &mut plan.files[0].schema;
        let z = schema.dimension("z", self.ranks * planes * self.calls);
        let [y, x] = ["y", "x"].map(|name| schema.dimension(name, edge));
        let variable = schema.variable("field", Number::Float, &[z, y, x]);
        let chunk = Some(vec![1, edge, edge]);
        schema.variables[variable].storage = VariableStorage { chunk, deflate: Some(self.level) };
        plan.files[0].steps = (0..self.calls)
            .map(|call| {
                let first = (call * planes * edge * edge) as usize;
                vec![Access {
                    variable,
                    start: vec![(call * self.ranks + rank) * planes, 0, 0],
                    count: vec![planes, edge, edge],
                    area: 0,
                    lay: MemoryLayout::Dense { first },
                    seed: 0,
                }]
            })
            .collect();
        plan.areas.push(Area { number: Number::Float, len, values: ValueKind::Smooth });
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        let calls = self.calls.saturating_mul(CALL_BYTES);
        Footprint::of_elements(&[self.edge, self.edge, self.planes, self.calls], Number::Float)
            .and(Footprint { plan: calls, ..Footprint::default() })
    }
}

impl ArrayWorkload for DefaultChunks {
    fn name(&self) -> &'static str {
        match self.rule {
            ChunkRule::NetcdfC => "default-chunks-netcdf-c",
            ChunkRule::LastUnlimited => "default-chunks",
        }
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("default-chunks");
        let len = elements(&[self.rows, self.elements], self.ranks)?;
        let schema = &mut plan.files[0].schema;
        let y = schema.unlimited("y", self.rows);
        let x = schema.unlimited("x", self.ranks * self.elements);
        let variable = schema.variable("data", Number::Double, &[y, x]);
        // Said explicitly, so that all libraries have the same chunks.
        let chunk = self.rule.shape(&[None, None], Number::Double.size() as u64);
        let chunk = Some(chunk.into_iter().map(u64::from).collect());
        schema.variables[variable].storage = VariableStorage { chunk, deflate: None };
        plan.files[0].steps = (0..self.rows)
            .map(|row| {
                vec![Access {
                    variable,
                    start: vec![row, rank * self.elements],
                    count: vec![1, self.elements],
                    area: 0,
                    lay: MemoryLayout::Dense { first: (row * self.elements) as usize },
                    seed: 0,
                }]
            })
            .collect();
        plan.areas.push(Area { number: Number::Double, len, values: ValueKind::Any });
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        let calls = self.rows.saturating_mul(CALL_BYTES);
        Footprint::of_elements(&[self.rows, self.elements], Number::Double)
            .and(Footprint { plan: calls, ..Footprint::default() })
    }
}
