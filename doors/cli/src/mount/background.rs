//! Serving a mount by a background process.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::{CommandError, terminal};

/// Starts another process of this program, and waits until its mount works.
pub(super) fn run() -> Result<(), CommandError> {
    let failed = |error| CommandError::failed("cannot start the process that serves", error, "");
    let own = std::env::current_exe().map_err(failed)?;
    let arguments = std::env::args_os().skip(1).filter(|word| word != "--background");
    let mut child = Command::new(own)
        .args(arguments)
        .arg("--serving")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        // It says one line when the mount works.
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
    }
    if line.is_empty() {
        // What went wrong it has said itself.
        child.wait().map_err(failed)?;
        return Err(CommandError::NotWell);
    }
    terminal::print(&line)
}

/// This process continues when the terminal is closed.
pub(super) fn detach() {
    // It fails if the process is detached already.
    let _ = rustix::process::setsid();
}

/// Closes the output, which the command that started this process does not read any more.
pub(super) fn be_silent() {
    let Ok(nothing) = std::fs::File::options().write(true).open("/dev/null") else { return };
    // A reader of the pipe waits until all writers have closed it.
    let _ = rustix::stdio::dup2_stdout(&nothing);
    let _ = rustix::stdio::dup2_stderr(&nothing);
}
