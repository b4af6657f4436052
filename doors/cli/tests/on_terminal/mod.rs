//! Commands on a terminal: `script` (of bsdutils, or util-linux) gives them one.

mod tour;

use std::path::Path;
use std::process::{Command, Stdio};

/// What a shell printed on a terminal of so many columns, and how it ended.
pub(crate) struct Session {
    pub(crate) text: String,
    pub(crate) status: Option<i32>,
}

/// A command that runs a script of the shell on a terminal, in a directory, with our command on
/// PATH.
pub(crate) fn command(script: &str, columns: usize, directory: &Path) -> Command {
    let ours = Path::new(env!("CARGO_BIN_EXE_striate")).parent().map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = ours.into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(paths).expect("directories without colons");
    let mut command = Command::new("script");
    // What it records goes nowhere; it prints the same.
    command.args(["--quiet", "--return", "--command"]);
    command.arg(format!("stty cols {columns} rows 40; {script}")).arg("/dev/null");
    command.current_dir(directory).stdin(Stdio::null()).env("PATH", path);
    command.env("SHELL", "/bin/bash").env("LC_ALL", "C.UTF-8").env("TERM", "xterm");
    for name in ["COLUMNS", "NO_COLOR", "CLICOLOR_FORCE", "STRIATE_PRELOAD", "LD_PRELOAD", "CARGO"]
    {
        command.env_remove(name);
    }
    command
}

/// Runs one to its end.
pub(crate) fn run(script: &str, columns: usize, directory: &Path) -> Session {
    let output = command(script, columns, directory).output().expect("'script' is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Session { text: plain(&text), status: output.status.code() }
}

/// A text without colours and moves of the cursor; what overwrites a line is one of its own.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' => {
                // A sequence: a bracket, parameters, and a letter; or two characters.
                if characters.next() == Some('[') {
                    for c in characters.by_ref() {
                        if c.is_ascii_alphabetic() {
                            break;
                        }
                    }
                }
            }
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => plain.push('\n'),
            c => plain.push(c),
        }
    }
    plain
}

impl Session {
    /// Lines that are wider than the terminal, without those that are one long word, as paths and
    /// quoted ones are.
    pub(crate) fn too_wide(&self, columns: usize) -> Vec<&str> {
        let one_word = |line: &str| {
            let line = line.trim().trim_end_matches(" \\");
            !line.contains(' ') || (line.starts_with('\'') && line.ends_with('\''))
        };
        let wide = |line: &&str| line.trim_end().chars().count() > columns && !one_word(line);
        self.text.lines().filter(wide).collect()
    }
}
