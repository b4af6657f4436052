//! Starting the program, forwarding signals to it, and its end.

use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Signals that are meant for the program.
const PASSED_ON: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT];

/// Runs a command to its end.
pub(super) fn run(command: &mut Command) -> io::Result<ExitStatus> {
    run_started(|| Ok::<_, io::Error>((command.spawn()?, ()))).map(|(status, ())| status)
}

/// Runs a program to its end that is started together with something else.
pub(super) fn run_started<T, E: From<io::Error>>(
    start: impl FnOnce() -> Result<(Child, T), E>,
) -> Result<(ExitStatus, T), E> {
    // Before the program starts: from then on this one ends only with it.
    let mut signals = Signals::new(PASSED_ON)?;
    let handle = signals.handle();
    let (mut child, other) = start()?;
    let process = Pid::from_child(&child);
    // What is typed at a terminal goes to all of its processes anyway.
    let typed = io::stdin().is_terminal();
    let hand_on = std::thread::spawn(move || {
        for signal in &mut signals {
            if typed && matches!(signal, SIGINT | SIGQUIT) {
                continue;
            }
            if let Some(signal) = Signal::from_named_raw(signal) {
                let _ = kill_process(process, signal);
            }
        }
    });
    let status = child.wait();
    handle.close();
    let _ = hand_on.join();
    Ok((status?, other))
}

/// The status to end with, as a shell would return it.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(code(status))
}

/// 128 and the signal, if one ended it.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
