//! Copies within the kernel.

use std::ffi::{c_int, c_uint};

use libc::{off64_t, size_t, ssize_t};
use striate_stack::{Action, CopyEndpoint, Detail, FileOrName, Function, Kind, Op, Route};

use crate::descriptor_table::{self, TableFile};
use crate::stack_entry::{self, Announcements, StackEntry};

/// One end of a copy, with the place in the program's memory that says where, and is moved on.
struct EndpointArguments {
    file: Option<TableFile>,
    descriptor: c_int,
    at: *mut off64_t,
}

impl EndpointArguments {
    fn new(descriptor: c_int, at: *mut off64_t) -> Self {
        Self { file: descriptor_table::get(descriptor), descriptor, at }
    }

    /// The end; `None` if the kernel has to say what is wrong with it.
    ///
    /// # Safety
    /// The place is null or the program's.
    unsafe fn end(&self) -> Option<CopyEndpoint<'_>> {
        // SAFETY: the caller's promise.
        let at = match unsafe { self.at.as_ref() } {
            Some(at) => Some(u64::try_from(*at).ok()?),
            None => None,
        };
        Some(CopyEndpoint { file: self.file.as_deref(), descriptor: self.descriptor, at })
    }

    fn route(&self) -> Route {
        self.file.as_ref().map_or(Route::NONE, |file| file.route().clone())
    }

    /// # Safety
    /// The place is null or the program's.
    unsafe fn move_on(&self, count: isize) {
        // SAFETY: the caller's promise.
        if let Some(at) = unsafe { self.at.as_mut() } {
            *at += count as off64_t;
        }
    }
}

/// Copies through the stack. `None`: the call is the kernel's.
///
/// # Safety
/// The places are null or the program's.
unsafe fn copy(
    kind: Kind,
    from: (c_int, *mut off64_t),
    to: (c_int, *mut off64_t),
    length: size_t,
) -> Option<ssize_t> {
    if !descriptor_table::has(from.0) && !descriptor_table::has(to.0) {
        return None;
    }
    let entered = StackEntry::new()?;
    let [from, to] = [from, to].map(|(descriptor, at)| EndpointArguments::new(descriptor, at));
    let route = from.route().or(&to.route());
    // SAFETY: the caller's promise.
    let ends = unsafe { [from.end()?, to.end()?] };
    let [source, sink] = ends;
    let (function, action) = if kind == Kind::CopyRange {
        (Function::CopyFileRange, Action::CopyRange { from: source, to: sink, length })
    } else {
        (Function::Sendfile, Action::SendFile { from: source, to: sink, length })
    };
    let outcome = entered.call(&mut Op { function, route: &route, action });
    let count = entered.answer(outcome);
    if count > 0 {
        // SAFETY: the caller's promise.
        unsafe {
            from.move_on(count);
            to.move_on(count);
        }
    }
    Some(count)
}

hooks! {
    fn [copy_file_range](
        from: c_int,
        from_at: *mut off64_t,
        to: c_int,
        to_at: *mut off64_t,
        length: size_t,
        flags: c_uint,
    ) -> ssize_t, real {
        if flags == 0 && let Some(count) = copy(Kind::CopyRange, (from, from_at), (to, to_at), length) {
            return count;
        }
        real(from, from_at, to, to_at, length, flags)
    }

    fn [sendfile, sendfile64](
        to: c_int,
        from: c_int,
        from_at: *mut off64_t,
        length: size_t,
    ) -> ssize_t, real {
        match copy(Kind::SendFile, (from, from_at), (to, std::ptr::null_mut()), length) {
            Some(count) => count,
            None => real(to, from, from_at, length),
        }
    }

    fn [splice](
        from: c_int,
        from_at: *mut off64_t,
        to: c_int,
        to_at: *mut off64_t,
        length: size_t,
        flags: c_uint,
    ) -> ssize_t, real {
        // A file is at one end, and a pipe at the other.
        let into = crate::descriptor_table::has(to);
        let (descriptor, at) = if into { (to, to_at) } else { (from, from_at) };
        let at = at.as_ref().map_or(0, |at| (*at as u64).wrapping_add(1));
        let detail = Detail::numbers(&[into.into(), at, length as u64]).with_flags(flags as c_int);
        let splice = || real(from, from_at, to, to_at, length, flags);
        stack_entry::shared(Function::Splice, descriptor, splice, |_| detail)
    }

    fn [readahead](descriptor: c_int, at: off64_t, length: size_t) -> ssize_t, real {
        let detail = Detail::numbers(&[at as u64, length as u64]);
        stack_entry::noticed_file(
            (Function::Readahead, stack_entry::NoticePolicy::Implied),
            (descriptor, Kind::Notice),
            |file| Action::Notice { of: FileOrName::File(file) },
            |_| {},
            || real(descriptor, at, length),
            |_| detail,
        )
    }

    // Descriptors may be sent along with a message.
    fn [sendmsg](socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t, real {
        let mut announcements = Announcements::new(Function::Other);
        if !message.is_null() && (*message).msg_controllen > 0 {
            share_sent(&*message, &mut announcements);
        }
        announcements.make(|| real(socket, message, flags))
    }

    fn [sendmmsg](
        socket: c_int,
        messages: *mut libc::mmsghdr,
        count: c_uint,
        flags: c_int,
    ) -> c_int, real {
        let mut announcements = Announcements::new(Function::Other);
        if !messages.is_null() {
            for number in 0..count as usize {
                share_sent(&(*messages.add(number)).msg_hdr, &mut announcements);
            }
        }
        announcements.make(|| real(socket, messages, count, flags))
    }
}

/// Shares the files whose descriptors are sent to another process.
///
/// # Safety
/// The message is one.
unsafe fn share_sent(message: &libc::msghdr, announcements: &mut Announcements) {
    // SAFETY: the caller's promise; the macros of the C library walk through it.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = part.as_ref() {
            if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
                let start = libc::CMSG_DATA(header);
                let bytes = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                for number in 0..bytes / size_of::<c_int>() {
                    let place = start.add(number * size_of::<c_int>());
                    let mut bytes = [0; size_of::<c_int>()];
                    place.copy_to(bytes.as_mut_ptr(), bytes.len());
                    announcements.share(c_int::from_ne_bytes(bytes));
                }
            }
            part = libc::CMSG_NXTHDR(message, header);
        }
    }
}
