//! Random datasets and accesses, on one to eight ranks, compared with a simple model in memory.
//!
//! Every rank draws the same random numbers and has the whole model. After each case the file is
//! read back with another number of ranks, and once more by a reader of a few lines without
//! parallel access.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model;

use std::path::Path;
use std::sync::Arc;

use model::{Draw, Expected, MemoryForm, RankSlab, TestNumber, each_index, letter, parts, storage};
use striate_array::format::{ByteOrder, Header, Values};
use striate_array::value::{Conversion, InRange, Kind};
use striate_array::{
    ArrayError, Char, Dataset, DatasetFiles, Format, OpenMode, Options, Owner, PartitionInfo,
    Pending, Type, VariableId,
};
use striate_comm::{Comm, Threads};

/// The settings of a case.
struct Case {
    seed: u64,
    path: std::path::PathBuf,
    ranks: u64,
    options: Options,
    netcdf4: bool,
}

/// The state of a case on one rank: the model of its dataset.
struct CaseState {
    draw: Draw,
    rank: u64,
    ranks: u64,
    model: Vec<Expected>,
    op: u64,
    netcdf4: bool,
}

/// The call that transfers data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferCall {
    Collective,
    Independent,
    Nonblocking,
    Buffered,
    NonblockingIndependent,
}

const CALLS: [TransferCall; 5] = [
    TransferCall::Collective,
    TransferCall::Independent,
    TransferCall::Nonblocking,
    TransferCall::Buffered,
    TransferCall::NonblockingIndependent,
];

/// The memory of one access, of any type.
enum Buffer {
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(Vec<Char>),
}

macro_rules! with {
    ($buffer:expr, $memory:ident => $body:expr) => {
        match $buffer {
            Buffer::I8($memory) => $body,
            Buffer::U8($memory) => $body,
            Buffer::I16($memory) => $body,
            Buffer::U16($memory) => $body,
            Buffer::I32($memory) => $body,
            Buffer::U32($memory) => $body,
            Buffer::I64($memory) => $body,
            Buffer::U64($memory) => $body,
            Buffer::F32($memory) => $body,
            Buffer::F64($memory) => $body,
            Buffer::Text($memory) => $body,
        }
    };
}

impl Buffer {
    /// A buffer of a type that converts; half of the time that of the variable.
    fn new(
        draw: &mut Draw,
        external: Type,
        only_own: bool,
        form: &MemoryForm,
        count: &[u64],
        values: &[i64],
    ) -> Self {
        fn fill<T: TestNumber>(form: &MemoryForm, count: &[u64], values: &[i64]) -> Vec<T> {
            form.fill(count, values)
        }
        let own = draw.chance(50) || only_own;
        let other = draw.below(10);
        let kind = match (external, own) {
            (Type::Char, _) => return Self::Text(fill(form, count, values)),
            (Type::Byte, true) => 0,
            (Type::UByte, true) => 1,
            (Type::Short, true) => 2,
            (Type::UShort, true) => 3,
            (Type::Int, true) => 4,
            (Type::UInt, true) => 5,
            (Type::Int64, true) => 6,
            (Type::UInt64, true) => 7,
            (Type::Float, true) => 8,
            (Type::Double, true) => 9,
            _ => other,
        };
        match kind {
            0 => Self::I8(fill(form, count, values)),
            1 => Self::U8(fill(form, count, values)),
            2 => Self::I16(fill(form, count, values)),
            3 => Self::U16(fill(form, count, values)),
            4 => Self::I32(fill(form, count, values)),
            5 => Self::U32(fill(form, count, values)),
            6 => Self::I64(fill(form, count, values)),
            7 => Self::U64(fill(form, count, values)),
            8 => Self::F32(fill(form, count, values)),
            _ => Self::F64(fill(form, count, values)),
        }
    }
}

fn hash(op: u64, index: &[u64]) -> u64 {
    let mut draw = Draw::new(op);
    index.iter().fold(draw.next(), |hash, &i| Draw::new(hash ^ i.wrapping_mul(0x1234_5671)).next())
}

impl CaseState {
    /// Draws the accesses of all ranks to a variable.
    fn draw_parts(&mut self, variable: usize, may_grow: bool) -> Vec<RankSlab> {
        let expected = &self.model[variable];
        let mut shape = expected.shape.clone();
        for (len, (_, unlimited)) in shape.iter_mut().zip(&expected.dimensions) {
            if *unlimited && may_grow {
                *len = (*len + self.draw.below(3)).max(1);
            }
        }
        if shape.contains(&0) {
            let nothing = vec![0; shape.len()];
            let ones = vec![1; shape.len()];
            let part = RankSlab { start: nothing.clone(), count: nothing, stride: ones };
            return vec![part; self.ranks as usize];
        }
        parts(&mut self.draw, &shape, self.ranks)
    }

    fn put(&mut self, data: &mut Dataset) -> Result<(), ArrayError> {
        self.op += 1;
        let call = self.draw.pick(&CALLS);
        let how_many = if matches!(call, TransferCall::Collective | TransferCall::Independent) {
            1
        } else {
            1 + self.draw.below(4)
        };
        let mut prepared = Vec::new();
        let mut used: Vec<(usize, Vec<RankSlab>)> = Vec::new();
        for k in 0..how_many {
            let variable = self.draw.below(self.model.len() as u64) as usize;
            let filled =
                self.model.iter().any(|expected| expected.grows() && expected.fill.is_some());
            let alone =
                matches!(call, TransferCall::Independent | TransferCall::NonblockingIndependent);
            let parts = match used.iter().find(|(other, _)| *other == variable) {
                // Several accesses of one wait to the same variable stay within the elements of
                // each rank: the order among ranks is not defined.
                Some((_, parts)) => halves(&mut self.draw, parts),
                None => self.draw_parts(variable, !((filled || self.netcdf4) && alone)),
            };
            used.push((variable, parts.clone()));
            let form = MemoryForm::draw(&mut self.draw, self.model[variable].shape.len());
            let op = self.op * 16 + k;
            let dimensions = self.model[variable].dimensions.clone();
            for (position, &(dimension, unlimited)) in dimensions.iter().enumerate() {
                let touched = parts.iter().flat_map(RankSlab::indices);
                let len = touched.map(|index| index[position] + 1).max().unwrap_or(0);
                for expected in self.model.iter_mut().filter(|_| unlimited) {
                    expected.grow(dimension, len);
                }
            }
            for part in &parts {
                for index in part.indices() {
                    let at = self.model[variable].at(&index);
                    self.model[variable].values[at] = Some(letter(hash(op, &index)));
                }
            }
            let mine = parts[self.rank as usize].clone();
            let values: Vec<i64> =
                mine.indices().iter().map(|index| letter(hash(op, index))).collect();
            let external = self.model[variable].external;
            let memory = Buffer::new(&mut self.draw, external, false, &form, &mine.count, &values);
            prepared.push((VariableId::nth(data, variable), mine, form, memory));
        }
        self.log(|| {
            let one = |(variable, part, form, _): &(VariableId, RankSlab, MemoryForm, Buffer)| {
                format!("v{} {part:?} {form:?}", variable.index())
            };
            format!("{call:?} {}", prepared.iter().map(one).collect::<Vec<_>>().join("; "))
        });
        let mut pending = Pending::new();
        for (variable, part, form, memory) in &prepared {
            let (slab, count) = (part.slab(), &part.count);
            with!(memory, memory => {
                let source = form.source(count, memory);
                match call {
                    TransferCall::Collective => data.put_all(*variable, &slab, source)?,
                    TransferCall::Independent => data.put(*variable, &slab, source)?,
                    TransferCall::Buffered => data.bput(&mut pending, *variable, &slab, source)?,
                    _ => data.iput(&mut pending, *variable, &slab, source)?,
                }
            });
        }
        match call {
            TransferCall::Collective | TransferCall::Independent => drop(pending),
            TransferCall::NonblockingIndependent => data.wait(pending)?,
            _ => data.wait_all(pending)?,
        }
        // Other ranks see it, and the next write comes later.
        if matches!(call, TransferCall::Independent | TransferCall::NonblockingIndependent) {
            data.sync()?;
        }
        for (variable, expected) in self.model.iter().enumerate() {
            assert_eq!(data.shape(VariableId::nth(data, variable)), expected.shape, "v{variable}");
        }
        Ok(())
    }

    fn get(&mut self, data: &mut Dataset) -> Result<(), ArrayError> {
        self.op += 1;
        let call = self.draw.pick(&CALLS);
        let how_many = if matches!(call, TransferCall::Collective | TransferCall::Independent) {
            1
        } else {
            1 + self.draw.below(4)
        };
        let mut prepared = Vec::new();
        for _ in 0..how_many {
            let variable = self.draw.below(self.model.len() as u64) as usize;
            let parts = self.draw_parts(variable, false);
            // Reads may overlap, so each rank may read the part of another.
            let whose = (self.rank + self.draw.below(self.ranks)) % self.ranks;
            let mine = parts[whose as usize].clone();
            let form = MemoryForm::draw(&mut self.draw, self.model[variable].shape.len());
            // Data that was never written may have any value, which may be out of range of other
            // types.
            let unwritten = self.model[variable].values.contains(&None);
            let empty = vec![model::GAP; mine.elements() as usize];
            let external = self.model[variable].external;
            let memory =
                Buffer::new(&mut self.draw, external, unwritten, &form, &mine.count, &empty);
            prepared.push((variable, mine, form, memory));
        }
        let mut pending = Pending::new();
        for (variable, part, form, memory) in &mut prepared {
            let (slab, count) = (part.slab(), &part.count);
            let variable = VariableId::nth(data, *variable);
            with!(memory, memory => {
                let sink = form.sink(count, memory);
                match call {
                    TransferCall::Collective => data.get_all(variable, &slab, sink)?,
                    TransferCall::Independent => data.get(variable, &slab, sink)?,
                    _ => data.iget(&mut pending, variable, &slab, sink)?,
                }
            });
        }
        match call {
            TransferCall::Collective | TransferCall::Independent => drop(pending),
            TransferCall::NonblockingIndependent => data.wait(pending)?,
            _ => data.wait_all(pending)?,
        }
        // No rank writes before all have read.
        data.comm().barrier()?;
        for (variable, part, form, memory) in &prepared {
            let found = with!(memory, memory => form.check(&part.count, memory));
            let expected = &self.model[*variable];
            for (index, found) in part.indices().iter().zip(found) {
                if let Some(value) = expected.values[expected.at(index)] {
                    assert_eq!(
                        found, value,
                        "variable {variable} at {index:?} by {call:?}, {form:?}"
                    );
                }
            }
        }
        Ok(())
    }

    /// Prints what this rank does, if a single case was selected.
    fn log(&self, what: impl FnOnce() -> String) {
        if number_from("STRIATE_CASE").is_some() {
            eprintln!("op {}, rank {}: {}", self.op, self.rank, what());
        }
    }

    /// Adds to the definitions: an attribute, a dimension, a variable.
    fn redefine(&mut self, data: Dataset) -> Result<Dataset, ArrayError> {
        self.op += 1;
        self.log(|| "redefine".into());
        let mut define = data.redefine()?;
        let name = format!("note{}", self.op);
        let text = "x".repeat(self.draw.below(400) as usize);
        define.attribute(Owner::Global, &name, text.as_str())?;
        let filled = self.draw.chance(30);
        if self.draw.chance(50) {
            let dimension =
                define.dimension(&format!("more{}", self.op), 1 + self.draw.below(5))?;
            let mut dimensions = vec![dimension];
            if self.draw.chance(50)
                && let Some(unlimited) = define
                    .header()
                    .dimensions
                    .iter()
                    .position(striate_array::format::Dimension::is_unlimited)
            {
                dimensions.insert(0, striate_array::DimensionId::nth(&define, unlimited));
            }
            let external = self.draw.pick(&Type::ALL[..6]);
            let added = define.variable(&format!("added{}", self.op), external, &dimensions)?;
            let mut expected = Expected::new(define.header(), added.index());
            if filled {
                define.fill(added, true);
                define.attribute(added, "_FillValue", fill_value(external))?;
                expected.fill = Some(FILL);
                expected.values.fill(expected.fill);
            }
            self.model.push(expected);
        }
        define.end()
    }
}

/// One half of each part, or all of it.
fn halves(draw: &mut Draw, parts: &[RankSlab]) -> Vec<RankSlab> {
    let mut parts = parts.to_vec();
    let n = parts[0].count.len() as u64;
    let (dimension, which) = (draw.below(n) as usize, draw.below(3));
    for part in parts.iter_mut().filter(|_| n > 0) {
        let half = part.count[dimension] / 2;
        match which {
            0 => part.count[dimension] -= half,
            1 => {
                part.start[dimension] += half * part.stride[dimension];
                part.count[dimension] -= half;
            }
            _ => {}
        }
    }
    parts
}

/// A fill value that every type holds.
const FILL: i64 = 90;

fn fill_value(external: Type) -> Values {
    let mut bytes = [0; 8];
    let conversion = Conversion {
        memory: Kind::I64,
        external,
        format: Format::Cdf5,
        fill: [0; 8],
        byte_order: ByteOrder::Big,
    };
    let size = external.size() as usize;
    assert_eq!(conversion.encode(&FILL.to_ne_bytes(), &mut bytes[..size]), InRange::All);
    Values::from_bytes(external, &bytes[..size])
}

trait Nth<C> {
    fn nth(from: &C, index: usize) -> Self;
}

impl Nth<Dataset> for VariableId {
    fn nth(data: &Dataset, index: usize) -> Self {
        data.variables().nth(index).unwrap()
    }
}

impl Nth<striate_array::Definition> for striate_array::DimensionId {
    fn nth(define: &striate_array::Definition, index: usize) -> Self {
        define.dimensions().nth(index).unwrap()
    }
}

fn create(comm: &Arc<dyn Comm>, case: &Case, state: &mut CaseState) -> Result<Dataset, ArrayError> {
    let draw = &mut state.draw;
    let formats = [Format::Cdf1, Format::Cdf2, Format::Cdf5];
    let netcdf4 = [Format::Netcdf4, Format::Netcdf4, Format::Netcdf4Classic];
    let format = draw.pick(if case.netcdf4 { &netcdf4 } else { &formats });
    let mut define = Dataset::create(comm, &case.path, format, &case.options)?;
    let mut dimensions = Vec::new();
    for i in 0..=draw.below(4) {
        // Sometimes more indices than partitions.
        dimensions.push(define.dimension(&format!("d{i}"), 1 + draw.below(8))?);
    }
    let unlimited = if draw.chance(60) { Some(define.unlimited("time")?) } else { None };
    let second = if format == Format::Netcdf4 && draw.chance(40) {
        Some(define.unlimited("level")?)
    } else {
        None
    };
    for i in 0..=draw.below(5) {
        let types: Vec<Type> = Type::ALL.into_iter().filter(|one| one.is_in(format)).collect();
        let external = draw.pick(&types);
        let mut own = Vec::new();
        if draw.chance(50) {
            own.extend(unlimited);
        }
        for _ in 0..draw.below(4) {
            own.push(draw.pick(&dimensions));
        }
        if let Some(second) = second.filter(|_| own.len() < 4 && draw.chance(40)) {
            own.insert(draw.below(own.len() as u64 + 1) as usize, second);
        }
        let id = define.variable(&format!("v{i}"), external, &own)?;
        if case.netcdf4 {
            let storage = storage(draw, define.header(), id.index());
            define.storage(id, storage)?;
        }
        let mut expected = Expected::new(define.header(), id.index());
        if draw.chance(25) {
            define.fill(id, true);
            define.attribute(id, "_FillValue", fill_value(external))?;
            expected.fill = Some(FILL);
            expected.values.fill(expected.fill);
        }
        state.model.push(expected);
    }
    if case.options.partitioning.enabled {
        divide(&mut define, &mut Draw::new(case.seed ^ 0xD1))?;
    }
    define.end()
}

/// Selects for some variables the dimension along which they are divided, by name or position, or
/// none.
fn divide(define: &mut striate_array::Definition, draw: &mut Draw) -> Result<(), ArrayError> {
    for variable in define.variables() {
        let header = define.header();
        let known = &header.variables[variable.index()];
        let is_fixed =
            |&at: &usize| !header.dimensions[known.dimensions[at] as usize].is_unlimited();
        let choices: Vec<usize> = (0..known.dimensions.len()).filter(is_fixed).collect();
        if choices.is_empty() || draw.chance(50) {
            continue;
        }
        let position = draw.pick(&choices);
        let dimension = known.dimensions[position] as usize;
        match draw.below(4) {
            0 => define.attribute(variable, "par_dim_id", "none")?,
            1 => define.attribute(variable, "par_dim_id", position as i32)?,
            _ => {
                let dimension = striate_array::DimensionId::nth(define, dimension);
                define.partition_along(variable, dimension)?;
            }
        }
    }
    Ok(())
}

fn run(comm: &Arc<dyn Comm>, case: &Case) -> Result<Vec<Expected>, ArrayError> {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    let mut state = CaseState {
        draw: Draw::new(case.seed),
        rank,
        ranks,
        model: Vec::new(),
        op: 0,
        netcdf4: case.netcdf4,
    };
    let mut data = create(comm, case, &mut state)?;
    state.log(|| format!("{:?}", data.header()));
    for _ in 0..3 + state.draw.below(8) {
        match state.draw.below(10) {
            0..5 => state.put(&mut data)?,
            5..8 => state.get(&mut data)?,
            8 => data = state.redefine(data)?,
            _ if state.draw.chance(50) => data.sync()?,
            _ => {
                state.log(|| "close and open".into());
                data.close()?;
                data = Dataset::open(comm, &case.path, OpenMode::ReadWrite, &case.options)?;
                for (expected, filled) in state.model.iter_mut().zip(0..) {
                    // The fill mode is not stored in the file.
                    let _: i32 = filled;
                    expected.fill = None;
                }
            }
        }
    }
    data.close()?;
    Ok(state.model)
}

/// Reads everything, with any number of ranks.
fn read_back(comm: &Arc<dyn Comm>, path: &Path, model: &[Expected]) -> Result<(), ArrayError> {
    let mut data = Dataset::open(comm, path, OpenMode::ReadOnly, &Options::default())?;
    for (variable, expected) in data.variables().collect::<Vec<_>>().into_iter().zip(model) {
        assert_eq!(data.shape(variable), expected.shape);
        let found = as_numbers(&data.values(variable, &striate_array::Slab::all())?);
        compare(&found, expected, "read back");
    }
    data.close()
}

fn as_numbers(values: &Values) -> Vec<i64> {
    match values {
        Values::Byte(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Char(list) | Values::UByte(list) => {
            list.iter().map(|&value| value.into()).collect()
        }
        Values::Short(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Int(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Float(list) => list.iter().map(|&value| value as i64).collect(),
        Values::Double(list) => list.iter().map(|&value| value as i64).collect(),
        Values::UShort(list) => list.iter().map(|&value| value.into()).collect(),
        Values::UInt(list) => list.iter().map(|&value| value.into()).collect(),
        Values::Int64(list) => list.clone(),
        Values::UInt64(list) => list.iter().map(|&value| value as i64).collect(),
        Values::Stored(_) => unreachable!("there are only numbers"),
    }
}

fn compare(found: &[i64], expected: &Expected, what: &str) {
    assert_eq!(found.len(), expected.values.len());
    for (index, found) in each_index(&expected.shape).iter().zip(found) {
        if let Some(value) = expected.values[expected.at(index)] {
            assert_eq!(*found, value, "{what} at {index:?}");
        }
    }
}

/// Reads everything by the offsets of the headers, byte by byte, each element from the file that
/// has it. Returns the number of partitions.
fn read_parts(path: &Path, model: &[Expected], netcdf4: bool) -> usize {
    let infos = Threads::new(1)
        .try_run(|comm| {
            let data = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default())?;
            let infos = data.partitions().map(<[_]>::to_vec);
            data.close()?;
            Ok::<_, ArrayError>(infos)
        })
        .unwrap()
        .remove(0);
    let Some(infos) = infos else {
        if !netcdf4 {
            read_plainly(path, model);
        }
        return 0;
    };
    if netcdf4 {
        read_netcdf4_parts(path, &infos, model);
        return infos.len();
    }
    let read = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        let violations = striate_array::format::validate(&bytes, bytes.len() as u64);
        assert_eq!(violations, [], "{}", path.display());
        (Header::decode(&bytes).unwrap().0, bytes)
    };
    let master = read(path);
    let parts: Vec<_> = infos.iter().map(|info| read(&info.file)).collect();
    for (number, expected) in model.iter().enumerate() {
        let mut found = Vec::new();
        for index in each_index(&expected.shape) {
            let mut own = index.clone();
            let mut file = &master;
            for (part, info) in parts.iter().zip(&infos) {
                for range in &info.variables {
                    let dimension = range.dimension;
                    if range.variable == number && range.indices.contains(&index[dimension]) {
                        own[dimension] -= range.indices.start;
                        file = part;
                    }
                }
            }
            let (header, bytes) = file;
            let name = &master.0.variables[number].name;
            let variable = header.variables.iter().find(|it| it.name == *name).unwrap();
            let mut shape = header.shape(variable);
            let mut at = variable.begin;
            if header.is_record(variable) {
                at += own.remove(0) * header.record_size().unwrap();
                shape.remove(0);
            }
            let size = variable.external.size();
            at += own.iter().zip(&shape).fold(0, |at, (&i, &len)| at * len + i) * size;
            let element = &bytes[at as usize..(at + size) as usize];
            found.extend(as_numbers(&Values::from_bytes(variable.external, element)));
        }
        compare(&found, expected, "in its file");
    }
    infos.len()
}

/// Reads every partition as a file of its own, and the master.
fn read_netcdf4_parts(path: &Path, infos: &[PartitionInfo], model: &[Expected]) {
    let whole = |path: &Path| {
        let opened = Threads::new(1).try_run(|comm| {
            let mut data = Dataset::open_raw(&comm, path, &Options::default())?;
            let mut all = std::collections::HashMap::new();
            for variable in data.variables() {
                let name = data.header().variables[variable.index()].name.clone();
                let values = as_numbers(&data.values(variable, &striate_array::Slab::all())?);
                all.insert(name, (data.shape(variable), values));
            }
            data.close()?;
            Ok::<_, ArrayError>(all)
        });
        opened.unwrap().remove(0)
    };
    let master = whole(path);
    let parts: Vec<_> = infos.iter().map(|info| whole(&info.file)).collect();
    for (number, expected) in model.iter().enumerate() {
        let mut found = Vec::new();
        for index in each_index(&expected.shape) {
            let (mut own, mut file) = (index.clone(), &master);
            for (part, info) in parts.iter().zip(infos) {
                for range in info.variables.iter().filter(|range| range.variable == number) {
                    if range.indices.contains(&index[range.dimension]) {
                        own[range.dimension] -= range.indices.start;
                        file = part;
                    }
                }
            }
            let (shape, values) = &file[&expected.name];
            let at = own.iter().zip(shape).fold(0, |at, (&i, &len)| at * len + i);
            found.push(values[at as usize]);
        }
        compare(&found, expected, "in its file");
    }
}

/// Reads everything by the offsets of the header, byte by byte.
fn read_plainly(path: &Path, model: &[Expected]) {
    let bytes = std::fs::read(path).unwrap();
    let (header, _) = Header::decode(&bytes).unwrap();
    assert_eq!(striate_array::format::validate(&bytes, bytes.len() as u64), []);
    let apart = header.record_size().unwrap();
    for (variable, expected) in header.variables.iter().zip(model) {
        let size = variable.external.size();
        let mut found = Vec::new();
        for index in each_index(&expected.shape) {
            let (record, inner, lens) = if header.is_record(variable) {
                (index[0] * apart, &index[1..], &expected.shape[1..])
            } else {
                (0, &index[..], &expected.shape[..])
            };
            let inner = inner.iter().zip(lens).fold(0, |at, (&i, &len)| at * len + i);
            let at = (variable.begin + record + inner * size) as usize;
            let element = Values::from_bytes(variable.external, &bytes[at..at + size as usize]);
            found.extend(as_numbers(&element));
        }
        compare(&found, expected, &variable.name);
    }
}

fn options(draw: &mut Draw) -> Options {
    let mut options = Options::default();
    let method = draw.pick(&[
        "auto",
        "auto",
        "posix",
        "sieve",
        "two-phase",
        "two-phase",
        "list",
        "datatype",
    ]);
    options.set("striate_method", method).unwrap();
    if draw.chance(60) {
        // Windows that cut elements.
        options.set("cb_buffer_size", &(1 + draw.below(200)).to_string()).unwrap();
        options.set("ind_rd_buffer_size", &(1 + draw.below(200)).to_string()).unwrap();
        options.set("ind_wr_buffer_size", &(1 + draw.below(200)).to_string()).unwrap();
    }
    if draw.chance(30) {
        options.set("striate_exchange", "messages").unwrap();
    }
    if draw.chance(40) {
        // On servers; small, so that small datasets are on several.
        options.set("striping_unit", draw.pick(&["512", "1024", "4096"])).unwrap();
    }
    if draw.chance(30) {
        options.set("nc_header_align_size", &(1 + draw.below(600)).to_string()).unwrap();
        options.set("nc_var_align_size", &(1 + draw.below(64)).to_string()).unwrap();
        options.set("nc_record_align_size", &(1 + draw.below(600)).to_string()).unwrap();
    }
    if draw.chance(50) {
        // Independent writes to filtered chunks wait in the file.
        options.set("nc_chunk_cache", draw.pick(&["1", "300", "5000"])).unwrap();
    }
    options
}

/// Runs a case on that file, and reads the file back with another number of ranks.
fn check(seed: u64, place: &Path, plainly: bool, netcdf4: bool) {
    let mut draw = Draw::new(seed.wrapping_mul(77));
    let ranks = 1 + draw.below(8);
    let (path, options) = (place.to_path_buf(), options(&mut draw));
    let case = Case { seed, path, ranks, options, netcdf4 };
    let outcome = std::panic::catch_unwind(|| {
        let models = Threads::new(case.ranks as usize)
            .try_run(|comm| run(&comm, &case))
            .unwrap_or_else(|error| panic!("{error}"));
        if plainly {
            read_plainly(&case.path, &models[0]);
        }
        let others = 1 + draw.clone().below(8) as usize;
        Threads::new(others)
            .try_run(|comm| read_back(&comm, &case.path, &models[0]))
            .unwrap_or_else(|error| panic!("{error}"));
    });
    if let Err(cause) = outcome {
        eprintln!("STRIATE_CASE={seed}: {} ranks, {}", case.ranks, case.options.hints);
        std::panic::resume_unwind(cause);
    }
    striate_file::File::delete(place).unwrap();
}

/// Where a partitioned dataset is.
#[derive(Clone, Copy)]
enum PartitionPlace<'p> {
    Directory(&'p Path),
    /// On servers, of which there are three at least.
    Servers(&'p str),
}

/// Options for a partitioned dataset.
fn partitioned(draw: &mut Draw, place: PartitionPlace<'_>) -> Options {
    let mut options = options(draw);
    options.set("nc_partitioning_enabled", "1").unwrap();
    options.set("nc_probe", "disable").unwrap();
    options.set("nc_partition_min_ndims", draw.pick(&["0", "0", "1", "2"])).unwrap();
    options.set("nc_partition_buffer", draw.pick(&["4K", "5000", "32M"])).unwrap();
    options.set("nc_num_partitions", &(1 + draw.below(7)).to_string()).unwrap();
    if draw.chance(50) {
        let targets: Vec<_> = (0..=draw.below(3))
            .map(|number| match place {
                PartitionPlace::Directory(directory) => {
                    let target = directory.join(format!("target{number}"));
                    std::fs::create_dir_all(&target).unwrap();
                    target.display().to_string()
                }
                PartitionPlace::Servers(url) => format!("{url}/parts#{number}"),
            })
            .collect();
        options.set("nc_partition_targets", &targets.join(",")).unwrap();
    }
    options
}

/// Runs a case as a partitioned dataset; returns its number of partitions.
fn check_partitioned(seed: u64, place: PartitionPlace<'_>, netcdf4: bool) -> usize {
    let mut draw = Draw::new(seed.wrapping_mul(79));
    let ranks = 1 + draw.below(8);
    let options = partitioned(&mut draw, place);
    let path = match place {
        PartitionPlace::Directory(directory) => directory.join("data.nc"),
        PartitionPlace::Servers(url) => format!("{url}/divided-{seed}-{netcdf4}.nc").into(),
    };
    let case = Case { seed, path, ranks, options, netcdf4 };
    let outcome = std::panic::catch_unwind(|| {
        let models = Threads::new(case.ranks as usize)
            .try_run(|comm| run(&comm, &case))
            .unwrap_or_else(|error| panic!("{error}"));
        let count = match place {
            // The files of classic datasets are read byte by byte.
            PartitionPlace::Servers(_) if !netcdf4 => 0,
            _ => read_parts(&case.path, &models[0], netcdf4),
        };
        let others = 1 + draw.clone().below(8) as usize;
        Threads::new(others)
            .try_run(|comm| read_back(&comm, &case.path, &models[0]))
            .unwrap_or_else(|error| panic!("{error}"));
        count
    });
    if let Err(cause) = outcome {
        eprintln!("STRIATE_CASE={seed}: {} ranks, {:?}", case.ranks, case.options);
        std::panic::resume_unwind(cause);
    }
    let removed = DatasetFiles::of(&case.path).unwrap().remove().unwrap();
    removed.len() - 1
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// `STRIATE_CASE` selects one case, `STRIATE_CASES` is the number of cases.
fn each_case(share: u64, mut run: impl FnMut(u64)) {
    match number_from("STRIATE_CASE") {
        Some(number) => run(number),
        None => (0..number_from("STRIATE_CASES").unwrap_or(2000) / share).for_each(run),
    }
}

#[test]
fn on_files() {
    let directory = tempfile::tempdir().unwrap();
    each_case(1, |seed| check(seed, &directory.path().join(format!("{seed}.nc")), true, false));
}

#[test]
fn on_netcdf4_files() {
    let directory = tempfile::tempdir().unwrap();
    each_case(4, |seed| check(seed, &directory.path().join(format!("{seed}.nc")), false, true));
}

#[test]
fn on_partitions() {
    let mut counts = [0; 8];
    each_case(4, |seed| counts[check_in_directory(seed, false)] += 1);
    println!("cases by number of partitions: {counts:?}");
}

#[test]
fn on_netcdf4_partitions() {
    let mut counts = [0; 8];
    each_case(16, |seed| counts[check_in_directory(seed, true)] += 1);
    println!("cases by number of partitions: {counts:?}");
}

fn check_in_directory(seed: u64, netcdf4: bool) -> usize {
    let directory = tempfile::tempdir().unwrap();
    check_partitioned(seed, PartitionPlace::Directory(directory.path()), netcdf4)
}

#[test]
fn on_servers() {
    let embedded = striate_server::Embedded::start(3).unwrap();
    each_case(30, |seed| {
        for netcdf4 in [false, true] {
            let path = format!("{}/case-{seed}.nc", embedded.url());
            check(seed, Path::new(&path), false, netcdf4);
        }
    });
}

#[test]
fn on_partitions_on_servers() {
    let embedded = striate_server::Embedded::start(3).unwrap();
    each_case(120, |seed| {
        for netcdf4 in [false, true] {
            check_partitioned(seed, PartitionPlace::Servers(&embedded.url()), netcdf4);
        }
    });
}

/// The same with MPI processes as ranks.
#[cfg(feature = "mpi")]
mod processes {
    use striate_testing::mpi_job;

    use super::*;

    const CASES: u64 = 150;

    #[test]
    fn of_a_job() {
        // Nodes of a lab have a `/dev/shm` each.
        let directory = match mpi_job::lab() {
            Some(_) => tempfile::tempdir().unwrap(),
            None => tempfile::tempdir_in("/dev/shm").unwrap(),
        };
        let directory = directory.path().to_str().unwrap();
        for (first, ranks_per_node) in [("20000", None), ("30000", Some("1"))] {
            let mut variables = vec![("STRIATE_DIRECTORY", directory), ("STRIATE_FIRST", first)];
            variables.extend(ranks_per_node.map(|ranks| ("STRIATE_RANKS_PER_NODE", ranks)));
            mpi_job::run_test("processes::ranks_of_a_job", &variables);
        }
    }

    #[test]
    #[ignore = "run by the test above, as ranks"]
    fn ranks_of_a_job() {
        let directory = std::path::PathBuf::from(std::env::var_os("STRIATE_DIRECTORY").unwrap());
        let first = number_from("STRIATE_FIRST").unwrap();
        striate_comm::mpi::run(|comm| -> Result<(), ArrayError> {
            for seed in first..first + CASES {
                let mut draw = Draw::new(seed.wrapping_mul(77));
                let directory = directory.join(seed.to_string());
                std::fs::create_dir_all(&directory).unwrap();
                let in_parts = seed % 3 == 0;
                let options = if in_parts {
                    partitioned(&mut draw, PartitionPlace::Directory(&directory))
                } else {
                    options(&mut draw)
                };
                let (path, ranks) = (directory.join("data.nc"), comm.size() as u64);
                let netcdf4 = seed % 3 == 1 || seed % 6 == 3;
                let case = Case { seed, path, ranks, options, netcdf4 };
                let model = run(&comm, &case).unwrap_or_else(|error| panic!("{seed}: {error}"));
                read_back(&comm, &case.path, &model)?;
                comm.barrier()?;
                if comm.rank() == 0 {
                    if in_parts {
                        read_parts(&case.path, &model, netcdf4);
                    } else if !netcdf4 {
                        read_plainly(&case.path, &model);
                    }
                    std::fs::remove_dir_all(&directory).unwrap();
                }
            }
            Ok(())
        })
        .unwrap();
    }
}
