//! [`ArrayPlan`]: the datasets that a rank takes part in, and the memory it holds for them.
//!
//! A plan is plain data that every engine carries out as it is, so that a comparison is of engines
//! and of nothing else. Elements have values by their place in the file ([`Access::seed`]), which
//! lets any rank verify what any other wrote.

use striate_array::Type;
use striate_datatype::{Datatype, TypeError};

/// What elements are, in memory and in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// 32-bit integers.
    Int,
    /// 32-bit floating point numbers.
    Float,
    /// 64-bit floating point numbers.
    Double,
}

impl Number {
    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::Int | Self::Float => 4,
            Self::Double => 8,
        }
    }

    /// The type in a file.
    pub const fn external(self) -> Type {
        match self {
            Self::Int => Type::Int,
            Self::Float => Type::Float,
            Self::Double => Type::Double,
        }
    }
}

/// `number!(which, T => expression)`: the same expression for the type, whichever it is.
macro_rules! number {
    ($which:expr, $T:ident => $body:expr) => {
        match $which {
            $crate::array::plan::Number::Int => {
                type $T = i32;
                $body
            }
            $crate::array::plan::Number::Float => {
                type $T = f32;
                $body
            }
            $crate::array::plan::Number::Double => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(super) use number;

/// A variable of a dataset.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub number: Number,
    /// Its dimensions, as indices into [`Schema::dimensions`].
    pub dimensions: Vec<usize>,
    /// Text that it says about itself.
    pub texts: Vec<(&'static str, String)>,
    /// A number that it says about itself.
    pub numbers: Vec<(&'static str, f64)>,
    /// How it is stored, if the format has a choice.
    pub storage: VariableStorage,
}

/// How a variable of a netCDF-4 file is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableStorage {
    /// The shape of its chunks; none leaves it to the library.
    pub chunk: Option<Vec<u64>>,
    /// Chunks are compressed with deflate of this level, after shuffle.
    pub deflate: Option<u8>,
}

/// A dimension of a dataset.
#[derive(Clone, Debug)]
pub struct SchemaDimension {
    /// Its name.
    pub name: String,
    /// Its length when everything is written.
    pub len: u64,
    /// Whether that can change.
    pub growth: Growth,
}

/// Whether the length of a dimension can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// It cannot.
    Fixed,
    /// It does when data is written.
    Unlimited,
}

/// What is defined in a dataset.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The dimensions.
    pub dimensions: Vec<SchemaDimension>,
    /// The variables.
    pub variables: Vec<Variable>,
}

impl Schema {
    /// Defines a dimension, or finds it if it exists.
    pub(super) fn dimension(&mut self, name: &str, len: u64) -> usize {
        let known = self.dimensions.iter().position(|known| known.name == name);
        known.unwrap_or_else(|| self.add(name, len, Growth::Fixed))
    }

    /// Defines an unlimited dimension that will have this length.
    pub(super) fn unlimited(&mut self, name: &str, len: u64) -> usize {
        self.add(name, len, Growth::Unlimited)
    }

    fn add(&mut self, name: &str, len: u64, growth: Growth) -> usize {
        self.dimensions.push(SchemaDimension { name: name.to_owned(), len, growth });
        self.dimensions.len() - 1
    }

    /// Defines a variable without attributes.
    pub(super) fn variable(
        &mut self,
        name: impl Into<String>,
        number: Number,
        dims: &[usize],
    ) -> usize {
        self.variables.push(Variable {
            name: name.into(),
            number,
            dimensions: dims.to_vec(),
            texts: Vec::new(),
            numbers: Vec::new(),
            storage: VariableStorage::default(),
        });
        self.variables.len() - 1
    }

    /// The lengths of a variable's dimensions when everything is written.
    pub fn shape(&self, variable: usize) -> Vec<u64> {
        let dimensions = &self.variables[variable].dimensions;
        dimensions.iter().map(|&dimension| self.dimensions[dimension].len).collect()
    }
}

/// An array in a rank's memory.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Of what.
    pub number: Number,
    /// How many.
    pub len: usize,
    /// What values the elements have.
    pub values: ValueKind,
}

/// What values elements have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Any of their type, as if drawn at random.
    Any,
    /// The same, but only those that are the same as floats: they may be converted to those.
    Single,
    /// Those of a field that varies slowly, with some noise, so that they can be compressed.
    Smooth,
}

/// How the elements of an access lie in their area.
#[derive(Clone, Debug)]
pub enum MemoryLayout {
    /// One after the other from this one on, as in the file.
    Dense {
        /// The first.
        first: usize,
    },
    /// With gaps: those of four nested loops, the last varying fastest.
    Strided(StridedElements),
}

/// Elements of four nested loops.
#[derive(Clone, Debug)]
pub struct StridedElements {
    /// The first element.
    pub first: usize,
    /// Steps of each loop.
    pub counts: [usize; 4],
    /// Elements from one step to the next.
    pub strides: [usize; 4],
    /// The same as a description, relative to the first element.
    pub datatype: Datatype,
}

impl StridedElements {
    /// Elements of that kind.
    pub(super) fn new(
        number: Number,
        first: usize,
        counts: [usize; 4],
        strides: [usize; 4],
    ) -> Result<Self, TypeError> {
        let mut datatype = Datatype::bytes(number.size() as u64)?;
        for (&count, &stride) in counts.iter().zip(&strides).rev() {
            let stride = (stride * number.size()) as i64;
            datatype = Datatype::hvector(count as u64, 1, stride, &datatype)?;
        }
        Ok(Self { first, counts, strides, datatype })
    }
}

/// One call: elements of a variable, and where they are in memory.
#[derive(Clone, Debug)]
pub struct Access {
    /// Which variable of the schema.
    pub variable: usize,
    /// The first element per dimension.
    pub start: Vec<u64>,
    /// How many per dimension.
    pub count: Vec<u64>,
    /// In which area.
    pub area: usize,
    /// Where there.
    pub lay: MemoryLayout,
    /// What makes the values of this variable differ from those of other variables.
    pub seed: u64,
}

impl Access {
    /// How many elements.
    pub fn elements(&self) -> usize {
        self.count.iter().product::<u64>() as usize
    }

    /// Bytes in the file.
    pub fn bytes(&self, schema: &Schema) -> u64 {
        (self.elements() * schema.variables[self.variable].number.size()) as u64
    }

    /// Bytes that lie together in the file.
    pub(super) fn block(&self, schema: &Schema) -> u64 {
        let shape = schema.shape(self.variable);
        let mut block = schema.variables[self.variable].number.size() as u64;
        for (&count, &len) in self.count.iter().zip(&shape).rev() {
            block *= count;
            if count != len {
                break;
            }
        }
        block
    }
}

/// A dataset, and what a rank does with it.
#[derive(Clone, Debug)]
pub struct FilePlan {
    /// What distinguishes it from the other files of a workload.
    pub name: &'static str,
    /// What is defined in it.
    pub schema: Schema,
    /// Calls, in groups that nonblocking ones are waited for at the end of.
    pub steps: Vec<Vec<Access>>,
}

impl FilePlan {
    /// All calls.
    pub fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.steps.iter().flatten()
    }

    /// Bytes of this rank in the file.
    pub fn bytes(&self) -> u64 {
        self.accesses().map(|access| access.bytes(&self.schema)).sum()
    }
}

/// What a rank does.
#[derive(Clone, Debug)]
pub struct ArrayPlan {
    /// Its memory.
    pub areas: Vec<Area>,
    /// Its datasets, one after the other.
    pub files: Vec<FilePlan>,
}

impl ArrayPlan {
    /// Bytes of this rank in all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(FilePlan::bytes).sum()
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> u64 {
        self.areas.iter().map(|area| (area.len * area.number.size()) as u64).sum()
    }

    /// Bytes of a chunk of the first variable that has a shape of its own.
    pub(super) fn chunk(&self) -> Option<u64> {
        let mut all = self.files.iter().flat_map(|file| &file.schema.variables);
        all.find_map(|variable| {
            let elements: u64 = variable.storage.chunk.as_ref()?.iter().product();
            Some(elements * variable.number.size() as u64)
        })
    }

    /// Bytes that lie together in the file, in the largest access.
    pub(super) fn block(&self) -> u64 {
        let all = self.files.iter().flat_map(|file| file.accesses().map(move |one| (file, one)));
        let largest = all.max_by_key(|(file, access)| access.bytes(&file.schema));
        largest.map_or(0, |(file, access)| access.block(&file.schema))
    }
}

/// Bytes that one rank needs at least for a workload, known without its [`ArrayPlan`]. Sums
/// saturate.
///
/// A plan has an entry per call and per variable, so it can be too large for memory itself; whether
/// a workload fits is asked before any plan is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of its memory ([`ArrayPlan::memory`]).
    pub memory: u64,
    /// Bytes of this rank in all files ([`ArrayPlan::bytes`]).
    pub data: u64,
    /// Bytes of the plan itself.
    pub plan: u64,
}

impl Footprint {
    /// Of so many elements that are stored as they are in memory.
    pub(super) fn of_elements(factors: &[u64], number: Number) -> Self {
        let bytes = saturating_product(factors).saturating_mul(number.size() as u64);
        Self { memory: bytes, data: bytes, plan: 0 }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            data: self.data.saturating_add(other.data),
            plan: self.plan.saturating_add(other.plan),
        }
    }

    /// Bytes that a rank allocates in a run: memory to write from and to read into, what engines
    /// pack, and its plan, which the rank that calls the serial library has of every rank.
    pub const fn allocated(&self) -> u64 {
        let memory = self.memory.saturating_mul(2).saturating_add(self.data);
        memory.saturating_add(self.plan.saturating_mul(2))
    }
}

/// The product, or the largest number.
pub(super) fn saturating_product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |product, factor| product.saturating_mul(*factor))
}
