//! `striate fs rm`: removes files, and finishes removals that were interrupted.
//!
//! What can be removed is removed, also if something else cannot.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use striate_store::remote::{Client, RemoteUrl};
use striate_store::{ErrorKind, StoreError};

use super::{as_directory, path};
use crate::document::Document;
use crate::number::grouped;
use crate::{CommandError, terminal};

/// Remove files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs rm striate://io.example/run7/out.dat striate://io.example/run7/log
  striate fs rm -r striate://io.example/run7
  striate fs rm --dead striate://io.example    finish removals that were interrupted")]
pub(crate) struct RmArgs {
    /// It is no failure if a file does not exist
    #[arg(short, long)]
    force: bool,

    /// Remove all that is in a directory, and what is in directories there
    #[arg(short, long)]
    recursive: bool,

    /// Remove what is left of files whose removal was interrupted, and no others
    #[arg(long, conflicts_with_all = ["force", "recursive"])]
    dead: bool,

    /// The files
    #[arg(required = true, value_name = "URL")]
    urls: Vec<RemoteUrl>,
}

/// A row of the JSON document.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Row {
    Removed { url: String },
    Finished { url: String, finished: u64 },
}

pub(crate) fn run(args: &RmArgs, json: bool) -> Result<(), CommandError> {
    if args.dead {
        return finish(&args.urls, json);
    }
    let mut removed = Vec::new();
    let mut failures = Vec::new();
    for url in &args.urls {
        let client = Client::shared(url)?;
        for name in names(&client, url, args.recursive)? {
            match client.remove(&name) {
                Ok(()) => removed.push(Row::Removed { url: client.url(&name).to_string() }),
                Err(error) if args.force && error.kind() == ErrorKind::NotFound => {}
                Err(error) => failures.push((client.url(""), error)),
            }
        }
    }
    if json {
        Document::new(removed, Vec::new()).print()?;
    }
    let more = failures.len().saturating_sub(1);
    match failures.into_iter().next() {
        None => Ok(()),
        Some((url, error)) => Err(failed(&url, error, more)),
    }
}

/// The files that a URL stands for.
fn names(client: &Client, url: &RemoteUrl, recursive: bool) -> Result<Vec<String>, CommandError> {
    let path = path(url);
    if !recursive {
        return Ok(vec![path.to_owned()]);
    }
    if path.is_empty() {
        return Err(CommandError::usage(
            format!("{url} is the whole file system"),
            "name the directories that are to go",
        ));
    }
    let inside = client.list(&as_directory(path))?;
    let mut names: Vec<String> = inside.into_iter().map(|file| file.path).collect();
    if names.is_empty() {
        names.push(path.to_owned());
    }
    Ok(names)
}

fn failed(url: &RemoteUrl, error: StoreError, more: usize) -> CommandError {
    let kind = error.kind();
    let error = CommandError::from(error);
    let CommandError::Store { mut hint, source } = error else { return error };
    if !matches!(kind, ErrorKind::NotFound | ErrorKind::Malformed | ErrorKind::Denied) {
        hint =
            format!("when all servers answer, 'striate fs rm --dead {url}' removes what is left");
    }
    if more > 0 {
        hint = format!("{} more could not be removed. {hint}", grouped(more as u64));
    }
    CommandError::Store { hint: hint.trim_end().to_owned(), source }
}

/// Finishes removals that were interrupted.
fn finish(urls: &[RemoteUrl], json: bool) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    let mut text = String::new();
    for url in urls {
        let client = Client::shared(url)?;
        let finished = client.bury_dead()?;
        let url = client.url("").to_string();
        let removals = if finished == 1 { "removal" } else { "removals" };
        let _ = writeln!(text, "{url}: {} {removals} finished", grouped(finished));
        rows.push(Row::Finished { url, finished });
    }
    if json { Document::new(rows, Vec::new()).print() } else { terminal::print(&text) }
}
