//! [`TaskQueue`]: collective operations of a rank that progress without blocking it.
//!
//! A rank may start a collective operation and go on. The operation must make progress whenever the
//! rank is in one of our calls, and must never keep it there. So it is a *task*: it runs on a stack
//! of its own, and where it would wait it suspends instead ([`pause`]). Everything that waits in
//! this crate and above it is a loop of *look, then pause*: in a task a pause returns to the code
//! that drives the task; outside of one it lets the rank's tasks run, and a rank without tasks
//! sleeps. So ranks that wait for several operations in different orders do not block each other.
//!
//! The tasks of a queue run one after the other, in the order in which they were started, as
//! collective calls on one communicator have to. Those of different queues are independent. All
//! queues of a rank are known to its [`Tasks`], which its communicators share.
//!
//! A queue that is dropped cancels its tasks: the pauses of the running one fail with
//! [`CommError::Cancelled`], which it returns like any other error, and the others are forgotten.
//! No stack is unwound by force.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::error::CommError;

/// Bytes of a task's stack. Pages that are not touched cost nothing.
const STACK: usize = 1 << 20;

/// Looks after which a rank naps instead of yielding its core.
const YIELDS: u32 = 200;

/// A nap: short compared with the wait before it.
const NAP: Duration = Duration::from_micros(50);

/// Whether a task that is resumed goes on or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resume {
    Continue,
    Cancel,
}

/// What suspends the task that runs on this thread.
type Suspender = NonNull<Yielder<Resume, ()>>;

thread_local! {
    static CURRENT: Cell<Option<Suspender>> = const { Cell::new(None) };
}

// A task may be resumed in another thread than it was suspended in. These two are not inlined, so
// that the address of a thread-local variable is not kept across a pause.

#[inline(never)]
fn current() -> Option<Suspender> {
    CURRENT.get()
}

#[inline(never)]
fn set_current(suspender: Option<Suspender>) {
    CURRENT.set(suspender);
}

/// The result of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Other tasks have run: look again.
    LookAgain,
    /// There are no tasks to run: sleep until the condition holds.
    Sleep,
}

/// Lets other tasks run while the caller waits for something; `looks` is how often it has looked
/// already.
///
/// `tasks` are those of the caller's rank.
pub fn pause(tasks: &Tasks, looks: u32) -> Result<Paused, CommError> {
    if let Some(suspender) = current() {
        set_current(None);
        // SAFETY: it was set by the task that runs on this thread, whose root frame holds it until
        // the task returns.
        let word = unsafe { suspender.as_ref() }.suspend(());
        set_current(Some(suspender));
        return match word {
            Resume::Continue => Ok(Paused::LookAgain),
            Resume::Cancel => Err(CommError::Cancelled),
        };
    }
    if tasks.is_empty() {
        return Ok(Paused::Sleep);
    }
    tasks.progress();
    if looks < YIELDS {
        std::thread::yield_now();
    } else {
        std::thread::sleep(NAP);
    }
    Ok(Paused::LookAgain)
}

/// Whether the caller runs in a task.
pub fn in_task() -> bool {
    current().is_some()
}

/// All tasks of a rank.
#[derive(Debug, Default)]
pub struct Tasks {
    /// Tasks of all queues.
    left: AtomicUsize,
    queues: Mutex<Vec<Weak<Shared>>>,
}

impl Tasks {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Drives the tasks of all queues as far as possible without waiting.
    pub fn progress(&self) {
        if self.is_empty() {
            return;
        }
        let queues: Vec<_> = lock(&self.queues).iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            queue.progress();
        }
    }
}

/// Tasks that run one after the other.
///
/// It can be used by several threads; while one drives the queue, the others do nothing in it. So
/// does a call from inside of a task, as through the progress engine of an MPI library.
#[derive(Debug)]
pub struct TaskQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tasks: Arc<Tasks>,
    left: AtomicUsize,
    waiting: Mutex<VecDeque<Body>>,
    running: Mutex<Running>,
}

/// The work of a task.
struct Body(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a task")
    }
}

#[derive(Default)]
struct Running {
    task: Option<Coroutine<Resume, (), ()>>,
    /// Reused from task to task.
    stack: Option<DefaultStack>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Running({})", self.task.is_some())
    }
}

// SAFETY: a body is `Send`, and the stack of a suspended task belongs to the body: code of this
// workspace, which holds nothing that belongs to a thread across a pause.
unsafe impl Send for Running {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TaskQueue {
    /// An empty queue of the rank whose tasks are given.
    pub fn new(tasks: &Arc<Tasks>) -> Self {
        let shared = Arc::new(Shared {
            tasks: Arc::clone(tasks),
            left: AtomicUsize::new(0),
            waiting: Mutex::default(),
            running: Mutex::default(),
        });
        let mut queues = lock(&tasks.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&shared));
        drop(queues);
        Self { shared }
    }

    /// Adds a task; it does not run before the queue is driven. A panic ends it silently: a body
    /// that has to report one catches it.
    pub fn push(&self, body: impl FnOnce() + Send + 'static) {
        self.shared.left.fetch_add(1, Ordering::AcqRel);
        self.shared.tasks.left.fetch_add(1, Ordering::AcqRel);
        lock(&self.shared.waiting).push_back(Body(Box::new(body)));
    }

    /// Whether all tasks are complete.
    pub fn is_empty(&self) -> bool {
        self.shared.left.load(Ordering::Acquire) == 0
    }

    /// Drives the queue as far as possible without waiting.
    pub fn progress(&self) {
        if !self.is_empty() {
            self.shared.progress();
        }
    }

    /// Drives this queue, and all others of the rank, until `enough` returns `true` or it is empty.
    pub fn drive(&self, enough: impl Fn() -> bool) -> Result<(), CommError> {
        let mut looks = 0;
        while !self.is_empty() && !enough() {
            self.progress();
            if self.is_empty() || enough() {
                break;
            }
            pause(&self.shared.tasks, looks)?;
            looks = looks.saturating_add(1);
        }
        Ok(())
    }
}

impl Drop for TaskQueue {
    fn drop(&mut self) {
        // Dropped while the lock is free: dropping what a body owns may run any code.
        let forgotten = std::mem::take(&mut *lock(&self.shared.waiting));
        let mut done = forgotten.len();
        drop(forgotten);
        let mut running = lock(&self.shared.running);
        if let Some(mut task) = running.task.take() {
            // It ends at its next pause; the bound is for a body that ignores the error.
            let left = (0..1000).any(|_| resume(&mut task, Resume::Cancel));
            done += 1;
            if !left {
                std::mem::forget(task);
            }
        }
        self.shared.left.fetch_sub(done, Ordering::AcqRel);
        self.shared.tasks.left.fetch_sub(done, Ordering::AcqRel);
    }
}

impl Shared {
    fn progress(&self) {
        let mut running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        loop {
            if running.task.is_none() {
                let Some(body) = lock(&self.waiting).pop_front() else { return };
                match running.start(body) {
                    Ok(()) => {}
                    Err(body) => {
                        // There is no memory for a stack now; it stays the first.
                        lock(&self.waiting).push_front(body);
                        return;
                    }
                }
            }
            let Some(task) = &mut running.task else { return };
            if !resume(task, Resume::Continue) {
                return;
            }
            running.stack = running.task.take().map(Coroutine::into_stack);
            self.left.fetch_sub(1, Ordering::AcqRel);
            self.tasks.left.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Running {
    fn start(&mut self, body: Body) -> Result<(), Body> {
        let Some(stack) = self.stack.take().or_else(|| DefaultStack::new(STACK).ok()) else {
            return Err(body);
        };
        self.task =
            Some(Coroutine::with_stack(stack, move |suspender: &Yielder<Resume, ()>, word| {
                if word == Resume::Cancel {
                    return;
                }
                set_current(Some(NonNull::from(suspender)));
                // A panic must not reach the code that happens to drive the task.
                let _ = catch_unwind(AssertUnwindSafe(body.0));
                set_current(None);
            }));
        Ok(())
    }
}

/// Runs a task until it pauses; returns whether it is complete.
fn resume(task: &mut Coroutine<Resume, (), ()>, word: Resume) -> bool {
    // The driver may be a task itself.
    let outer = current();
    set_current(None);
    let done = matches!(task.resume(word), CoroutineResult::Return(()));
    set_current(outer);
    done
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn wait_for(tasks: &Tasks, flag: &AtomicU32, value: u32) -> Result<(), CommError> {
        let mut looks = 0;
        while flag.load(Ordering::SeqCst) < value {
            assert_eq!(pause(tasks, looks)?, Paused::LookAgain);
            looks += 1;
        }
        Ok(())
    }

    #[test]
    fn tasks_of_a_queue_run_in_order_and_do_not_block() {
        let tasks = Arc::new(Tasks::default());
        let queue = TaskQueue::new(&tasks);
        let (flag, log) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
        for number in 1..=3 {
            let (tasks, flag, log) = (Arc::clone(&tasks), Arc::clone(&flag), Arc::clone(&log));
            queue.push(move || {
                wait_for(&tasks, &flag, number).unwrap();
                lock(&log).push(number);
            });
        }
        assert!(lock(&log).is_empty() && !tasks.is_empty());
        queue.progress();
        assert!(lock(&log).is_empty());
        flag.store(2, Ordering::SeqCst);
        queue.progress();
        assert_eq!(*lock(&log), [1, 2]);
        flag.store(3, Ordering::SeqCst);
        queue.drive(|| false).unwrap();
        assert_eq!(*lock(&log), [1, 2, 3]);
        assert!(queue.is_empty() && tasks.is_empty());
        assert_eq!(pause(&tasks, 0), Ok(Paused::Sleep));
    }

    #[test]
    fn a_wait_drives_other_queues() {
        let tasks = Arc::new(Tasks::default());
        let (one, two) = (TaskQueue::new(&tasks), TaskQueue::new(&tasks));
        let flag = Arc::new(AtomicU32::new(0));
        let (its_tasks, its_flag) = (Arc::clone(&tasks), Arc::clone(&flag));
        one.push(move || wait_for(&its_tasks, &its_flag, 1).unwrap());
        let its_flag = Arc::clone(&flag);
        two.push(move || its_flag.store(1, Ordering::SeqCst));
        one.drive(|| false).unwrap();
        assert!(two.is_empty());
    }

    #[test]
    fn dropping_a_queue_cancels_its_tasks() {
        let tasks = Arc::new(Tasks::default());
        let queue = TaskQueue::new(&tasks);
        let log = Arc::new(Mutex::new(Vec::new()));
        let (its_tasks, its_log) = (Arc::clone(&tasks), Arc::clone(&log));
        queue.push(move || {
            let never = AtomicU32::new(0);
            lock(&its_log).push(wait_for(&its_tasks, &never, 1));
        });
        let never_begun = Arc::clone(&log);
        queue.push(move || lock(&never_begun).push(Ok(())));
        queue.progress();
        drop(queue);
        assert_eq!(*lock(&log), [Err(CommError::Cancelled)]);
        assert!(tasks.is_empty());
    }

    #[test]
    fn a_task_may_resume_in_another_thread_and_panic() {
        let tasks = Arc::new(Tasks::default());
        let queue = TaskQueue::new(&tasks);
        let flag = Arc::new(AtomicU32::new(0));
        let (its_tasks, its_flag) = (Arc::clone(&tasks), Arc::clone(&flag));
        queue.push(move || {
            wait_for(&its_tasks, &its_flag, 1).unwrap();
            assert!(in_task());
            panic!("an expected panic");
        });
        queue.progress();
        flag.store(1, Ordering::SeqCst);
        std::thread::scope(|scope| scope.spawn(|| queue.progress()).join().unwrap());
        assert!(queue.is_empty() && !in_task());
    }
}
