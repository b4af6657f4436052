//! The programs that build a lab, and whether this machine has them.

use std::env;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::LabError;

/// The programs, and the Debian packages they are in.
const PROGRAMS: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("sh", "dash"),
];

/// Whether a lab can be built on this machine, as far as that shows without building one.
pub fn check() -> Result<(), LabError> {
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::NotRoot);
    }
    for (program, package) in PROGRAMS {
        if path(program).is_none() {
            return Err(LabError::Missing { program, package });
        }
    }
    Ok(())
}

/// Where a program is. `ip` and `tc` are where only root's PATH leads.
fn path(program: &str) -> Option<std::path::PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let known = env::split_paths(&paths).chain(["/usr/sbin", "/sbin"].map(Into::into));
    known.map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// A command of one of the programs.
pub(crate) fn command(program: &'static str) -> Command {
    let mut command = Command::new(path(program).unwrap_or_else(|| program.into()));
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end, with this input.
pub(crate) fn run(attempted: &str, command: &mut Command, input: &str) -> Result<Output, LabError> {
    let failed = |source| LabError::io(attempted, source);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(failed)?;
    if let Some(mut pipe) = child.stdin.take() {
        // A command that fails before it has read everything says why.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(output);
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        said = output.status.to_string();
    }
    Err(LabError::Command { attempted: attempted.to_owned(), said })
}
