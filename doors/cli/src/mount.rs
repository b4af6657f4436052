//! `striate mount`: a directory mounted a second time, with a stack of stages in between; or a
//! directory of I/O servers.
//!
//! In the foreground it serves until a signal comes or the mount is unmounted. In the background
//! another process of this program does so; this one waits until the mount works, and says what
//! went wrong if it does not.

mod background;
pub(crate) mod earlier;
pub(crate) mod ending;
mod servers;
pub(crate) mod umount;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use striate_mount::{MountError, Mounted, Options, UnmountKind, Unmounter};
use striate_store::remote::RemoteUrl;

use self::ending::{SettlingBar, WaitLimit};
use crate::run::directory::{self, RunDirectory};
use crate::run::plan::Plan;
use crate::run::summary::Summary;
use crate::stack::{named, refused};
use crate::{CommandError, terminal};

/// Mount a directory a second time, with the operations of all programs passing through a stack of
/// stages; or files of I/O servers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate mount /scratch/run /mnt/run                           the same files at another path  striate mount /scratch/run view --stack write-back
  striate mount data view --count                               counts operations, and prints a summary at the end
  striate mount data view --trace traces --background           records operations, in the background
  striate mount striate://io.example/run7 view                  files of I/O servers
  striate umount view                                           unmount, and wait until all data is on the source
  striate mount --wait view                                     wait for the end of a mount that another command unmounts

SIGTERM, SIGINT and SIGHUP end it as 'striate umount' does. A plain 'umount' returns before all data is on the source;
a file there says so, and the next mount of the same source waits for it.

Rules of a stack apply to paths of SOURCE. Programs of any kind can use the mount, also those that are linked
statically; 'striate run' does the same for one program without a mount. Users other than root need
fusermount3 (Debian: fuse3). For servers the environment variables are those of 'striate fs'. See docs/mount.md.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct MountArgs {
    /// The directory, or a URL of servers; with --wait alone, the POINT
    source: PathBuf,
    /// The mount point, an empty directory
    #[arg(required_unless_present = "wait")]
    point: Option<PathBuf>,
    /// The stages: a name that 'striate stack list' shows, or a file
    #[arg(long, value_name = "STACK")]
    stack: Option<PathBuf>,
    /// Record all operations before they reach the stages, in files of this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Count all operations before they reach the stages
    #[arg(long)]
    count: bool,
    /// Keep the counters in this directory
    #[arg(long, value_name = "DIR")]
    counters: Option<PathBuf>,
    /// Write the summary to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// No summary
    #[arg(long, short, conflicts_with = "summary")]
    quiet: bool,
    /// How long the kernel caches names and attributes; changes that are made on SOURCE itself are
    /// seen late by up to this time
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    cache: f64,
    /// Number of requests that are carried out at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = threads)]
    threads: NonZeroUsize,
    /// No passthrough: the kernel does not read and write files that no stage wants by itself
    #[arg(long)]
    no_passthrough: bool,
    /// Return when the mount works; a background process serves it until it is unmounted
    #[arg(long)]
    background: bool,
    /// Mount nothing; wait until the mount at this point has ended and all data is on its source
    #[arg(long, conflicts_with = "background")]
    wait: bool,
    /// The longest wait for an earlier mount of the same source to write all its data; with --wait,
    /// for the end of the mount
    #[arg(long, value_name = "SECONDS", value_parser = timeout)]
    timeout: Option<f64>,
    /// Make the underlying directory unwritable, so that programs cannot write into it when the
    /// mount is missing; undone when the mount ends in order, or by 'striate umount'
    #[arg(long)]
    guard: bool,
    /// This is that other process
    #[arg(long, hide = true)]
    serving: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.0..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("from 0 to 86400".into()) }
}

fn timeout(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.0..=1e9).contains(&seconds) { Ok(seconds) } else { Err("from 0 to 1000000000".into()) }
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads: NonZeroUsize = text.parse().map_err(|_| "not a number from 1 on".to_owned())?;
    if threads.get() <= 256 { Ok(threads) } else { Err("256 are the most".into()) }
}

/// The output when the mount works.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    point: &'a Path,
    source: &'a str,
}

/// The output when it has ended.
#[derive(Debug, Serialize)]
struct UnmountReport<'a> {
    point: &'a Path,
    source: &'a str,
    /// Whether everything is on the source.
    settled: bool,
}

pub(crate) fn run(args: &MountArgs, json: bool) -> Result<(), CommandError> {
    let Some(point) = args.point.as_deref() else {
        return umount::wait(&args.source, args.timeout, json);
    };
    if args.background {
        return background::run();
    }
    if args.serving {
        background::detach();
    }
    if let Some(url) = args.source.to_str().filter(|text| RemoteUrl::is_remote(text)) {
        return servers::run(args, point, url, json);
    }
    // Before anything is made, or waited for.
    let (source, point) = &striate_mount::check_places(&args.source, point).map_err(failed)?;
    let (signals, interrupted) = (signals()?, interruption()?);
    let trace = args.trace.as_deref().map(directory::made).transpose()?;
    let counters = RunDirectory::new(args.counters.as_deref())?;
    for place in [trace.as_deref(), Some(counters.path())].into_iter().flatten() {
        check_outside(place, point)?;
    }
    let plan = Plan {
        stack: args.stack.as_deref(),
        trace: trace.as_deref(),
        count: args.count,
        source: Some(source),
        directory: Some(counters.path()),
    };
    let text = plan.text()?;
    let stack_file = args.stack.as_deref().map(named::lasting);
    let patience = WaitLimit::new(args.timeout, interrupted);
    earlier::wait(source, (stack_file.as_deref(), &text), &patience)?;
    let stack = striate_stages::parse_stack(&text).and_then(|configuration| configuration.build());
    let unbuilt = |error| refused(args.stack.as_deref().unwrap_or(Path::new("the stack")), &error);
    let stack = stack.map_err(unbuilt)?;
    let counts = stack.stages().iter().any(|placed| placed.name == "count");

    let options = Options {
        cache: Duration::from_secs_f64(args.cache),
        threads: args.threads,
        passthrough: !args.no_passthrough,
        guard: args.guard,
        stack: stack_file,
        configuration: text,
        ..Options::new(source, point)
    };
    let mounted = Mounted::new(&options, stack).map_err(failed)?;
    let ended = serve(mounted, &source.display().to_string(), signals, args, json)?;
    if (counts || trace.is_some()) && !args.quiet {
        let summary = Summary::new(counters.path(), trace.as_deref(), ExitStatus::default())?;
        summary.tell(args.summary.as_deref(), json)?;
    }
    ended.map_err(failed)
}

/// A flag that is set by signals that come before something is mounted.
fn interruption() -> Result<Arc<AtomicBool>, CommandError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| CommandError::failed("cannot listen to signals", error, ""))?;
    }
    Ok(flag)
}

/// Listens to signals: before something is mounted, so that none is lost.
fn signals() -> Result<Signals, CommandError> {
    Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|error| CommandError::failed("cannot listen to signals", error, ""))
}

/// Says that the mount works, and waits for its end. Returns how it ended.
fn serve(
    mounted: Mounted,
    source: &str,
    signals: Signals,
    args: &MountArgs,
    json: bool,
) -> Result<Result<(), MountError>, CommandError> {
    let unmounter = mounted.unmounter();
    let ending = end_by_signal(signals, unmounter.clone());
    unmounter.notices().iter().for_each(|notice| say(notice));
    tell(&Ready { point: mounted.point(), source }, json)?;
    if args.serving {
        background::be_silent();
    }
    let point = mounted.point().to_owned();
    let mut bar = SettlingBar::new();
    let ended = mounted.wait_showing(&mut |settling| bar.show(settling));
    bar.clear();
    // The thread that ended it may still print a message.
    let by_signal = lock(&ending).take().map(JoinHandle::join).is_some();
    unmounter.notices().iter().for_each(|notice| say(notice));
    if json {
        print_line(&UnmountReport { point: &point, source, settled: ended.is_ok() })?;
    } else if by_signal && ended.is_ok() && !args.quiet {
        say(&format!("{} is unmounted, and everything is on {source}", point.display()));
    }
    Ok(ended)
}

/// Files that are written while the mount is served must not be below it.
fn check_outside(place: &Path, point: &Path) -> Result<(), CommandError> {
    if point.canonicalize().is_ok_and(|point| place.starts_with(point)) {
        return Err(CommandError::usage(
            format!("{} is below the mount, which would wait for itself", place.display()),
            "choose a directory beside it",
        ));
    }
    Ok(())
}

fn print_line(line: &impl Serialize) -> Result<(), CommandError> {
    let line = serde_json::to_string(line)
        .map_err(|error| CommandError::failed("cannot write the JSON document", error, ""))?;
    terminal::print(&(line + "\n"))
}

fn tell(ready: &Ready<'_>, json: bool) -> Result<(), CommandError> {
    if json {
        return print_line(ready);
    }
    terminal::print(&format!("{} shows {}\n", ready.point.display(), ready.source))
}

/// The thread that ends the mount, once there is one.
type EndingThread = Arc<Mutex<Option<JoinHandle<()>>>>;

fn lock(ending: &EndingThread) -> MutexGuard<'_, Option<JoinHandle<()>>> {
    ending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first signal ends the mount in order; a second one does not wait.
fn end_by_signal(mut signals: Signals, unmounter: Unmounter) -> EndingThread {
    let ending = EndingThread::default();
    let place = Arc::clone(&ending);
    std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                say(
                    "ended without waiting: data that stages still buffered is in their logs, from which 'striate stack recover' restores it, or lost",
                );
                std::process::exit(1);
            }
            let unmounter = unmounter.clone();
            // The thread is looked up when it exists.
            let mut place = lock(&place);
            *place = Some(std::thread::spawn(move || match unmounter.unmount() {
                Ok(UnmountKind::Unmounted) => {}
                Ok(UnmountKind::Detached) => {
                    say(
                        "programs still use the mount: it is detached, and calls on files that they have open there fail",
                    );
                }
                Err(error) => say(&error.to_string()),
            }));
        }
    });
    ending
}

fn say(text: &str) {
    // Standard error may be closed.
    let _ = writeln!(anstream::stderr(), "striate: {text}");
}

/// What went wrong, and what to do about it.
pub(crate) fn failed(error: MountError) -> CommandError {
    use std::io::ErrorKind::{NotADirectory, NotConnected, NotFound, PermissionDenied};

    let hint = match &error {
        MountError::Source { path, error } => match error.kind() {
            NotFound => {
                "the source is the first argument, and must exist: create it, or correct its name"
                    .into()
            }
            NotADirectory => {
                "only directories can be mounted: use the one that contains the file".into()
            }
            NotConnected => format!("'umount -l {0}' removes the dead mount", path.display()),
            PermissionDenied => "the user who mounts it needs permission to list it".into(),
            _ => String::new(),
        },
        MountError::Point { path, error } => match error.kind() {
            NotFound => format!("make it: mkdir -p {}", path.display()),
            NotADirectory => "choose an empty directory".into(),
            _ => String::new(),
        },
        MountError::NotEmpty { .. } => {
            "choose an empty directory: its contents would be hidden".into()
        }
        MountError::AlreadyMounted { path, .. } => {
            format!("'striate umount {}' ends that mount", path.display())
        }
        MountError::Dead { path, .. } => {
            format!("'umount -l {0}' or 'fusermount3 -uz {0}' removes it", path.display())
        }
        MountError::Guard { .. } => "only the owner of the directory can guard it".into(),
        MountError::Within { .. } => {
            "choose directories of which neither contains the other".into()
        }
        MountError::NoFuse(error) if error.kind() == PermissionDenied => {
            "root can let all users use it, as most systems do: chmod 666 /dev/fuse".into()
        }
        MountError::NoFuse(_) => {
            "load the kernel's module fuse, or let the container have /dev/fuse".into()
        }
        MountError::Refused { .. } => {
            "users other than root need fusermount3 (Debian: fuse3)".into()
        }
        MountError::Unsettled(_) => {
            "'striate stack recover STACK SOURCE' recovers files that stages left behind".into()
        }
        _ => String::new(),
    };
    let attempted = match &error {
        MountError::Unmount { .. } | MountError::Unsettled(_) | MountError::Session(_) => {
            "the mount did not end cleanly"
        }
        _ => "there is no mount",
    };
    CommandError::failed(attempted, error, hint)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct MountLine {
        #[command(flatten)]
        args: MountArgs,
    }

    #[test]
    fn wrong_numbers_are_refused() {
        let parsed = |more: &[&str]| {
            MountLine::try_parse_from(["mount", "a", "b"].iter().chain(more)).map(|line| line.args)
        };
        let args = parsed(&["--cache", "1.5", "--threads", "3"]).unwrap();
        assert_eq!((args.cache, args.threads.get()), (1.5, 3));
        for wrong in [
            &["--cache", "-1"][..],
            &["--cache", "soon"],
            &["--threads", "0"],
            &["--threads", "1000"],
            &["--quiet", "--summary", "x"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
