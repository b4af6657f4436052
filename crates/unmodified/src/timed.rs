//! [`run`]: a program with a time limit.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How a program ended, and what it said.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status; `None` if it did not end.
    pub status: Option<ExitStatus>,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

/// Runs a program to its end, or for as long as it may take; then it and its children are killed.
///
/// Its output goes to files: children that it leaves behind cannot keep us waiting.
pub fn run(command: &mut Command, longest: Duration) -> Ended {
    let [out, err] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
    let into = |file: &tempfile::NamedTempFile| {
        Stdio::from(File::options().append(true).open(file.path()).unwrap())
    };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(into(&out))
        .stderr(into(&err))
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{} cannot be run: {error}", command.get_program().display())
        });
    let until = Instant::now() + longest;
    let mut pause = Duration::from_micros(500);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > until {
            let group = Pid::from_child(&child);
            let _ = kill_process_group(group, Signal::KILL);
            child.wait().unwrap();
            break None;
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let text = |file: &tempfile::NamedTempFile| {
        String::from_utf8_lossy(&std::fs::read(file.path()).unwrap()).into_owned()
    };
    let stderr = text(&err);
    assert!(!stderr.contains("running without stages"), "{stderr}");
    Ended { status, stdout: text(&out), stderr }
}
