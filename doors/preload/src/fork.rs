//! Handling of `fork`, `exec` and `vfork`.

use std::cell::Cell;
use std::ffi::c_int;

use striate_stack::lend;

use crate::stack_entry::Shared;
use crate::{allocator, descriptor_table, hooks, stack_entry};

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
    // Not for a stage that starts a process, or a signal in the middle of one: the copy gets on as
    // it can.
    let Some(entered) = stack_entry::StackEntry::new() else { return };
    let stack = entered.stack;
    drop(entered);
    // The C library takes this lock after us. A thread that has it may be about to enter the gate,
    // to write out a stream.
    // SAFETY: the lock is released in both processes.
    unsafe { _IO_list_lock() };
    stack.close_gate();
    COPYING.set(true);
    stack_entry::share_all_behind_gate(stack);
    descriptor_table::hold();
    hooks::stdio::hold();
    allocator::hold();
}

fn after() -> bool {
    if !COPYING.replace(false) {
        return false;
    }
    allocator::let_go();
    hooks::stdio::let_go();
    descriptor_table::let_go();
    true
}

extern "C" fn in_parent() {
    if after() {
        if let Some(stack) = stack_entry::stack() {
            stack.open_gate();
        }
        // SAFETY: it was taken before.
        unsafe { _IO_list_unlock() };
    }
}

extern "C" fn in_child() {
    if after() {
        if let Some(stack) = stack_entry::stack() {
            let _ = stack_entry::guarded(|| {
                stack.start_anew();
                Ok(0)
            });
            stack.open_gate();
        }
        // SAFETY: no other thread is there that could have it.
        unsafe { _IO_list_resetlock() };
    }
}

/// A child process is about to run on this one's memory, or as a copy for which `pthread_atfork`
/// handlers do not run.
pub(crate) fn before_lending() {
    if let Some(entered) = stack_entry::StackEntry::new() {
        stack_entry::share_all_within(&entered, Shared::All);
        drop(entered);
        lend();
    }
}

/// Another program is about to start: it sees what is there, and has the descriptors that are left
/// open to it.
pub(crate) fn before_program() {
    stack_entry::share_all(Shared::Inherited);
}

/// The same where it takes the place of this one: what could not be written is lost then, if it
/// does.
pub(crate) fn before_exec() {
    stack_entry::share_all(Shared::Inherited);
    stack_entry::tell_losses();
}
