//! [`Dataset`]: a dataset in data mode. How its accesses are carried out is in `carry_out.rs`; its records
//! and its end are in `life.rs`.

mod carry_out;
mod life;
mod one;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use striate_comm::{Comm, CommExt, Reduction};
use striate_file::{File, Mode};

use crate::access::{Access, Subject};
use crate::format::{Dimension, Format, Header, Values, Variable};
use crate::partition::{Parted, create, open, publish};
use crate::state::{Derived, State, agree_on, read_header};
use crate::stream::{Incoming, Outgoing};
use crate::value::{Char, Value};
use crate::{
    ArrayError, Definition, DimensionId, Options, Owner, Partitioning, Pending, Sink, Slab, Source,
    Type, VariableId,
};

/// A dataset in data mode.
///
/// * `put`, `get` and `wait` are a rank's own business; `put_all`, `get_all` and `wait_all` are
///   collective: all ranks call them in the same order, each with its own slab, which may be empty.
///   They end alike on every rank. If one rank's arguments cannot be used, all get an error that names
///   it; what the others asked for may have been carried out by then.
/// * A rank sees what it wrote; what others wrote it sees after a collective call or
///   [`Dataset::sync`].
/// * Records that `put` makes are known to other ranks after the next collective call that writes, or
///   [`Dataset::sync`].
/// * Data that was never written is zeros, or fill values where [`Definition::fill`] asks for them.
/// * A value that does not fit its type becomes the fill value; all others are moved, and the call
///   ends with [`ArrayError::Range`].
#[derive(Debug)]
pub struct Dataset {
    /// The file; of a partitioned dataset, its master.
    pub(crate) state: State,
    /// Which dataset of this process it is, as it is defined now.
    stamp: u64,
    pub(crate) options: Options,
    pub(crate) parted: Option<Box<Parted>>,
}

impl Dataset {
    pub(crate) fn new(state: State, options: Options) -> Self {
        Self::with(state, options, None)
    }

    /// With partitions, if it has some.
    pub(crate) fn with(mut state: State, options: Options, parted: Option<Box<Parted>>) -> Self {
        static STAMPS: AtomicU64 = AtomicU64::new(0);
        state.derive();
        Self { state, stamp: STAMPS.fetch_add(1, Ordering::Relaxed), options, parted }
    }

    /// Creates a dataset: a path, or the URL of a file on I/O servers. What was there is lost, unless
    /// the options say `exclusive`. Collective; the options of rank 0 count.
    pub fn create(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        format: Format,
        options: &Options,
    ) -> Result<Definition, ArrayError> {
        let path = path.as_ref().to_path_buf();
        let asked = Partitioning::of_first(comm.as_ref(), &options.partitioning)?;
        let options = &Options { partitioning: asked, ..options.clone() };
        if options.partitioning.enabled {
            return create::begin(comm, path, format, options);
        }
        let mut mode = Mode::CREATE | Mode::READ | Mode::WRITE;
        if options.exclusive {
            mode |= Mode::EXCLUSIVE;
        }
        let mut file = File::open(comm, &path, mode, &options.hints)?;
        // Before anything is known of the new one, the old one is no more. A file that is empty is
        // left alone: ext4 flushes what was cut to nothing when it is closed.
        let size = agree_on(comm.as_ref(), file.size().map_err(ArrayError::from))?;
        if comm.reduce_u64(Reduction::Max, size)? > 0 {
            let old = if comm.rank() == 0 { publish::replaced(&path) } else { None };
            file.set_size(0)?;
            publish::delete(old.as_ref());
        }
        let header = Header::new(format);
        let state = State::new(file, path, header, options, true)?;
        Ok(Definition::new(state, None, options.clone(), None))
    }

    /// Opens a dataset, for writing as well if `write`. Collective; the options of rank 0 count.
    pub fn open(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        write: bool,
        options: &Options,
    ) -> Result<Self, ArrayError> {
        let path = path.as_ref().to_path_buf();
        let mode = if write { Mode::READ | Mode::WRITE } else { Mode::READ };
        let mut file = File::open(comm, &path, mode, &options.hints)?;
        let header = read_header(&mut file, false)?;
        let state = State::new(file, path, header, options, write)?;
        open::open(state, options)
    }

    /// Opens a file to read it as the plain file that it is: of a partitioned dataset the master, or a
    /// partition, with all attributes that tie them together. Collective; the options of rank 0 count.
    pub fn open_raw(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        options: &Options,
    ) -> Result<Self, ArrayError> {
        let path = path.as_ref().to_path_buf();
        let mut file = File::open(comm, &path, Mode::READ, &options.hints)?;
        let header = read_header(&mut file, false)?;
        Ok(Self::new(State::new(file, path, header, options, false)?, options.clone()))
    }

    /// What it says about itself; `records` is what this rank knows of.
    pub fn header(&self) -> &Header {
        match &self.parted {
            Some(parted) => &parted.logical,
            None => &self.state.header,
        }
    }

    /// What follows from the definitions.
    fn derived(&self) -> Derived {
        self.parted.as_ref().map_or(self.state.derived, |parted| parted.derived)
    }

    /// So many records are known.
    fn set_records(&mut self, records: u64) {
        self.state.header.records = records;
        if let Some(parted) = &mut self.parted {
            parted.set_records(records);
        }
    }

    /// The ranks.
    pub const fn comm(&self) -> &Arc<dyn Comm> {
        &self.state.comm
    }

    /// The variable of that name.
    pub fn variable(&self, name: &str) -> Result<VariableId, ArrayError> {
        let found = self.state.variables.get(name).copied().map(VariableId);
        found.ok_or_else(|| ArrayError::Unknown { what: "variable", name: name.into() })
    }

    /// All variables, in the order of their definition.
    pub fn variables(&self) -> impl Iterator<Item = VariableId> + use<> {
        (0..self.header().variables.len() as u32).map(VariableId)
    }

    /// The dimension of that name.
    pub fn dimension(&self, name: &str) -> Result<DimensionId, ArrayError> {
        let named = |dimension: &Dimension| dimension.name == name;
        match self.header().dimensions.iter().position(named) {
            Some(index) => Ok(DimensionId(index as u32)),
            None => Err(ArrayError::Unknown { what: "dimension", name: name.into() }),
        }
    }

    /// The length of a dimension; of the unlimited one, the records.
    pub fn dimension_len(&self, dimension: DimensionId) -> Result<u64, ArrayError> {
        match self.header().dimensions.get(dimension.index()) {
            Some(dimension) if dimension.is_unlimited() => Ok(self.header().records),
            Some(dimension) => Ok(dimension.len),
            None => {
                let name = format!("number {}", dimension.0);
                Err(ArrayError::Unknown { what: "dimension", name })
            }
        }
    }

    /// An attribute's values.
    pub fn attribute(&self, owner: impl Into<Owner>, name: &str) -> Result<&Values, ArrayError> {
        let attributes = match owner.into() {
            Owner::Global => &self.header().attributes,
            Owner::Variable(id) => &self.known(id)?.attributes,
        };
        match attributes.iter().find(|attribute| attribute.name == name) {
            Some(attribute) => Ok(&attribute.values),
            None => Err(ArrayError::Unknown { what: "attribute", name: name.into() }),
        }
    }

    /// The lengths of a variable's dimensions; empty for one that is not of this dataset.
    pub fn shape(&self, variable: VariableId) -> Vec<u64> {
        self.known(variable).map(|known| self.header().shape(known)).unwrap_or_default()
    }

    fn known(&self, variable: VariableId) -> Result<&Variable, ArrayError> {
        let name = || format!("number {}", variable.0);
        let known = self.header().variables.get(variable.index());
        known.ok_or_else(|| ArrayError::Unknown { what: "variable", name: name() })
    }

    fn subject(&self, variable: VariableId) -> Result<Subject<'_>, ArrayError> {
        self.known(variable)?;
        let index = variable.index();
        let record_size = self.state.derived.record_size;
        let fill = self.state.fill_value(index);
        let divided = self.parted.as_ref().is_some_and(|parted| parted.divides(index));
        Ok(Subject { header: self.header(), record_size, index, fill, divided })
    }

    fn access_put<'m, T: Value>(
        &self,
        call: &'static str,
        variable: VariableId,
        slab: &Slab,
        from: Source<'m, T>,
    ) -> Result<Access<Outgoing<'m>>, ArrayError> {
        if !self.state.write {
            let variable = self.known(variable)?.name.clone();
            let reason = "the dataset was opened for reading only".into();
            return Err(ArrayError::Access { call, variable, reason });
        }
        self.subject(variable)?.put(call, slab, from)
    }

    fn access_get<'m, T: Value>(
        &self,
        call: &'static str,
        variable: VariableId,
        slab: &Slab,
        to: Sink<'m, T>,
    ) -> Result<Access<Incoming<'m>>, ArrayError> {
        self.subject(variable)?.get(call, slab, to)
    }

    /// Writes elements.
    ///
    /// It makes new records if it reaches beyond the last one, except where records are to be filled:
    /// ranks would fill over each other's data. [`Dataset::grow`] comes first there.
    pub fn put<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_put("put", variable, slab, from.into())?;
        self.put_alone(vec![access])
    }

    /// Writes elements, together with the other ranks. Collective.
    pub fn put_all<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_put("put_all", variable, slab, from.into());
        if self.parted.is_some() || self.state.derived.has_records {
            return self.put_together(access.map(|access| vec![access]));
        }
        self.put_one_together(access)
    }

    /// Reads elements.
    pub fn get<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        to: impl Into<Sink<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_get("get", variable, slab, to.into())?;
        self.get_alone(vec![access])
    }

    /// Reads elements, together with the other ranks. Collective.
    pub fn get_all<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        to: impl Into<Sink<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_get("get_all", variable, slab, to.into());
        if self.parted.is_some() {
            return self.get_together(access.map(|access| vec![access]));
        }
        self.get_one_together(access)
    }

    /// Reads elements into a new array of the slab's shape.
    pub fn array<T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
    ) -> Result<ndarray::ArrayD<T>, ArrayError> {
        let count = self.subject(variable)?.count("array", slab)?;
        let mut elements = self.room::<T>(variable, &count)?;
        self.get(variable, slab, &mut elements)?;
        let shape: Vec<usize> = count.iter().map(|&count| count as usize).collect();
        ndarray::ArrayD::from_shape_vec(shape, elements).map_err(|error| ArrayError::Access {
            call: "array",
            variable: self.header().variables[variable.index()].name.clone(),
            reason: error.to_string(),
        })
    }

    /// Reads elements as what they are in the file.
    pub fn values(&mut self, variable: VariableId, slab: &Slab) -> Result<Values, ArrayError> {
        let external = self.known(variable)?.external;
        let count = self.subject(variable)?.count("values", slab)?;
        macro_rules! read {
            ($variant:ident, $type:ty) => {{
                let mut elements = self.room::<$type>(variable, &count)?;
                self.get(variable, slab, &mut elements)?;
                Values::$variant(elements)
            }};
        }
        Ok(match external {
            Type::Byte => read!(Byte, i8),
            Type::Short => read!(Short, i16),
            Type::Int => read!(Int, i32),
            Type::Float => read!(Float, f32),
            Type::Double => read!(Double, f64),
            Type::UByte => read!(UByte, u8),
            Type::UShort => read!(UShort, u16),
            Type::UInt => read!(UInt, u32),
            Type::Int64 => read!(Int64, i64),
            Type::UInt64 => read!(UInt64, u64),
            Type::Char => {
                let mut text = self.room::<u8>(variable, &count)?;
                self.get(variable, slab, Char::slice_mut(&mut text))?;
                Values::Char(text)
            }
        })
    }

    /// Memory for so many elements: a file may claim more than there is.
    fn room<T: Value>(&self, variable: VariableId, count: &[u64]) -> Result<Vec<T>, ArrayError> {
        let count: u64 = count.iter().product();
        let mut room = Vec::new();
        if usize::try_from(count).is_ok_and(|count| room.try_reserve_exact(count).is_ok()) {
            room.resize(count as usize, T::zeroed());
            return Ok(room);
        }
        let variable = self.known(variable)?.name.clone();
        let reason = format!("there is no memory for {count} elements at once");
        Err(ArrayError::Access { call: "reading", variable, reason })
    }

    /// Begins to write elements: `pending` borrows them until it is waited for.
    pub fn iput<'m, T: Value>(
        &self,
        pending: &mut Pending<'m>,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'m, T>>,
    ) -> Result<(), ArrayError> {
        pending.begin_on(self.stamp)?;
        pending.puts.push(self.access_put("iput", variable, slab, from.into())?);
        Ok(())
    }

    /// Begins to write elements, which are copied into `pending`: the buffer is free at once.
    pub fn bput<'s, T: Value>(
        &self,
        pending: &mut Pending<'_>,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'s, T>>,
    ) -> Result<(), ArrayError> {
        pending.begin_on(self.stamp)?;
        let Access { variable, place, extent, records, may_miss, memory } =
            self.access_put("bput", variable, slab, from.into())?;
        let memory = memory.into_owned()?;
        pending.puts.push(Access { variable, place, extent, records, may_miss, memory });
        Ok(())
    }

    /// Begins to read elements: `pending` borrows their room until it is waited for.
    pub fn iget<'m, T: Value>(
        &self,
        pending: &mut Pending<'m>,
        variable: VariableId,
        slab: &Slab,
        to: impl Into<Sink<'m, T>>,
    ) -> Result<(), ArrayError> {
        pending.begin_on(self.stamp)?;
        pending.gets.push(self.access_get("iget", variable, slab, to.into())?);
        Ok(())
    }

    /// Carries out what was begun, alone: first what is written, then what is read.
    pub fn wait(&mut self, pending: Pending<'_>) -> Result<(), ArrayError> {
        pending.check(self.stamp)?;
        let written = self.put_alone(pending.puts);
        written.and(self.get_alone(pending.gets))
    }

    /// Carries out what all ranks have begun, in few large accesses: first what is written, then what
    /// is read. Collective; ranks may have begun different things, or nothing.
    pub fn wait_all(&mut self, pending: Pending<'_>) -> Result<(), ArrayError> {
        let checked = pending.check(self.stamp);
        self.state.agree(checked)?;
        let written = self.put_together(Ok(pending.puts));
        written.and(self.get_together(Ok(pending.gets)))
    }
}
