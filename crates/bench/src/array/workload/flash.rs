//! FLASH I/O: a checkpoint and two plot files of blocks of cells with guard cells around them.
//!
//! Memory is FLASH's own: the variables of a cell lie together, cells of a block with its guard cells
//! follow each other, and so do blocks. A file has a variable for each, without guard cells.

use super::super::ArrayBenchError;
use super::super::plan::{Access, Area, FilePlan, Lay, Number, Plan, Schema, Strided};
use super::{Workload, elements};

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
}

/// FLASH I/O.
#[derive(Clone, Debug)]
pub struct Flash {
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

impl Flash {
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

/// What FLASH tells of each block.
const ABOUT_BLOCKS: [AboutBlock; 6] = [
    ("lrefine", Number::Int, &[]),
    ("nodetype", Number::Int, &[]),
    ("gid", Number::Int, &[("ngid", 15)]),
    ("coordinates", Number::Double, &[("ndim", 3)]),
    ("blocksize", Number::Double, &[("ndim", 3)]),
    ("bndbox", Number::Double, &[("ndim", 3), ("faces", 2)]),
];

/// Areas: what is told of blocks comes first, then the cells, then the values at corners.
const CELLS: usize = ABOUT_BLOCKS.len();

/// Seeds of values at corners, apart from those of cells.
const CORNERS: u64 = 1 << 12;

impl Workload for Flash {
    fn name(&self) -> &'static str {
        "flash"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64) -> Result<Plan, ArrayBenchError> {
        let edge = self.zones + 2 * self.guard;
        let cells = elements(&[self.blocks, edge, edge, edge, self.variables], self.ranks)?;
        let corner = self.zones + 1;
        let corners = [self.blocks, corner, corner, corner, self.plotted()];
        let mut areas = Vec::new();
        for (_, number, dims) in ABOUT_BLOCKS {
            let each: u64 = dims.iter().map(|dim| dim.1).product();
            let len = elements(&[self.blocks, each], self.ranks)?;
            areas.push(Area { number, len, single: true });
        }
        areas.push(Area { number: Number::Double, len: cells, single: true });
        let corners = if self.files.contains(&FlashFile::Corners) { &corners[..] } else { &[0] };
        let len = elements(corners, self.ranks)?;
        areas.push(Area { number: Number::Float, len, single: true });
        let files = self.files.iter().map(|file| self.file(*file, rank));
        Ok(Plan { areas, files: files.collect::<Result<_, _>>()? })
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblocking
    }
}

impl Flash {
    fn plotted(&self) -> u64 {
        self.plotted.min(self.variables)
    }

    fn file(&self, file: FlashFile, rank: u64) -> Result<FilePlan, ArrayBenchError> {
        let number = if file == FlashFile::Checkpoint { Number::Double } else { Number::Float };
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
            let lay = Lay::Dense { first: 0 };
            // Behind the seeds of cells.
            let seed = CORNERS / 2 + area as u64;
            calls.push(Access { variable, start, count, area, lay, seed });
        }
        let at_corners = file == FlashFile::Corners;
        let edge = self.zones + u64::from(at_corners);
        let names = if at_corners { ["nzc", "nyc", "nxc"] } else { ["nzb", "nyb", "nxb"] };
        let [z, y, x] = names.map(|name| schema.dimension(name, edge));
        let variables = if number == Number::Double { self.variables } else { self.plotted() };
        for k in 0..variables {
            let variable = schema.variable(name(k), number, &[blocks, z, y, x]);
            let (area, lay, seed) = if at_corners {
                let first = elements(&[k, self.blocks, edge, edge, edge], 1)?;
                (CELLS + 1, Lay::Dense { first }, CORNERS + k)
            } else {
                (CELLS, Lay::Strided(self.inner(k)?), k)
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

    /// A variable of the cells that are no guard cells.
    fn inner(&self, variable: u64) -> Result<Strided, ArrayBenchError> {
        let [guard, zones, blocks] =
            [self.guard, self.zones, self.blocks].map(|number| number as usize);
        let edge = zones + 2 * guard;
        let x = self.variables as usize;
        let strides = [edge * edge * edge * x, edge * edge * x, edge * x, x];
        let first = guard * (strides[1] + strides[2] + strides[3]) + variable as usize;
        let counts = [blocks, zones, zones, zones];
        Ok(Strided::new(Number::Double, first, counts, strides)?)
    }
}
