//! `striate fs rm`: removes files, and finishes removals that were interrupted.
//!
//! What can be removed is removed, also if something else cannot.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Args;
use serde::Serialize;
use striate_store::s3::{S3Bucket, S3Url};
use striate_store::{ErrorKind, StoreError};

use super::objects;
use super::supervised::{steps, supervised};
use super::{FileUrl, as_directory, shown};
use crate::document::Document;
use crate::number::{counted, counted_as, grouped};
use crate::{CommandError, terminal};

/// Remove files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs rm striate://io.example/run7/out.dat striate://io.example/run7/log
  striate fs rm -r striate://io.example/run7
  striate fs rm --dead striate://io.example    finish removals that were interrupted
  striate fs rm --unfinished s3://bucket/run7  remove what interrupted uploads have left")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct FsRmArgs {
    /// Do not fail if a file does not exist
    #[arg(short, long)]
    force: bool,

    /// Remove directories with their contents
    #[arg(short, long)]
    recursive: bool,

    /// Only finish removals that were interrupted
    #[arg(long, conflicts_with_all = ["force", "recursive"])]
    dead: bool,

    /// Only remove the parts of uploads to these keys, or below these directories, that were
    /// interrupted; uploads that are in progress fail then
    #[arg(long, conflicts_with_all = ["force", "recursive", "dead"])]
    unfinished: bool,

    /// The files
    #[arg(required = true, value_name = "URL")]
    urls: Vec<FileUrl>,
}

/// A row of the JSON document.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RemovalRow {
    Removed { url: String },
    Finished { url: String, finished: u64 },
    Aborted { url: String, upload: String, begun: String },
}

pub(crate) fn run(args: &FsRmArgs, json: bool) -> Result<(), CommandError> {
    if args.dead {
        if let Some(url) = args.urls.iter().find(|url| matches!(url, FileUrl::Object(_))) {
            return Err(CommandError::usage(
                format!("{url} has no interrupted removals"),
                "--unfinished removes what interrupted uploads have left",
            ));
        }
        return finish(&args.urls, json);
    }
    if args.unfinished {
        return abort(&args.urls, json);
    }
    let count = AtomicU64::new(0);
    let interrupted = || {
        let removed = count.load(Ordering::SeqCst);
        let first = args.urls.iter().find_map(|url| match url {
            FileUrl::Object(_) => None,
            url => Some(format!(" {}", root(url))),
        });
        let url = first.unwrap_or_default();
        CommandError::failed(
            "not all files are removed",
            format!("it was interrupted, {} gone", counted_as(removed, "file is", "files are")),
            format!("'striate fs rm --dead{url}' finishes a removal that was in progress"),
        )
    };
    let (removed, failures) = supervised(interrupted, |stop| {
        let mut removed = Vec::new();
        let mut failures = Vec::new();
        for url in &args.urls {
            match url {
                FileUrl::Object(url) => remove_objects(url, args, (stop, &count), &mut removed)?,
                url => remove(url, args, (stop, &count), &mut removed, &mut failures)?,
            }
            if stop.load(Ordering::SeqCst) {
                return Err(interrupted());
            }
        }
        Ok((removed, failures))
    })?;
    if json {
        Document::new(removed, Vec::new()).print()?;
    }
    let more = failures.len().saturating_sub(1);
    failures.into_iter().next().map_or(Ok(()), |first| Err(and_more(first, more)))
}

/// Removes the files of a URL, until the flag is set.
fn remove(
    url: &FileUrl,
    args: &FsRmArgs,
    (stop, count): (&AtomicBool, &AtomicU64),
    removed: &mut Vec<RemovalRow>,
    failures: &mut Vec<CommandError>,
) -> Result<(), CommandError> {
    let names = names(url, args.recursive)?;
    let bar = steps(names.len() as u64);
    for name in names {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        bar.set_message(name.clone());
        match url.remove(&name) {
            Ok(()) => {
                removed.push(RemovalRow::Removed { url: url.with_path(&name).to_string() });
                count.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !args.recursive && is_directory(url, &name) {
                    failures.push(CommandError::usage(
                        format!("{} is a directory", url.with_path(&name)),
                        "-r removes it with its contents",
                    ));
                } else if !args.force {
                    failures.push(error.into());
                }
            }
            Err(error) => failures.push(failed(&root(url), error)),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Removes the objects of a URL, until the flag is set.
fn remove_objects(
    url: &S3Url,
    args: &FsRmArgs,
    (stop, count): (&AtomicBool, &AtomicU64),
    removed: &mut Vec<RemovalRow>,
) -> Result<(), CommandError> {
    let bucket = S3Bucket::shared(url)?;
    let keys = objects::keys(&bucket, url, args.recursive, args.force)?;
    let bar = steps(keys.len() as u64);
    for key in keys {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        bar.set_message(key.clone());
        bucket.remove(&key)?;
        removed.push(RemovalRow::Removed { url: url.with_key(key).to_string() });
        count.fetch_add(1, Ordering::SeqCst);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Removes the parts of interrupted uploads.
fn abort(urls: &[FileUrl], json: bool) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    let mut text = String::new();
    for url in urls {
        let FileUrl::Object(url) = url else {
            return Err(CommandError::usage(
                format!("{url} is not in an object store"),
                "'striate fsck --repair' removes what interrupted copies to servers have left",
            ));
        };
        let bucket = S3Bucket::shared(url)?;
        let inside = as_directory(&url.key);
        let meant = |key: &str| key == url.key || key.starts_with(&inside);
        let uploads = bucket.unfinished(&url.key)?.into_iter();
        for upload in uploads.filter(|upload| meant(&upload.key)) {
            bucket.abort(&upload)?;
            let url = url.with_key(&*upload.key).to_string();
            let _ = writeln!(text, "{}: upload of {} removed", shown(&url), shown(&upload.begun));
            rows.push(RemovalRow::Aborted { url, upload: upload.id, begun: upload.begun });
        }
    }
    if rows.is_empty() {
        text.push_str("no interrupted uploads\n");
    }
    if json { Document::new(rows, Vec::new()).print() } else { terminal::print(&text) }
}

/// Whether files lie below the name.
fn is_directory(url: &FileUrl, name: &str) -> bool {
    url.has_any(&as_directory(name)).unwrap_or(false)
}

/// The URL of the whole file system.
fn root(url: &FileUrl) -> FileUrl {
    url.with_path("")
}

/// The files that a URL stands for.
fn names(url: &FileUrl, recursive: bool) -> Result<Vec<String>, CommandError> {
    let path = url.path();
    if path.is_empty() {
        return Err(CommandError::usage(
            format!("{url} is the whole file system"),
            "name the files to remove, or directories with -r",
        ));
    }
    if !recursive {
        return Ok(vec![path.trim_end_matches('/').to_owned()]);
    }
    let inside = url.list(&as_directory(path))?;
    let mut names: Vec<String> = inside.into_iter().map(|file| file.path).collect();
    if names.is_empty() {
        names.push(path.to_owned());
    }
    Ok(names)
}

fn failed(url: &FileUrl, error: StoreError) -> CommandError {
    let kind = error.kind();
    let error = CommandError::from(error);
    let CommandError::Store { mut hint, source } = error else { return error };
    if !matches!(kind, ErrorKind::NotFound | ErrorKind::Malformed | ErrorKind::Denied) {
        hint =
            format!("when all servers answer, 'striate fs rm --dead {url}' removes what is left");
    }
    CommandError::Store { hint, source }
}

/// The first of several failures, which says how many there are.
fn and_more(first: CommandError, more: usize) -> CommandError {
    if more == 0 {
        return first;
    }
    let with = |hint: String| {
        let all = format!("{} more could not be removed. {hint}", grouped(more as u64));
        all.trim_end().to_owned()
    };
    match first {
        CommandError::Store { hint, source } => CommandError::Store { hint: with(hint), source },
        CommandError::Usage { message, hint } => CommandError::Usage { message, hint: with(hint) },
        other => other,
    }
}

/// Finishes removals that were interrupted.
fn finish(urls: &[FileUrl], json: bool) -> Result<(), CommandError> {
    let mut rows = Vec::new();
    let mut text = String::new();
    for url in urls {
        let finished = url.bury_dead()?;
        let url = root(url).to_string();
        let _ = writeln!(text, "{url}: {} finished", counted(finished, "removal"));
        rows.push(RemovalRow::Finished { url, finished });
    }
    if json { Document::new(rows, Vec::new()).print() } else { terminal::print(&text) }
}
