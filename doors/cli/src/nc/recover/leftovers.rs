//! What interrupted commands have left beside a dataset, and partitions that are not those that the
//! master lists.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use striate_array::{DatasetFiles, DatasetKind};
use striate_comm::Threads;
use striate_process::part_file::{is_part, part_prefix};

use super::{RecoveredFile, RecoveredState};
use crate::CommandError;
use crate::fs::Location;
use crate::nc::{open_partial, place};

/// Ends of names, what left them, and what goes on with it.
const ENDS: [(&str, &str, &str); 4] = [
    (
        ".unpublished",
        "a partitioned dataset whose writer did not finish it",
        "'striate nc rm FILE.unpublished' removes it, and so does writing it again",
    ),
    (".removed", "what an interrupted 'nc rm' has left", "'striate nc rm FILE' goes on"),
    (".moving", "what an interrupted 'nc mv' has copied", "the same 'striate nc mv' goes on"),
    (".moved", "the note of an interrupted 'nc mv'", "the same 'striate nc mv' goes on"),
];

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Unfinished copies of a name that are beside it.
fn parts(path: &Path) -> Vec<PathBuf> {
    let prefix = part_prefix(path.file_name().unwrap_or_default());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(list) = std::fs::read_dir(directory.unwrap_or(Path::new("."))) else {
        return Vec::new();
    };
    let entries = list.filter_map(Result::ok);
    entries.filter(|entry| is_part(&entry.file_name(), &prefix)).map(|entry| entry.path()).collect()
}

/// Whether something of a name is left, besides the file itself.
pub(super) fn has_some(path: &Path) -> bool {
    let exists = |end| with_end(path, end).symlink_metadata().is_ok();
    ENDS.iter().any(|(end, ..)| exists(end)) || !parts(path).is_empty()
}

/// Adds what is left of a name to what was found in the file.
pub(super) fn add(path: &Path, row: &mut RecoveredFile) {
    if let Ok(Location::Local(local)) = place(path) {
        for (end, what, hint) in ENDS {
            let left = with_end(&local, end);
            if left.symlink_metadata().is_ok() {
                let hint = hint.replace("FILE", &local.display().to_string());
                row.found(format!("{}: {what}", left.display()), hint);
            }
        }
        for part in parts(&local) {
            let hint =
                "it goes when the same name is written again, unless a program is writing it";
            row.found(format!("{}: an unfinished copy", part.display()), hint);
        }
    }
    if row.state != RecoveredState::Missing {
        partitions(path, row);
    }
}

/// Partitions that are missing, or differ from the master.
fn partitions(path: &Path, row: &mut RecoveredFile) {
    let Ok(files) = DatasetFiles::of(path) else { return };
    if !matches!(files.kind, DatasetKind::Partitioned { .. } | DatasetKind::SubFiles) {
        return;
    }
    let hint = "'striate nc info DATASET' shows all partitions";
    let mut known = vec![false; files.partitions.len()];
    for (known, part) in known.iter_mut().zip(&files.partitions) {
        if let Some(problem) = &part.problem {
            *known = true;
            row.found(format!("partition {}: {problem}", part.file.display()), hint);
        }
    }
    if row.state == RecoveredState::Unfinished {
        return;
    }
    // One rank: its errors are its own.
    let opened = Threads::new(1).try_run(|comm| {
        let dataset = open_partial(&comm, path)?;
        let infos = dataset.partitions().unwrap_or_default();
        Ok::<_, CommandError>(infos.iter().map(|info| info.missing.clone()).collect::<Vec<_>>())
    });
    match opened {
        Ok(problems) => {
            for (at, problem) in problems.concat().into_iter().enumerate() {
                if let (Some(problem), Some(false)) = (problem, known.get(at)) {
                    let file = files.partitions[at].file.display();
                    row.found(format!("partition {file}: {problem}"), hint);
                }
            }
        }
        Err(error) => row.found(error.to_string(), hint),
    }
}
