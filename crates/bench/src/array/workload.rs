//! The workloads, as plans for each rank.
//!
//! The programs are those of \[SON\] and \[SCHMIDTKE\], with the sizes of the papers as defaults;
//! [`ArrayIor`] has the patterns of \[BARTZ\]; [`Compressed`] and [`DefaultChunks`] are about
//! chunks; [`Whole`] and [`Open`] isolate what a single large call and a large header cost.

mod chunks;
mod flash;
mod ior;

use super::ArrayBenchError;
use super::plan::{
    Access, Area, ArrayPlan, FilePlan, Footprint, MemoryLayout, Number, Schema, ValueKind, Variable,
};
use crate::workload::near_cubic_grid;

pub use self::chunks::{Compressed, DefaultChunks};
pub use self::flash::{FlashFile, FlashIo};
pub use self::ior::{ArrayIor, IorShape};

/// What many ranks do with datasets.
pub trait ArrayWorkload: Sync {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// Ranks that take part.
    fn ranks(&self) -> u64;

    /// What a rank does; the schemas are the same for all.
    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError>;

    /// What the rank with the most data needs, without making its plan.
    fn footprint(&self) -> Footprint;

    /// Whether the program it comes from begins its calls and waits for all, where there is a
    /// choice.
    fn is_nonblocking(&self) -> bool {
        false
    }

    /// Variables and the dimensions that they are divided along if there are partitions,
    /// `var:dim,var:dim`, where that is not the first.
    fn divided(&self) -> &'static str {
        ""
    }
}

/// PnetCDF's `coll_perf`: variables of integers, of three dimensions in blocks over a grid of
/// ranks.
#[derive(Clone, Debug)]
pub struct CollPerf {
    /// Ranks.
    pub ranks: u64,
    /// Elements of a rank along each dimension.
    pub edge: u64,
    /// Variables.
    pub variables: u64,
}

/// S3D's checkpoint: pressure, temperature, velocity and species of a cube of cells in blocks.
#[derive(Clone, Debug)]
pub struct S3d {
    /// Ranks.
    pub ranks: u64,
    /// Cells of a rank along each dimension.
    pub edge: u64,
}

/// NetCDF-bench: a variable that grows by a record per time step, in blocks over the ranks.
#[derive(Clone, Debug)]
pub struct NetcdfBench {
    /// Ranks.
    pub ranks: u64,
    /// Elements of a rank in a time step, along each dimension.
    pub block: [u64; 3],
    /// Time steps.
    pub steps: u64,
}

/// One variable of doubles in one call; each rank has a part in one piece.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Ranks.
    pub ranks: u64,
    /// Bytes of the variable.
    pub bytes: u64,
}

/// Many variables, each of three dimensions and with two attributes, and no data.
#[derive(Clone, Debug)]
pub struct Open {
    /// Ranks.
    pub ranks: u64,
    /// Variables.
    pub variables: u64,
}

/// The product, if so many elements of all ranks can be counted in bytes.
fn elements(factors: &[u64], ranks: u64) -> Result<usize, ArrayBenchError> {
    let product = factors.iter().try_fold(1u64, |product, n| product.checked_mul(*n));
    let product = product.filter(|n| n.checked_mul(ranks).is_some_and(|all| all < 1 << 55));
    product.and_then(|n| usize::try_from(n).ok()).ok_or(ArrayBenchError::TooLarge)
}

/// Where a rank is in a grid, in the order of C.
fn place<const N: usize>(grid: [u64; N], rank: u64) -> [u64; N] {
    let mut place = [0; N];
    let mut rest = rank;
    for (place, along) in place.iter_mut().zip(grid).rev() {
        *place = rest % along;
        rest /= along;
    }
    place
}

/// A variable that a rank has a block of, whole in the dimensions before; it has an area of its
/// own.
struct Blocks {
    grid: [u64; 3],
    block: [u64; 3],
    place: [u64; 3],
    ranks: u64,
}

impl Blocks {
    fn new(grid: [u64; 3], block: [u64; 3], rank: u64, ranks: u64) -> Self {
        Self { grid, block, place: place(grid, rank), ranks }
    }

    fn dimensions(&self, schema: &mut Schema) -> Result<[usize; 3], ArrayBenchError> {
        let mut dimensions = [0; 3];
        for (d, name) in ["z", "y", "x"].into_iter().enumerate() {
            let len = elements(&[self.grid[d], self.block[d]], 1)? as u64;
            dimensions[d] = schema.dimension(name, len);
        }
        Ok(dimensions)
    }

    fn variable(
        &self,
        plan: &mut ArrayPlan,
        name: impl Into<String>,
        number: Number,
        of: Option<(&str, u64)>,
    ) -> Result<(), ArrayBenchError> {
        let file = &mut plan.files[0];
        let mut dimensions = self.dimensions(&mut file.schema)?.to_vec();
        let (mut start, mut count) = (Vec::new(), Vec::new());
        if let Some((name, len)) = of {
            dimensions.insert(0, file.schema.dimension(name, len));
            start.push(0);
            count.push(len);
        }
        start.extend(self.place.iter().zip(&self.block).map(|(place, block)| place * block));
        count.extend(self.block);
        let variable = file.schema.variable(name, number, &dimensions);
        let len = elements(&count, self.ranks)?;
        let (area, lay) = (plan.areas.len(), MemoryLayout::Dense { first: 0 });
        plan.areas.push(Area { number, len, values: ValueKind::Any });
        let access = Access { variable, start, count, area, lay, seed: variable as u64 };
        file.steps[0].push(access);
        Ok(())
    }
}

/// Bytes of a plan for each call on a variable of up to four dimensions.
const CALL_BYTES: u64 =
    (size_of::<Vec<Access>>() + size_of::<Access>() + 2 * 4 * size_of::<u64>()) as u64;

fn one_file(name: &'static str) -> ArrayPlan {
    let file = FilePlan { name, schema: Schema::default(), steps: vec![Vec::new()] };
    ArrayPlan { areas: Vec::new(), files: vec![file] }
}

impl ArrayWorkload for CollPerf {
    fn name(&self) -> &'static str {
        "coll-perf"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("coll-perf");
        let blocks = Blocks::new(near_cubic_grid(self.ranks), [self.edge; 3], rank, self.ranks);
        for variable in 0..self.variables {
            blocks.variable(&mut plan, format!("Var_{variable}"), Number::Int, None)?;
        }
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        let calls = Footprint { plan: self.variables * CALL_BYTES, ..Footprint::default() };
        Footprint::of_elements(&[self.variables, self.edge, self.edge, self.edge], Number::Int)
            .and(calls)
    }
}

impl ArrayWorkload for S3d {
    fn name(&self) -> &'static str {
        "s3d"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("s3d");
        let blocks = Blocks::new(near_cubic_grid(self.ranks), [self.edge; 3], rank, self.ranks);
        let variables = [
            ("yspecies", Some(("species", 11))),
            ("temp", None),
            ("pressure", None),
            ("u", Some(("components", 3))),
        ];
        for (name, of) in variables {
            blocks.variable(&mut plan, name, Number::Double, of)?;
        }
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        // Species, temperature, pressure and three components of the velocity.
        let values = 11 + 1 + 1 + 3;
        Footprint::of_elements(&[values, self.edge, self.edge, self.edge], Number::Double)
    }

    fn is_nonblocking(&self) -> bool {
        true
    }

    /// The first dimension of these is too short, as in \[SON\].
    fn divided(&self) -> &'static str {
        "yspecies:z,u:z"
    }
}

impl ArrayWorkload for NetcdfBench {
    fn name(&self) -> &'static str {
        "netcdf-bench"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("netcdf-bench");
        // Over the first two dimensions, as near to a square as can be.
        let along = crate::workload::largest_factor(self.ranks, self.ranks.isqrt());
        let blocks = Blocks::new([self.ranks / along, along, 1], self.block, rank, self.ranks);
        let record = elements(&self.block, self.ranks)?;
        elements(&[record as u64, self.steps], self.ranks)?;
        let file = &mut plan.files[0];
        let time = file.schema.unlimited("time", self.steps);
        let [z, y, x] = blocks.dimensions(&mut file.schema)?;
        let variable = file.schema.variable("data", Number::Float, &[time, z, y, x]);
        let [z, y, x] = [0, 1, 2].map(|d| blocks.place[d] * blocks.block[d]);
        file.steps = (0..self.steps)
            .map(|step| {
                let [planes, lines, cells] = self.block;
                vec![Access {
                    variable,
                    start: vec![step, z, y, x],
                    count: vec![1, planes, lines, cells],
                    area: 0,
                    lay: MemoryLayout::Dense { first: step as usize * record },
                    seed: 0,
                }]
            })
            .collect();
        let len = record * self.steps as usize;
        plan.areas.push(Area { number: Number::Float, len, values: ValueKind::Single });
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        let [planes, lines, cells] = self.block;
        let calls = self.steps.saturating_mul(CALL_BYTES);
        Footprint::of_elements(&[self.steps, planes, lines, cells], Number::Float)
            .and(Footprint { plan: calls, ..Footprint::default() })
    }
}

impl ArrayWorkload for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("whole");
        let all = elements(&[self.bytes.div_ceil(8).max(1)], 1)? as u64;
        let bound =
            |rank: u64| (u128::from(all) * u128::from(rank) / u128::from(self.ranks)) as u64;
        let (start, end) = (bound(rank), bound(rank + 1));
        let file = &mut plan.files[0];
        let x = file.schema.dimension("x", all);
        let variable = file.schema.variable("data", Number::Double, &[x]);
        let lay = MemoryLayout::Dense { first: 0 };
        let (start, count) = (vec![start], vec![end - start]);
        let len = count[0] as usize;
        file.steps[0].push(Access { variable, start, count, area: 0, lay, seed: 0 });
        plan.areas.push(Area { number: Number::Double, len, values: ValueKind::Any });
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        let elements = self.bytes.div_ceil(8).max(1).div_ceil(self.ranks.max(1));
        Footprint::of_elements(&[elements], Number::Double)
    }
}

impl ArrayWorkload for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, _rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let mut plan = one_file("open");
        let file = &mut plan.files[0];
        file.steps.clear();
        let names = [("level", 4), ("latitude", 3), ("longitude", 2)];
        let dimensions = names.map(|(name, len)| file.schema.dimension(name, len));
        for i in 0..self.variables {
            let number = file.schema.variable(format!("field_{i:06}"), Number::Float, &dimensions);
            let variable = &mut file.schema.variables[number];
            variable.texts.push(("units", format!("unit {i}")));
            variable.numbers.push((Open::NUMBER, i as f64));
        }
        Ok(plan)
    }

    fn footprint(&self) -> Footprint {
        // A variable, its name, three dimensions, and an attribute of text and one of a number.
        let names = "field_000000".len() + "unit 000000".len();
        let attributes = size_of::<(&str, String)>() + size_of::<(&str, f64)>();
        let each = size_of::<Variable>() + names + 3 * size_of::<usize>() + attributes;
        let plan = self.variables.saturating_mul(each as u64);
        Footprint { plan, ..Footprint::default() }
    }
}

impl Open {
    /// The attribute that is looked at after a file was opened.
    pub(super) const NUMBER: &'static str = "scale_factor";
}

#[cfg(test)]
mod tests {
    use striate_hdf5::chunk_shape::ChunkRule;

    use super::*;

    fn ior(ranks: u64, shape: IorShape) -> ArrayIor {
        ArrayIor { ranks, size: 96, block: 16, transfer: 16, chunk: None, shape }
    }

    /// Every element of a rank's accesses, by its place in the variable.
    fn places(workload: &dyn ArrayWorkload, rank: u64) -> Vec<u64> {
        let plan = workload.plan(rank).unwrap();
        let file = &plan.files[0];
        let place = |access: &Access| {
            let shape = file.schema.shape(access.variable);
            let (start, count) = (&access.start, &access.count);
            let dims = start.iter().zip(&shape);
            let first = dims.fold(0, |place, (start, len)| place * len + start);
            first..first + count[count.len() - 1]
        };
        file.accesses().flat_map(place).collect()
    }

    #[test]
    fn blocks_of_ranks_are_interleaved_in_segments() {
        let line = ArrayIor { block: 32, ..ior(2, IorShape::Line) };
        assert_eq!(places(&line, 0), [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]);
        assert_eq!(places(&line, 1), [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23]);
        let disjoint = ArrayIor { block: 96, ..ior(2, IorShape::Line) };
        assert_eq!(places(&disjoint, 1), (12..24).collect::<Vec<_>>());
        for shape in [IorShape::Plane, IorShape::Records] {
            let workload = ior(2, shape);
            assert_eq!(places(&workload, 1), places(&ior(2, IorShape::Line), 1), "{shape:?}");
            let plan = workload.plan(1).unwrap();
            let rows = plan.files[0].accesses().map(|access| (access.start[0], access.start[1]));
            assert_eq!(rows.collect::<Vec<_>>(), (0..6).map(|row| (row, 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn chunks_are_as_long_as_they_are_said_to_be() {
        let chunk = |workload: &dyn ArrayWorkload| workload.plan(0).unwrap().chunk();
        assert_eq!(chunk(&ior(2, IorShape::Line)), None);
        assert_eq!(chunk(&ArrayIor { chunk: Some(24), ..ior(2, IorShape::Plane) }), Some(24));
        let longer = ArrayIor { chunk: Some(64), ..ior(2, IorShape::Plane) };
        assert_eq!(chunk(&longer), Some(32), "a row");
        assert_eq!(chunk(&ior(2, IorShape::Records)), Some(16), "a transfer");
        let rows = |rule| chunk(&DefaultChunks { ranks: 2, rows: 1, elements: 1, rule });
        assert_eq!(rows(ChunkRule::NetcdfC), Some(8), "one element");
        assert_eq!(rows(ChunkRule::LastUnlimited), Some(4 << 20));
    }

    fn workloads(ranks: u64) -> Vec<Box<dyn ArrayWorkload>> {
        let flash = FlashIo { blocks: 3, zones: 4, guard: 1, variables: 6, ..FlashIo::new(ranks) };
        let checkpoint = FlashIo { files: vec![FlashFile::Checkpoint], ..flash.clone() };
        vec![
            Box::new(CollPerf { ranks, edge: 6, variables: 5 }),
            Box::new(S3d { ranks, edge: 5 }),
            Box::new(NetcdfBench { ranks, block: [2, 3, 4], steps: 7 }),
            Box::new(Whole { ranks, bytes: 1001 }),
            Box::new(Open { ranks, variables: 9 }),
            Box::new(ior(ranks, IorShape::Line)),
            Box::new(ior(ranks, IorShape::Records)),
            Box::new(Compressed { ranks, edge: 4, planes: 2, calls: 3, level: 4 }),
            Box::new(DefaultChunks { ranks, rows: 3, elements: 5, rule: ChunkRule::LastUnlimited }),
            Box::new(flash),
            Box::new(checkpoint),
        ]
    }

    #[test]
    fn footprints_are_those_of_the_largest_plan() {
        for ranks in [1, 3] {
            for workload in workloads(ranks) {
                let plans: Vec<ArrayPlan> =
                    (0..ranks).map(|rank| workload.plan(rank).unwrap()).collect();
                let found = workload.footprint();
                let name = workload.name();
                assert_eq!(Some(found.memory), plans.iter().map(ArrayPlan::memory).max(), "{name}");
                assert_eq!(Some(found.data), plans.iter().map(ArrayPlan::bytes).max(), "{name}");
            }
        }
    }

    /// Plans of these would need more memory than most machines have.
    #[test]
    fn footprints_of_the_largest_sizes_are_known() {
        let (ranks, most) = (4096, 1 << 20);
        let shape = IorShape::Line;
        let large: [Box<dyn ArrayWorkload>; 8] = [
            Box::new(ArrayIor { ranks, size: u64::MAX, block: 8, transfer: 8, chunk: None, shape }),
            Box::new(Compressed { ranks, edge: most, planes: most, calls: 1 << 30, level: 4 }),
            Box::new(CollPerf { ranks, edge: most, variables: 10_000 }),
            Box::new(S3d { ranks, edge: most }),
            Box::new(NetcdfBench { ranks, block: [1; 3], steps: 1 << 40 }),
            Box::new(Whole { ranks, bytes: u64::MAX }),
            Box::new(Open { ranks, variables: 1 << 40 }),
            Box::new(FlashIo {
                blocks: u64::MAX,
                zones: most,
                guard: most,
                variables: u64::MAX,
                ..FlashIo::new(ranks)
            }),
        ];
        for workload in large {
            assert!(workload.footprint().allocated() > 1 << 46, "{}", workload.name());
        }
    }
}
