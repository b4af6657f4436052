//! The measuring loop: contenders take turns within each repetition.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, CommExt, Reduction};
use striate_store::AlignedBuffer;
use striate_store::remote::{Client, Frames};

use super::content::{ByteMismatch, first_difference};
use super::contiguous::Contiguous;
use super::engine::{EngineReport, IoEngine, IoEngineError, engine};
use super::pattern_run::PatternRun;
use super::plan::Pattern;
use super::report::{IoResults, IoSample, IoSeries, WireSums};
use super::scratch::{Scratch, length, remote};
use super::socket::{SocketServers, Sockets};
use super::wire_traffic::{self, SentCounter, process_of};
use super::{Contender, IoApi, IoBenchError, IoOp, IoOptions, IoProgress};
use crate::collective::{agree, slowest};
use crate::cost::sum_of_ranks;

/// What memory holds where nothing was read.
const UNTOUCHED: u8 = 0xA5;

/// Measures `pattern`. Collective; `progress` is called with every measurement as it starts, on
/// rank 0.
///
/// The results are the same on every rank. An error of one rank is an error of all.
pub fn run(
    comm: &Arc<dyn Comm>,
    pattern: &dyn Pattern,
    options: &IoOptions,
    progress: &dyn Fn(&IoProgress<'_>),
) -> Result<IoResults, IoBenchError> {
    let contenders = &options.contenders;
    let limit = contenders.iter().any(|contender| contender.contiguous);
    let limit = limit.then(|| Contiguous::of(pattern)).transpose()?;
    let patterns: Vec<&dyn Pattern> =
        [pattern].into_iter().chain(limit.iter().map(|limit| limit as &dyn Pattern)).collect();
    let mut bench = IoBench::new(comm, &patterns, options)?;
    let ops: Vec<IoOp> = [(options.write, IoOp::Write), (options.read, IoOp::Read)]
        .into_iter()
        .filter_map(|(wanted, op)| wanted.then_some(op))
        .collect();
    if !options.write && !bench.existing {
        bench.prepare_files()?;
    }
    let mut series: Vec<IoSeries> = contenders.iter().map(IoSeries::new).collect();
    let total = options.repeat * contenders.len() * ops.len();
    let mut done = 0;
    for repetition in 0..options.repeat {
        for turn in 0..contenders.len() {
            // The order rotates: no contender always follows the same one.
            let place = (turn + repetition) % contenders.len();
            let contender = &contenders[place];
            for &op in &ops {
                if comm.rank() == 0 {
                    progress(&IoProgress { done, total, repetition, contender, op });
                }
                let sample = bench.measure(contender, op)?;
                series[place].add(op, sample);
                done += 1;
            }
        }
    }
    let pattern_of = |contender: &Contender| patterns[usize::from(contender.contiguous)];
    Ok(IoResults::new(pattern_of, options, &series, bench.pattern_runs[0].wanted)?)
}

/// A step of a plan of a course, each by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StepId {
    pattern_run: usize,
    plan: usize,
    step: usize,
}

/// What stays the same from one measurement to the next.
struct IoBench<'b> {
    comm: &'b Arc<dyn Comm>,
    options: &'b IoOptions,
    /// The pattern's, and that of its limit if it is measured.
    pattern_runs: Vec<PatternRun>,
    /// What memory holds when all is well, gaps included: written from, and compared with.
    model: AlignedBuffer,
    /// What the model is for.
    modelled: Option<StepId>,
    /// What is read into.
    memory: AlignedBuffer,
    /// Whether the files were there before, and are only read.
    existing: bool,
    /// There if the files are on servers.
    watch: Option<SentCounter>,
    sockets: Option<Sockets>,
    /// On rank 0, while there are sockets.
    socket_servers: Option<SocketServers>,
}

impl<'b> IoBench<'b> {
    fn new(
        comm: &'b Arc<dyn Comm>,
        patterns: &[&dyn Pattern],
        options: &'b IoOptions,
    ) -> Result<Self, IoBenchError> {
        let ranks = comm.size() as u64;
        if patterns[0].ranks() != ranks {
            return Err(IoBenchError::Ranks { pattern: patterns[0].ranks(), ranks });
        }
        let run = comm.broadcast_u64(0, RandomState::new().hash_one(std::process::id()))?;
        let own = options.directory.join(format!("striate-bench-{run:016x}"));
        let path = options.files.name.clone().unwrap_or(own);
        let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let existing = Self::look(comm, patterns[0], options, (&directory, &name))?;
        let process = process_of(comm.as_ref())?;
        let pattern_run = |(pattern, suffix): (&&dyn Pattern, &str)| {
            PatternRun::new(
                comm,
                *pattern,
                options,
                (&directory, &format!("{name}{suffix}")),
                existing,
            )
        };
        let pattern_runs = patterns.iter().zip(["", "-contiguous"]).map(pattern_run);
        let pattern_runs = pattern_runs.collect::<Result<Vec<_>, _>>()?;
        let plans = pattern_runs.iter().flat_map(|pattern_run| &pattern_run.plans);
        let buffer = plans.map(|plan| plan.buffer).max().unwrap_or(0);
        let [mut model, mut memory] = [(); 2].map(|()| AlignedBuffer::new(buffer));
        // Pages are touched before a clock runs.
        model.fill(UNTOUCHED);
        memory.fill(UNTOUCHED);
        let mut bench = Self {
            comm,
            options,
            pattern_runs,
            model,
            modelled: None,
            memory,
            existing,
            watch: None,
            sockets: None,
            socket_servers: None,
        };
        let is_first = process[0] == comm.rank();
        let watch = remote(&options.directory)
            .and_then(|url| Ok(url.map(|url| SentCounter::new(&url, is_first)).transpose()?));
        bench.watch = bench.agree(watch)?;
        if options.contenders.iter().any(|contender| contender.api == IoApi::Socket) {
            bench.start_sockets(options.local_directory.join(format!("{name}-socket")))?;
        }
        Ok(bench)
    }

    /// Whether files of this name already exist, to be read only. Files that would be overwritten,
    /// or that are not of the pattern, are refused. Every rank checks before any rank creates
    /// files.
    fn look(
        comm: &Arc<dyn Comm>,
        pattern: &dyn Pattern,
        options: &IoOptions,
        (directory, name): (&Path, &str),
    ) -> Result<bool, IoBenchError> {
        let look = || -> Result<bool, IoBenchError> {
            if options.files.name.is_none() {
                return Ok(false);
            }
            let files = pattern.files();
            let scratch = Scratch::new(directory, name, files, &options.hints, false);
            let mut lengths = Vec::new();
            for file in 0..files {
                lengths.push(length(scratch.path(file))?);
            }
            let Some(first) = (0..files).find(|file| lengths[*file as usize].is_some()) else {
                return Ok(false);
            };
            if options.write && options.files.overwrite {
                return Ok(false);
            }
            if options.write {
                return Err(IoBenchError::Exists { path: scratch.path(first).to_path_buf() });
            }
            let expected = pattern.file_bytes()?;
            for (file, found) in (0..files).zip(lengths) {
                let found = found.unwrap_or(0);
                if found != expected {
                    let path = scratch.path(file).to_path_buf();
                    return Err(IoBenchError::OtherPattern { path, found, expected });
                }
            }
            Ok(true)
        };
        let found = look();
        let refused = comm.reduce_u64(Reduction::Max, u64::from(found.is_err()))?;
        match found {
            Ok(_) if refused != 0 => {
                let reason = "other ranks see other files".to_owned();
                Err(IoBenchError::Rank { rank: comm.rank() as u64, reason })
            }
            found => found,
        }
    }

    /// Rank 0 starts plain servers, as many as there are I/O servers.
    fn start_sockets(&mut self, files: PathBuf) -> Result<(), IoBenchError> {
        let start = || -> Result<Option<SocketServers>, IoBenchError> {
            if self.comm.rank() != 0 {
                return Ok(None);
            }
            let servers = match remote(&self.options.directory)? {
                Some(url) => Client::shared(&url)?.servers()?.len(),
                None => 1,
            };
            let started = SocketServers::start(servers, &files, self.pattern_runs[0].files);
            Ok(Some(started.map_err(|source| {
                let path = files.clone();
                IoBenchError::File { attempted: "start servers for", path, source }
            })?))
        };
        self.socket_servers = self.agree(start())?;
        let addresses = self.socket_servers.as_ref().map(|servers| servers.sockets().addresses());
        let mut addresses = addresses.unwrap_or_default().into_bytes();
        self.comm.broadcast(0, &mut addresses)?;
        self.sockets = Some(Sockets::new(&String::from_utf8_lossy(&addresses), files));
        Ok(())
    }

    /// One contender, once, in one direction.
    fn measure(&mut self, contender: &Contender, op: IoOp) -> Result<IoSample, IoBenchError> {
        let pattern_run = usize::from(contender.contiguous);
        if op == IoOp::Write {
            match &self.sockets {
                Some(sockets) if contender.api == IoApi::Socket => self.renew_sockets(sockets)?,
                _ => self.renew_files(pattern_run)?,
            }
        }
        let plan = self.pattern_runs[pattern_run].plan_of(op);
        let file = self.pattern_runs[pattern_run].plans[plan].file;
        let path = self.pattern_runs[pattern_run].scratch.path(file).to_path_buf();
        let failed = |attempted: &'static str| {
            let (contender, path) = (contender.label(), path.clone());
            move |source: IoEngineError| {
                let source = Box::new(source);
                IoBenchError::Engine { contender, attempted, path, source }
            }
        };
        let (hints, collective) = (&self.options.hints, self.options.collective);
        let sharing = &self.pattern_runs[pattern_run].sharing;
        let made = engine(contender, sharing, hints, collective, self.sockets.as_ref());
        let mut engine = self.agree(made.map_err(failed("be used for")))?;

        let (opened, opening) = self
            .time(|bench| engine.open(&path, op, &bench.pattern_runs[pattern_run].plans[plan]))?;
        self.agree(opened.map_err(failed("open")))?;
        let mut moving = Duration::ZERO;
        let mut sent: Option<(Frames, Frames)> = None;
        let steps = self.pattern_runs[pattern_run].plans[plan].steps.len();
        for step in 0..steps {
            let at = StepId { pattern_run, plan, step };
            self.model_step(at)?;
            if op == IoOp::Read {
                self.memory.fill(UNTOUCHED);
            }
            // Other ranks of this process wait in a barrier before and after, so the count is of
            // this step.
            let before = self.sent();
            let last = step + 1 == steps;
            let (moved, took) =
                self.time(|bench| bench.carry_out(engine.as_mut(), op, at, last))?;
            let now = self.sent() - before;
            match &mut sent {
                Some((_, all)) => *all += now,
                None => sent = Some((now, now)),
            }
            self.agree(moved.map_err(failed(op.name())))?;
            moving += took;
            if op == IoOp::Read && self.options.verify {
                self.agree(self.verify_memory(contender, at))?;
            }
        }
        let (closed, closing) = self.time(|_| engine.close())?;
        let report = self.agree(closed.map_err(failed("close")))?;
        if op == IoOp::Write && self.options.verify {
            self.agree(self.verify_file(contender, pattern_run))?;
        }
        let wire = match &report {
            Some(_) => self.wire(pattern_run, plan, sent.unwrap_or_default())?,
            None => None,
        };
        self.sample(moving, opening + closing, report.as_ref(), (pattern_run, plan), wire)
    }

    fn carry_out(
        &mut self,
        engine: &mut dyn IoEngine,
        op: IoOp,
        at: StepId,
        last: bool,
    ) -> Result<(), IoEngineError> {
        let plan = &self.pattern_runs[at.pattern_run].plans[at.plan];
        for call in &plan.steps[at.step] {
            match op {
                IoOp::Write => engine.write(plan, call, &self.model)?,
                IoOp::Read => engine.read(plan, call, &mut self.memory)?,
            }
        }
        if op == IoOp::Write && last && self.options.fsync { engine.sync() } else { Ok(()) }
    }

    /// What `work` returns, and the time of the slowest rank from one barrier to the next.
    fn time<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Result<(T, Duration), IoBenchError> {
        let comm = Arc::clone(self.comm);
        Ok(slowest(comm.as_ref(), || work(self))?)
    }

    fn sent(&self) -> Frames {
        self.watch.as_ref().map_or_else(Frames::default, SentCounter::sent)
    }

    /// What was sent to servers, if there are any.
    fn wire(
        &self,
        pattern_run: usize,
        plan: usize,
        (first, all): (Frames, Frames),
    ) -> Result<Option<WireSums>, IoBenchError> {
        if self.watch.is_none() {
            return Ok(None);
        }
        let pattern_run = &self.pattern_runs[pattern_run];
        let servers = self.agree(pattern_run.servers(plan))?;
        Ok(Some(wire_traffic::sum(self.comm.as_ref(), first, all, servers)?))
    }

    fn sample(
        &self,
        moving: Duration,
        around: Duration,
        report: Option<&EngineReport>,
        (pattern_run, plan): (usize, usize),
        wire: Option<WireSums>,
    ) -> Result<IoSample, IoBenchError> {
        let pattern_run = &self.pattern_runs[pattern_run];
        let counted = if self.options.include_open { moving + around } else { moving };
        let mib = pattern_run.wanted as f64 / f64::from(1 << 20);
        let stats = match report {
            Some(report) => Some(sum_of_ranks(self.comm.as_ref(), &report.stats)?),
            None => None,
        };
        Ok(IoSample {
            mib_s: mib / counted.as_secs_f64().max(1e-9),
            around: around.as_secs_f64(),
            stats,
            steps: pattern_run.plans[plan].steps.len() as u64,
            last: report.and_then(|report| report.last),
            wire,
        })
    }

    /// Makes the model that of a step.
    fn model_step(&mut self, at: StepId) -> Result<(), IoBenchError> {
        if self.modelled != Some(at) {
            // Gaps of another plan's memory are elsewhere.
            let same =
                |before: StepId| (before.pattern_run, before.plan) == (at.pattern_run, at.plan);
            if !self.modelled.is_some_and(same) {
                self.model.fill(UNTOUCHED);
            }
            let plan = &self.pattern_runs[at.pattern_run].plans[at.plan];
            let filled = plan.fill(at.step, &mut self.model);
            self.agree(filled.map_err(IoBenchError::from))?;
            self.modelled = Some(at);
        }
        Ok(())
    }

    /// New, empty files of a course.
    fn renew_files(&self, pattern_run: usize) -> Result<(), IoBenchError> {
        let pattern_run = &self.pattern_runs[pattern_run];
        self.agree(if self.comm.rank() == 0 { pattern_run.scratch.renew() } else { Ok(()) })
    }

    /// New, empty files of the plain servers.
    fn renew_sockets(&self, sockets: &Sockets) -> Result<(), IoBenchError> {
        let renewed = match self.comm.rank() {
            0 => sockets.renew(self.pattern_runs[0].files),
            _ => Ok(()),
        };
        self.agree(renewed.map_err(|source| sockets.failed("make files", source)))
    }

    /// Files with what they should hold, written without any engine; each rank writes a share.
    fn prepare_files(&self) -> Result<(), IoBenchError> {
        for pattern_run in 0..self.pattern_runs.len() {
            self.renew_files(pattern_run)?;
            self.agree(self.pattern_runs[pattern_run].prepare())?;
        }
        if let Some(sockets) = &self.sockets {
            self.renew_sockets(sockets)?;
            let pattern_run = &self.pattern_runs[0];
            let prepared = sockets.prepare(&pattern_run.plans[pattern_run.plan_of(IoOp::Read)]);
            self.agree(prepared.map_err(|source| sockets.failed("fill files", source)))?;
        }
        Ok(())
    }

    fn verify_file(&self, contender: &Contender, pattern_run: usize) -> Result<(), IoBenchError> {
        let pattern_run = &self.pattern_runs[pattern_run];
        let (IoApi::Socket, Some(sockets)) = (contender.api, &self.sockets) else {
            return pattern_run.verify(contender);
        };
        let found = sockets.mismatch(&pattern_run.plans[0]);
        match found.map_err(|source| sockets.failed("verify files", source))? {
            None => Ok(()),
            Some(mismatch) => Err(IoBenchError::Written { contender: contender.label(), mismatch }),
        }
    }

    fn verify_memory(&self, contender: &Contender, at: StepId) -> Result<(), IoBenchError> {
        let plan = &self.pattern_runs[at.pattern_run].plans[at.plan];
        let (memory, model) = (&self.memory[..plan.buffer], &self.model[..plan.buffer]);
        let Some(index) = first_difference(memory, model) else { return Ok(()) };
        let mut gap = true;
        for call in &plan.steps[at.step] {
            gap &= !plan.pieces(call)?.any(|piece| {
                let start = call.origin + piece.memory as usize;
                (start..start + piece.len as usize).contains(&index)
            });
        }
        let (found, expected) = (self.memory[index], self.model[index]);
        let mismatch = ByteMismatch { offset: index as u64, found, expected };
        Err(IoBenchError::ReadBack { contender: contender.label(), mismatch, gap })
    }

    /// Makes an error of one rank an error of all. Collective.
    fn agree<T>(&self, local: Result<T, IoBenchError>) -> Result<T, IoBenchError> {
        agree(self.comm.as_ref(), local)
    }
}
