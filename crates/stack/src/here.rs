//! [`Here`]: what a thread knows about itself.

use std::cell::Cell;

/// All is zero at first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Here {
    /// How many calls of this thread are within a stack, one within the other.
    pub(crate) within: Cell<u32>,
    /// Its seat; 0 before it has asked for one, 64 if it has none of its own.
    pub(crate) seat: Cell<u32>,
    /// Its number in the kernel, or 0 if that was not asked for.
    pub(crate) thread: Cell<u32>,
}

/// The thread's own memory, at a distance from its register that is known when the program is loaded. What
/// `thread_local!` makes of it in a library is a call of a function, which would be a good part of what an
/// operation costs.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod own {
    use super::Here;

    const _: () = assert!(size_of::<Here>() <= 16 && align_of::<Here>() <= 8);

    std::arch::global_asm!(
        ".pushsection .tbss.striate_stack_here, \"awT\", @nobits",
        ".globl striate_stack_here",
        ".hidden striate_stack_here",
        ".type striate_stack_here, @object",
        ".size striate_stack_here, 16",
        ".p2align 3",
        "striate_stack_here:",
        ".zero 16",
        ".popsection",
    );

    #[inline]
    pub(crate) fn with<R>(act: impl FnOnce(&Here) -> R) -> R {
        let here: *const Here;
        // SAFETY: the register holds where the thread's memory is, and the loader has said how far from
        // there this part of it is. Neither changes while the thread lives.
        unsafe {
            std::arch::asm!(
                "mov {here}, qword ptr fs:[0]",
                "add {here}, qword ptr [rip + striate_stack_here@GOTTPOFF]",
                here = out(reg) here,
                options(pure, nomem, nostack),
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
        static HERE: Here =
            const { Here { within: Cell::new(0), seat: Cell::new(0), thread: Cell::new(0) } };
    }

    #[inline]
    pub(crate) fn with<R>(act: impl FnOnce(&Here) -> R) -> R {
        HERE.with(act)
    }
}

/// Does something with what this thread knows about itself.
pub(crate) use self::own::with;
