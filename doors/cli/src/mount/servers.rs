//! Mounting files of I/O servers.

use std::path::Path;
use std::time::Duration;

use striate_mount::{Mounted, ServerOptions};
use striate_store::remote::{Client, RemoteUrl, UrlError};

use super::{MountArgs, failed, serve, signals};
use crate::CommandError;

pub(super) fn run(
    args: &MountArgs,
    point: &Path,
    text: &str,
    json: bool,
) -> Result<(), CommandError> {
    let url: RemoteUrl =
        text.parse().map_err(|error: UrlError| CommandError::usage(error.to_string(), ""))?;
    check(args)?;
    let client = Client::shared(&url)?;
    let signals = signals()?;
    let options = ServerOptions {
        cache: Duration::from_secs_f64(args.cache),
        threads: args.threads,
        guard: args.guard,
        ..ServerOptions::new(client, &url.path, point)
    };
    let mounted = Mounted::of_servers(&options).map_err(failed)?;
    serve(mounted, &url.to_string(), signals, args, json)?.map_err(failed)
}

/// Stages are for files of a directory.
fn check(args: &MountArgs) -> Result<(), CommandError> {
    let given = [
        (args.stack.is_some(), "--stack"),
        (args.trace.is_some(), "--trace"),
        (args.count, "--count"),
        (args.counters.is_some(), "--counters"),
        (args.summary.is_some(), "--summary"),
        (args.no_passthrough, "--no-passthrough"),
    ];
    match given.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, option)) => Err(CommandError::usage(
            format!("{option} is for a directory, not for servers"),
            "mount the servers, and then that mount a second time with it",
        )),
    }
}
