//! Datasets of Striate.

use std::path::Path;
use std::time::Duration;

use striate_array::format::{ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{
    ArrayError, Dataset, Definition, Format, OpenMode, Options, Owner, Pending, Sink, Slab, Source,
    Value, Values, VariableId,
};
use striate_file::Stats;

use super::{ArrayEngine, ArrayEngineError, EngineContext, RankCost, not_open};
use crate::array::memory::Memory;
use crate::array::plan::{
    Access, FilePlan, Growth, MemoryLayout, Schema, SchemaDimension, VariableStorage, number,
};
use crate::array::{CallMode, Layout};

/// A dataset of ours.
#[derive(Debug)]
pub(super) struct DatasetEngine<'b> {
    context: EngineContext<'b>,
    layout: Option<Layout>,
    format: Format,
    options: Options,
    dataset: Option<Dataset>,
    /// What the header has cost when the file was opened.
    before: Stats,
    /// Of the schema's variables those that calls use; in its order.
    variables: Vec<VariableId>,
    /// See [`RankCost::exchanges`].
    exchanges: Vec<Duration>,
}

impl<'b> DatasetEngine<'b> {
    pub(super) fn new(
        context: EngineContext<'b>,
        layout: Option<Layout>,
    ) -> Result<Self, ArrayEngineError> {
        let mut options = Options::from_environment().map_err(ArrayError::from)?;
        let laid = layout.zip(context.options.targets.as_ref());
        let laid = laid.map(|(layout, targets)| layout.hints(targets, context.divided));
        // Hints that were given count more than those of the layout.
        for (name, value) in laid.iter().flatten().chain(&context.options.hints) {
            options.set(name, value).map_err(ArrayError::from)?;
        }
        // What is measured of servers that come and go is of no use to later runs.
        let servers = context.options.targets.as_ref().and_then(|targets| targets.servers.as_ref());
        options.probe.cache = servers.map(|servers| servers.directory().to_path_buf());
        let format = context.options.format;
        Ok(Self {
            context,
            layout,
            format,
            options,
            dataset: None,
            before: Stats::default(),
            variables: Vec::new(),
            exchanges: Vec::new(),
        })
    }

    /// Datasets in netCDF-4 files.
    pub(super) fn netcdf4(context: EngineContext<'b>) -> Result<Self, ArrayEngineError> {
        Ok(Self { format: Format::Netcdf4, ..Self::new(context, None)? })
    }

    fn define(&mut self, definition: &mut Definition, schema: &Schema) -> Result<(), ArrayError> {
        let mut dimensions = Vec::with_capacity(schema.dimensions.len());
        for SchemaDimension { name, len, growth } in &schema.dimensions {
            dimensions.push(match growth {
                Growth::Unlimited => definition.unlimited(name)?,
                Growth::Fixed => definition.dimension(name, *len)?,
            });
        }
        self.variables.clear();
        for variable in &schema.variables {
            let of: Vec<_> = variable.dimensions.iter().map(|&d| dimensions[d]).collect();
            let id = definition.variable(&variable.name, variable.number.external(), &of)?;
            if self.format.is_hdf5() && variable.storage != VariableStorage::default() {
                definition.storage(id, storage(&variable.storage))?;
            }
            for (name, text) in &variable.texts {
                definition.attribute(id, name, text.as_str())?;
            }
            for (name, number) in &variable.numbers {
                definition.attribute(id, name, *number)?;
            }
            self.variables.push(id);
        }
        Ok(())
    }

    fn file(&self, file: usize) -> &'b FilePlan {
        &self.context.plan.files[file]
    }
}

/// Chunks and filters of a variable.
fn storage(of: &VariableStorage) -> StorageOptions {
    let layout = of.chunk.clone().map_or(StorageLayout::Default, StorageLayout::Chunked);
    let filters = of.deflate.map(|level| vec![ChunkFilter::Shuffle, ChunkFilter::Deflate(level)]);
    StorageOptions { layout, filters: filters.unwrap_or_default(), ..StorageOptions::default() }
}

/// Does a data call, and notes how long the exchange took.
fn timed(
    dataset: &mut Dataset,
    exchanges: &mut Vec<Duration>,
    call: impl FnOnce(&mut Dataset) -> Result<(), ArrayError>,
) -> Result<(), ArrayError> {
    let before = dataset.partition_stats().exchange_seconds;
    call(dataset)?;
    if dataset.partitions().is_some() {
        let exchange = dataset.partition_stats().exchange_seconds - before;
        exchanges.push(Duration::from_secs_f64(exchange.max(0.0)));
    }
    Ok(())
}

/// The elements of an access, to write.
fn source<'m, T: Value>(access: &Access, elements: &'m [T]) -> Source<'m, T> {
    match &access.lay {
        MemoryLayout::Dense { first } => Source::new(&elements[*first..*first + access.elements()]),
        MemoryLayout::Strided(lay) => Source::typed(elements, lay.first, 1, &lay.datatype),
    }
}

/// Room for the elements of an access.
fn sink<'m, T: Value>(access: &Access, elements: &'m mut [T]) -> Sink<'m, T> {
    match &access.lay {
        MemoryLayout::Dense { first } => {
            Sink::new(&mut elements[*first..*first + access.elements()])
        }
        MemoryLayout::Strided(lay) => Sink::typed(elements, lay.first, 1, &lay.datatype),
    }
}

/// Whether no two calls read into the same area, so that all can borrow theirs at the same time.
fn are_apart(calls: &[Access]) -> bool {
    calls.iter().enumerate().all(|(i, a)| calls[..i].iter().all(|b| a.area != b.area))
}

impl ArrayEngine for DatasetEngine<'_> {
    fn create(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        let (comm, format) = (self.context.comm.clone(), self.format);
        let mut definition = Dataset::create(&comm, path, format, &self.options)?;
        self.define(&mut definition, &self.file(file).schema)?;
        let dataset = definition.end()?;
        if self.layout.is_some_and(Layout::has_partitions) && dataset.partitions().is_none() {
            return Err(ArrayEngineError::Differs("it has no partitions".into()));
        }
        self.before = dataset.stats();
        self.dataset = Some(dataset);
        Ok(())
    }

    fn open(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        let dataset = Dataset::open(&self.context.comm, path, OpenMode::ReadOnly, &self.options)?;
        let plan = self.file(file);
        let variables = &plan.schema.variables;
        self.variables.clear();
        if plan.steps.is_empty() {
            if let Some(last) = variables.last() {
                self.variables.push(dataset.variable(&last.name)?);
            }
        } else {
            for variable in variables {
                self.variables.push(dataset.variable(&variable.name)?);
            }
        }
        self.before = dataset.stats();
        self.dataset = Some(dataset);
        Ok(())
    }

    fn inspect(&mut self, file: usize) -> Result<(), ArrayEngineError> {
        let schema = &self.file(file).schema;
        let dataset = self.dataset.as_ref().ok_or_else(not_open)?;
        let found = dataset.header().variables.len();
        if found != schema.variables.len() {
            return Err(ArrayEngineError::Differs(format!("{found} variables")));
        }
        for variable in &schema.variables {
            let id = dataset.variable(&variable.name)?;
            for (name, number) in &variable.numbers {
                let values = dataset.attribute(Owner::Variable(id), name)?;
                if *values != Values::Double(vec![*number]) {
                    let text = format!("{values:?} as {name} of {}", variable.name);
                    return Err(ArrayEngineError::Differs(text));
                }
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let calls = &self.file(file).steps[step];
        let mode = self.context.options.mode;
        let dataset = self.dataset.as_mut().ok_or_else(not_open)?;
        let mut pending = Pending::new();
        for access in calls {
            let slab = Slab::new(&access.start, &access.count);
            let variable = self.variables[access.variable];
            number!(memory.number(access.area), T => {
                let source = source(access, memory.elements::<T>(access.area));
                if self.context.nonblocking {
                    dataset.iput(&mut pending, variable, &slab, source)?;
                } else {
                    timed(dataset, &mut self.exchanges, |data| match mode {
                        CallMode::Collective => data.put_all(variable, &slab, source),
                        CallMode::Independent => data.put(variable, &slab, source),
                    })?;
                }
            });
        }
        if self.context.nonblocking {
            timed(dataset, &mut self.exchanges, |data| data.wait_all(pending))?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let calls = &self.file(file).steps[step];
        let mode = self.context.options.mode;
        let dataset = self.dataset.as_mut().ok_or_else(not_open)?;
        let nonblocking = self.context.nonblocking && are_apart(calls);
        let numbers: Vec<_> = calls.iter().map(|access| memory.number(access.area)).collect();
        if !nonblocking {
            for (access, number) in calls.iter().zip(numbers) {
                let slab = Slab::new(&access.start, &access.count);
                number!(number, T => {
                    let elements: &mut [T] =
                        bytemuck::cast_slice_mut(&mut memory.buffers[access.area]);
                    let variable = self.variables[access.variable];
                    let sink = sink(access, elements);
                    timed(dataset, &mut self.exchanges, |data| match mode {
                        CallMode::Collective => data.get_all(variable, &slab, sink),
                        CallMode::Independent => data.get(variable, &slab, sink),
                    })?;
                });
            }
            return Ok(());
        }
        let mut pending = Pending::new();
        let mut areas: Vec<_> = memory.buffers.iter_mut().map(Some).collect();
        for (access, number) in calls.iter().zip(numbers) {
            let slab = Slab::new(&access.start, &access.count);
            // They are apart, so each is there.
            let Some(area) = areas[access.area].take() else { continue };
            number!(number, T => {
                let elements: &mut [T] = bytemuck::cast_slice_mut(area);
                let variable = self.variables[access.variable];
                dataset.iget(&mut pending, variable, &slab, sink(access, elements))?;
            });
        }
        Ok(timed(dataset, &mut self.exchanges, |data| data.wait_all(pending))?)
    }

    fn sync(&mut self) -> Result<(), ArrayEngineError> {
        Ok(self.dataset.as_mut().ok_or_else(not_open)?.sync()?)
    }

    fn close(&mut self) -> Result<Option<RankCost>, ArrayEngineError> {
        let dataset = self.dataset.take().ok_or_else(not_open)?;
        let partitions = dataset.partitions().map_or(0, |partitions| partitions.len() as u64);
        let spent = RankCost {
            stats: dataset.stats() - self.before,
            partitions,
            exchanged_bytes: dataset.partition_stats().exchanged_bytes,
            exchanges: std::mem::take(&mut self.exchanges),
        };
        dataset.close()?;
        Ok(Some(spent))
    }
}
