//! [`ProgramStart`]: the time before a program runs in a directory that is mounted for it.
//!
//! Until `exec`, its process is a fork of this one, which enters the directory and looks for the
//! program's file. Those are not calls of the program: stages do not see them.

use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static BEFORE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the request that this thread carries out was made before the program was started.
pub(crate) fn is_before_program() -> bool {
    BEFORE.get()
}

/// Whether a program is about to be started.
#[derive(Debug, Default)]
pub(crate) struct ProgramStart(AtomicBool);

impl ProgramStart {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Carries out a request of a process, and finds out whether that is the program already.
    pub(crate) fn while_known<R>(&self, process: u32, act: impl FnOnce() -> R) -> R {
        if !self.0.load(Ordering::Relaxed) {
            return act();
        }
        // Some requests of the kernel are not those of a process.
        let program = program_of(&process.to_string());
        let before = program.is_none() || program == program_of("self");
        if !before {
            self.end();
        }
        BEFORE.set(before);
        let result = act();
        BEFORE.set(false);
        result
    }
}

/// Which file a process runs.
fn program_of(process: &str) -> Option<(u64, u64)> {
    let about = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
    Some((about.dev(), about.ino()))
}
