//! Earlier mounts of a source that is to be mounted again.
//!
//! As long as another process still writes what programs did at an earlier mount, the source is not
//! complete: a new mount would show, and change, files that are about to be written. So the new
//! mount waits.

use std::path::Path;

use striate_mount::{Ended, FoundNote, FoundRecord};

use super::ending::{self, Leftovers, WaitLimit};
use super::say;
use crate::CommandError;

/// Waits until earlier mounts of a source have ended, and reports what those have left that did not
/// end cleanly.
pub(crate) fn wait(
    source: &Path,
    (stack, configuration): (Option<&Path>, &str),
    patience: &WaitLimit,
) -> Result<(), CommandError> {
    for mut listed in of_source(source) {
        if listed.is_live() && listed.is_settling() {
            say(&format!(
                "process {} still writes data of the mount at {} to {}: waiting for it",
                listed.record.process, listed.record.point, listed.record.source
            ));
            ending::wait(&mut listed, patience)?;
        }
    }
    for note in FoundNote::in_source(source).iter().filter(|note| note.is_live()) {
        say(&format!(
            "{}: process {} of user {} still writes there: waiting for it",
            note.path.display(),
            note.process,
            note.user
        ));
        patience.until(|| !note.is_live()).map_err(|reason| {
            let attempted = format!("not everything is on {} yet", source.display());
            let problem = format!("{reason}, and {} is still locked", note.path.display());
            CommandError::failed(attempted, problem, "mount it later, or wait without --timeout")
        })?;
    }
    forget_the_killed();
    tell_leftovers(source);
    tell_notes(source, stack, configuration);
    Ok(())
}

/// The records of mounts whose source overlaps this one. For those of other users there are notes,
/// which need permission to write to the source.
fn of_source(source: &Path) -> Vec<FoundRecord> {
    let overlaps = |listed: &FoundRecord| {
        let other = Path::new(&listed.record.source);
        listed.is_own_or_roots() && (other.starts_with(source) || source.starts_with(other))
    };
    FoundRecord::all().into_iter().filter(overlaps).collect()
}

/// Forgets mounts of processes that were killed and whose source no longer exists.
fn forget_the_killed() {
    let own = rustix::process::geteuid().as_raw();
    for mut listed in FoundRecord::all().into_iter().filter(|listed| listed.user == own) {
        let gone = !Path::new(&listed.record.source).exists();
        if gone && listed.look() == Some(Ended::Killed) {
            listed.forget();
        }
    }
}

/// Tells what mounts have left that did not end well. They are forgotten if that is nothing.
fn tell_leftovers(source: &Path) {
    for mut listed in of_source(source) {
        let Some(ended) = listed.look().filter(|ended| *ended != Ended::Settled) else { continue };
        if listed.user != rustix::process::geteuid().as_raw() {
            continue;
        }
        let leftovers = Leftovers::of(&listed);
        let sentence = ending::sentence(&listed.record, &ended);
        if leftovers.files.is_empty() {
            if ended == Ended::Killed && listed.record.stack.is_some() {
                say(&format!("{sentence}; nothing is left to recover"));
            }
            let process = listed.record.process;
            let notes = FoundNote::in_source(Path::new(&listed.record.source));
            notes.into_iter().filter(|note| note.process == process).for_each(FoundNote::remove);
            listed.forget();
        } else {
            let (text, remedy) = (leftovers.text(), &leftovers.remedy);
            say(&format!("{sentence}; {remedy}:{text}"));
        }
    }
}

/// Reports notes without a record: the machine was started again, or it was another one.
fn tell_notes(source: &Path, stack: Option<&Path>, configuration: &str) {
    let known: Vec<u32> = of_source(source).iter().map(|listed| listed.record.process).collect();
    for note in FoundNote::in_source(source) {
        if note.is_live() || known.contains(&note.process) {
            continue;
        }
        let parsed = striate_stages::parse_stack(configuration);
        let left = parsed.map(|parsed| ending::found(&parsed, source)).unwrap_or_default();
        if left.is_empty() && note.user == rustix::process::geteuid().as_raw() {
            note.remove();
            continue;
        }
        let stack = stack.map_or("STACK".into(), |stack| stack.display().to_string());
        say(&format!(
            "{}: an earlier mount of {} did not end cleanly; {}",
            note.path.display(),
            source.display(),
            ending::remedy(&stack, &source.display().to_string())
        ));
    }
}
