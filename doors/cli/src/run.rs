//! `striate run`: a program whose calls pass through a stack of stages.
//!
//! The ranks of MPI programs are started with the MPI-IO door as well, by whichever launcher starts
//! them.
//!
//! The program is started with the library of the preload door, which reads the stack from a file
//! that is made for this run. Stages leave what they counted in a directory, from which the summary
//! is made when the program has ended.

pub(crate) mod directory;
mod launcher;
pub(crate) mod layout;
mod leftovers;
pub(crate) mod library;
mod mounted;
pub(crate) mod mpi;
mod own_calls;
pub(crate) mod plan;
pub(crate) mod summary;
mod watch;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use striate_process::RUN_DIRECTORY;

use self::directory::RunDirectory;
use self::summary::Summary;
use crate::CommandError;

/// The variable that names the stack to the library.
const STACK: &str = "STRIATE_STACK";

/// Run a program with its file operations passing through a stack of stages
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate run -- ./simulation input.nml                         count its calls  striate run --trace traces -- python3 analyse.py              and record it
  striate run --stack write-back -- ./simulation                collect small writes  striate run --json --summary counts.json -- make -j4
  striate run --mount --stack combine -- ./static-program       also static and Go programs
  striate run -- mpiexec -n 4 ./simulation                      ranks on this node, with the MPI-IO door
  mpiexec -n 4 striate run ./simulation                         each rank for itself

The program and all its children are intercepted, unless they are linked statically, written in Go, or have
special rights. With --mount all programs are intercepted, in one directory: it is mounted over itself, for
the program only (as 'striate mount' does for all programs; users other than root need user namespaces).
MPI launchers (mpiexec, mpirun, orterun, prterun, srun, and their variants with the name of an MPI)
are recognised, also after timeout, env and the like: MPI-IO of the ranks is then carried out by
Striate, and recorded above the calls on files that it causes. The exit status is that of the program; 74
instead of 0 if data that it has written did not reach its file; 128 + n if signal n ended it;
127 if the program does not exist.
Environment:
  STRIATE_PRELOAD   the library libstriate_preload.so, if it is not where 'striate doctor' looks
  STRIATE_MPIIO     the MPI-IO door, if it is not beside this program as libstriate_mpiio_openmpi.so or
                    libstriate_mpiio_mpich.so")]
pub(crate) struct RunArgs {
    /// The stages: a name that 'striate stack list' shows, or a file; without them, calls are only
    /// counted
    #[arg(long, value_name = "STACK")]
    stack: Option<PathBuf>,
    /// Record all calls before they reach the stages, in files of this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Keep the counters of all processes in this directory
    #[arg(long, value_name = "DIR")]
    counters: Option<PathBuf>,
    /// Write the summary to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// No summary, and no counting for it
    #[arg(long, short, conflicts_with_all = ["summary", "counters", "json"])]
    quiet: bool,
    /// Use a mount that only the program sees, instead of a library: works for every program, in
    /// its working directory or DIR and below
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    mount: Option<PathBuf>,
    /// The MPI-IO door for the ranks, a library built for their MPI
    #[arg(long, value_name = "FILE")]
    mpiio: Option<PathBuf>,
    /// Leave MPI-IO to the MPI library; only its calls on files are intercepted
    #[arg(long, conflicts_with = "mpiio")]
    no_mpiio: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// The program that is started, and the libraries passed to the loader.
struct Started {
    words: Vec<OsString>,
    libraries: OsString,
}

impl Started {
    /// The command that was given, with the doors for it.
    fn new(args: &RunArgs, preload: &Path) -> Result<Self, CommandError> {
        let words = args.command.clone();
        let alone = Self { words, libraries: library::with_others(&[preload]) };
        let Some(job) = (!args.no_mpiio).then(|| mpi::MpiJob::of(&args.command)).flatten() else {
            return Ok(alone);
        };
        let door = match job.mpi {
            Some(mpi) => mpi::door(mpi, args.mpiio.as_deref())?,
            // A library that was named is for the MPI of the program.
            None if job.launcher.is_some() => mpi::said(args.mpiio.as_deref())?,
            None => None,
        };
        let Some(door) = door else {
            if !args.quiet {
                eprintln!("{}", mpi::without(job.mpi));
            }
            return Ok(alone);
        };
        let both = library::with_others(&[preload, &door]);
        Ok(match job.launcher {
            Some((place, launcher)) => {
                let name = library::VARIABLE;
                let words = launcher.with_variable(&args.command, place, name, &both);
                Self { words, libraries: alone.libraries }
            }
            None => Self { words: alone.words, libraries: both },
        })
    }
}

pub(crate) fn run(args: &RunArgs, json: bool) -> Result<ExitCode, CommandError> {
    if let Some(directory) = &args.mount {
        return mounted::run(args, directory, json);
    }
    let library = library::find(None)?;
    let trace = args.trace.as_deref().map(directory::made).transpose()?;
    let plan = plan::Plan {
        stack: args.stack.as_deref(),
        trace: trace.as_deref(),
        count: !args.quiet,
        source: None,
        directory: None,
    };
    let text = plan.text()?;
    let directory = RunDirectory::new(args.counters.as_deref())?;
    let stack = directory.keep("stack.toml", &text)?;

    let started = Started::new(args, &library)?;
    let Some((program, arguments)) = started.words.split_first() else {
        return Err(CommandError::usage("no command to run", "give it after --"));
    };
    let mut command = Command::new(program);
    command.args(arguments).env(STACK, &stack).env(RUN_DIRECTORY, directory.path());
    command.env(library::VARIABLE, &started.libraries);
    let unseen = own_calls::Watch::start(&args.command[0]);
    let status = match watch::run(&mut command) {
        Ok(status) => status,
        Err(error) => {
            let missing = error.kind() == ErrorKind::NotFound;
            let attempted = format!("cannot run {}", program.to_string_lossy());
            CommandError::failed(attempted, error, "").report();
            return Ok(ExitCode::from(if missing { 127 } else { 126 }));
        }
    };
    let left = leftovers::of_run(&text, directory.path(), args.stack.as_deref());
    let unseen = unseen.end();
    let summary = Summary::new(directory.path(), trace.as_deref(), status)?.with(unseen);
    tell(args, summary, left, json)?;
    Ok(watch::exit_code(status))
}

/// Tells the summary, and what was left elsewhere: in it, or where that does not show it.
fn tell(
    args: &RunArgs,
    mut summary: Summary,
    left: String,
    json: bool,
) -> Result<(), CommandError> {
    let in_summary = !args.quiet && !json;
    if !(left.is_empty() || in_summary && args.summary.is_none()) {
        eprint!("{left}");
    }
    if args.quiet {
        return Ok(());
    }
    summary.left = if in_summary { left } else { String::new() };
    summary.tell(args.summary.as_deref(), json)
}
