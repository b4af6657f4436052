//! [`Owners`]: which process opened a file.
//!
//! A file is known by the number of the process that opened it, and its number there. Both are
//! reused: a process that executes another program keeps its number and restarts the numbers of its
//! files, and numbers of processes are reused when they have ended.

use std::collections::HashMap;

use striate_trace::TracedFile;

use crate::recording::{ProcessIndex, Recording};

/// See the module.
#[derive(Clone, Debug)]
pub struct Owners<'r> {
    recording: &'r Recording,
    /// Processes by host and number, in the order in which they began.
    numbers: HashMap<(&'r str, u32), Vec<ProcessIndex>>,
}

impl<'r> Owners<'r> {
    /// Those of a recording.
    pub fn new(recording: &'r Recording) -> Self {
        let mut numbers: HashMap<(&str, u32), Vec<ProcessIndex>> = HashMap::new();
        for (index, process) in recording.processes().iter().enumerate() {
            let origin = &process.header().origin;
            numbers.entry((origin.host.as_str(), origin.process)).or_default().push(index);
        }
        Self { recording, numbers }
    }

    /// The process that opened a file which a process uses: itself, or the one that it has
    /// inherited it from: of those with that number the one that began last before it. If that
    /// is not recorded, it is taken for its own.
    pub fn owner(&self, process: ProcessIndex, file: &TracedFile) -> ProcessIndex {
        let Some(own) = self.recording.processes().get(process) else { return process };
        let own = &own.header().origin;
        if own.process == file.opener {
            return process;
        }
        let Some(others) = self.numbers.get(&(own.host.as_str(), file.opener)) else {
            return process;
        };
        let before = others.partition_point(|other| *other < process);
        before.checked_sub(1).map_or(process, |last| others[last])
    }
}
