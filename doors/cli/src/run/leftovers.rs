//! What the processes of a run have left elsewhere: files of `path-rewrite` that did not get to their destination, which
//! is tried once more, and logs of `combine`; and the command that brings them, to be pasted into a shell.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use striate_datatype::Bytes;
use striate_stack::Configuration;
use striate_stack::recover::{Fate, finish_moves, left_logs};

/// Finishes moves of files that no process uses any more, and says what is left then. `stack` is the configuration of
/// the run, `file` the one that was asked for.
pub(super) fn of_run(stack: &str, run: &Path, file: Option<&Path>) -> String {
    let mut text = String::new();
    let Ok(configuration) = Configuration::parse(stack) else { return text };
    let moves = finish_moves(&configuration);
    for file in moves.files.iter().filter(|file| matches!(file.fate, Fate::Failed(_))) {
        let _ = writeln!(text, "striate: {file}");
    }
    for (path, error) in &moves.unreadable {
        let _ = writeln!(text, "striate: {}: {error}", path.display());
    }
    let mut places = BTreeSet::new();
    for log in left_logs(run) {
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
    if let (false, Some(file)) = (text.is_empty(), file) {
        let _ = writeln!(
            text,
            "  This brings what can be brought to where it belongs:\n    {}",
            command(file, &places)
        );
    }
    text
}

/// `striate stack recover FILE PLACE…`, as a shell takes it.
fn command(file: &Path, places: &BTreeSet<PathBuf>) -> String {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let mut words = vec![program(), "stack".into(), "recover".into(), quoted(&file)];
    words.extend(places.iter().map(|place| quoted(place)));
    words.join(" ")
}

/// This program: by its name where a shell finds it by that.
fn program() -> String {
    const NAME: &str = "striate";
    let Ok(this) = std::env::current_exe() else { return NAME.into() };
    let found = std::env::var_os("PATH").and_then(|path| {
        let names = std::env::split_paths(&path).map(|directory| directory.join(NAME));
        names.filter_map(|name| name.canonicalize().ok()).next()
    });
    if found.as_deref() == Some(&*this) { NAME.into() } else { quoted(&this) }
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./:=@%+,-".contains(byte);
    let text = path.to_string_lossy();
    let bytes = OsStr::as_bytes(path.as_os_str());
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        assert_eq!(quoted(Path::new("/a/b-1.toml")), "/a/b-1.toml");
        assert_eq!(quoted(Path::new("/a b/$c")), "'/a b/$c'");
        assert_eq!(quoted(Path::new("/it's")), "'/it'\\''s'");
    }
}
