//! [`Dataset`]: a dataset in data mode, with netCDF's `put`, `get` and their collective and
//! nonblocking forms.
//!
//! Arguments become an [`Access`] (`access.rs`); accesses are carried out in `dataset/execute.rs`.
//! Records, redefinition, `sync` and `close` are in `dataset/lifecycle.rs`.

mod execute;
mod lifecycle;
mod single_access;
mod stored_values;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use striate_comm::{Comm, CommExt, Reduction};
use striate_file::{File, Mode};

use crate::access::{Access, AccessedVariable};
use crate::file_state::{FileState, RecordInfo, agree_among};
use crate::format::{Dimension, Format, Header, Values, Variable};
use crate::header_reading::{FileDefinitions, UnfinishedFile, read_definitions};
use crate::netcdf4::Netcdf4State;
use crate::partition::{Partitioned, create, open, publish};
use crate::stream::{ReadStream, WriteStream};
use crate::value::{Char, Value};
use crate::{
    ArrayError, Definition, DimensionId, OpenMode, Options, Owner, Partitioning, Pending, Sink,
    Slab, Source, Type, VariableId,
};

/// A dataset in data mode.
///
/// * `put`, `get` and `wait` are independent; `put_all`, `get_all` and `wait_all` are collective:
///   all ranks call them in the same order, each with its own slab, which may be empty. A
///   collective call succeeds on all ranks or fails on all. If the arguments of one rank are wrong,
///   all ranks get an error that names it; the accesses of the other ranks may have been carried
///   out by then.
/// * A rank reads its own writes; it reads those of other ranks after a collective call or
///   [`Dataset::sync`].
/// * New records written by `put` are visible to other ranks after the next collective write or
///   [`Dataset::sync`].
/// * Data that was never written reads as zeros, or as fill values in fill mode
///   ([`Definition::fill`]).
/// * A value that is out of range of its type becomes the fill value; all others are transferred,
///   and the call ends with [`ArrayError::Range`] (netCDF's `NC_ERANGE`).
#[derive(Debug)]
pub struct Dataset {
    /// The file, or the master of a partitioned dataset.
    pub(crate) state: FileState,
    /// Identifies the dataset and the state of its definitions within the process.
    stamp: u64,
    pub(crate) options: Options,
    pub(crate) partitioned: Option<Box<Partitioned>>,
}

impl Dataset {
    pub(crate) fn new(state: FileState, options: Options) -> Self {
        Self::with(state, options, None)
    }

    /// A dataset that may have partitions.
    pub(crate) fn with(
        mut state: FileState,
        options: Options,
        partitioned: Option<Box<Partitioned>>,
    ) -> Self {
        static STAMPS: AtomicU64 = AtomicU64::new(0);
        state.update_record_info();
        Self { state, stamp: STAMPS.fetch_add(1, Ordering::Relaxed), options, partitioned }
    }

    /// Creates a dataset at a path, or at the URL of a file on I/O servers. An existing file is
    /// overwritten, unless [`Options::exclusive`] is set. Collective; the options are those of rank
    /// 0.
    pub fn create(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        format: Format,
        options: &Options,
    ) -> Result<Definition, ArrayError> {
        let path = path.as_ref().to_path_buf();
        let partitioning = Partitioning::of_rank_0(comm.as_ref(), &options.partitioning)?;
        let options = &Options { partitioning, ..options.clone() };
        if options.partitioning.enabled {
            return create::begin(comm, path, format, options);
        }
        let mut mode = Mode::CREATE | Mode::READ | Mode::WRITE;
        if options.exclusive {
            mode |= Mode::EXCLUSIVE;
        }
        let mut file = File::open(comm, &path, mode, &options.hints)?;
        // The old dataset is removed before the new one is defined. An empty file is not truncated:
        // ext4 flushes a truncated file when it is closed.
        let size = agree_among(comm.as_ref(), file.size().map_err(ArrayError::from))?;
        if comm.reduce_u64(Reduction::Max, size)? > 0 {
            let old = if comm.rank() == 0 { publish::replaced(&path) } else { None };
            file.set_size(0)?;
            publish::delete(old.as_ref());
        }
        let header = Header::new(format);
        let state = FileState::new(file, path, header, options, OpenMode::ReadWrite)?;
        Ok(Definition::new(state, None, options.clone(), None))
    }

    /// Opens a dataset. Collective; the options are those of rank 0.
    pub fn open(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        mode: OpenMode,
        options: &Options,
    ) -> Result<Self, ArrayError> {
        let path = path.as_ref().to_path_buf();
        let mut file = File::open(comm, &path, mode.file_mode(), &options.hints)?;
        let mut definitions = read_definitions(&mut file, UnfinishedFile::Refuse)?;
        let mut state = FileState::new(file, path, definitions.take_header(), options, mode)?;
        if let FileDefinitions::Netcdf4(opened) = definitions {
            opened.install(&mut state, options)?;
        }
        open::open(state, options)
    }

    /// What is in a netCDF-4 or HDF5 file and not in the dataset: the path of each object, and why.
    pub fn hidden(&self) -> &[(String, String)] {
        self.state.netcdf4.as_ref().map(|netcdf4| netcdf4.hidden()).unwrap_or_default()
    }

    /// Opens one file read-only, without looking at partitions: the master of a partitioned
    /// dataset, or a partition, with all attributes that link them. Collective; the options are
    /// those of rank 0.
    pub fn open_raw(
        comm: &Arc<dyn Comm>,
        path: impl AsRef<Path>,
        options: &Options,
    ) -> Result<Self, ArrayError> {
        let path = path.as_ref().to_path_buf();
        let mut file = File::open(comm, &path, Mode::READ, &options.hints)?;
        let mut definitions = read_definitions(&mut file, UnfinishedFile::Refuse)?;
        let header = definitions.take_header();
        let mut state = FileState::new(file, path, header, options, OpenMode::ReadOnly)?;
        if let FileDefinitions::Netcdf4(opened) = definitions {
            opened.install(&mut state, options)?;
        }
        Ok(Self::new(state, options.clone()))
    }

    /// The definitions. `records` is the number of records that this rank knows.
    pub fn header(&self) -> &Header {
        match &self.partitioned {
            Some(partitioned) => &partitioned.logical,
            None => &self.state.header,
        }
    }

    fn record_info(&self) -> RecordInfo {
        self.partitioned
            .as_ref()
            .map_or(self.state.record_info, |partitioned| partitioned.record_info)
    }

    fn set_records(&mut self, records: u64) {
        self.state.header.records = records;
        if let Some(partitioned) = &mut self.partitioned {
            partitioned.set_records(records);
        }
    }

    /// The communicator.
    pub const fn comm(&self) -> &Arc<dyn Comm> {
        &self.state.comm
    }

    /// The variable with that name; that of a variable in a group is its path (`group/name`).
    pub fn variable(&self, name: &str) -> Result<VariableId, ArrayError> {
        let found = self.state.variables.get(name).copied().map(VariableId);
        found.ok_or_else(|| ArrayError::Unknown { what: "variable", name: name.into() })
    }

    /// All variables, in the order of their definition.
    pub fn variables(&self) -> impl Iterator<Item = VariableId> + use<> {
        (0..self.header().variables.len() as u32).map(VariableId)
    }

    /// All dimensions, in the order of their definition.
    pub fn dimensions(&self) -> impl Iterator<Item = DimensionId> + use<> {
        (0..self.header().dimensions.len() as u32).map(DimensionId)
    }

    /// The dimension with that name.
    pub fn dimension(&self, name: &str) -> Result<DimensionId, ArrayError> {
        let header = self.header();
        let named = |dimension: &Dimension| header.path(dimension.group, &dimension.name) == name;
        match self.header().dimensions.iter().position(named) {
            Some(index) => Ok(DimensionId(index as u32)),
            None => Err(ArrayError::Unknown { what: "dimension", name: name.into() }),
        }
    }

    /// The length of a dimension; that of the unlimited dimension of a classic file is the number
    /// of records.
    pub fn dimension_len(&self, dimension: DimensionId) -> Result<u64, ArrayError> {
        let known = self.header().dimensions.get(dimension.index());
        let name = || format!("number {}", dimension.0);
        let known = known.ok_or_else(|| ArrayError::Unknown { what: "dimension", name: name() })?;
        Ok(self.header().len(known))
    }

    /// The values of an attribute.
    pub fn attribute(&self, owner: impl Into<Owner>, name: &str) -> Result<&Values, ArrayError> {
        let attributes = match owner.into() {
            Owner::Global => &self.header().attributes,
            Owner::Variable(id) => &self.known(id)?.attributes,
            Owner::Group(id) => match id.index() {
                None => &self.header().attributes,
                Some(index) => match self.header().groups.get(index) {
                    Some(group) => &group.attributes,
                    None => return Err(id.unknown()),
                },
            },
        };
        match attributes.iter().find(|attribute| attribute.name == name) {
            Some(attribute) => Ok(&attribute.values),
            None => Err(ArrayError::Unknown { what: "attribute", name: name.into() }),
        }
    }

    /// The lengths of a variable's dimensions; empty for a variable of another dataset.
    pub fn shape(&self, variable: VariableId) -> Vec<u64> {
        self.known(variable).map(|known| self.header().shape(known)).unwrap_or_default()
    }

    fn known(&self, variable: VariableId) -> Result<&Variable, ArrayError> {
        let name = || format!("number {}", variable.0);
        let known = self.header().variables.get(variable.index());
        known.ok_or_else(|| ArrayError::Unknown { what: "variable", name: name() })
    }

    pub(crate) fn accessed(
        &self,
        variable: VariableId,
    ) -> Result<AccessedVariable<'_>, ArrayError> {
        self.known(variable)?;
        let index = variable.index();
        let record_size = self.state.record_info.record_size;
        let fill = self.state.fill_value(index);
        let divided =
            self.partitioned.as_ref().is_some_and(|partitioned| partitioned.divides(index));
        let netcdf4 = self.state.netcdf4.as_ref();
        let is_placed_later =
            divided || netcdf4.is_some_and(|netcdf4| netcdf4.is_placed_later(index));
        let byte_positions = netcdf4.and_then(|netcdf4| netcdf4.byte_positions(index));
        let header = self.header();
        Ok(AccessedVariable { header, record_size, index, fill, is_placed_later, byte_positions })
    }

    fn access_put<'m, T: Value>(
        &self,
        call: &'static str,
        variable: VariableId,
        slab: &Slab,
        from: Source<'m, T>,
    ) -> Result<Access<WriteStream<'m>>, ArrayError> {
        self.check_writable(call, variable)?;
        self.check_fixed_size::<T>(call, variable)?;
        self.accessed(variable)?.put(call, slab, from)
    }

    fn access_get<'m, T: Value>(
        &self,
        call: &'static str,
        variable: VariableId,
        slab: &Slab,
        to: Sink<'m, T>,
    ) -> Result<Access<ReadStream<'m>>, ArrayError> {
        self.check_fixed_size::<T>(call, variable)?;
        self.accessed(variable)?.get(call, slab, to)
    }

    /// Writes elements. Independent.
    ///
    /// A write beyond the last record adds records. In fill mode that is an error, since ranks
    /// would fill over each other's data: call [`Dataset::grow`] first.
    pub fn put<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_put("put", variable, slab, from.into())?;
        self.put_independent(vec![access])
    }

    /// Writes elements. Collective.
    pub fn put_all<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_put("put_all", variable, slab, from.into());
        let netcdf4 = self.state.netcdf4.as_deref();
        if self.partitioned.is_some()
            || self.state.record_info.has_records
            || netcdf4.is_some_and(Netcdf4State::writes_need_agreement)
        {
            return self.put_collective(access.map(|access| vec![access]));
        }
        let placed = access.and_then(|mut access| {
            self.place_write(&mut access)?;
            Ok(access)
        });
        self.put_single_collective(placed)
    }

    /// Reads elements. Independent.
    pub fn get<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        to: impl Into<Sink<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_get("get", variable, slab, to.into())?;
        self.get_independent(vec![access])
    }

    /// Reads elements. Collective.
    pub fn get_all<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        to: impl Into<Sink<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_get("get_all", variable, slab, to.into());
        let netcdf4 = self.state.netcdf4.as_deref();
        if self.partitioned.is_some() || netcdf4.is_some_and(Netcdf4State::has_stored_chunks) {
            return self.get_collective(access.map(|access| vec![access]));
        }
        let placed = access.and_then(|mut access| {
            self.place_read(&mut access)?;
            Ok(access)
        });
        self.get_single_collective(placed)
    }

    /// Reads elements into a new array with the slab's shape. Independent.
    pub fn array<T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
    ) -> Result<ndarray::ArrayD<T>, ArrayError> {
        let count = self.accessed(variable)?.count("array", slab)?;
        let mut elements = self.allocate::<T>(variable, &count)?;
        self.get(variable, slab, &mut elements)?;
        let shape: Vec<usize> = count.iter().map(|&count| count as usize).collect();
        ndarray::ArrayD::from_shape_vec(shape, elements).map_err(|error| ArrayError::Access {
            call: "array",
            variable: self.header().variables[variable.index()].name.clone(),
            reason: error.to_string(),
        })
    }

    /// Reads elements in their external type. Independent.
    pub fn values(&mut self, variable: VariableId, slab: &Slab) -> Result<Values, ArrayError> {
        let external = self.known(variable)?.external;
        if let Type::String | Type::Text(_) | Type::User(_) = external {
            return Ok(Values::stored(external, self.elements(variable, slab)?));
        }
        let count = self.accessed(variable)?.count("values", slab)?;
        macro_rules! read {
            ($variant:ident, $type:ty) => {{
                let mut elements = self.allocate::<$type>(variable, &count)?;
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
            // Those of users were read above.
            Type::Char | Type::String | Type::Text(_) | Type::User(_) => {
                let mut text = self.allocate::<u8>(variable, &count)?;
                self.get(variable, slab, Char::slice_mut(&mut text))?;
                Values::Char(text)
            }
        })
    }

    /// Memory for the elements of a slab, or an error: a file may claim more elements than memory
    /// can hold.
    fn allocate<T: Value>(
        &self,
        variable: VariableId,
        count: &[u64],
    ) -> Result<Vec<T>, ArrayError> {
        let count: u64 = count.iter().product();
        let mut elements = Vec::new();
        if usize::try_from(count).is_ok_and(|count| elements.try_reserve_exact(count).is_ok()) {
            elements.resize(count as usize, T::zeroed());
            return Ok(elements);
        }
        let variable = self.known(variable)?.name.clone();
        let reason = format!("there is no memory for {count} elements at once");
        Err(ArrayError::Access { call: "reading", variable, reason })
    }

    /// Starts a nonblocking write: `pending` borrows the elements until it is waited for.
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

    /// Starts a buffered write: the elements are copied into `pending`, and the buffer can be
    /// reused at once.
    pub fn bput<'s, T: Value>(
        &self,
        pending: &mut Pending<'_>,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'s, T>>,
    ) -> Result<(), ArrayError> {
        pending.begin_on(self.stamp)?;
        let access = self.access_put("bput", variable, slab, from.into())?;
        pending.puts.push(access.try_map_memory(WriteStream::into_owned)?);
        Ok(())
    }

    /// Starts a nonblocking read: `pending` borrows the buffer until it is waited for.
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

    /// Carries out pending accesses, writes before reads. Independent.
    pub fn wait(&mut self, pending: Pending<'_>) -> Result<(), ArrayError> {
        pending.check(self.stamp)?;
        let written = self.put_independent(pending.puts);
        let written = written.and(self.defer_heap_values(pending.heap_writes));
        written.and(self.get_independent(pending.gets))
    }

    /// Carries out the pending accesses of all ranks, combined into few large ones, writes before
    /// reads. Collective; ranks may have different accesses, or none.
    pub fn wait_all(&mut self, pending: Pending<'_>) -> Result<(), ArrayError> {
        let checked = pending.check(self.stamp);
        let Pending { mut puts, gets, heap_writes, .. } = pending;
        let own = [u64::from(!heap_writes.is_empty()), self.waiting_heap_values()];
        let ((), [has_heap_writes, waiting]) = self.state.agree_with_max(checked, own)?;
        if has_heap_writes > 0 {
            if waiting > 0 {
                self.store_waiting_heap_values()?;
            }
            puts.extend(self.store_heap_values(&heap_writes)?);
        }
        let written = self.put_collective(Ok(puts));
        written.and(self.get_collective(Ok(gets)))
    }
}
