//! Signals that end a command: after the first one it may finish in order, the second one ends it
//! at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::iterator::Signals;

use crate::CommandError;

const ENDING: [i32; 2] = [SIGTERM, SIGINT];

/// A flag that is set by the first signal.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, CommandError> {
    let flag = Arc::new(AtomicBool::new(false));
    let register = |signal| {
        // In this order: the signal that sets the flag does not find it set.
        register_conditional_shutdown(signal, 1, Arc::clone(&flag))?;
        register(signal, Arc::clone(&flag))
    };
    ENDING.into_iter().try_for_each(|signal| register(signal).map(drop)).map_err(failed)?;
    Ok(flag)
}

/// Signals that can be waited for, also those that came before the wait.
#[derive(Debug)]
pub(crate) struct EndSignals(Signals);

impl EndSignals {
    /// From now on signals are noted.
    pub(crate) fn new() -> Result<Self, CommandError> {
        flag()?;
        Signals::new(ENDING).map(Self).map_err(failed)
    }

    /// Waits for the first signal.
    pub(crate) fn wait(mut self) {
        self.0.forever().next();
    }
}

fn failed(error: std::io::Error) -> CommandError {
    CommandError::failed("cannot listen to signals", error, "")
}
