//! [`copy_program`]: a copy of a program that can be started at once.

use std::path::Path;
use std::process::Command;

/// Copies a program by a process of its own.
///
/// A test that copies it itself has it open for writing for a moment. Another test of the process
/// that starts a program meanwhile gives the open file to it, and the copy cannot be executed
/// ("Text file busy") until that one has called `exec`.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let status = Command::new("cp").arg("--").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(status.unwrap().success(), "{} cannot be copied", from.as_ref().display());
}
