//! [`Planner`]: turns records into tasks of workers.
//!
//! It runs concurrently with the workers, at most a window of calls ahead of them, so memory does
//! not grow with the number of calls.

mod keys;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use striate_recording::{ProcessIndex, Recording};
use striate_trace::Record;

use crate::fix::Fix;
use crate::namespace::NodeId;
use crate::options::Options;
use crate::order::{CallPoint, CallPoints, Key, Order, PlannedCall};
use crate::progress::Progress;
use crate::survey::{Files, Survey, Thread};
use crate::task::{Call, Inbox, Task, TaskKind};

/// Every so many calls it is forgotten what has been done.
const FORGET: u64 = 1 << 14;

/// Ends of threads that are remembered, because other threads may have waited for them.
const MOST_ENDS: usize = 64;

/// A point of time to which a thread may be tied: when something ended, whose drift counts, and
/// what has to be done.
#[derive(Clone, Copy, Debug)]
struct TimeTie {
    end: u64,
    thread: usize,
    point: CallPoint,
}

/// A process of which calls are planned.
#[derive(Debug)]
struct LiveProcess {
    left: u64,
    /// The last that ended of its calls, so far.
    latest: Option<TimeTie>,
    /// What it wrote.
    written: HashSet<NodeId>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Planner<'r> {
    recording: &'r Recording,
    survey: &'r mut Survey,
    options: &'r Options,
    progress: &'r Progress,
    inboxes: &'r [Inbox],
    open: Files<'r>,
    order: Order,
    /// Tasks of each worker.
    counts: Vec<u64>,
    planned: u64,
    live: HashMap<ProcessIndex, LiveProcess>,
    /// Of each thread, when its last call ended, and how many calls are left.
    threads: Vec<(Option<u64>, u64)>,
    /// Threads of a process that have ended.
    ended_threads: HashMap<ProcessIndex, Vec<TimeTie>>,
    /// Children of a process, by its number, that have ended.
    ended_children: HashMap<u32, Vec<TimeTie>>,
    thinks: bool,
}

impl<'r> Planner<'r> {
    pub(crate) fn new(
        recording: &'r Recording,
        survey: &'r mut Survey,
        options: &'r Options,
        progress: &'r Progress,
        inboxes: &'r [Inbox],
    ) -> Self {
        let mut threads = vec![(None, 0); survey.threads.len()];
        for thread in survey.threads.values() {
            threads[thread.index].1 = thread.records;
        }
        Self {
            recording,
            options,
            progress,
            inboxes,
            open: Files::new(recording),
            order: Order::new(survey.workers),
            counts: vec![0; survey.workers],
            planned: 0,
            live: HashMap::new(),
            threads,
            ended_threads: HashMap::new(),
            ended_children: HashMap::new(),
            thinks: matches!(options.timing, crate::options::Timing::Think),
            survey,
        }
    }

    /// Plans all calls.
    pub(crate) fn run(mut self) {
        for (number, (process, record)) in (0..).zip(self.recording.in_order().uncounted()) {
            if self.options.stop.load(Ordering::Relaxed) {
                return;
            }
            let thread = self.survey.threads.get(&(process, record.thread)).copied();
            if let Some(thread) = thread {
                self.plan(process, thread, record, number);
            }
            while self.planned - self.progress.total() > self.options.window as u64
                && !self.options.stop.load(Ordering::Relaxed)
            {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    fn number(&self, process: ProcessIndex) -> (u32, u32) {
        let origin = &self.recording.processes()[process].header().origin;
        (origin.process, origin.parent)
    }

    fn plan(&mut self, process: ProcessIndex, thread: Thread, record: Record, number: u64) {
        let end = record.start.saturating_add(record.duration);
        let mut after = CallPoints::new();
        let mut anchor = thread.index;
        if !self.live.contains_key(&process) {
            anchor = self.start(process, thread, record.start).unwrap_or(anchor);
        } else if self.thinks
            && let Some(tie) = self.tie(process, thread, record.start)
        {
            after.push(tie.point);
            anchor = tie.thread;
        }
        let files = self.open.of(process, &record);
        let link = self.survey.namespace.link_from(process, &record);
        let (about, fixes) = self.survey.namespace.observe(process, &record, files[0], files[1]);
        let mut keys = keys::keys(&record, files, &about, &self.survey.changing);
        if !fixes.is_empty() {
            // A correction changes the state that other calls find.
            keys.iter_mut().for_each(|(_, writes)| *writes = true);
        }
        for fix in &fixes {
            if let Fix::Directory(path) = fix {
                keys.push((Key::Name(path.clone()), true));
            }
        }
        keys.push((Key::Process(process), false));
        let place = self.next_place(thread.worker, record.start, end);
        if let Some(live) = self.live.get_mut(&process) {
            live.left = live.left.saturating_sub(1);
            live.written.extend(keys.iter().filter_map(|key| match key {
                (Key::Node(node), true) => Some(*node),
                _ => None,
            }));
            if live.latest.is_none_or(|latest| latest.end <= end) {
                let point = (place.worker, place.count);
                live.latest = Some(TimeTie { end, thread: thread.index, point });
            }
        }
        self.order.place(place, keys, &mut after);
        let index = thread.index;
        let call = Call { record, number, thread: index, anchor, files, fixes, link };
        self.put(thread.worker, Task { process, after, what: TaskKind::Call(Box::new(call)) });

        let (last, left) = &mut self.threads[index];
        (*last, *left) = (Some(end), left.saturating_sub(1));
        if *left == 0 && self.thinks {
            let tie = TimeTie { end, thread: index, point: (place.worker, place.count) };
            push(self.ended_threads.entry(process).or_default(), tie);
        }
        if self.live.get(&process).is_some_and(|live| live.left == 0) {
            self.end(process, thread);
        }
    }

    /// Plans the start of a process. Returns whose drift it begins with.
    fn start(&mut self, process: ProcessIndex, thread: Thread, start: u64) -> Option<usize> {
        let life = self.survey.processes[process].clone();
        let live = LiveProcess { left: life.records, latest: None, written: HashSet::new() };
        self.live.insert(process, live);
        let mut after = CallPoints::new();
        // Its other threads may begin at once.
        let mut keys = SmallVec::new();
        keys.push((Key::Process(process), true));
        if let Some(before) = life.before {
            keys.push((Key::Process(before), false));
        }
        let parent = life.parent.filter(|parent| self.live.contains_key(parent));
        if let Some(parent) = parent {
            keys.push((Key::Process(parent), true));
        }
        let mut tie = None;
        if self.thinks {
            let parent = parent.and_then(|parent| self.live.get(&parent)?.latest);
            let siblings = self.ended_children.get(&self.number(process).1);
            let ties = siblings.into_iter().flatten().copied().chain(parent);
            tie = ties.filter(|tie| tie.end <= start).max_by_key(|tie| tie.end);
            after.extend(tie.map(|tie| tie.point));
        }
        let place = self.next_place(thread.worker, start, start);
        self.order.place(place, keys, &mut after);
        let parents = parent.and_then(|parent| self.live.get(&parent)?.latest);
        let later = [parents, tie.filter(|tie| Some(tie.thread) != parents.map(|tie| tie.thread))];
        let later = later.map(|tie| tie.map(|tie| (tie.thread, tie.end)));
        self.put(thread.worker, Task { process, after, what: TaskKind::Start { parent, later } });
        tie.map(|tie| tie.thread)
    }

    /// What a thread was waiting for between its calls: a thread or a child that ended meanwhile. A
    /// new thread was started after the last call of its process.
    fn tie(&self, process: ProcessIndex, thread: Thread, start: u64) -> Option<TimeTie> {
        let Some(before) = self.threads[thread.index].0 else {
            return self.live.get(&process)?.latest.filter(|tie| tie.end <= start);
        };
        let threads = self.ended_threads.get(&process);
        let children = self.ended_children.get(&self.number(process).0);
        let ties = threads.into_iter().flatten().chain(children.into_iter().flatten());
        let meanwhile = ties.filter(|tie| before <= tie.end && tie.end <= start);
        meanwhile.filter(|tie| tie.thread != thread.index).max_by_key(|tie| tie.end).copied()
    }

    /// Plans the end of a process: then all that stages hold back is there for others.
    fn end(&mut self, process: ProcessIndex, thread: Thread) {
        let Some(live) = self.live.remove(&process) else { return };
        let end = live.latest.map_or(0, |latest| latest.end);
        let place = self.next_place(thread.worker, u64::MAX, end);
        let mut after = CallPoints::new();
        self.order.place(place, smallvec![(Key::Process(process), true)], &mut after);
        for node in live.written {
            self.order.written(Key::Node(node), place);
        }
        let last = live.latest.map_or(thread.index, |latest| latest.thread);
        self.put(thread.worker, Task { process, after, what: TaskKind::End(last, end) });
        self.ended_threads.remove(&process);
        if let Some(latest) = live.latest.filter(|_| self.thinks) {
            let tie = TimeTie { point: (place.worker, place.count), ..latest };
            push(self.ended_children.entry(self.number(process).1).or_default(), tie);
        }
    }

    fn next_place(&mut self, worker: u32, start: u64, end: u64) -> PlannedCall {
        let count = &mut self.counts[worker as usize];
        *count += 1;
        PlannedCall { worker, count: *count, start, end }
    }

    fn put(&mut self, worker: u32, task: Task) {
        self.inboxes[worker as usize].put(task);
        self.planned += 1;
        if self.planned.is_multiple_of(FORGET) {
            self.order.forget(self.progress);
        }
    }
}

fn push(ties: &mut Vec<TimeTie>, tie: TimeTie) {
    if ties.len() >= MOST_ENDS {
        ties.remove(0);
    }
    ties.push(tie);
}
