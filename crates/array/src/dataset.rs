//! [`Dataset`]: a dataset in data mode. How its accesses are carried out is in `carry_out.rs`.

mod carry_out;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use striate_comm::{Comm, CommExt, Reduction};
use striate_file::{File, Mode, Stats};

use crate::access::{Access, Subject};
use crate::format::{Dimension, Format, Header, Values, Variable};
use crate::state::{State, agree_on, read_header};
use crate::stream::{Incoming, Outgoing};
use crate::value::{Char, Value};
use crate::{
    ArrayError, Definition, DimensionId, Options, Owner, Pending, Sink, Slab, Source, Type,
    VariableId, fill,
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
    state: State,
    /// Which dataset of this process it is, as it is defined now.
    stamp: u64,
}

impl Dataset {
    pub(crate) fn new(mut state: State) -> Self {
        static STAMPS: AtomicU64 = AtomicU64::new(0);
        state.derive();
        Self { state, stamp: STAMPS.fetch_add(1, Ordering::Relaxed) }
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
        let mut mode = Mode::CREATE | Mode::READ | Mode::WRITE;
        if options.exclusive {
            mode |= Mode::EXCLUSIVE;
        }
        let mut file = File::open(comm, &path, mode, &options.hints)?;
        // Before anything is known of the new one, the old one is no more. A file that is empty is
        // left alone: ext4 flushes what was cut to nothing when it is closed.
        let size = agree_on(comm.as_ref(), file.size().map_err(ArrayError::from))?;
        if comm.reduce_u64(Reduction::Max, size)? > 0 {
            file.set_size(0)?;
        }
        let header = Header::new(format);
        Ok(Definition::new(State::new(file, path, header, options, true)?, None))
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
        let header = read_header(&mut file)?;
        Ok(Self::new(State::new(file, path, header, options, write)?))
    }

    /// What it says about itself; `records` is what this rank knows of.
    pub const fn header(&self) -> &Header {
        &self.state.header
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
        Ok(Subject { header: self.header(), record_size, index, fill })
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
        self.put_alone(&[access])
    }

    /// Writes elements, together with the other ranks. Collective.
    pub fn put_all<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        from: impl Into<Source<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_put("put_all", variable, slab, from.into());
        if self.state.derived.has_records {
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
        self.get_alone(&mut [access])
    }

    /// Reads elements, together with the other ranks. Collective.
    pub fn get_all<'m, T: Value>(
        &mut self,
        variable: VariableId,
        slab: &Slab,
        to: impl Into<Sink<'m, T>>,
    ) -> Result<(), ArrayError> {
        let access = self.access_get("get_all", variable, slab, to.into());
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
        let Access { variable, place, records, may_miss, memory } =
            self.access_put("bput", variable, slab, from.into())?;
        let memory = memory.into_owned()?;
        pending.puts.push(Access { variable, place, records, may_miss, memory });
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
    pub fn wait(&mut self, mut pending: Pending<'_>) -> Result<(), ArrayError> {
        pending.check(self.stamp)?;
        let written = self.put_alone(&pending.puts);
        written.and(self.get_alone(&mut pending.gets))
    }

    /// Carries out what all ranks have begun, in few large accesses: first what is written, then what
    /// is read. Collective; ranks may have begun different things, or nothing.
    pub fn wait_all(&mut self, pending: Pending<'_>) -> Result<(), ArrayError> {
        let checked = pending.check(self.stamp);
        self.state.agree(checked)?;
        let written = self.put_together(Ok(pending.puts));
        written.and(self.get_together(Ok(pending.gets)))
    }

    /// Makes the records be at least so many, filling those that are new where fill values are asked
    /// for. Collective; the largest number counts.
    pub fn grow(&mut self, records: u64) -> Result<(), ArrayError> {
        let refuse = |reason: String| {
            Err(ArrayError::Definition { what: format!("growth to {records} records"), reason })
        };
        let (header, format) = (&self.state.header, self.state.header.format);
        let possible = if !self.state.write {
            refuse("the dataset was opened for reading only".into())
        } else if records > format.max_records() {
            refuse(format!("they are more than {format} can count"))
        } else if header.end_of(records).is_none() {
            refuse("they would end beyond 2^63 - 1 bytes, where no file reaches".into())
        } else {
            Ok(())
        };
        let known = header.records;
        let ((), [records]) = self.state.agree_with(possible, [records.max(known)])?;
        self.make_records(records)?;
        self.state.header.records = records;
        self.state.state_records()
    }

    /// Goes back to define mode. Collective.
    pub fn redefine(mut self) -> Result<Definition, ArrayError> {
        let possible = if self.state.write {
            Ok(())
        } else {
            let what = "redefinition".into();
            let reason = "the dataset was opened for reading only".into();
            Err(ArrayError::Definition { what, reason })
        };
        self.state.agree(possible)?;
        self.learn_records()?;
        let before = self.state.header.clone();
        Ok(Definition::new(self.state, Some(before)))
    }

    /// Makes all ranks' data durable and seen by all, and the number of records known to all. A new
    /// file is a whole one from here on. A dataset that is only read learns of records that others
    /// have added. Collective.
    pub fn sync(&mut self) -> Result<(), ArrayError> {
        self.learn_records()?;
        if self.state.write { self.state.finish(true) } else { self.state.reread_records() }
    }

    /// Closes it. Collective.
    pub fn close(mut self) -> Result<(), ArrayError> {
        let whole = self
            .learn_records()
            .and_then(|()| if self.state.write { self.state.finish(false) } else { Ok(()) });
        let closed = self.state.file.close().map_err(ArrayError::from);
        whole.and(closed)
    }

    /// Gives up: closes it without making a new file a whole one, which is deleted. Collective.
    pub fn abort(self) -> Result<(), ArrayError> {
        let State { comm, file, path, unfinished, .. } = self.state;
        file.close()?;
        let deleted = if unfinished && comm.rank() == 0 { File::delete(&path) } else { Ok(()) };
        agree_on(comm.as_ref(), deleted.map_err(ArrayError::from))
    }

    /// What this rank's accesses have cost so far.
    pub const fn stats(&self) -> Stats {
        self.state.file.stats()
    }

    /// The largest number of records that a rank knows of becomes everyone's. Collective.
    fn learn_records(&mut self) -> Result<(), ArrayError> {
        if self.state.derived.has_records {
            let known = self.state.header.records;
            let ((), [records]) = self.state.agree_with(Ok(()), [known])?;
            self.state.header.records = records;
        }
        Ok(())
    }

    /// Fills what is new if there are to be so many records. Collective.
    fn make_records(&mut self, records: u64) -> Result<(), ArrayError> {
        let known = self.state.header.records;
        if records > known && self.state.derived.fills_records {
            fill::fill_records(&mut self.state, known..records)?;
        }
        Ok(())
    }
}
