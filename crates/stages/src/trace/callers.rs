//! [`Callers`]: a trace for each process on whose behalf this one works.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use striate_process::Origin;
use striate_process::lock::lock;

use super::shards::Shards;

/// Traces that are written at a time. The one that was used longest ago is ended for another.
const MOST: usize = 64;

/// Threads whose process is remembered.
const MOST_THREADS: usize = 4096;

/// The processes that are served.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<CallerTable>);

#[derive(Debug, Default)]
struct CallerTable {
    /// The process of a thread, or 0 if there is none any more.
    threads: HashMap<u32, u32>,
    processes: HashMap<u32, CallerShards>,
    time: u64,
}

#[derive(Debug)]
struct CallerShards {
    shards: Arc<Shards>,
    last: u64,
}

impl CallerTable {
    fn process_of(&mut self, thread: u32) -> u32 {
        if self.threads.len() >= MOST_THREADS {
            self.threads.clear();
        }
        *self.threads.entry(thread).or_insert_with(|| field(thread, "Tgid:").unwrap_or(0))
    }
}

impl Callers {
    /// The process that a thread belongs to, unless it has ended or is this one.
    pub(super) fn process_of(&self, thread: u32) -> Option<u32> {
        let process = lock(&self.0).process_of(thread);
        Some(process).filter(|process| ![0, std::process::id()].contains(process))
    }

    /// The trace of a process; made if there is none.
    pub(super) fn of(&self, process: u32, make: impl FnOnce(Origin) -> Shards) -> Arc<Shards> {
        let mut known = lock(&self.0);
        known.time += 1;
        let now = known.time;
        if let Some(used) = known.processes.get_mut(&process) {
            used.last = now;
            return Arc::clone(&used.shards);
        }
        let mut ended = None;
        if known.processes.len() >= MOST {
            let oldest = known.processes.iter().min_by_key(|(_, used)| used.last);
            if let Some(oldest) = oldest.map(|(process, _)| *process) {
                ended = known.processes.remove(&oldest);
                // Its number may be another's next time.
                known.threads.retain(|_, of| *of != oldest);
            }
        }
        let shards = Arc::new(make(origin(process)));
        known.processes.insert(process, CallerShards { shards: Arc::clone(&shards), last: now });
        drop(known);
        if let Some(ended) = ended {
            ended.shards.finish();
        }
        shards
    }

    /// All that are written at the moment.
    pub(super) fn all(&self) -> Vec<Arc<Shards>> {
        lock(&self.0).processes.values().map(|used| Arc::clone(&used.shards)).collect()
    }
}

/// What is known of another process. Its command line is not read: a process that waits for this
/// one in a page fault would wait for ever.
fn origin(process: u32) -> Origin {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    Origin {
        process,
        parent: field(process, "PPid:").unwrap_or(0),
        command: vec![name.trim_end().to_owned()],
        ..Origin::this(None)
    }
}

/// A number of a process or thread that the kernel reports.
fn field(of: u32, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_by_their_process() {
        let callers = Callers::default();
        assert_eq!(callers.process_of(u32::MAX), None);
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(callers.process_of(own), None);
        assert_eq!(field(own, "Tgid:"), Some(std::process::id()));
        assert_eq!(callers.process_of(1), Some(1));
        assert_eq!((origin(1).process, origin(1).command.len()), (1, 1));
    }
}
