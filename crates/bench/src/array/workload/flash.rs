//! FLASH I/O: a checkpoint and two plot files of blocks of cells with guard cells around them.
//!
//! Memory is FLASH's own: the variables of a cell lie together, cells of a block with its guard
//! cells follow each other, and so do blocks. A file has a variable for each, without guard cells.

use super::super::ArrayBenchError;
use super::super::plan::{
    Access, Area, ArrayPlan, FilePlan, Footprint, MemoryLayout, Number, Schema, StridedElements,
    ValueKind, saturating_product,
};
use super::{ArrayWorkload, elements};

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashFile {
    /// All variables, in double precision.
    Checkpoint,
    /// Some, in single precision.
    Plot,
    /// The same at the corners of cells.
    Corners,
}

impl FlashFile {
    /// All of them, in the order in which FLASH writes them.
    pub const ALL: [Self; 3] = [Self::Checkpoint, Self::Plot, Self::Corners];

    const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Plot => "plot",
            Self::Corners => "corners",
        }
    }

    /// What its values are stored as.
    const fn number(self) -> Number {
        match self {
            Self::Checkpoint => Number::Double,
            Self::Plot | Self::Corners => Number::Float,
        }
    }
}

/// FLASH I/O.
#[derive(Clone, Debug)]
pub struct FlashIo {
    /// Ranks.
    pub ranks: u64,
    /// Blocks of a rank.
    pub blocks: u64,
    /// Cells of a block along each dimension.
    pub zones: u64,
    /// Guard cells on each side of a block.
    pub guard: u64,
    /// Variables of a cell.
    pub variables: u64,
    /// Variables in plot files.
    pub plotted: u64,
    /// Whether calls are begun, and waited for together.
    pub nonblocking: bool,
    /// Which files.
    pub files: Vec<FlashFile>,
}

impl FlashIo {
    /// The problem of \[SON\]: 80 blocks of 16³ cells with ten variables.
    pub fn new(ranks: u64) -> Self {
        Self {
            ranks,
            blocks: 80,
            zones: 16,
            guard: 4,
            variables: NAMES.len() as u64,
            plotted: 4,
            nonblocking: false,
            files: FlashFile::ALL.to_vec(),
        }
    }
}

/// FLASH's variables.
const NAMES: [&str; 10] =
    ["dens", "velx", "vely", "velz", "pres", "ener", "temp", "gamc", "game", "enuc"];

fn name(variable: u64) -> String {
    let known = NAMES.get(variable as usize);
    known.map_or_else(|| format!("var{:02}", variable + 1), |name| (*name).to_owned())
}

/// A name, what it is made of, and the dimensions of that.
type AboutBlock = (&'static str, Number, &'static [(&'static str, u64)]);

/// What FLASH stores about each block.
const ABOUT_BLOCKS: [AboutBlock; 6] = [
    ("lrefine", Number::Int, &[]),
    ("nodetype", Number::Int, &[]),
    ("gid", Number::Int, &[("ngid", 15)]),
    ("coordinates", Number::Double, &[("ndim", 3)]),
    ("blocksize", Number::Double, &[("ndim", 3)]),
    ("bndbox", Number::Double, &[("ndim", 3), ("faces", 2)]),
];

/// Areas: what is stored about blocks comes first, then the cells, then the values at corners.
const CELLS: usize = ABOUT_BLOCKS.len();

/// Seeds of values at corners, which differ from those of cells.
const CORNERS: u64 = 1 << 12;

impl ArrayWorkload for FlashIo {
    fn name(&self) -> &'static str {
        "flash"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<ArrayPlan, ArrayBenchError> {
        let edge = self.zones + 2 * self.guard;
        let cells = elements(&[self.blocks, edge, edge, edge, self.variables], self.ranks)?;
        let corner = self.zones + 1;
        let corners = [self.blocks, corner, corner, corner, self.plotted()];
        let mut areas = Vec::new();
        for (_, number, dims) in ABOUT_BLOCKS {
            let each: u64 = dims.iter().map(|dim| dim.1).product();
            let len = elements(&[self.blocks, each], self.ranks)?;
            areas.push(Area { number, len, values: ValueKind::Single });
        }
        areas.push(Area { number: Number::Double, len: cells, values: ValueKind::Single });
        let corners = if self.files.contains(&FlashFile::Corners) { &corners[..] } else { &[0] };
        let len = elements(corners, self.ranks)?;
        areas.push(Area { number: Number::Float, len, values: ValueKind::Single });
        let files = self.files.iter().map(|file| self.file(*file, rank));
        Ok(ArrayPlan { areas, files: files.collect::<Result<_, _>>()? })
    }

    fn footprint(&self) -> Footprint {
        let edge = self.guard.saturating_mul(2).saturating_add(self.zones);
        let cells = Footprint::of_elements(
            &[self.blocks, edge, edge, edge, self.variables],
            Number::Double,
        );
        let corner = self.zones.saturating_add(1);
        let corners = [self.blocks, corner, corner, corner, self.plotted()];
        let mut all = Footprint { memory: cells.memory, ..Footprint::default() };
        if self.files.contains(&FlashFile::Corners) {
            all.memory = all.memory.saturating_add(saturating_product(&corners).saturating_mul(4));
        }
        for (_, number, dims) in ABOUT_BLOCKS {
            let each: u64 = dims.iter().map(|dim| dim.1).product();
            all.memory = all.memory.saturating_add(
                saturating_product(&[self.blocks, each]).saturating_mul(number.size() as u64),
            );
            for file in &self.files {
                let stored = if number == Number::Double { file.number() } else { number };
                let about = Footprint::of_elements(&[self.blocks, each], stored);
                all.data = all.data.saturating_add(about.data);
            }
        }
        for file in &self.files {
            let edge = self.zones.saturating_add(u64::from(*file == FlashFile::Corners));
            let elements = [self.blocks, edge, edge, edge, self.stored(*file)];
            let values = Footprint::of_elements(&elements, file.number());
            all.data = all.data.saturating_add(values.data);
        }
        all
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblocking
    }
}

impl FlashIo {
    fn plotted(&self) -> u64 {
        self.plotted.min(self.variables)
    }

    /// Variables of a cell or corner in a file.
    fn stored(&self, file: FlashFile) -> u64 {
        if file == FlashFile::Checkpoint { self.variables } else { self.plotted() }
    }

    fn file(&self, file: FlashFile, rank: u64) -> Result<FilePlan, ArrayBenchError> {
        let number = file.number();
        let mut schema = Schema::default();
        let blocks = schema.dimension("blocks", self.blocks * self.ranks);
        let mut calls = Vec::new();
        for (area, (name, kind, dims)) in ABOUT_BLOCKS.into_iter().enumerate() {
            let kind = if kind == Number::Double { number } else { kind };
            let (mut start, mut count) = (vec![rank * self.blocks], vec![self.blocks]);
            let mut dimensions = vec![blocks];
            for &(name, len) in dims {
                dimensions.push(schema.dimension(name, len));
                start.push(0);
                count.push(len);
            }
            let variable = schema.variable(name, kind, &dimensions);
            let lay = MemoryLayout::Dense { first: 0 };
            // After the seeds of cells.
            let seed = CORNERS / 2 + area as u64;
            calls.push(Access { variable, start, count, area, lay, seed });
        }
        let at_corners = file == FlashFile::Corners;
        let edge = self.zones + u64::from(at_corners);
        let names = if at_corners { ["nzc", "nyc", "nxc"] } else { ["nzb", "nyb", "nxb"] };
        let [z, y, x] = names.map(|name| schema.dimension(name, edge));
        for k in 0..self.stored(file) {
            let variable = schema.variable(name(k), number, &[blocks, z, y, x]);
            let (area, lay, seed) = if at_corners {
                let first = elements(&[k, self.blocks, edge, edge, edge], 1)?;
                (CELLS + 1, MemoryLayout::Dense { first }, CORNERS + k)
            } else {
                (CELLS, MemoryLayout::Strided(self.inner(k)?), k)
            };
            calls.push(Access {
                variable,
                start: vec![rank * self.blocks, 0, 0, 0],
                count: vec![self.blocks, edge, edge, edge],
                area,
                lay,
                seed,
            });
        }
        Ok(FilePlan { name: file.name(), schema, steps: vec![calls] })
    }

    /// A variable of the cells other than guard cells.
    fn inner(&self, variable: u64) -> Result<StridedElements, ArrayBenchError> {
        let [guard, zones, blocks] =
            [self.guard, self.zones, self.blocks].map(|number| number as usize);
        let edge = zones + 2 * guard;
        let x = self.variables as usize;
        let strides = [edge * edge * edge * x, edge * edge * x, edge * x, x];
        let first = guard * (strides[1] + strides[2] + strides[3]) + variable as usize;
        let counts = [blocks, zones, zones, zones];
        Ok(StridedElements::new(Number::Double, first, counts, strides)?)
    }
}
