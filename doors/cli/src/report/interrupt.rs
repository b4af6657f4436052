//! [`ReportInterrupt`]: a signal ends a report within a second, wherever it is.
//!
//! What repeats recordings looks at the flag and ends in order, so that nothing is left behind.
//! What does not end in time is ended: the process exits, with all its threads.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{CommandError, signals};

/// So long a report may take to end in order.
const PATIENCE: Duration = Duration::from_millis(600);
/// The flag is looked at this often.
const LOOK: Duration = Duration::from_millis(20);

/// What listens to signals as long as a report is made.
#[derive(Debug)]
pub(super) struct ReportInterrupt {
    flag: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl ReportInterrupt {
    pub(super) fn new() -> Result<Self, CommandError> {
        let flag = signals::flag()?;
        let over = Arc::new(AtomicBool::new(false));
        let watched = (Arc::clone(&flag), Arc::clone(&over));
        std::thread::spawn(move || {
            let (flag, over) = watched;
            while !flag.load(Ordering::Relaxed) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(LOOK);
            }
            std::thread::sleep(PATIENCE);
            if !over.load(Ordering::Relaxed) {
                let _ = writeln!(
                    std::io::stderr(),
                    "\nerror: the report ended early: it was interrupted"
                );
                std::process::exit(130);
            }
        });
        Ok(Self { flag, over })
    }

    /// What a signal sets.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// An error if a signal came. From here on signals set the flag only: what is left is to be
    /// written.
    pub(super) fn checked(&self) -> Result<(), CommandError> {
        self.over.store(true, Ordering::Relaxed);
        if self.flag.load(Ordering::Relaxed) {
            let what = "the report ended early";
            return Err(CommandError::failed(what, "it was interrupted", ""));
        }
        Ok(())
    }
}

impl Drop for ReportInterrupt {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
