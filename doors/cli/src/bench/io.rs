//! The common part of the benchmarks of file I/O: options, the run over ranks, the table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use striate_bench::io::{
    self, Contender, FileChoice, IoApi, IoBenchError, IoGoals, IoOptions, IoResults, Pattern,
    paper_hints,
};
use striate_comm::Comm;
use striate_file::{DomainChoice, Hints, Method, MethodChoice};

use super::rows::render;
use super::store::{BenchStore, StoreArgs};
use super::{progress_bar, said_when_interrupted};
use crate::document::Document;
use crate::{CommandError, ranks, terminal};

/// Limit of the number of threads; no machine needs more.
const MOST_RANKS: u64 = 4096;

/// Options of every benchmark of file I/O.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub(super) struct IoArgs {
    /// Ranks: threads, unless mpiexec started the program
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_RANKS))]
    pub(super) ranks: Option<u64>,
    /// Implementations that are measured in turn: striate, posix (plain system calls), mpiio (all
    /// that are available), mpiio-ompio, mpiio-romio, socket (ior on servers: plain sockets that
    /// only copy)
    #[arg(
        short = 'a',
        long,
        value_name = "API",
        value_delimiter = ',',
        default_value = "striate",
        ignore_case = true
    )]
    api: Vec<String>,
    /// Access methods of Striate: posix, sieve, two-phase, list, datatype, auto, or all
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = method)]
    method: Vec<Methods>,
    /// File domains of two-phase: even, aligned, static-cycling, group-cycling, x-target, auto
    #[arg(long, value_name = "KIND", value_parser = domains)]
    domains: Option<DomainChoice>,
    /// Repetitions of everything; the results are medians
    #[arg(short = 'i', long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    #[command(flatten)]
    place: StoreArgs,
    /// A hint for the files of Striate, with ROMIO's or Striate's name; may be repeated
    #[arg(long = "hint", value_name = "NAME=VALUE")]
    hints: Vec<String>,
    /// Include making the data durable in a write
    #[arg(short = 'e', long)]
    fsync: bool,
    /// Include opening, setting the view and closing in the time, not only the data calls
    #[arg(long)]
    include_open: bool,
    /// Verify every byte that is written and read; this is the default
    #[arg(long, overrides_with = "no_verify")]
    verify: bool,
    /// Do not verify
    #[arg(long, overrides_with = "verify")]
    no_verify: bool,
    /// Required ratio: over the faster peer (peer=R or R), over plain system calls (posix=R), of
    /// auto over the best method (best=R), over plain sockets (socket=R); of datatype over the same
    /// bytes in one piece (contiguous=R), over list (list=R), over the best of posix, sieve and
    /// list (next=R)
    #[arg(long = "goal", value_name = "[WHAT=]R", value_parser = goal)]
    goals: Vec<IoGoals>,
}

/// What differs between the benchmarks.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub(super) struct Setting {
    /// The default number of ranks.
    pub(super) ranks: u64,
    /// Whether the settings are the paper's.
    pub(super) paper: bool,
    pub(super) write: bool,
    pub(super) read: bool,
    pub(super) collective: bool,
    /// Whether every call is in one piece.
    pub(super) in_one_piece: bool,
    /// Whether the bytes of each call are also moved in one piece.
    pub(super) contiguous: bool,
    /// Unless told otherwise.
    pub(super) goals: IoGoals,
}

/// A word of `--method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Methods {
    One(MethodChoice),
    All,
}

fn method(text: &str) -> Result<Methods, String> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(Methods::All);
    }
    text.parse().map(Methods::One).map_err(|reason: String| format!("it {reason}, all"))
}

fn domains(text: &str) -> Result<DomainChoice, String> {
    text.parse().map_err(|reason: String| format!("it {reason}"))
}

fn goal(text: &str) -> Result<IoGoals, String> {
    let (what, ratio) = text.split_once('=').unwrap_or(("peer", text));
    let ratio: f64 = ratio.parse().map_err(|_| format!("'{ratio}' is not a number"))?;
    if !ratio.is_finite() || ratio < 0.0 {
        return Err("it must be 0 or more".into());
    }
    let none = IoGoals::default();
    match what {
        "peer" => Ok(IoGoals { peer: Some(ratio), ..none }),
        "posix" => Ok(IoGoals { posix: Some(ratio), ..none }),
        "best" => Ok(IoGoals { best: Some(ratio), ..none }),
        "socket" => Ok(IoGoals { socket: Some(ratio), ..none }),
        "contiguous" => Ok(IoGoals { contiguous: Some(ratio), ..none }),
        "list" => Ok(IoGoals { list: Some(ratio), ..none }),
        "next" => Ok(IoGoals { next: Some(ratio), ..none }),
        _ => Err(format!("'{what}' is none of peer, posix, best, socket, contiguous, list, next")),
    }
}

impl IoArgs {
    /// Runs a benchmark and prints what it found. `pattern` is asked for the number of ranks that
    /// there are.
    pub(super) fn run(
        &self,
        json: bool,
        setting: Setting,
        pattern: impl Fn(u64) -> Result<Box<dyn Pattern>, CommandError> + Sync,
    ) -> Result<(), CommandError> {
        self.run_on(json, setting, &FileChoice::default(), pattern)
    }

    /// The same on files that were chosen.
    pub(super) fn run_on(
        &self,
        json: bool,
        setting: Setting,
        files: &FileChoice,
        pattern: impl Fn(u64) -> Result<Box<dyn Pattern>, CommandError> + Sync,
    ) -> Result<(), CommandError> {
        let bar = progress_bar();
        let _interrupted = said_when_interrupted(&bar, "what the benchmark wrote is removed");
        let found = ranks::run(self.ranks.unwrap_or(setting.ranks), |comm| {
            let ranks = comm.size() as u64;
            if let Some(asked) = self.ranks.filter(|asked| *asked != ranks) {
                return Err(CommandError::usage(
                    format!("--ranks says {asked}, but mpiexec started {ranks}"),
                    "leave --ranks out under mpiexec",
                ));
            }
            let pattern = pattern(ranks)?;
            let contenders = self.contenders(setting, pattern.as_ref())?;
            let hints = self.hints(setting, comm.as_ref())?;
            check_memory(comm.as_ref(), pattern.as_ref())?;
            let place = self.place.find(comm.as_ref())?;
            let mut options = self.options(setting, contenders, hints, &place);
            options.files = self.place.chosen(files, &place)?;
            check_space(comm.as_ref(), pattern.as_ref(), &options)?;
            let results = measure(comm, pattern.as_ref(), &options, &bar)?;
            Ok((results, options))
        });
        bar.finish_and_clear();
        let Some((results, options)) = found? else { return Ok(()) };
        if json {
            return Document::new(results.rows, results.ratios).print();
        }
        terminal::print_fitted(&render(&results, &options))
    }

    /// The file that stays if no name is given: IOR's.
    pub(super) fn default_file(&self) -> PathBuf {
        self.place.directory().join("testFile")
    }

    fn options(
        &self,
        setting: Setting,
        contenders: Vec<Contender>,
        hints: Hints,
        place: &BenchStore,
    ) -> IoOptions {
        // The last of equal ones counts.
        let goals = self.goals.iter().rev().fold(IoGoals::default(), |all, one| all.or(*one));
        IoOptions {
            contenders,
            repeat: self.repeat as usize,
            write: setting.write,
            read: setting.read,
            collective: setting.collective,
            fsync: self.fsync,
            verify: !self.no_verify,
            include_open: self.include_open,
            store: place.store.clone(),
            directory: place.files.clone(),
            local_directory: place.local.clone(),
            files: FileChoice::default(),
            hints,
            goals: goals.or(setting.goals),
        }
    }

    fn hints(&self, setting: Setting, comm: &dyn Comm) -> Result<Hints, CommandError> {
        let wrong = |error: striate_file::FileError| {
            CommandError::usage(error.to_string(), "hints are written --hint cb_nodes=4")
        };
        let mut hints = if setting.paper {
            paper_hints(comm.size() as u64)
        } else {
            Hints::from_environment().map_err(wrong)?
        };
        hints.striping_unit = self.place.strip().or(hints.striping_unit);
        for hint in &self.hints {
            let (name, value) = hint.split_once('=').ok_or_else(|| {
                let message = format!("the hint '{hint}' has no value");
                CommandError::usage(message, "hints are written --hint cb_nodes=4")
            })?;
            hints.set(name, value).map_err(wrong)?;
        }
        Ok(hints)
    }

    /// Every side that was asked for, once.
    fn contenders(
        &self,
        setting: Setting,
        pattern: &dyn Pattern,
    ) -> Result<Vec<Contender>, CommandError> {
        let mut contenders = Vec::new();
        for api in &self.api {
            match api.to_ascii_lowercase().as_str() {
                "striate" => {
                    let ours = |method| Contender::striate(method, self.domains);
                    contenders.extend(self.methods(setting)?.into_iter().map(ours));
                }
                "posix" | "mpiio" | "mpiio-ompio" | "mpiio-romio" if self.place.is_remote() => {
                    return Err(CommandError::usage(
                        format!("{api} only supports files of file systems, not on servers"),
                        "leave --store and --servers out, or compare with --api socket",
                    ));
                }
                "posix" => contenders.push(Contender::peer(IoApi::Posix)),
                "socket" if !self.place.is_remote() || !setting.in_one_piece => {
                    return Err(CommandError::usage(
                        "sockets are compared with files on servers, for calls in one piece",
                        "use: striate bench ior --servers 4 --api striate,socket",
                    ));
                }
                "socket" => contenders.push(Contender::peer(IoApi::Socket)),
                name => contenders.extend(
                    mpiio(name, pattern)?.into_iter().map(|c| Contender::peer(IoApi::MpiIo(c))),
                ),
            }
        }
        if setting.contiguous {
            contenders.push(Contender::contiguous());
        }
        let mut once = Vec::new();
        for contender in contenders {
            if !once.contains(&contender) {
                once.push(contender);
            }
        }
        Ok(once)
    }

    fn methods(&self, setting: Setting) -> Result<Vec<MethodChoice>, CommandError> {
        const TWO_PHASE: MethodChoice = MethodChoice::Fixed(Method::TwoPhase);
        let asked: &[Methods] = match self.method.as_slice() {
            [] if setting.paper => &[Methods::All],
            [] => &[Methods::One(MethodChoice::Auto)],
            asked => asked,
        };
        if !setting.collective && asked.contains(&Methods::One(TWO_PHASE)) {
            return Err(CommandError::usage(
                "two-phase is a method of collective calls, but these are independent",
                "leave --independent out, or give -c to ior",
            ));
        }
        let mut methods = Vec::new();
        for word in asked {
            match word {
                Methods::One(method) => methods.push(*method),
                Methods::All => {
                    methods.extend(Method::ALL.map(MethodChoice::Fixed));
                    methods.push(MethodChoice::Auto);
                    methods.retain(|method| setting.collective || *method != TWO_PHASE);
                }
            }
        }
        Ok(methods)
    }
}

/// The implementations of MPI-IO that a name of `--api` stands for.
fn mpiio(name: &str, pattern: &dyn Pattern) -> Result<Vec<&'static str>, CommandError> {
    let known = "the APIs are striate, posix, mpiio, mpiio-ompio, mpiio-romio, socket";
    let wanted = match name {
        "mpiio" => None,
        "mpiio-ompio" => Some("ompio"),
        "mpiio-romio" => Some("romio"),
        "pnetcdf" | "netcdf" => {
            return Err(CommandError::usage(
                format!("{name} only supports datasets, not plain files"),
                "see: striate bench array --help",
            ));
        }
        _ => return Err(CommandError::usage(format!("there is no API '{name}'"), known)),
    };
    if !cfg!(feature = "mpi") {
        return Err(CommandError::usage(
            format!("this program was built without MPI, so there is no API '{name}'"),
            "build it with --features mpi",
        ));
    }
    if !ranks::is_job() {
        return Err(CommandError::usage(
            "MPI-IO needs processes as ranks, but these are threads",
            format!("start it as: mpiexec -n {} striate bench …", pattern.ranks()),
        ));
    }
    if pattern.files() > 1 {
        return Err(CommandError::usage(
            "MPI-IO runs on a shared file only, not on one per rank",
            "leave -F out, or compare with --api posix",
        ));
    }
    let there = components();
    let found: Vec<_> =
        there.iter().copied().filter(|c| wanted.is_none_or(|wanted| wanted == *c)).collect();
    if found.is_empty() {
        let message = format!("the MPI of this program has no {name}");
        return Err(CommandError::usage(message, format!("it has {}", there.join(", "))));
    }
    Ok(found)
}

#[cfg(feature = "mpi")]
fn components() -> Vec<&'static str> {
    striate_bench::mpiio::MpiIo::components()
}

#[cfg(not(feature = "mpi"))]
const fn components() -> Vec<&'static str> {
    Vec::new()
}

/// Measures, with a bar.
fn measure(
    comm: &Arc<dyn Comm>,
    pattern: &dyn Pattern,
    options: &IoOptions,
    bar: &indicatif::ProgressBar,
) -> Result<IoResults, CommandError> {
    let progress = |at: &io::IoProgress<'_>| {
        let what = format!("{}, {}", at.contender.label(), at.op.name());
        super::show(bar, (at.done, at.total), at.repetition, &what);
    };
    io::run(comm, pattern, options, &progress).map_err(io_failed)
}

/// What to say when a benchmark fails.
pub(crate) fn io_failed(error: IoBenchError) -> CommandError {
    let hint = match &error {
        IoBenchError::Rank { .. } => {
            "--dir names the directory for the files: it must be writable and have room for them; \
             servers, if there are any, must be running"
        }
        IoBenchError::Exists { .. } => "remove it, or give --overwrite",
        IoBenchError::Type(_) => "use smaller sizes or fewer ranks",
        _ => "",
    };
    CommandError::failed("cannot finish the benchmark", error, hint)
}

/// Refuses what does not fit: every rank has its data twice, to write and to read.
fn check_memory(comm: &dyn Comm, pattern: &dyn Pattern) -> Result<(), CommandError> {
    let each = pattern.memory_of_rank().map_err(|error| io_failed(error.into()))?;
    super::check_memory(comm, each)
}

/// Refuses files that do not fit where they are to go. Collective.
fn check_space(
    comm: &dyn Comm,
    pattern: &dyn Pattern,
    options: &IoOptions,
) -> Result<(), CommandError> {
    let bytes = pattern.file_bytes().map_err(|error| io_failed(error.into()))?;
    let once = bytes.saturating_mul(pattern.files());
    // The limit for the methods, and plain sockets, have files of their own.
    let limited = options.contenders.iter().any(|contender| contender.contiguous);
    let needed = once.saturating_mul(1 + u64::from(limited));
    let directory = match &options.files.name {
        Some(name) => name.parent().unwrap_or(Path::new("")),
        None => &options.directory,
    };
    super::check_space(comm, needed, directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_for_the_peer_unless_said_otherwise() {
        assert_eq!(goal("1.5"), Ok(IoGoals { peer: Some(1.5), ..IoGoals::default() }));
        assert_eq!(goal("posix=0.9"), Ok(IoGoals { posix: Some(0.9), ..IoGoals::default() }));
        assert_eq!(goal("next=1.5"), Ok(IoGoals { next: Some(1.5), ..IoGoals::default() }));
        assert_eq!(goal("best=1"), Ok(IoGoals { best: Some(1.0), ..IoGoals::default() }));
        for wrong in ["", "fast", "memcpy=1", "peer=", "-1", "inf"] {
            assert!(goal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn methods_have_names() {
        assert_eq!(method("ALL"), Ok(Methods::All));
        assert_eq!(method("two-phase"), Ok(Methods::One(MethodChoice::Fixed(Method::TwoPhase))));
        assert!(method("magic").unwrap_err().contains("two-phase"));
    }
}
