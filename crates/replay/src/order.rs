//! [`Order`]: which calls a call has to wait for.
//!
//! A call that began after another on the same file had ended waits for that one, unless both only
//! read. The same holds for names, and for the position of an open file. Calls of one worker are in
//! order anyway, so of each worker it is enough to wait for the last such call: as a worker and the
//! number of calls that it must have completed.

use std::collections::HashMap;
use std::path::PathBuf;

use smallvec::SmallVec;
use striate_recording::ProcessIndex;

use crate::namespace::{FileId, NodeId};
use crate::progress::Progress;

/// A worker and a number of its calls.
pub(crate) type CallPoint = (u32, u64);

/// Points that a call waits for.
pub(crate) type CallPoints = SmallVec<[CallPoint; 2]>;

/// What calls can be about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The contents of a file.
    Node(NodeId),
    /// What is at a name.
    Name(PathBuf),
    /// An open file: its position, and whether it is open.
    File(FileId),
    /// A process: calls read it, its end and the start of a child write it.
    Process(ProcessIndex),
}

/// The last calls of a worker on something. Only the very last may not have ended when another
/// begins.
#[derive(Clone, Copy, Debug)]
struct WorkerLast {
    worker: u32,
    latest: (u64, u64),
    previous: (u64, u64),
}

/// The last calls on something.
#[derive(Clone, Debug, Default)]
struct LastCalls {
    readers: SmallVec<[WorkerLast; 1]>,
    writers: SmallVec<[WorkerLast; 1]>,
}

/// A call that is being planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCall {
    /// Whose it is.
    pub(crate) worker: u32,
    /// How many calls the worker has done after it.
    pub(crate) count: u64,
    /// When it began.
    pub(crate) start: u64,
    /// When it ended.
    pub(crate) end: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Order {
    lasts: HashMap<Key, LastCalls>,
    /// What each worker has waited for already, by the other.
    seen: Vec<Vec<u64>>,
}

impl Order {
    pub(crate) fn new(workers: usize) -> Self {
        Self { lasts: HashMap::new(), seen: vec![Vec::new(); workers] }
    }

    /// What a call waits for on account of `keys`, of which it writes those that say so. From now
    /// on others wait for it.
    pub(crate) fn place(
        &mut self,
        at: PlannedCall,
        keys: SmallVec<[(Key, bool); 4]>,
        points: &mut CallPoints,
    ) {
        for (key, writes) in keys {
            let lasts = self.lasts.entry(key).or_default();
            let readers = if writes { lasts.readers.as_slice() } else { &[] };
            for last in lasts.writers.iter().chain(readers) {
                if let Some(count) = last.before(at) {
                    points.push((last.worker, count));
                }
            }
            let own = if writes { &mut lasts.writers } else { &mut lasts.readers };
            note(own, at);
        }
        self.reduce(at.worker, points);
    }

    /// Others wait for this point as if a call that writes had ended there.
    pub(crate) fn written(&mut self, key: Key, at: PlannedCall) {
        note(&mut self.lasts.entry(key).or_default().writers, at);
    }

    /// Leaves out what the worker has waited for already.
    pub(crate) fn reduce(&mut self, worker: u32, points: &mut CallPoints) {
        points.sort_unstable();
        points.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1.max(kept.1);
            }
            same
        });
        let Some(seen) = self.seen.get_mut(worker as usize) else { return };
        points.retain(|(other, count)| {
            let other = *other as usize;
            if other == worker as usize {
                return false;
            }
            if seen.len() <= other {
                seen.resize(other + 1, 0);
            }
            let news = *count > seen[other];
            seen[other] = seen[other].max(*count);
            news
        });
    }

    /// Forgets what has been done.
    pub(crate) fn forget(&mut self, progress: &Progress) {
        let pending = |last: &WorkerLast| last.latest.0 > progress.done(last.worker);
        self.lasts.retain(|_, lasts| {
            lasts.readers.retain(|last| pending(last));
            lasts.writers.retain(|last| pending(last));
            !(lasts.readers.is_empty() && lasts.writers.is_empty())
        });
    }

    /// How many things there are that calls may have to wait for.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lasts.len()
    }
}

impl WorkerLast {
    /// The last call of this worker that had ended when another began.
    fn before(&self, at: PlannedCall) -> Option<u64> {
        let ended = [self.latest, self.previous].into_iter().find(|(_, end)| *end <= at.start);
        ended.map(|(count, _)| count).filter(|count| *count > 0 && self.worker != at.worker)
    }
}

fn note(lasts: &mut SmallVec<[WorkerLast; 1]>, at: PlannedCall) {
    let now = (at.count, at.end);
    match lasts.iter_mut().find(|last| last.worker == at.worker) {
        Some(last) => (last.previous, last.latest) = (last.latest, now),
        None => lasts.push(WorkerLast { worker: at.worker, latest: now, previous: (0, 0) }),
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn place(worker: u32, count: u64, start: u64, end: u64) -> PlannedCall {
        PlannedCall { worker, count, start, end }
    }

    #[test]
    fn a_call_waits_for_what_had_ended() {
        let mut order = Order::new(4);
        let mut waits = |worker, count, start, end, writes| {
            let mut points = CallPoints::new();
            let keys = smallvec![(Key::Node(1), writes)];
            order.place(place(worker, count, start, end), keys, &mut points);
            points.into_vec()
        };
        assert_eq!(waits(0, 1, 0, 10, true), []);
        // It had not ended.
        assert_eq!(waits(1, 1, 5, 20, true), []);
        // Both had.
        assert_eq!(waits(2, 1, 20, 30, false), [(0, 1), (1, 1)]);
        // Readers do not wait for each other, and no worker waits twice for the same.
        assert_eq!(waits(3, 1, 40, 50, false), [(0, 1), (1, 1)]);
        assert_eq!(waits(3, 2, 60, 70, false), []);
        assert_eq!(waits(0, 2, 65, 80, true), [(1, 1), (2, 1), (3, 1)]);
        let progress = Progress::new(4);
        order.forget(&progress);
        assert_eq!(order.len(), 1);
        for worker in 0..4 {
            for _ in 0..2 {
                progress.complete(worker);
            }
        }
        order.forget(&progress);
        assert_eq!(order.len(), 0);
    }
}
