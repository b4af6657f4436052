//! Closing descriptors.

use std::ffi::{c_int, c_uint};
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use rustix::io::Errno;
use striate_stack::descriptors::{may_close, without_own};
use striate_stack::{Action, Function, Op, OpenFile, Stack};

use crate::stack_entry::StackEntry;
use crate::{descriptor_table, errno, fork};

/// Closes a descriptor through the stack. `None`: no stage wants its file.
pub(crate) fn close_one(function: Function, descriptor: c_int) -> Option<c_int> {
    if !descriptor_table::has(descriptor) {
        return None;
    }
    let mut entered = StackEntry::new()?;
    // Before it is closed: the number may be given to another file right after.
    let file = descriptor_table::take(descriptor)?;
    let was_used = file.raw_descriptor() == descriptor;
    let last = file.remove_descriptor(descriptor);
    if was_used && !last {
        // Calls on other descriptors of the file may be using this one.
        let stack = entered.stack;
        entered = entered.outside(|| stack.wait_for_others());
    }
    let action = Action::Close { file: &file, descriptor, last };
    let outcome = entered.call(&mut Op { function, route: file.route(), action });
    let stack = entered.stack;
    let answer = entered.answer(outcome) as c_int;
    let errno = errno::get();
    descriptor_table::retire(stack, file);
    errno::set(errno);
    Some(answer)
}

hooks! {
    fn [close](descriptor: c_int) -> c_int, real {
        match close_one(Function::Close, descriptor) {
            Some(answer) => answer,
            None if !may_close(descriptor) => errno::fail(Errno::BADF),
            None => real(descriptor),
        }
    }

    fn [close_range](first: c_uint, last: c_uint, flags: c_int) -> c_int, real {
        if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 && first <= last {
            if flags & libc::CLOSE_RANGE_UNSHARE as c_int != 0 {
                fork::before_program();
            }
            let [from, to] = [first, last].map(|end| c_int::try_from(end).unwrap_or(c_int::MAX));
            for descriptor in descriptor_table::descriptors(from, to) {
                close_one(Function::CloseRange, descriptor);
            }
        }
        if first > last {
            return real(first, last, flags);
        }
        for (first, last) in without_own(first, last) {
            let answer = real(first, last, flags);
            if answer < 0 {
                return answer;
            }
        }
        0
    }

    fn [closefrom](first: c_int) -> (), real {
        for descriptor in descriptor_table::descriptors(first, c_int::MAX) {
            close_one(Function::CloseRange, descriptor);
        }
        let parts = without_own(first.max(0) as c_uint, c_uint::MAX);
        let all = real::close_range.get();
        if parts.len() < 2 || parts.iter().any(|(first, last)| all(*first, *last, 0) < 0) {
            real(first);
        }
    }
}

/// Does what takes the place of a descriptor by another (`dup2`): whatever it stood for is closed
/// through the stack. Meanwhile it stands for nothing; the number is never free for another file.
pub(crate) fn replace(descriptor: c_int, act: impl FnOnce() -> c_int) -> Result<c_int, Errno> {
    let Some(entered) = descriptor_table::has(descriptor).then(StackEntry::new).flatten() else {
        return Ok(act());
    };
    // SAFETY: it is the program's descriptor.
    let before = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    // The file stays open by another descriptor until stages have had their say.
    let kept = rustix::io::fcntl_dupfd_cloexec(before, 3)?;
    let Some(file) = descriptor_table::take(descriptor) else {
        drop(entered);
        return Ok(act());
    };
    let kept = kept.into_raw_fd();
    file.add_descriptor(kept);
    file.remove_descriptor(descriptor);
    let stack = entered.stack;
    drop(entered);
    // Calls on other descriptors of the file may be using this one.
    stack.wait_for_others();
    let result = act();
    let errno = errno::get();
    // Where it failed, all is as it was; else what is left of it is closed.
    if result < 0 {
        file.add_descriptor(descriptor);
        put_back(stack, descriptor, Arc::clone(&file));
    }
    put_back(stack, kept, file);
    close_one(Function::Dup2, kept);
    errno::set(errno);
    Ok(result)
}

fn put_back(stack: &Stack, descriptor: c_int, file: Arc<OpenFile>) {
    let _within = stack.enter();
    // There was place for it before.
    let _ = descriptor_table::put(stack, descriptor, file);
}
