//! [`Gate`]: the threads that are inside a stack, and their exclusion while the process forks.
//!
//! A thread that enters counts itself in a slot of its own ([`thread_slot`](crate::thread_slot)),
//! so that threads do not contend for a cache line. The slots also show when all threads that may
//! have seen an old value have left ([`Gate::busy`]), as in read-copy-update.
//!
//! A thread that enters must be visible before it checks whether the gate is closed. A full fence
//! for that would cost more than the rest of the entry, so the thread that closes the gate, which
//! is rare, lets the kernel order the memory accesses of all threads (`membarrier`).

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};
use striate_process::single_thread::{self, is_single_threaded};

use crate::thread_slot::{self, SHARED_SLOT, SLOTS};
use crate::thread_state::{self, ThreadState};

/// How often it is looked whether a slot that threads share is free, before they are kept out.
const PATIENCE: u32 = 500;

/// The mark of a thread whose memory may be in use by a child process (`vfork`).
const LENT: u32 = 1 << 31;

/// Whether the kernel orders the accesses of all threads for one of them (`membarrier`): then the
/// thread that closes pays, and a thread with a slot of its own passes with plain loads and stores.
static ONE_SIDED: AtomicBool = AtomicBool::new(false);

/// Registers for that. If it is refused, every thread pays, with atomic additions.
fn ask_for_barriers() {
    let asked = membarrier(MembarrierCommand::RegisterPrivateExpedited);
    ONE_SIDED.store(asked.is_ok(), Ordering::Relaxed);
}

/// From here on every thread that passes the gate sees what was stored before, or is seen to be
/// inside.
fn let_all_see() {
    fence(Ordering::SeqCst);
    if ONE_SIDED.load(Ordering::Relaxed)
        && !is_single_threaded()
        && membarrier(MembarrierCommand::PrivateExpedited).is_err()
    {
        // The program has restricted itself (seccomp) since. From now on every thread pays; what
        // was under way has been seen long before this is over.
        ONE_SIDED.store(false, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Counts of neighbours are not in the same line of the cache.
#[derive(Debug)]
#[repr(align(128))]
struct GateSlot {
    count: AtomicU32,
    /// Whether several threads use it. Of others one is within at most.
    shared: bool,
}

impl GateSlot {
    #[inline]
    fn enter(&self) {
        if self.shared {
            self.count.fetch_add(1, Ordering::SeqCst);
        } else if ONE_SIDED.load(Ordering::Relaxed) || is_single_threaded() {
            self.count.store(1, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        } else {
            self.count.swap(1, Ordering::SeqCst);
        }
    }

    #[inline]
    fn leave(&self) {
        if self.shared {
            self.count.fetch_sub(1, Ordering::SeqCst);
        } else {
            self.count.store(0, Ordering::Release);
        }
    }
}

/// Has to be called before the first gate is passed.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        single_thread::prepare();
        ask_for_barriers();
        thread_slot::prepare();
    });
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Gate {
    closed: AtomicU32,
    /// One for each slot.
    slots: [GateSlot; SLOTS],
}

/// While it lives, this thread is within a stack: what the process does from here on, it does for
/// itself.
#[derive(Debug)]
pub struct StackGuard<'s> {
    /// The count of the thread; where it is, it stays while the thread lives.
    thread_state: *const Cell<u32>,
    slot: Option<&'s GateSlot>,
}

impl Drop for StackGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // In this order: a signal handler in between must not find the slot taken and itself
        // outside.
        if let Some(slot) = self.slot {
            slot.leave();
        }
        // SAFETY: it is the memory of this thread; the pointer keeps this type from going to
        // another.
        let within = unsafe { &*self.thread_state };
        within.set(within.get() - 1);
    }
}

/// Whether this thread is within a stack. Calls that come from there are not the program's.
#[inline]
pub fn is_within() -> bool {
    thread_state::with(|thread_state| thread_state.within.get() > 0)
}

/// The same, but for a child process on memory that was lent to it, whose calls are the program's.
pub(crate) fn is_within_itself() -> bool {
    thread_state::with(|thread_state| thread_state.within.get() & !LENT > 0)
}

/// From now on this thread is within a stack for ever: one that works for a stage.
pub fn stay_within() {
    thread_state::with(|thread_state| thread_state.within.set(thread_state.within.get() + 1));
}

/// Marks this thread as within a stack without waiting at its gate, for work that touches no stage.
pub fn mark_within() -> StackGuard<'static> {
    thread_state::with(|thread_state| {
        thread_state.within.set(thread_state.within.get() + 1);
        StackGuard { thread_state: &raw const thread_state.within, slot: None }
    })
}

/// This thread is about to lend its memory to a child process, which must not enter the stack
/// (see `take_back`).
pub fn lend() {
    thread_state::with(|thread_state| thread_state.within.set(thread_state.within.get() | LENT));
}

impl Gate {
    pub(crate) const fn new() -> Self {
        let mut slots = [const { GateSlot { count: AtomicU32::new(0), shared: false } }; SLOTS];
        slots[SHARED_SLOT].shared = true;
        Self { closed: AtomicU32::new(0), slots }
    }

    /// Marks this thread as within the stack; it waits at the gate unless it was within before.
    #[inline]
    pub(crate) fn enter(&self) -> StackGuard<'_> {
        thread_state::with(|thread_state| {
            let within = thread_state.within.get();
            thread_state.within.set(within + 1);
            // A thread that is inside has passed the gate already; to wait there again could be for
            // ever.
            let slot = (within == 0).then(|| self.pass(thread_state));
            StackGuard { thread_state: &raw const thread_state.within, slot }
        })
    }

    /// The same for a call of the program; `None` if it comes from within, or from a process other
    /// than `process` on memory that was lent to it.
    #[inline]
    pub(crate) fn enter_from_outside(&self, process: &AtomicU32) -> Option<StackGuard<'_>> {
        thread_state::with(|thread_state| {
            if thread_state.within.get() > 0 && !take_back(thread_state, process) {
                return None;
            }
            thread_state.within.set(1);
            Some(StackGuard {
                thread_state: &raw const thread_state.within,
                slot: Some(self.pass(thread_state)),
            })
        })
    }

    #[inline]
    fn pass(&self, thread_state: &ThreadState) -> &GateSlot {
        let slot = &self.slots[thread_slot::slot_of(thread_state)];
        slot.enter();
        if self.closed.load(Ordering::SeqCst) != 0 {
            self.wait_at(slot);
        }
        slot
    }

    #[cold]
    fn wait_at(&self, slot: &GateSlot) {
        loop {
            slot.leave();
            wait_until(|| self.closed.load(Ordering::SeqCst) == 0);
            slot.enter();
            fence(Ordering::SeqCst);
            if self.closed.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }

    /// Keeps all threads out, and waits until none is inside. The caller is not inside before, and
    /// is afterwards.
    pub(crate) fn close(&self) {
        thread_state::with(|thread_state| thread_state.within.set(thread_state.within.get() + 1));
        wait_until(|| {
            self.closed.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        });
        let_all_see();
        wait_until(|| self.taken() == 0);
    }

    /// Lets all in again.
    pub(crate) fn open(&self) {
        self.closed.store(0, Ordering::SeqCst);
        thread_state::with(|thread_state| {
            thread_state.within.set(thread_state.within.get().saturating_sub(1));
        });
    }

    /// The slots that are taken.
    fn taken(&self) -> u64 {
        let mut taken = 0;
        for (number, slot) in self.slots.iter().enumerate() {
            taken |= u64::from(slot.count.load(Ordering::Acquire) != 0) << number;
        }
        taken
    }

    /// The slots of threads that are inside now. A thread that was inside when something was taken
    /// away has left when each of the slots has been free once since.
    pub(crate) fn busy(&self) -> u64 {
        let_all_see();
        self.taken()
    }

    /// Waits until all threads that are inside now have left. The caller is not inside.
    pub(crate) fn wait_for_others(&self) {
        let mut busy = self.busy();
        for round in 0_u32.. {
            busy &= self.taken();
            if busy == 0 {
                return;
            }
            if round > PATIENCE && busy == 1 << SHARED_SLOT {
                // So many come and go there that it is never free.
                self.close();
                self.open();
                return;
            }
            pause(round);
        }
    }

    /// This process may be a copy, which has none of the other threads. The gate is closed.
    pub(crate) fn start_anew(&self) {
        ask_for_barriers();
        if thread_slot::start_anew() {
            for slot in &self.slots {
                slot.count.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Whether memory that this thread has lent is its own again, and it is not within.
#[cold]
fn take_back(thread_state: &ThreadState, process: &AtomicU32) -> bool {
    let within = thread_state.within.get();
    if within & LENT == 0 {
        return false;
    }
    let current = rustix::process::getpid().as_raw_nonzero().get();
    if current as u32 != process.load(Ordering::Relaxed) {
        return false;
    }
    thread_state.within.set(within & !LENT);
    within == LENT
}

fn wait_until(mut done: impl FnMut() -> bool) {
    for round in 0_u32.. {
        if done() {
            return;
        }
        pause(round);
    }
}

/// Waits a little, at first without sleeping.
fn pause(round: u32) {
    match round {
        0..50 => std::hint::spin_loop(),
        50..100 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Barrier};

    use super::*;

    fn process() -> AtomicU32 {
        AtomicU32::new(std::process::id())
    }

    #[test]
    fn calls_from_within_are_told_from_others() {
        prepare();
        let (gate, process) = (Gate::new(), process());
        assert!(!is_within());
        let outer = gate.enter_from_outside(&process).unwrap();
        assert!(is_within() && gate.enter_from_outside(&process).is_none());
        let inner = gate.enter();
        drop(inner);
        assert!(is_within() && gate.busy() != 0);
        drop(outer);
        assert!(!is_within());
    }

    #[test]
    fn a_foreign_process_stays_outside() {
        prepare();
        let (gate, process) = (Gate::new(), process());
        lend();
        assert!(gate.enter_from_outside(&AtomicU32::new(1)).is_none());
        assert!(gate.enter_from_outside(&process).is_some());
        assert!(!is_within());
    }

    #[test]
    fn a_closed_gate_keeps_others_out() {
        prepare();
        let (gate, entered) = (Arc::new(Gate::new()), Arc::new(AtomicBool::new(false)));
        gate.close();
        assert!(is_within());
        let other = {
            let (gate, entered) = (Arc::clone(&gate), Arc::clone(&entered));
            std::thread::spawn(move || {
                let _within = gate.enter();
                entered.store(true, Ordering::SeqCst);
            })
        };
        std::thread::yield_now();
        assert!(!entered.load(Ordering::SeqCst));
        gate.open();
        other.join().unwrap();
        assert!(entered.load(Ordering::SeqCst) && !is_within());
        gate.wait_for_others();
    }

    /// Threads that enter and leave until they are told to stop. With `crowded` they have no slots
    /// of their own.
    fn while_threads_enter(
        crowded: bool,
        gate: &Gate,
        act_within: impl Fn() + Sync,
        meanwhile: impl FnOnce(),
    ) {
        prepare();
        let stop = AtomicBool::new(false);
        let all_have_places = Barrier::new(SLOTS + 1);
        let end = Barrier::new(SLOTS + 1);
        std::thread::scope(|scope| {
            for _ in 0..if crowded { SLOTS } else { 0 } {
                scope.spawn(|| {
                    drop(gate.enter());
                    all_have_places.wait();
                    end.wait();
                });
            }
            if crowded {
                all_have_places.wait();
            }
            for _ in 0..4 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let within = gate.enter();
                        act_within();
                        drop(within);
                    }
                });
            }
            meanwhile();
            stop.store(true, Ordering::Relaxed);
            if crowded {
                end.wait();
            }
        });
    }

    #[test]
    fn nobody_is_within_while_the_gate_is_closed() {
        for crowded in [false, true] {
            let (gate, within) = (Gate::new(), AtomicU32::new(0));
            let act = || {
                within.fetch_add(1, Ordering::Relaxed);
                std::hint::spin_loop();
                within.fetch_sub(1, Ordering::Relaxed);
            };
            while_threads_enter(crowded, &gate, act, || {
                for _ in 0..50 {
                    gate.close();
                    assert_eq!(within.load(Ordering::Relaxed), 0);
                    std::thread::yield_now();
                    assert_eq!(within.load(Ordering::Relaxed), 0);
                    gate.open();
                }
            });
            assert_eq!(gate.busy(), 0);
        }
    }

    #[test]
    fn what_was_taken_away_is_not_used_when_others_have_left() {
        for crowded in [false, true] {
            // Which of these is the one to use; it is usable then.
            let (gate, current) = (Gate::new(), AtomicU32::new(0));
            let usable = [const { AtomicBool::new(true) }; 2];
            let act = || {
                let number = current.load(Ordering::SeqCst) as usize;
                assert!(usable[number].load(Ordering::Relaxed));
                std::hint::spin_loop();
                assert!(usable[number].load(Ordering::Relaxed));
            };
            while_threads_enter(crowded, &gate, act, || {
                for round in 0..50 {
                    let (old, new) = (round % 2, (round + 1) % 2);
                    usable[new].store(true, Ordering::SeqCst);
                    current.store(new as u32, Ordering::SeqCst);
                    gate.wait_for_others();
                    usable[old].store(false, Ordering::SeqCst);
                }
            });
        }
    }
}
