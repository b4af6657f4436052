//! Files that the processes of a run have left behind: files of `path-rewrite` that did not reach
//! their destination, for which the move is retried, and logs of `combine`; and the command that
//! restores them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use striate_datatype::Bytes;
use striate_stages::recover::{Fate, finish_moves, leftover_logs};

use crate::shell::{own_command, quoted_path};
use crate::stack::named;

/// Finishes moves of files that no process uses any more, and says what is left then. `stack` is
/// the configuration of the run, `given` the one that was asked for.
pub(super) fn of_run(stack: &str, run: &Path, given: Option<&Path>) -> String {
    let mut text = String::new();
    let Ok(configuration) = striate_stages::parse_stack(stack) else { return text };
    let moves = finish_moves(&configuration);
    for file in moves.files.iter().filter(|file| matches!(file.fate, Fate::Failed(_))) {
        let _ = writeln!(text, "striate: {file}");
    }
    for (path, error) in &moves.unreadable {
        let _ = writeln!(text, "striate: {}: {error}", path.display());
    }
    let mut places = BTreeSet::new();
    for log in leftover_logs(run) {
        let (path, bytes) = (log.path.display(), Bytes(log.bytes));
        let _ = match log.files {
            0 => writeln!(text, "striate: an empty log of combine is left: {path}"),
            1 => writeln!(text, "striate: 1 file of combine ({bytes}) is left in a log: {path}"),
            files => {
                writeln!(
                    text,
                    "striate: {files} files of combine ({bytes}) are left in a log: {path}"
                )
            }
        };
        if let Some(place) = log.path.parent() {
            places.insert(place.to_path_buf());
        }
    }
    if let (false, Some(given)) = (text.is_empty(), given) {
        let _ = writeln!(
            text,
            "  This command restores what can be restored:\n    {}",
            command(given, &places)
        );
    }
    text
}

/// `striate stack recover STACK PLACE…`, as a shell takes it.
fn command(stack: &Path, places: &BTreeSet<PathBuf>) -> String {
    let stack = quoted_path(&named::lasting(stack));
    let mut words = vec![own_command(), "stack".into(), "recover".into(), stack];
    words.extend(places.iter().map(|place| quoted_path(place)));
    words.join(" ")
}
