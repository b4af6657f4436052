//! `striate nc` as a process: what it prints, and its status.

use std::ffi::OsStr;
use std::process::{Command, Output};

/// Our command.
pub(crate) fn striate<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Output {
    command(arguments).output().unwrap()
}

/// Our command, to be changed before it is run.
pub(crate) fn command<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.arg("nc").args(arguments).env("LC_ALL", "C.UTF-8").env("NO_COLOR", "1");
    command.env_remove("STRIATE_HINTS").env("STRIATE_PATIENCE", "5s");
    command
}

/// All that a command has printed.
pub(crate) fn told(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// What a command prints that succeeds.
pub(crate) fn answer(output: Output, about: impl std::fmt::Display) -> Vec<u8> {
    assert!(output.status.success(), "{about}: {}", told(&output));
    output.stdout
}

/// What our command says that fails.
pub(crate) fn complaint<I: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = I>,
    status: i32,
) -> String {
    let output = striate(arguments);
    assert_eq!(output.status.code(), Some(status), "{}", told(&output));
    assert!(output.stdout.is_empty(), "{}", told(&output));
    String::from_utf8(output.stderr).unwrap()
}
