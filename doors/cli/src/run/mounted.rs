//! `striate run --mount`: the program sees a directory through the stages, by a mount that only it
//! sees.
//!
//! It serves programs that make their system calls by themselves, which the preload door does not
//! see: those that are linked statically, and Go programs. Processes that outlive the program use
//! the mount, too, and are waited for.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use striate_mount::{MountError, Mounted, Options};

use super::directory::{self, RunDirectory};
use super::plan::Plan;
use super::summary::Summary;
use super::{RunArgs, leftovers, watch};
use crate::CommandError;
use crate::mount::ending::{SettlingBar, WaitLimit};
use crate::mount::{earlier, failed};
use crate::stack::{named, refused};

/// Seconds after which it is said what is waited for.
const SILENCE: f64 = 2.0;

/// Runs the program with a directory mounted over itself.
pub(super) fn run(args: &RunArgs, over: &Path, json: bool) -> Result<ExitCode, CommandError> {
    check(args)?;
    let source = directory_of(over)?;
    let trace = args.trace.as_deref().map(directory::made).transpose()?;
    let counters = RunDirectory::new(args.counters.as_deref())?;
    let plan = Plan {
        stack: args.stack.as_deref(),
        trace: trace.as_deref(),
        count: !args.quiet,
        source: Some(&source),
        directory: Some(counters.path()),
    };
    let text = plan.text()?;
    let stack = striate_stages::parse_stack(&text).and_then(|configuration| configuration.build());
    let stack_file = args.stack.as_deref().map(named::lasting);
    // A signal still ends this process by itself.
    let patience = WaitLimit::new(None, Arc::default());
    earlier::wait(&source, (stack_file.as_deref(), &text), &patience)?;
    let unbuilt = |error| refused(args.stack.as_deref().unwrap_or(Path::new("the stack")), &error);
    let stack = stack.map_err(unbuilt)?;
    let options = Options {
        stack: stack_file,
        configuration: text.clone(),
        ..Options::new(&source, &source)
    };
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(CommandError::usage("no command to run", "give it after --"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let started = watch::run_started(|| {
        let started = Mounted::of_program(&options, stack, command);
        started.map(|(mounted, child)| (child, mounted)).map_err(NotStarted::from)
    });
    let (status, mounted) = match started {
        Ok(started) => started,
        Err(NotStarted::Mount(error)) => return Err(not_mounted(error)),
        Err(NotStarted::Program(error)) => {
            let missing = error.kind() == ErrorKind::NotFound;
            let attempted = format!("cannot run {}", program.to_string_lossy());
            CommandError::failed(attempted, error, "").report();
            return Ok(ExitCode::from(if missing { 127 } else { 126 }));
        }
    };
    let settled = wait(mounted)?;
    let left = leftovers::of_run(&text, counters.path(), args.stack.as_deref());
    let summary = Summary::new(counters.path(), trace.as_deref(), status)?;
    super::tell(args, summary, left, json)?;
    settled.map_err(failed)?;
    Ok(watch::exit_code(status))
}

/// Why the program does not run.
enum NotStarted {
    Mount(MountError),
    Program(io::Error),
}

impl From<MountError> for NotStarted {
    fn from(error: MountError) -> Self {
        match error {
            MountError::Program(error) => Self::Program(error),
            error => Self::Mount(error),
        }
    }
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self::Program(error)
    }
}

/// Variables of the preload door are not used here.
fn check(args: &RunArgs) -> Result<(), CommandError> {
    if args.mpiio.is_some() {
        return Err(CommandError::usage(
            "--mpiio works with the preloaded library, not with --mount",
            "leave one of them out",
        ));
    }
    Ok(())
}

/// The directory that is mounted.
fn directory_of(over: &Path) -> Result<PathBuf, CommandError> {
    let unusable =
        |error: io::Error| failed(MountError::Source { path: over.to_path_buf(), error });
    let source = over.canonicalize().map_err(unusable)?;
    if source == Path::new("/") {
        return Err(CommandError::usage(
            "the root directory cannot be mounted over itself",
            "run it in another directory, or name one with --mount=DIR",
        ));
    }
    Ok(source)
}

/// Waits until no process uses the mount and everything is on the source. Returns how that ended.
fn wait(mounted: Mounted) -> Result<Result<(), MountError>, CommandError> {
    let unmounter = mounted.unmounter();
    // Those were the program's until it ended.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|error| CommandError::failed("cannot listen to signals", error, ""))?;
    let handle = signals.handle();
    let ending = std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                eprintln!(
                    "striate: ended without waiting: data that stages still buffered is in their logs, or lost"
                );
                std::process::exit(1);
            }
            eprintln!("striate: processes of the program that still run are not waited for");
            unmounter.abandon();
        }
    });
    let mut bar = SettlingBar::new();
    let patience = WaitLimit::new(Some(SILENCE), Arc::default());
    let in_use = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&in_use);
    let reminder = std::thread::spawn(move || {
        if patience.until(|| !still.load(Ordering::Relaxed)).is_err() {
            eprintln!(
                "striate: processes of the program still use its directory: waiting for them \
                 (Ctrl-C does not)"
            );
        }
    });
    let settled = mounted.wait_showing(&mut |settling| {
        in_use.store(false, Ordering::Relaxed);
        bar.show(settling);
    });
    in_use.store(false, Ordering::Relaxed);
    let _ = reminder.join();
    bar.clear();
    handle.close();
    let _ = ending.join();
    Ok(settled)
}

/// The program was not started, because its directory cannot be mounted.
fn not_mounted(error: MountError) -> CommandError {
    let hint = match &error {
        MountError::Private { error, .. } if error.kind() == ErrorKind::PermissionDenied => {
            "this takes root, or user namespaces: see kernel.unprivileged_userns_clone and \
             kernel.apparmor_restrict_unprivileged_userns; 'striate mount' does it by fusermount3"
        }
        MountError::Private { .. } => {
            "user.max_user_namespaces may be 0; 'striate mount' does it by fusermount3"
        }
        _ => return failed(error),
    };
    CommandError::failed("the program was not started", error, hint)
}
