//! `striate umount`: unmounts, and waits until all data is on the source; and `striate mount
//! --wait`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use striate_mount::{Ended, FoundRecord, MountEntry};

use super::ending::{self, Leftovers, WaitLimit};
use super::{say, timeout};
use crate::document::Document;
use crate::{CommandError, signals, terminal};

/// Unmount a mount of 'striate mount', and return when all data is on the source
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate umount view                  unmount, and wait until all data is on the source
  striate umount view --timeout 60     wait for at most a minute; the rest is written in the background
  striate umount view --lazy           also if programs still use it: wait for them  striate umount --unguard view        make a directory writable that 'striate mount --guard' has guarded

A plain 'umount' or 'fusermount3 -u' returns before stages have written what they buffer; 'striate mount --wait
POINT' waits for the rest. Ctrl-C ends the wait, not the writing. Only the user who has mounted, and root, can unmount.
Exit status: 0 all data is on the source, 1 some is not (the files are named), 2 nothing is mounted there.")]
pub(crate) struct UmountArgs {
    /// The mount points
    #[arg(required = true, value_name = "POINT")]
    points: Vec<PathBuf>,
    /// The longest wait
    #[arg(long, value_name = "SECONDS", value_parser = timeout)]
    timeout: Option<f64>,
    /// Unmount even if programs use it: the mount is detached, and ends when they have closed their
    /// files
    #[arg(long, short)]
    lazy: bool,
    /// Make the directory writable again, also if nothing is mounted there
    #[arg(long)]
    unguard: bool,
}

/// What to do about another's mount.
const OWNER: &str = "only the user who has mounted it, or root, can do this";

/// A mount that has ended; a row of the JSON document.
#[derive(Debug, Serialize)]
struct UnmountRow {
    point: String,
    source: String,
    /// `settled`, `failed` or `killed`.
    state: &'static str,
    /// Files that were held back when it ended.
    files: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Files that are not on the source.
    missing: Vec<String>,
}

pub(crate) fn run(args: &UmountArgs, json: bool) -> Result<(), CommandError> {
    let patience = WaitLimit::new(args.timeout, signals::flag()?);
    let mut rows = Vec::new();
    let mut result = Ok(());
    for point in &args.points {
        let point = striate_mount::absolute(point);
        let ended = unmounted(&point, args.lazy, args.unguard)
            .and_then(|listed| ended(listed, &patience, json, &mut rows));
        if let Err(error) = ended {
            // The caller reports the last one.
            if let Err(former) = std::mem::replace(&mut result, Err(error)) {
                former.report();
            }
        }
    }
    if json {
        Document::new(rows, Vec::new()).print()?;
    }
    result
}

/// Waits for the end of what is, or was, mounted at a point.
pub(super) fn wait(point: &Path, timeout: Option<f64>, json: bool) -> Result<(), CommandError> {
    let patience = WaitLimit::new(timeout, signals::flag()?);
    let point = striate_mount::absolute(point);
    let found = striate_mount::found_at(&point).filter(MountEntry::is_ours);
    let listed = records(&point, found.as_ref());
    if listed.is_empty() {
        // A mount that has ended in order leaves nothing.
        if let Some(found) = found {
            return Err(unknown(&point, &found));
        }
        if json {
            return Document::new(Vec::<UnmountRow>::new(), Vec::new()).print();
        }
        let text = format!("{} is not mounted, and nothing is being written\n", point.display());
        return terminal::print(&text);
    }
    let mut rows = Vec::new();
    let result = ended(listed, &patience, json, &mut rows);
    if json {
        Document::new(rows, Vec::new()).print()?;
    }
    result
}

/// The records of mounts of a point. Those of other users are trusted only if they describe the
/// current mount: otherwise a forged record could make the command wait.
fn records(point: &Path, found: Option<&MountEntry>) -> Vec<FoundRecord> {
    let mounted_by = found.and_then(|found| found.user);
    let mut listed = FoundRecord::at(point);
    listed.retain(|listed| listed.is_own_or_roots() || Some(listed.user) == mounted_by);
    listed
}

/// Unmounts. Returns the records of all mounts of the point that are ending.
fn unmounted(point: &Path, lazy: bool, unguard: bool) -> Result<Vec<FoundRecord>, CommandError> {
    // Before it is unmounted: a record goes away with its mount.
    let found = striate_mount::found_at(point).filter(MountEntry::is_ours);
    let listed = records(point, found.as_ref());
    if let Some(found) = &found {
        unmount(point, found, lazy)?;
    }
    if unguard {
        let failed = |error| {
            let attempted = format!("cannot make {} writable", point.display());
            CommandError::failed(attempted, error, OWNER)
        };
        striate_mount::make_writable(point).map_err(failed)?;
    } else if found.is_some() && listed.is_empty() {
        return Err(CommandError::failed(
            format!("{} is unmounted", point.display()),
            "there is no record of it, so that it is not known whether everything is on the source",
            "",
        ));
    } else if !listed.iter().any(FoundRecord::is_live) {
        // The process that served it was killed, and has left its guard.
        let lifted = striate_mount::lift_guard(point).unwrap_or(false);
        if lifted {
            say(&format!("{} is no longer guarded", point.display()));
        } else if listed.is_empty() {
            return Err(nothing(point));
        }
    }
    Ok(listed)
}

fn unmount(point: &Path, found: &MountEntry, lazy: bool) -> Result<(), CommandError> {
    let user = rustix::process::geteuid().as_raw();
    let attempted = format!("cannot unmount {}", point.display());
    if let Some(owner) = found.user.filter(|owner| user != 0 && *owner != user) {
        let problem = format!("user {owner} has mounted it, and you are user {user}");
        return Err(CommandError::failed(attempted, problem, OWNER));
    }
    match striate_mount::unmount(point, lazy) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let users = users_of(point);
            let users = if users.is_empty() { "programs".into() } else { users.join(", ") };
            Err(CommandError::failed(
                attempted,
                format!("{users} still use it"),
                "end them, or let --lazy wait for them",
            ))
        }
        Err(error) => Err(CommandError::failed(attempted, error, "")),
    }
}

/// Waits until mounts have ended, and reports the result.
fn ended(
    listed: Vec<FoundRecord>,
    patience: &WaitLimit,
    json: bool,
    rows: &mut Vec<UnmountRow>,
) -> Result<(), CommandError> {
    let mut result = Ok(());
    for mut listed in listed {
        let begun = Instant::now();
        let ended = ending::wait(&mut listed, patience)?;
        let record = listed.record.clone();
        let sentence = ending::sentence(&record, &ended);
        let mut missing = Vec::new();
        let (state, error) = match &ended {
            Ended::Settled => ("settled", None),
            Ended::Failed(_) => ("failed", Some(sentence.clone())),
            Ended::Killed => ("killed", Some(sentence.clone())),
        };
        if ended == Ended::Killed && record.stack.is_none() {
            // Without stages nothing was held back.
            listed.forget();
            if !json {
                terminal::print(&format!("{} is unmounted; {sentence}\n", record.point))?;
            }
        } else if ended == Ended::Settled {
            if !json {
                terminal::print(&format!("{} is unmounted, and {sentence}\n", record.point))?;
            }
        } else {
            let leftovers = Leftovers::of(&listed);
            let text = leftovers.text();
            let attempted = format!("{} is unmounted", record.point);
            result = result.and(Err(CommandError::failed(
                attempted,
                sentence + &text,
                leftovers.remedy,
            )));
            if leftovers.files.is_empty() {
                listed.forget();
            }
            missing = leftovers.files;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (point, source, files) = (record.point, record.source, record.held);
        rows.push(UnmountRow { point, source, state, files, seconds, error, missing });
    }
    result
}

/// Something of ours is mounted, and nothing is known of it here.
fn unknown(point: &Path, found: &MountEntry) -> CommandError {
    let owner = found.user.map_or_else(String::new, |user| format!(" by user {user}"));
    CommandError::failed(
        format!("cannot wait for {}", point.display()),
        format!("it was mounted{owner}, and there is no record of it for you"),
        "only the user who has mounted it, or root, can wait for it",
    )
}

fn nothing(point: &Path) -> CommandError {
    let point_text = point.display();
    if !point.exists() {
        return CommandError::usage(format!("there is no {point_text}"), "");
    }
    match striate_mount::found_at(point) {
        Some(found) => CommandError::usage(
            format!("{point_text} is a mount of type {}, not of 'striate mount'", found.kind),
            "'umount' is for those",
        ),
        None => CommandError::usage(
            format!("nothing is mounted at {point_text}"),
            "'striate mount SOURCE POINT' mounts; findmnt -t fuse.striate lists what is mounted",
        ),
    }
}

/// Processes that use what is below a point, as far as they can be seen.
fn users_of(point: &Path) -> Vec<String> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let uses = |process: &Path| {
        let within = |link: PathBuf| std::fs::read_link(link).is_ok_and(|at| at.starts_with(point));
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        within(process.join("cwd")) || files.into_iter().any(|file| within(file.path()))
    };
    let named = |process: PathBuf| {
        let number: u32 = process.file_name()?.to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        uses(&process).then(|| format!("{} ({number})", name.trim()))
    };
    processes.filter_map(|process| named(process.ok()?.path())).take(5).collect()
}
