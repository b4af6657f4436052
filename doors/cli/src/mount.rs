//! `striate mount`: a directory mounted a second time, with a stack of stages in between; or a directory of I/O servers.
//!
//! In the foreground it serves until a signal comes or somebody unmounts. In the background another process of this
//! program does so; this one waits until the mount works, and tells what went wrong if it does not.

mod background;
mod servers;

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use striate_mount::{How, MountError, Mounted, Options, Unmounter};
use striate_stack::Configuration;
use striate_store::remote::RemoteUrl;

use crate::run::directory::{self, RunDirectory};
use crate::run::plan::Plan;
use crate::run::summary::Summary;
use crate::stack::refused;
use crate::{CommandError, terminal};

/// Mount a directory a second time, with the operations of all programs passing through a stack of stages; or files of
/// I/O servers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate mount /scratch/run /mnt/run                           the same files in another place
  striate mount /scratch/run view --stack write-back
  striate mount data view --count                               what programs do there, told at the end
  striate mount data view --trace traces --background           and recorded; the shell is free
  striate mount striate://io.example/run7 view                  files of I/O servers
  umount view                                                   or SIGTERM, SIGINT, SIGHUP: all is settled

Rules of a stack are about paths of SOURCE. Programs of any kind can use the mount, also those that are linked
statically; 'striate run' does the same for one program without a mount. Users other than root need
fusermount3 (Debian: fuse3). For servers the environment is that of 'striate fs'. docs/mount.md tells more.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct MountArgs {
    /// The directory, or a URL of servers
    source: PathBuf,
    /// An empty directory, where it is mounted
    point: PathBuf,
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
    /// Let the kernel believe what it was told of names and attributes for so long; changes that are made on
    /// SOURCE itself are seen late by as much
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    cache: f64,
    /// Requests that are carried out at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = threads)]
    threads: NonZeroUsize,
    /// Do not let the kernel read and write files itself that no stage wants
    #[arg(long)]
    no_passthrough: bool,
    /// Return when the mount works; it is served by another process until it is unmounted
    #[arg(long)]
    background: bool,
    /// This is that other process
    #[arg(long, hide = true)]
    serving: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.0..=86_400.0).contains(&seconds) { Ok(seconds) } else { Err("from 0 to 86400".into()) }
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads: NonZeroUsize = text.parse().map_err(|_| "not a number from 1 on".to_owned())?;
    if threads.get() <= 256 { Ok(threads) } else { Err("256 are the most".into()) }
}

/// What is told when the mount works.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    point: &'a Path,
    source: &'a str,
}

pub(crate) fn run(args: &MountArgs, json: bool) -> Result<(), CommandError> {
    if args.background {
        return background::run();
    }
    if args.serving {
        background::detach();
    }
    if let Some(url) = args.source.to_str().filter(|text| RemoteUrl::is_remote(text)) {
        return servers::run(args, url, json);
    }
    let source = args.source.canonicalize().unwrap_or_else(|_| args.source.clone());
    let trace = args.trace.as_deref().map(directory::made).transpose()?;
    let counters = RunDirectory::new(args.counters.as_deref())?;
    for place in [trace.as_deref(), Some(counters.path())].into_iter().flatten() {
        check_beside(place, &args.point)?;
    }
    let plan = Plan {
        stack: args.stack.as_deref(),
        trace: trace.as_deref(),
        count: args.count,
        source: Some(&source),
        directory: Some(counters.path()),
    };
    let text = plan.text()?;
    let stack = Configuration::parse(&text).and_then(|configuration| configuration.build());
    let unbuilt = |error| refused(args.stack.as_deref().unwrap_or(Path::new("the stack")), &error);
    let stack = stack.map_err(unbuilt)?;
    let counts = stack.stages().iter().any(|placed| placed.name == "count");

    let signals = signals()?;
    let options = Options {
        cache: Duration::from_secs_f64(args.cache),
        threads: args.threads,
        passthrough: !args.no_passthrough,
        ..Options::new(&args.source, &args.point)
    };
    let mounted = Mounted::new(&options, stack).map_err(failed)?;
    let ended = serve(mounted, &source.display().to_string(), signals, args, json)?;
    if (counts || trace.is_some()) && !args.quiet {
        let summary = Summary::new(counters.path(), trace.as_deref(), ExitStatus::default())?;
        summary.tell(args.summary.as_deref(), json)?;
    }
    ended.map_err(failed)
}

/// Listens to signals: before something is mounted, so that none finds nobody.
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
    let ended = mounted.wait();
    // Whoever ended it may still have something to say.
    if let Some(thread) = lock(&ending).take() {
        let _ = thread.join();
    }
    unmounter.notices().iter().for_each(|notice| say(notice));
    Ok(ended)
}

/// What is written while the mount is served must not need the mount.
fn check_beside(place: &Path, point: &Path) -> Result<(), CommandError> {
    if point.canonicalize().is_ok_and(|point| place.starts_with(point)) {
        return Err(CommandError::usage(
            format!("{} is below the mount, and would have to wait for itself", place.display()),
            "choose a directory beside it",
        ));
    }
    Ok(())
}

fn tell(ready: &Ready<'_>, json: bool) -> Result<(), CommandError> {
    if json {
        let line = serde_json::to_string(ready)
            .map_err(|error| CommandError::failed("cannot write the JSON document", error, ""))?;
        return terminal::print(&(line + "\n"));
    }
    terminal::print(&format!("{} shows {}\n", ready.point.display(), ready.source))
}

/// The thread that ends the mount, once there is one.
type Ending = Arc<Mutex<Option<JoinHandle<()>>>>;

fn lock(ending: &Ending) -> MutexGuard<'_, Option<JoinHandle<()>>> {
    ending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first signal ends the mount in order; a second one does not wait.
fn end_by_signal(mut signals: Signals, unmounter: Unmounter) -> Ending {
    let ending = Ending::default();
    let place = Arc::clone(&ending);
    std::thread::spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(1);
            }
            let unmounter = unmounter.clone();
            // Nobody looks for the thread before it is there.
            let mut place = lock(&place);
            *place = Some(std::thread::spawn(move || match unmounter.unmount() {
                Ok(How::Unmounted) => {}
                Ok(How::Detached) => {
                    say(
                        "programs still use the mount: it is gone, and what they have open there fails",
                    );
                }
                Err(error) => say(&error.to_string()),
            }));
        }
    });
    ending
}

fn say(text: &str) {
    // If standard error is gone, nobody listens.
    let _ = writeln!(anstream::stderr(), "striate: {text}");
}

fn failed(error: MountError) -> CommandError {
    let hint = match &error {
        MountError::NotEmpty { .. } => "choose an empty directory: what is in it could not be seen",
        MountError::Within { .. } => "choose directories beside each other",
        MountError::NoFuse(_) => {
            "load the kernel's module fuse, or let the container have /dev/fuse"
        }
        MountError::Refused { .. } => "users other than root need fusermount3 (Debian: fuse3)",
        MountError::Unsettled(_) => "'striate stack recover' finishes what stages left behind",
        _ => "",
    };
    let attempted = match &error {
        MountError::Unmount { .. } | MountError::Unsettled(_) | MountError::Session(_) => {
            "the mount did not end well"
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
    struct Line {
        #[command(flatten)]
        args: MountArgs,
    }

    #[test]
    fn wrong_numbers_are_refused() {
        let parsed = |more: &[&str]| {
            Line::try_parse_from(["mount", "a", "b"].iter().chain(more)).map(|line| line.args)
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
