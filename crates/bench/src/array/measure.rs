//! The measuring loop: contenders take turns within each repetition.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, CommExt, Reduction};
use striate_file::Hints;

use super::engine::{ArrayEngine, ArrayEngineError, EngineContext, RankCost, engine};
use super::memory::Memory;
use super::plan::ArrayPlan;
use super::report::{ArrayResults, ArraySample, ArraySeries, PartitionCost};
use super::{ArrayApi, ArrayBenchError, ArrayOp, ArrayOptions, ArrayProgress, ArrayWorkload};
use crate::collective::{agree, slowest};
use crate::cost::sum_of_ranks;
use crate::io::scratch::Scratch;

/// Measures `workload`. Collective; `progress` is called with every measurement as it starts, on
/// rank 0.
///
/// The results are the same on every rank. An error of one rank is an error of all.
pub fn run(
    comm: &Arc<dyn Comm>,
    workload: &dyn ArrayWorkload,
    options: &ArrayOptions,
    progress: &dyn Fn(&ArrayProgress),
) -> Result<ArrayResults, ArrayBenchError> {
    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    if workload.ranks() != ranks {
        return Err(ArrayBenchError::Ranks { workload: workload.ranks(), ranks });
    }
    let plan = workload.plan(rank)?;
    // The rank that makes the calls of all needs the plans of all.
    let mut callers = options.contenders.iter().chain(&options.made_by);
    let calls_for_all = rank == 0 && callers.any(|api| *api == ArrayApi::Netcdf);
    let plans = if calls_for_all {
        (0..ranks).map(|rank| workload.plan(rank)).collect()
    } else {
        Ok(vec![])
    };
    let plans = agree(comm.as_ref(), plans)?;
    let nonblocking = options.nonblocking.unwrap_or_else(|| workload.is_nonblocking());
    let context = EngineContext {
        comm: Arc::clone(comm),
        plan: &plan,
        plans: &plans,
        options,
        nonblocking,
        divided: workload.divided(),
    };
    let mut bench = ArrayBench::new(&context)?;
    let contenders = &options.contenders;
    let mut engines = Vec::with_capacity(contenders.len());
    for &api in contenders {
        let made = engine(api, &context);
        engines.push(bench.agree(made.map_err(bench.failed(api, "be used for", Path::new(""))))?);
    }
    let has_data = plan.files.iter().any(|file| !file.steps.is_empty());
    let both =
        if has_data { [ArrayOp::Write, ArrayOp::Read] } else { [ArrayOp::Create, ArrayOp::Open] };
    let [making, reading] = both;
    if let Some(maker) = options.made_by {
        let made = engine(maker, &context);
        let made = bench.agree(made.map_err(bench.failed(maker, "be used for", Path::new(""))));
        bench.measure(maker, made?.as_mut(), making, maker)?;
    }
    let ops = if options.made_by.is_some() { &both[1..] } else { &both[..] };
    let mut series: Vec<ArraySeries> =
        contenders.iter().map(|api| ArraySeries::new(*api)).collect();
    let total = options.repeat * contenders.len() * ops.len();
    let mut done = 0;
    for repetition in 0..options.repeat {
        for turn in 0..contenders.len() {
            // The order rotates: no contender always follows the same one.
            let place = (turn + repetition) % contenders.len();
            let contender = contenders[place];
            if let Some((layout, targets)) = contender.layout().zip(options.targets.as_ref()) {
                // Before the first barrier of the measurement, which all wait for.
                targets.set(layout, repetition);
            }
            for &op in ops {
                if rank == 0 {
                    progress(&ArrayProgress { done, total, repetition, contender, op });
                }
                let sample = bench.measure(
                    contender,
                    engines[place].as_mut(),
                    op,
                    options.made_by.unwrap_or(contender),
                )?;
                series[place].add(op, sample);
                done += 1;
            }
            let is_first = repetition == 0 && options.made_by.is_none();
            if is_first && options.verify && contender.makes_datasets() {
                for (reader, engine) in contenders.iter().zip(&mut engines) {
                    let same = *reader == contender || reader.layout().is_some();
                    if !same && reader.reads(contender, options.format) {
                        bench.measure(*reader, engine.as_mut(), reading, contender)?;
                        series[place].read_by(*reader);
                    }
                }
            }
        }
    }
    let bytes = comm.reduce_u64(Reduction::Sum, plan.bytes())?;
    Ok(ArrayResults::new(workload, &context, &series, ops, bytes))
}

/// What stays the same from one measurement to the next.
struct ArrayBench<'b> {
    comm: Arc<dyn Comm>,
    plan: &'b ArrayPlan,
    options: &'b ArrayOptions,
    scratch: Scratch,
    /// What is written from.
    model: Memory,
    /// What is read into.
    memory: Memory,
    /// Who looked at which file, if these are made once.
    inspected: Vec<(ArrayApi, usize)>,
}

impl<'b> ArrayBench<'b> {
    /// Collective.
    fn new(context: &EngineContext<'b>) -> Result<Self, ArrayBenchError> {
        let EngineContext { comm, plan, options, .. } = context;
        let run = comm.broadcast_u64(0, RandomState::new().hash_one(std::process::id()))?;
        let name = format!("striate-bench-{run:016x}.nc");
        let files = plan.files.len() as u64;
        let owner = comm.rank() == 0;
        let scratch = Scratch::new(&options.directory, &name, files, &Hints::default(), owner);
        let mut model = Memory::new(plan);
        for file in &plan.files {
            for access in file.accesses() {
                model.fill(access, &file.schema);
            }
        }
        let memory = Memory::new(plan);
        Ok(Self {
            comm: Arc::clone(comm),
            plan,
            options,
            scratch,
            model,
            memory,
            inspected: Vec::new(),
        })
    }

    /// One contender, once: makes files or reads those that `writer` made.
    fn measure(
        &mut self,
        contender: ArrayApi,
        engine: &mut dyn ArrayEngine,
        op: ArrayOp,
        writer: ArrayApi,
    ) -> Result<ArraySample, ArrayBenchError> {
        if op.makes() {
            let cleared = if self.comm.rank() == 0 { self.scratch.clear() } else { Ok(()) };
            self.agree(cleared.map_err(ArrayBenchError::from))?;
        }
        let (mut moving, mut around) = (Duration::ZERO, Duration::ZERO);
        let mut spent: Option<RankCost> = None;
        for (file, plan) in self.plan.files.iter().enumerate() {
            let path = self.scratch.path(file as u64).to_path_buf();
            let failed = |attempted| Self::failed_at(contender, attempted, &path);
            let (opened, took) = self.time(|_| {
                if op.makes() { engine.create(&path, file) } else { engine.open(&path, file) }
            })?;
            around += took;
            self.agree(opened.map_err(failed(if op.makes() { "create" } else { "open" })))?;
            if self.inspects(contender, op, file) {
                self.agree(engine.inspect(file).map_err(failed("look at")))?;
            }
            if !plan.steps.is_empty() {
                let (moved, took) = self.time(|bench| bench.carry_out(engine, op, file))?;
                moving += took;
                self.agree(moved.map_err(failed(op.name())))?;
            }
            let (closed, took) = self.time(|_| engine.close())?;
            around += took;
            let cost = self.agree(closed.map_err(failed("close")))?;
            if let Some(cost) = cost {
                spent = Some(spent.unwrap_or_default().and(cost));
            }
            if op == ArrayOp::Read {
                let verified = self.verified(contender, writer, file);
                self.agree(verified)?;
            }
        }
        self.sample(moving, around, spent)
    }

    /// Whether a contender looks at all that a file says about itself: a file that is made once for
    /// all repetitions is looked at once, as some libraries take long to do it.
    fn inspects(&mut self, contender: ArrayApi, op: ArrayOp, file: usize) -> bool {
        let again = self.options.made_by.is_some() && self.inspected.contains(&(contender, file));
        let inspects = !op.makes() && self.options.verify && !again;
        if inspects && self.options.made_by.is_some() {
            self.inspected.push((contender, file));
        }
        inspects
    }

    fn carry_out(
        &mut self,
        engine: &mut dyn ArrayEngine,
        op: ArrayOp,
        file: usize,
    ) -> Result<(), ArrayEngineError> {
        for step in 0..self.plan.files[file].steps.len() {
            match op {
                ArrayOp::Read | ArrayOp::Open => engine.read(file, step, &mut self.memory)?,
                ArrayOp::Write | ArrayOp::Create => engine.write(file, step, &mut self.model)?,
            }
        }
        if op.makes() && self.options.fsync { engine.sync() } else { Ok(()) }
    }

    /// Verifies what was read, and makes the memory untouched again.
    fn verified(
        &mut self,
        reader: ArrayApi,
        writer: ArrayApi,
        file: usize,
    ) -> Result<(), ArrayBenchError> {
        if !self.options.verify {
            self.memory.clear();
            return Ok(());
        }
        let file = &self.plan.files[file];
        let taken = file.accesses().try_for_each(|access| self.memory.take(access, &file.schema));
        taken.and_then(|()| self.memory.is_untouched()).map_err(|mismatch| {
            let (reader, writer) = (reader.name(), writer.name());
            ArrayBenchError::Wrong { reader, writer, mismatch }
        })
    }

    /// What `work` returns, and the time of the slowest rank from one barrier to the next.
    fn time<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<(T, Duration), ArrayBenchError> {
        let comm = Arc::clone(&self.comm);
        Ok(slowest(comm.as_ref(), || work(self))?)
    }

    fn sample(
        &self,
        moving: Duration,
        around: Duration,
        spent: Option<RankCost>,
    ) -> Result<ArraySample, ArrayBenchError> {
        let [moving, around] = [moving, around].map(|time| time.as_secs_f64());
        let Some(spent) = spent else {
            return Ok(ArraySample { moving, around, stats: None, divided: None });
        };
        let stats = sum_of_ranks(self.comm.as_ref(), &spent.stats)?;
        let divided = match spent.partitions {
            0 => None,
            partitions => Some(PartitionCost {
                partitions,
                exchanged: self.comm.reduce_u64(Reduction::Sum, spent.exchanged_bytes)?,
                exchange: self.exchange(&spent.exchanges)?,
            }),
        };
        Ok(ArraySample { moving, around, stats: Some(stats), divided })
    }

    /// Seconds of the exchange: of each call, those of the rank on which it took least. On other
    /// ranks it lasts longer, but waiting for a rank that still writes or reads is not a cost of
    /// the exchange. Collective.
    fn exchange(&self, calls: &[Duration]) -> Result<f64, ArrayBenchError> {
        let mut least: Vec<u64> = calls.iter().map(|time| time.as_nanos() as u64).collect();
        self.comm.allreduce_u64(Reduction::Min, &mut least)?;
        Ok(least.iter().sum::<u64>() as f64 / 1e9)
    }

    fn failed<'p>(
        &self,
        contender: ArrayApi,
        attempted: &'static str,
        path: &'p Path,
    ) -> impl FnOnce(ArrayEngineError) -> ArrayBenchError + use<'p> {
        let path = if path.as_os_str().is_empty() { &self.options.directory } else { path };
        Self::failed_at(contender, attempted, path)
    }

    fn failed_at(
        contender: ArrayApi,
        attempted: &'static str,
        path: &Path,
    ) -> impl FnOnce(ArrayEngineError) -> ArrayBenchError + use<> {
        let (contender, path) = (contender.name(), path.to_path_buf());
        move |source| {
            let source = Box::new(source);
            ArrayBenchError::Engine { contender, attempted, path, source }
        }
    }

    fn agree<T>(&self, local: Result<T, ArrayBenchError>) -> Result<T, ArrayBenchError> {
        agree(self.comm.as_ref(), local)
    }
}
