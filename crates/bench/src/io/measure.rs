//! The loop that measures.

use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use striate_comm::{Comm, CommExt, Reduction};
use striate_store::AlignedBuffer;

use super::content::{Content, Mismatch, first_difference};
use super::engine::{Engine, EngineError, Report, engine};
use super::plan::{Pattern, Plan};
use super::report::{Results, Sample, Series};
use super::scratch::Scratch;
use super::{Contender, IoBenchError, Op, Options, Progress};

/// Bytes of a file that are verified or prepared at a time.
const CHUNK: usize = 1 << 20;

/// What memory holds where nothing was read.
const UNTOUCHED: u8 = 0xA5;

/// Measures `pattern`. Collective; `progress` is told of every measurement as it starts, on rank 0.
///
/// The results are the same on every rank. An error of one rank is an error of all.
pub fn run(
    comm: &Arc<dyn Comm>,
    pattern: &dyn Pattern,
    options: &Options,
    progress: &dyn Fn(&Progress<'_>),
) -> Result<Results, IoBenchError> {
    let mut bench = Bench::new(comm, pattern, options)?;
    let ops: Vec<Op> = [(options.write, Op::Write), (options.read, Op::Read)]
        .into_iter()
        .filter_map(|(wanted, op)| wanted.then_some(op))
        .collect();
    if !options.write {
        bench.prepare_files()?;
    }
    let contenders = &options.contenders;
    let mut series: Vec<Series> = contenders.iter().map(Series::new).collect();
    let total = options.repeat * contenders.len() * ops.len();
    let mut done = 0;
    for repetition in 0..options.repeat {
        for turn in 0..contenders.len() {
            // Who goes first changes: nobody has always the same one before.
            let place = (turn + repetition) % contenders.len();
            let contender = &contenders[place];
            for &op in &ops {
                if comm.rank() == 0 {
                    progress(&Progress { done, total, repetition, contender, op });
                }
                let sample = bench.measure(contender, op)?;
                series[place].add(op, sample);
                done += 1;
            }
        }
    }
    Ok(Results::new(pattern, options, &series, bench.wanted)?)
}

/// What stays the same from one measurement to the next.
struct Bench<'b> {
    comm: &'b Arc<dyn Comm>,
    /// The ranks that share a file with this one.
    sharing: Arc<dyn Comm>,
    options: &'b Options,
    scratch: Scratch,
    file_bytes: u64,
    /// Bytes that all ranks want in one measurement.
    wanted: u64,
    /// For writing and for reading; only one if they are alike.
    plans: Vec<Plan>,
    /// What memory holds when all is well, gaps included: written from, and compared with.
    model: AlignedBuffer,
    /// The plan and the step that the model is for.
    modelled: Option<(usize, usize)>,
    /// What is read into.
    memory: AlignedBuffer,
}

impl<'b> Bench<'b> {
    fn new(
        comm: &'b Arc<dyn Comm>,
        pattern: &dyn Pattern,
        options: &'b Options,
    ) -> Result<Self, IoBenchError> {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
        if pattern.ranks() != ranks {
            return Err(IoBenchError::Ranks { pattern: pattern.ranks(), ranks });
        }
        let mut plans = vec![pattern.plan(rank, Op::Write)?];
        let reading = pattern.plan(rank, Op::Read)?;
        let alike = plans[0].file == reading.file && plans[0].steps == reading.steps;
        if comm.reduce_u64(Reduction::Min, u64::from(alike))? == 0 {
            plans.push(reading);
        }
        let shared = pattern.files() == 1;
        let sharing = if shared {
            Arc::clone(comm)
        } else {
            // Every rank has a color, so every rank is in a group.
            comm.split(Some(rank), 0)?.unwrap_or_else(|| Arc::clone(comm))
        };
        let run = comm.broadcast_u64(0, RandomState::new().hash_one(std::process::id()))?;
        let buffer = plans.iter().map(|plan| plan.buffer).max().unwrap_or(0);
        let [mut model, mut memory] = [(); 2].map(|()| AlignedBuffer::new(buffer));
        // Pages are there before a clock runs.
        model.fill(UNTOUCHED);
        memory.fill(UNTOUCHED);
        Ok(Self {
            comm,
            sharing,
            options,
            scratch: Scratch::new(&options.directory, run, pattern.files(), rank == 0),
            file_bytes: pattern.file_bytes()?,
            wanted: comm.reduce_u64(Reduction::Sum, plans[0].bytes())?,
            plans,
            model,
            modelled: None,
            memory,
        })
    }

    /// One contender, once, in one direction.
    fn measure(&mut self, contender: &Contender, op: Op) -> Result<Sample, IoBenchError> {
        if op == Op::Write {
            self.renew_files()?;
        }
        let plan = self.plan_of(op);
        let path = self.scratch.path(self.plans[plan].file).to_path_buf();
        let failed = |attempted: &'static str| {
            let (contender, path) = (contender.label(), path.clone());
            move |source: EngineError| {
                let source = Box::new(source);
                IoBenchError::Engine { contender, attempted, path, source }
            }
        };
        let (hints, collective) = (&self.options.hints, self.options.collective);
        let made = engine(contender, &self.sharing, hints, collective);
        let mut engine = self.agree(made.map_err(failed("be used for")))?;

        let (opened, opening) = self.time(|bench| engine.open(&path, op, &bench.plans[plan]))?;
        self.agree(opened.map_err(failed("open")))?;
        let mut moving = Duration::ZERO;
        for step in 0..self.plans[plan].steps.len() {
            self.model_step(plan, step)?;
            if op == Op::Read {
                self.memory.fill(UNTOUCHED);
            }
            let last = step + 1 == self.plans[plan].steps.len();
            let (moved, took) =
                self.time(|bench| bench.carry_out(engine.as_mut(), op, plan, step, last))?;
            self.agree(moved.map_err(failed(op.name())))?;
            moving += took;
            if op == Op::Read && self.options.verify {
                self.agree(self.verify_memory(contender, plan, step))?;
            }
        }
        let (closed, closing) = self.time(|_| engine.close())?;
        let report = self.agree(closed.map_err(failed("close")))?;
        if op == Op::Write && self.options.verify {
            self.agree(self.verify_file(contender))?;
        }
        self.sample(moving, opening + closing, report.as_ref(), plan)
    }

    fn carry_out(
        &mut self,
        engine: &mut dyn Engine,
        op: Op,
        plan: usize,
        step: usize,
        last: bool,
    ) -> Result<(), EngineError> {
        let plan = &self.plans[plan];
        for call in &plan.steps[step] {
            match op {
                Op::Write => engine.write(plan, call, &self.model)?,
                Op::Read => engine.read(plan, call, &mut self.memory)?,
            }
        }
        if op == Op::Write && last && self.options.fsync { engine.sync() } else { Ok(()) }
    }

    /// What `work` returns, and the time of the slowest rank from one barrier to the next.
    fn time<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<(T, Duration), IoBenchError> {
        self.comm.barrier()?;
        let start = Instant::now();
        let done = work(self);
        self.comm.barrier()?;
        let nanoseconds = start.elapsed().as_nanos() as u64;
        let slowest = self.comm.reduce_u64(Reduction::Max, nanoseconds)?;
        Ok((done, Duration::from_nanos(slowest)))
    }

    fn sample(
        &self,
        moving: Duration,
        around: Duration,
        report: Option<&Report>,
        plan: usize,
    ) -> Result<Sample, IoBenchError> {
        let counted = if self.options.include_open { moving + around } else { moving };
        let mib = self.wanted as f64 / f64::from(1 << 20);
        let per_client = match report {
            None => None,
            Some(report) => {
                let stats = report.stats;
                let mut sums = [
                    stats.wanted,
                    stats.accessed,
                    stats.operations,
                    stats.resent,
                    stats.regions,
                    stats.read_back,
                ];
                self.comm.allreduce_u64(Reduction::Sum, &mut sums)?;
                let clients = (self.comm.size() * self.plans[plan].steps.len()) as u64;
                Some((sums, clients))
            }
        };
        Ok(Sample {
            mib_s: mib / counted.as_secs_f64().max(1e-9),
            around: around.as_secs_f64(),
            sums: per_client,
            last: report.and_then(|report| report.last),
        })
    }

    fn plan_of(&self, op: Op) -> usize {
        if op == Op::Read { self.plans.len() - 1 } else { 0 }
    }

    /// Makes the model that of a step.
    fn model_step(&mut self, plan: usize, step: usize) -> Result<(), IoBenchError> {
        if self.modelled != Some((plan, step)) {
            let filled = self.plans[plan].fill(step, &mut self.model);
            self.agree(filled.map_err(IoBenchError::from))?;
            self.modelled = Some((plan, step));
        }
        Ok(())
    }

    /// New, empty files.
    fn renew_files(&self) -> Result<(), IoBenchError> {
        self.agree(if self.comm.rank() == 0 { self.scratch.renew() } else { Ok(()) })
    }

    /// Files with what they should hold, written without any engine; each rank writes a share.
    fn prepare_files(&self) -> Result<(), IoBenchError> {
        self.renew_files()?;
        let (file, range) = self.share();
        let path = self.scratch.path(file);
        let prepare = || -> std::io::Result<()> {
            let target = std::fs::OpenOptions::new().write(true).open(path)?;
            let mut chunk = vec![0; CHUNK];
            for start in range.clone().step_by(CHUNK) {
                let chunk = &mut chunk[..(range.end - start).min(CHUNK as u64) as usize];
                Content { seed: file }.fill(start, chunk);
                target.write_all_at(chunk, start)?;
            }
            Ok(())
        };
        self.agree(prepare().map_err(|source| {
            let path = path.to_path_buf();
            IoBenchError::File { attempted: "fill", path, source }
        }))
    }

    /// The file and the part of it that this rank prepares and verifies.
    fn share(&self) -> (u64, std::ops::Range<u64>) {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        if self.sharing.size() == self.comm.size() {
            let share = self.file_bytes.div_ceil(ranks);
            let start = (rank * share).min(self.file_bytes);
            (0, start..(start + share).min(self.file_bytes))
        } else {
            (rank, 0..self.file_bytes)
        }
    }

    fn verify_file(&self, contender: &Contender) -> Result<(), IoBenchError> {
        let (file, range) = self.share();
        let path = self.scratch.path(file);
        let failed = |source| {
            let path = path.to_path_buf();
            IoBenchError::File { attempted: "verify", path, source }
        };
        let written = std::fs::File::open(path).map_err(failed)?;
        let found = written.metadata().map_err(failed)?.len();
        if found != self.file_bytes {
            let (contender, expected) = (contender.label(), self.file_bytes);
            return Err(IoBenchError::Length { contender, found, expected });
        }
        let mut chunk = vec![0; CHUNK];
        for start in range.clone().step_by(CHUNK) {
            let chunk = &mut chunk[..(range.end - start).min(CHUNK as u64) as usize];
            written.read_exact_at(chunk, start).map_err(failed)?;
            if let Some(mismatch) = (Content { seed: file }).mismatch(start, chunk) {
                return Err(IoBenchError::Written { contender: contender.label(), mismatch });
            }
        }
        Ok(())
    }

    fn verify_memory(
        &self,
        contender: &Contender,
        plan: usize,
        step: usize,
    ) -> Result<(), IoBenchError> {
        let Some(index) = first_difference(&self.memory, &self.model) else { return Ok(()) };
        let plan = &self.plans[plan];
        let mut gap = true;
        for call in &plan.steps[step] {
            gap &= !plan.pieces(call)?.any(|piece| {
                let start = call.origin + piece.memory as usize;
                (start..start + piece.len as usize).contains(&index)
            });
        }
        let (found, expected) = (self.memory[index], self.model[index]);
        let mismatch = Mismatch { offset: index as u64, found, expected };
        Err(IoBenchError::ReadBack { contender: contender.label(), mismatch, gap })
    }

    /// Makes an error of one rank an error of all. Collective.
    fn agree<T>(&self, local: Result<T, IoBenchError>) -> Result<T, IoBenchError> {
        let (rank, ranks) = (self.comm.rank() as u64, self.comm.size() as u64);
        // Who only heard of another's error comes after those who have one.
        let mine = match &local {
            Ok(_) => u64::MAX,
            Err(IoBenchError::Engine { source, .. }) if source.is_echo() => ranks + rank,
            Err(_) => rank,
        };
        let first = self.comm.reduce_u64(Reduction::Min, mine)?;
        let mut reason = match local {
            Ok(value) if first == u64::MAX => return Ok(value),
            Ok(_) => Vec::new(),
            Err(error) => error.to_string().into_bytes(),
        };
        let rank = first % ranks;
        self.comm.broadcast(rank as usize, &mut reason)?;
        Err(IoBenchError::Rank { rank, reason: String::from_utf8_lossy(&reason).into_owned() })
    }
}
