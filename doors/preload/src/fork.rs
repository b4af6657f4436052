//! What happens when the process is copied or replaced, or lends its memory.

use std::cell::Cell;
use std::ffi::c_int;

use striate_stack::lend;

use crate::{allocator, door, hooks, table};

unsafe extern "C" {
    fn pthread_atfork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
    ) -> c_int;
    fn _IO_list_lock();
    fn _IO_list_unlock();
    fn _IO_list_resetlock();
}

thread_local! {
    /// Whether this thread has closed the gate to copy the process.
    static COPYING: Cell<bool> = const { Cell::new(false) };
}

/// From now on the process is copied in order.
pub(crate) fn watch() {
    // SAFETY: the functions stay: this library is never unloaded.
    unsafe { pthread_atfork(before, in_parent, in_child) };
}

extern "C" fn before() {
    // Not for a stage that starts a process, or a signal in the middle of one: the copy gets on as it can.
    let Some(entered) = door::Entered::new() else { return };
    let stack = entered.stack;
    drop(entered);
    // The C library takes this lock after us. Who has it may be on the way to the gate, to write out a stream.
    // SAFETY: who takes the lock lets it go, in both processes.
    unsafe { _IO_list_lock() };
    stack.close_gate();
    COPYING.set(true);
    door::share_all_behind_gate(stack);
    table::hold();
    hooks::stdio::hold();
    allocator::hold();
}

fn after() -> bool {
    if !COPYING.replace(false) {
        return false;
    }
    allocator::let_go();
    hooks::stdio::let_go();
    table::let_go();
    true
}

extern "C" fn in_parent() {
    if after() {
        if let Some(stack) = door::stack() {
            stack.open_gate();
        }
        // SAFETY: it was taken before.
        unsafe { _IO_list_unlock() };
    }
}

extern "C" fn in_child() {
    if after() {
        if let Some(stack) = door::stack() {
            let _ = door::guarded(|| {
                stack.start_anew();
                Ok(0)
            });
            stack.open_gate();
        }
        // SAFETY: no other thread is there that could have it.
        unsafe { _IO_list_resetlock() };
    }
}

/// A child process is about to run on this one's memory, or as a copy that nobody announces.
pub(crate) fn before_lending() {
    if let Some(entered) = door::Entered::new() {
        door::share_all_within(&entered, false);
        drop(entered);
        lend();
    }
}

/// Another program is about to start: it sees what is there, and has the descriptors that are left open to it.
pub(crate) fn before_program() {
    door::share_all(true);
}

/// The same where it takes the place of this one: what could not be written is lost then, if it does.
pub(crate) fn before_exec() {
    door::share_all(true);
    door::tell_losses();
}
