//! [`ThreadState`]: the thread-local state of the interception, at a fixed offset from the thread
//! pointer.

use std::cell::Cell;

/// All is zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadState {
    /// How many calls of this thread are within a stack, one within the other.
    pub(crate) within: Cell<u32>,
    /// Its slot; 0 before it has asked for one, 64 if it has none of its own.
    pub(crate) slot: Cell<u32>,
    /// Its number in the kernel, or 0 if that was not asked for.
    pub(crate) thread: Cell<u32>,
}

/// The thread's own memory, at a distance from its register that is known when the program is
/// loaded. What `thread_local!` makes of it in a library is a call of a function, which would be a
/// good part of what an operation costs.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod own {
    use super::ThreadState;

    const _: () = assert!(size_of::<ThreadState>() <= 16 && align_of::<ThreadState>() <= 8);

    std::arch::global_asm!(
        ".pushsection .tbss.striate_thread_state, \"awT\", @nobits",
        ".globl striate_thread_state",
        ".hidden striate_thread_state",
        ".type striate_thread_state, @object",
        ".size striate_thread_state, 16",
        ".p2align 3",
        "striate_thread_state:",
        ".zero 16",
        ".popsection",
    );

    #[inline]
    pub(crate) fn with<R>(act: impl FnOnce(&ThreadState) -> R) -> R {
        let thread_state: *const ThreadState;
        // SAFETY: the register holds where the thread's memory is, and the loader has said how far
        // from there this part of it is. Neither changes while the thread lives.
        unsafe {
            std::arch::asm!(
                "mov {thread_state}, qword ptr fs:[0]",
                "add {thread_state}, qword ptr [rip + striate_thread_state@GOTTPOFF]",
                thread_state = out(reg) thread_state,
                options(pure, nomem, nostack),
            );
            act(&*thread_state)
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod own {
    use std::cell::Cell;

    use super::ThreadState;

    thread_local! {
        static THREAD_STATE: ThreadState =
            const { ThreadState { within: Cell::new(0), slot: Cell::new(0), thread: Cell::new(0) } };
    }

    #[inline]
    pub(crate) fn with<R>(act: impl FnOnce(&ThreadState) -> R) -> R {
        THREAD_STATE.with(act)
    }
}

/// Does something with what this thread knows about itself.
pub(crate) use self::own::with;
