//! Commands to paste: words quoted for a shell, and the name of this program.

use std::env;
use std::path::{Path, PathBuf};

/// A word as a shell takes it: as it is, or quoted.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%~".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('~') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A path as a shell takes it.
pub(crate) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// Words as a command, indented by two spaces; where the terminal is too narrow it goes on in the
/// next line, as a shell takes it.
pub(crate) fn continued(words: &[&str], width: Option<usize>) -> String {
    // A backslash has to fit as well.
    let width = width.map_or(usize::MAX, |width| width - 2);
    let mut text = String::from("  ");
    let mut column = 2;
    for (number, word) in words.iter().enumerate() {
        let len = word.chars().count();
        if number > 0 && column + 1 + len > width {
            text.push_str(" \\\n      ");
            column = 6;
        } else if number > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += len;
    }
    text
}

/// How to call this program again: as it was called, if that can be repeated from any directory;
/// through cargo, if that started it; else by its path.
pub(crate) fn own_command() -> String {
    // Cargo finds its workspace from the directories of that only.
    let package = env::var_os("CARGO").and_then(|_| env::var_os("CARGO_MANIFEST_DIR"));
    let workspace =
        package.as_deref().map(Path::new).and_then(|package| package.parent()?.parent());
    let here = env::current_dir().unwrap_or_default();
    let by_cargo = workspace.is_some_and(|workspace| here.starts_with(workspace));
    let called = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let program = env::current_exe().unwrap_or_else(|_| called.clone());
    command(&called, &program, by_cargo)
}

fn command(called: &Path, program: &Path, by_cargo: bool) -> String {
    if let Some(place) = CargoPlace::of(program).filter(|_| by_cargo) {
        let flags = place.flags().into_iter().map(|flag| quoted(&flag) + " ");
        return format!("cargo run {}--", flags.collect::<String>());
    }
    // A name without a directory was found on PATH, and will be again.
    if called.components().count() == 1 && !called.as_os_str().is_empty() && !called.is_absolute() {
        return quoted_path(called);
    }
    quoted_path(program)
}

/// Where cargo built a program: `TARGET/release`, or `TARGET/TRIPLE/release`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CargoPlace {
    /// The target directory.
    pub(crate) target: PathBuf,
    triple: Option<String>,
    profile: String,
}

impl CargoPlace {
    /// That of a program, if cargo has built it and it was not moved since.
    pub(crate) fn of(program: &Path) -> Option<Self> {
        let directory = program.parent()?;
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let profile = name(directory)?;
        // Cargo marks its directory for programs that make backups.
        let is_target = |path: &Path| path.join("CACHEDIR.TAG").is_file();
        let above = directory.parent()?;
        if is_target(above) {
            return Some(Self { target: above.to_path_buf(), triple: None, profile });
        }
        let target = above.parent().filter(|path| is_target(path))?;
        Some(Self { target: target.to_path_buf(), triple: Some(name(above)?), profile })
    }

    /// The flags of cargo that build for this place.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = match self.profile.as_str() {
            "debug" => Vec::new(),
            "release" => vec!["--release".to_owned()],
            other => vec!["--profile".to_owned(), other.to_owned()],
        };
        if let Some(triple) = &self.triple {
            flags.extend(["--target".to_owned(), triple.clone()]);
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        for (word, shown) in [
            ("/usr/bin/striate", "/usr/bin/striate"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("~x", "'~x'"),
            ("vector(3, 2)", "'vector(3, 2)'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
    }

    #[test]
    fn long_commands_go_on_in_the_next_line() {
        let words = ["cargo run --", "bench tile-reader", "--servers 16"];
        assert_eq!(continued(&words, None), "  cargo run -- bench tile-reader --servers 16");
        assert_eq!(
            continued(&words, Some(40)),
            "  cargo run -- bench tile-reader \\\n      --servers 16"
        );
    }

    #[test]
    fn the_program_is_called_as_it_can_be_called_again() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("my target");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("CACHEDIR.TAG"), "").unwrap();
        let program = target.join("release/striate");
        let path = format!("'{}'", program.display());
        let called = Path::new("target/release/striate");
        assert_eq!(command(called, &program, true), "cargo run --release --");
        assert_eq!(command(called, &program, false), path);
        assert_eq!(command(Path::new("striate"), &program, false), "striate");
        assert_eq!(command(called, &target.join("debug/striate"), true), "cargo run --");
        let other = target.join("aarch64-unknown-linux-gnu/fast/striate");
        assert_eq!(
            command(called, &other, true),
            "cargo run --profile fast --target aarch64-unknown-linux-gnu --"
        );
        let elsewhere = Path::new("/opt/striate/bin/striate");
        assert_eq!(command(elsewhere, elsewhere, true), "/opt/striate/bin/striate");
    }
}
