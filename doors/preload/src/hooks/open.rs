//! Opening files.

use std::ffi::{c_char, c_int};
use std::os::fd::RawFd;
use std::sync::Arc;

use libc::mode_t;
use rustix::io::Errno;
use striate_stack::{Detail, Function, OpenFile, Target, descriptors};

use crate::path::{self, PathBuffer};
use crate::stack_entry::{self, NoticePolicy, StackEntry, noticed_name};
use crate::{descriptor_table, errno};

/// Puts a file that the stack has opened into the table. Returns its descriptor.
fn adopt(entered: &StackEntry, file: Arc<OpenFile>) -> RawFd {
    let descriptor = file.raw_descriptor();
    descriptors::forget(descriptor);
    // The C library writes to the standard streams without us.
    if descriptor <= 2 {
        let _ = entered.share(&file);
    }
    if let Err(file) = descriptor_table::put(entered.stack, descriptor, file) {
        // The table has no room for it: it stays open, and stages do not see it any more.
        let _ = entered.share(&file);
    }
    descriptor
}

/// Opens a name, through the stack if it is for stages. Stages that are notified of listings are
/// notified here already: the directory may be listed by calls that are not intercepted.
fn open_or(
    function: Function,
    (directory, name): (c_int, *const c_char),
    (flags, mode): (c_int, mode_t),
    real: impl FnOnce() -> c_int,
) -> c_int {
    if flags & libc::O_PATH != 0 {
        let detail = Detail::default().with_flags(flags);
        show_through_name(directory, name);
        return noticed_name((function, NoticePolicy::Implied), (directory, name), real, |_| {
            detail
        });
    }
    if flags & libc::O_DIRECTORY != 0 && flags & libc::O_TMPFILE != libc::O_TMPFILE {
        let how = (Function::Opendir, NoticePolicy::Implied);
        return noticed_name(how, (directory, name), real, |_| Detail::default());
    }
    match open_name(function, directory, name, flags, mode) {
        Some(opened) => answer(opened),
        None => real(),
    }
}

/// Opens a name through the stack; `None`: it is not for stages.
pub(crate) fn open_name(
    function: Function,
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> Option<Result<RawFd, Errno>> {
    stack_entry::stack()?;
    let entered = StackEntry::by_name()?;
    // SAFETY: the program's text stays while its call lasts.
    let path = unsafe { path::text(name)? };
    let mut room = PathBuffer::new();
    let absolute = path::absolute(directory, path, &mut room)?;
    let target = Target { directory, path, absolute };
    if flags & (libc::O_PATH | libc::O_DIRECTORY) != 0 {
        return None;
    }
    if path::leads_to_descriptors(absolute) {
        stack_entry::share_all_within(&entered, stack_entry::Shared::All);
        return None;
    }
    let mode = if flags & libc::O_CREAT == 0 { 0 } else { mode };
    let opened = open_target(&entered, function, target, flags, mode)?;
    let outcome = opened.map(|file| adopt(&entered, file));
    drop(entered);
    Some(outcome)
}

fn open_target(
    entered: &StackEntry,
    function: Function,
    target: Target<'_>,
    flags: c_int,
    mode: mode_t,
) -> Option<Result<Arc<OpenFile>, Errno>> {
    let open = || entered.stack.open(function, target, flags, mode);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(open)).unwrap_or(Some(Err(Errno::IO)))
}

/// What `O_PATH` opens is a name that cannot be read or written by. But it says how large the file
/// is, and the file can be opened again by it: from now on nothing is held back of it.
fn show_through_name(directory: c_int, name: *const c_char) {
    let Some(entered) = stack_entry::stack().and_then(|_| StackEntry::by_name()) else { return };
    let mut room = PathBuffer::new();
    // SAFETY: the program's text stays while its call lasts.
    let text = unsafe { path::text(name) };
    let Some(absolute) = text.and_then(|text| path::absolute(directory, text, &mut room)) else {
        return;
    };
    for descriptor in descriptor_table::descriptors(0, c_int::MAX) {
        if let Some(file) = descriptor_table::get(descriptor)
            && file.path() == absolute
        {
            let _ = entered.share(&file);
        }
    }
}

/// The answer of a call that opens.
pub(crate) fn answer(opened: Result<RawFd, Errno>) -> c_int {
    opened.unwrap_or_else(errno::fail)
}

/// Makes a name of a template that ends in six `X` and `suffix` more characters, and opens it.
///
/// # Safety
/// The template is null, or a C string that may be written to.
unsafe fn make_name(template: *mut c_char, suffix: c_int, flags: c_int) -> Option<c_int> {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const TRIES: u32 = 238_328;
    stack_entry::stack()?;
    // SAFETY: the caller's promise.
    let length = unsafe { path::text(template)?.to_bytes().len() };
    let place = length.checked_sub(usize::try_from(suffix).ok()?)?.checked_sub(6)?;
    // SAFETY: these bytes are within the string; nothing else refers to it.
    let letters = unsafe { std::slice::from_raw_parts_mut(template.add(place).cast::<u8>(), 6) };
    if letters != b"XXXXXX" {
        return None;
    }
    let flags = (flags & !libc::O_ACCMODE) | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    for _ in 0..TRIES {
        let mut random = [0_u8; 8];
        // SAFETY: the kernel fills these.
        let filled = unsafe { libc::getrandom(random.as_mut_ptr().cast(), 8, 0) };
        let mut number = u64::from_ne_bytes(random);
        for letter in letters.iter_mut().take_while(|_| filled == 8) {
            *letter = LETTERS[(number % 62) as usize];
            number /= 62;
        }
        let opened = open_name(Function::Mkstemp, libc::AT_FDCWD, template, flags, 0o600);
        match opened {
            Some(Err(Errno::EXIST)) => {}
            Some(outcome) => return Some(answer(outcome)),
            None => {
                letters.copy_from_slice(b"XXXXXX");
                return None;
            }
        }
    }
    Some(errno::fail(Errno::EXIST))
}

hooks! {
    fn [open, open64](name: *const c_char, flags: c_int, mode: mode_t) -> c_int, real {
        open_or(Function::Open, (libc::AT_FDCWD, name), (flags, mode), || real(name, flags, mode))
    }

    fn [openat, openat64](
        directory: c_int,
        name: *const c_char,
        flags: c_int,
        mode: mode_t,
    ) -> c_int, real {
        open_or(Function::Openat, (directory, name), (flags, mode), || {
            real(directory, name, flags, mode)
        })
    }

    // Of fortified programs, which pass no mode.
    fn [__open_2, __open64_2](name: *const c_char, flags: c_int) -> c_int, real {
        if flags & (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) != 0 {
            return real(name, flags);
        }
        open_or(Function::Open, (libc::AT_FDCWD, name), (flags, 0), || real(name, flags))
    }

    fn [__openat_2, __openat64_2](
        directory: c_int,
        name: *const c_char,
        flags: c_int,
    ) -> c_int, real {
        if flags & (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) != 0 {
            return real(directory, name, flags);
        }
        open_or(Function::Openat, (directory, name), (flags, 0), || real(directory, name, flags))
    }

    fn [creat, creat64](name: *const c_char, mode: mode_t) -> c_int, real {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        match open_name(Function::Creat, libc::AT_FDCWD, name, flags, mode) {
            Some(opened) => answer(opened),
            None => real(name, mode),
        }
    }

    fn [mkstemp, mkstemp64](template: *mut c_char) -> c_int, real {
        match make_name(template, 0, 0) {
            Some(opened) => opened,
            None => real(template),
        }
    }

    fn [mkostemp, mkostemp64](template: *mut c_char, flags: c_int) -> c_int, real {
        match make_name(template, 0, flags) {
            Some(opened) => opened,
            None => real(template, flags),
        }
    }

    fn [mkstemps, mkstemps64](template: *mut c_char, suffix: c_int) -> c_int, real {
        match make_name(template, suffix, 0) {
            Some(opened) => opened,
            None => real(template, suffix),
        }
    }

    fn [mkostemps, mkostemps64](template: *mut c_char, suffix: c_int, flags: c_int) -> c_int, real {
        match make_name(template, suffix, flags) {
            Some(opened) => opened,
            None => real(template, suffix, flags),
        }
    }
}
