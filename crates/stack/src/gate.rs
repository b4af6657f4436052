//! [`Gate`]: who is within a stack, and how all are kept out while the process is copied.
//!
//! Whoever enters counts itself in a place of its own, so that threads do not wait for each other's memory.
//! The places also tell when all who may have seen something have left ([`Gate::busy`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// Threads share places from here on.
const PLACES: usize = 64;

/// The mark of a thread whose memory may be in use by a child process (`vfork`).
const LENT: u32 = 1 << 31;

/// What a thread knows about itself. All is zero at first.
#[repr(C)]
struct Here {
    /// How many calls of this thread are within a stack, one within the other.
    within: Cell<u32>,
    /// Where it counts itself, from 1 on; 0 before it has a place.
    place: Cell<u32>,
}

/// The thread's own memory, at a distance from its register that is known when the program is loaded. What
/// `thread_local!` makes of it in a library is a call of a function, which would be a good part of what an
/// operation costs.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod own {
    use super::Here;

    std::arch::global_asm!(
        ".pushsection .tbss.striate_stack_here, \"awT\", @nobits",
        ".globl striate_stack_here",
        ".hidden striate_stack_here",
        ".type striate_stack_here, @object",
        ".size striate_stack_here, 8",
        ".p2align 3",
        "striate_stack_here:",
        ".zero 8",
        ".popsection",
    );

    #[inline]
    pub(super) fn with<R>(act: impl FnOnce(&Here) -> R) -> R {
        let here: *const Here;
        // SAFETY: the register holds where the thread's memory is, and the loader has said how far from
        // there this part of it is.
        unsafe {
            std::arch::asm!(
                "mov {here}, qword ptr fs:[0]",
                "add {here}, qword ptr [rip + striate_stack_here@GOTTPOFF]",
                here = out(reg) here,
                options(pure, readonly, nostack),
            );
            act(&*here)
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod own {
    use std::cell::Cell;

    use super::Here;

    thread_local! {
        static HERE: Here = const { Here { within: Cell::new(0), place: Cell::new(0) } };
    }

    #[inline]
    pub(super) fn with<R>(act: impl FnOnce(&Here) -> R) -> R {
        HERE.with(act)
    }
}

/// The places given to threads so far.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Counts of neighbours are not in the same line of the cache.
#[derive(Debug)]
#[repr(align(128))]
struct Place(AtomicU32);

impl Place {
    /// While there is one thread, nobody else looks, and a plain addition costs a tenth. Whoever starts
    /// another lets it see what was done before.
    #[inline]
    fn enter(&self) {
        if is_only_thread() {
            self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
        } else {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[inline]
    fn leave(&self) {
        if is_only_thread() {
            self.0.store(self.0.load(Ordering::Relaxed) - 1, Ordering::Release);
        } else {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Where the C library says that there is one thread, if it does.
static ONLY_THREAD: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Asks the C library where it says so.
pub(crate) fn find_only_thread() {
    // SAFETY: the name is a C string. Versions that do not have it return null.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    ONLY_THREAD.store(found.cast(), Ordering::Relaxed);
}

/// Whether this is the only thread there ever was.
#[inline]
pub(crate) fn is_only_thread() -> bool {
    let said = ONLY_THREAD.load(Ordering::Relaxed);
    // SAFETY: it is a variable of the C library, which is there as long as the program.
    !said.is_null() && unsafe { said.read_volatile() } != 0
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Gate {
    closed: AtomicU32,
    places: [Place; PLACES],
}

/// While it lives, this thread is within a stack: what the process does from here on, it does for itself.
#[derive(Debug)]
pub struct Within<'s> {
    /// The count of the thread; where it is, it stays while the thread lives.
    here: *const Cell<u32>,
    place: Option<&'s Place>,
}

impl Drop for Within<'_> {
    #[inline]
    fn drop(&mut self) {
        // In this order: who is called by a signal in between must not find the place taken and itself outside.
        if let Some(place) = self.place {
            place.leave();
        }
        // SAFETY: it is the memory of this thread; the pointer keeps this type from going to another.
        let within = unsafe { &*self.here };
        within.set(within.get() - 1);
    }
}

/// Whether this thread is within a stack. Calls that come from there are not the program's.
#[inline]
pub fn is_within() -> bool {
    own::with(|here| here.within.get() > 0)
}

/// From now on this thread is within a stack for ever: one that works for a stage.
pub fn stay_within() {
    own::with(|here| here.within.set(here.within.get() + 1));
}

/// Marks this thread as within a stack without waiting at its gate, for work that touches no stage.
pub fn mark_within() -> Within<'static> {
    own::with(|here| {
        here.within.set(here.within.get() + 1);
        Within { here: &raw const here.within, place: None }
    })
}

/// This thread is about to lend its memory to a child process, which must not enter the stack
/// (see `take_back`).
pub fn lend() {
    own::with(|here| here.within.set(here.within.get() | LENT));
}

impl Gate {
    pub(crate) const fn new() -> Self {
        Self { closed: AtomicU32::new(0), places: [const { Place(AtomicU32::new(0)) }; PLACES] }
    }

    /// Marks this thread as within the stack; it waits at the gate unless it was within before.
    #[inline]
    pub(crate) fn enter(&self) -> Within<'_> {
        own::with(|here| {
            let within = here.within.get();
            here.within.set(within + 1);
            // Who is within has passed the gate already; to wait there again could be for ever.
            let place = (within == 0).then(|| self.pass(here));
            Within { here: &raw const here.within, place }
        })
    }

    /// The same for a call of the program; `None` if it comes from within, or from a process other than
    /// `home` on memory that was lent to it.
    #[inline]
    pub(crate) fn enter_from_outside(&self, home: &AtomicU32) -> Option<Within<'_>> {
        own::with(|here| {
            if here.within.get() > 0 && !take_back(here, home) {
                return None;
            }
            here.within.set(1);
            Some(Within { here: &raw const here.within, place: Some(self.pass(here)) })
        })
    }

    #[inline]
    fn pass(&self, here: &Here) -> &Place {
        if here.place.get() == 0 {
            here.place.set(GIVEN.fetch_add(1, Ordering::Relaxed) % PLACES as u32 + 1);
        }
        let place = &self.places[(here.place.get() as usize - 1) % PLACES];
        place.enter();
        if self.closed.load(Ordering::SeqCst) != 0 {
            self.wait_at(place);
        }
        place
    }

    #[cold]
    fn wait_at(&self, place: &Place) {
        loop {
            place.0.fetch_sub(1, Ordering::SeqCst);
            wait_until(|| self.closed.load(Ordering::SeqCst) == 0);
            place.0.fetch_add(1, Ordering::SeqCst);
            if self.closed.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }

    /// Keeps all out, and waits until nobody is within. The caller is not within, and is so from now on.
    pub(crate) fn close(&self) {
        own::with(|here| here.within.set(here.within.get() + 1));
        wait_until(|| {
            self.closed.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        });
        wait_until(|| self.busy() == 0);
    }

    /// Lets all in again.
    pub(crate) fn open(&self) {
        self.closed.store(0, Ordering::SeqCst);
        own::with(|here| here.within.set(here.within.get().saturating_sub(1)));
    }

    /// The places that somebody is within by now. Who was there when something was taken away has
    /// left when each of the places has been free once since.
    pub(crate) fn busy(&self) -> u64 {
        let given = (GIVEN.load(Ordering::SeqCst) as usize).min(PLACES);
        let mut busy = 0;
        for (number, place) in self.places[..given].iter().enumerate() {
            busy |= u64::from(place.0.load(Ordering::SeqCst) != 0) << number;
        }
        busy
    }

    /// Waits until all have left who are within now. The caller is not within.
    pub(crate) fn wait_for_others(&self) {
        let mut busy = self.busy();
        wait_until(|| {
            busy &= self.busy();
            busy == 0
        });
    }
}

/// Whether memory that this thread has lent is its own again, and it is not within.
#[cold]
fn take_back(here: &Here, home: &AtomicU32) -> bool {
    let within = here.within.get();
    if within & LENT == 0 {
        return false;
    }
    let process = rustix::process::getpid().as_raw_nonzero().get();
    if process as u32 != home.load(Ordering::Relaxed) {
        return false;
    }
    here.within.set(within & !LENT);
    within == LENT
}

/// Waits, at first without sleeping.
fn wait_until(mut done: impl FnMut() -> bool) {
    for round in 0_u32.. {
        if done() {
            return;
        }
        match round {
            0..50 => std::hint::spin_loop(),
            50..100 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn home() -> AtomicU32 {
        AtomicU32::new(std::process::id())
    }

    #[test]
    fn calls_from_within_are_told_from_others() {
        let (gate, home) = (Gate::new(), home());
        assert!(!is_within());
        let outer = gate.enter_from_outside(&home).unwrap();
        assert!(is_within() && gate.enter_from_outside(&home).is_none());
        let inner = gate.enter();
        drop(inner);
        assert!(is_within() && gate.busy() != 0);
        drop(outer);
        assert!(!is_within());
    }

    #[test]
    fn a_foreign_process_stays_outside() {
        let (gate, home) = (Gate::new(), home());
        lend();
        assert!(gate.enter_from_outside(&AtomicU32::new(1)).is_none());
        assert!(gate.enter_from_outside(&home).is_some());
        assert!(!is_within());
    }

    #[test]
    fn a_closed_gate_keeps_others_out() {
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
}
