//! Streams (`fopen`). The C library's own streams do not call functions that a library could
//! define, so streams on files that stages want are made with `fopencookie`: buffering and
//! formatting are the C library's, and its reads, writes and seeks call functions of this library.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use libc::{FILE, off64_t, size_t, ssize_t};
use rustix::io::Errno;
use striate_stack::{Action, Detail, FileOrName, Function, Kind, mark_within};

use super::{close, data, descriptor, open};
use crate::spin::Spin;
use crate::stack_entry::{self, Call};
use crate::stream_mode::Mode;
use crate::{descriptor_table, errno};

/// What a stream of ours is on. The stream owns it; [`STREAMS`] knows where it is.
struct Cookie {
    stream: *mut FILE,
    descriptor: c_int,
    /// Wide characters have been read or written.
    wide: bool,
    /// Something has been read.
    touched: bool,
    /// The stream's memory, unless the program gives it another. It is as large as the C library's
    /// for a file, so that bytes are read and written when they would be.
    _memory: Box<[u8]>,
}

/// A stream of ours, with its descriptor.
#[derive(Clone, Copy)]
struct OwnStream {
    stream: usize,
    cookie: usize,
}

static STREAMS: Spin<Vec<OwnStream>> = Spin::new(Vec::new());

/// Keeps the list as it is while the process is copied.
pub(crate) fn hold() {
    STREAMS.hold();
}

/// See [`hold`].
pub(crate) fn let_go() {
    STREAMS.let_go();
}

#[repr(C)]
struct Functions {
    read: unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C-unwind" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fn __fpurge(stream: *mut FILE);
}

unsafe extern "C-unwind" fn stream_read(
    cookie: *mut c_void,
    memory: *mut c_char,
    length: size_t,
) -> ssize_t {
    // SAFETY: the cookie is one; the memory is the stream's.
    unsafe {
        let cookie = cookie.cast::<Cookie>();
        (*cookie).touched = true;
        let descriptor = (*cookie).descriptor;
        match data::read_one(Function::Fread, descriptor, memory.cast(), length, None) {
            Some(count) => count,
            None => data::real::read.get()(descriptor, memory.cast(), length),
        }
    }
}

/// Writes all, as the C library does for its own streams. Less than that is an error to it.
unsafe extern "C-unwind" fn stream_write(
    cookie: *mut c_void,
    memory: *const c_char,
    length: size_t,
) -> ssize_t {
    // SAFETY: the cookie is one; the memory is the stream's.
    unsafe {
        let descriptor = (*cookie.cast::<Cookie>()).descriptor;
        let mut done = 0;
        while done < length {
            let (rest, left) = (memory.add(done).cast::<c_void>(), length - done);
            let count = match data::write_one(Function::Fwrite, descriptor, rest, left, None) {
                Some(count) => count,
                None => data::real::write.get()(descriptor, rest, left),
            };
            match usize::try_from(count) {
                Ok(count) if count > 0 => done += count,
                _ => break,
            }
        }
        done as ssize_t
    }
}

unsafe extern "C-unwind" fn stream_seek(
    cookie: *mut c_void,
    offset: *mut off64_t,
    whence: c_int,
) -> c_int {
    // SAFETY: the cookie is one; the place is the stream's.
    unsafe {
        let descriptor = (*cookie.cast::<Cookie>()).descriptor;
        let position = seek(descriptor, *offset, whence);
        if position < 0 {
            return -1;
        }
        *offset = position;
        0
    }
}

unsafe extern "C-unwind" fn stream_close(cookie: *mut c_void) -> c_int {
    // SAFETY: it was leaked for the stream, which is about to go.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    let descriptor = cookie.descriptor;
    let stream = cookie.stream as usize;
    let marked = mark_within();
    STREAMS.with(|streams| streams.retain(|known| known.stream != stream));
    drop(cookie);
    drop(marked);
    match close::close_one(Function::Fclose, descriptor) {
        Some(answer) => answer,
        // SAFETY: it is the stream's descriptor.
        None => unsafe { close::real::close.get()(descriptor) },
    }
}

fn seek(file: c_int, offset: off64_t, whence: c_int) -> off64_t {
    match descriptor::seek(Function::Fseek, file, offset, whence) {
        Some(position) => position,
        // SAFETY: numbers are passed.
        None => unsafe { descriptor::real::lseek64.get()(file, offset, whence) },
    }
}

/// Makes a stream on a descriptor. `None` if there is no memory for it.
fn make(descriptor: c_int, mode: &Mode) -> Option<*mut FILE> {
    let marked = mark_within();
    let mut memory = vec![0; block_size(descriptor)].into_boxed_slice();
    let (start, length) = (memory.as_mut_ptr(), memory.len());
    let cookie =
        Cookie { stream: null_mut(), descriptor, wide: false, touched: false, _memory: memory };
    let cookie = Box::into_raw(Box::new(cookie));
    drop(marked);
    let functions = Functions {
        read: stream_read,
        write: stream_write,
        seek: stream_seek,
        close: stream_close,
    };
    // SAFETY: the cookie is given to the stream.
    let stream = unsafe { fopencookie(cookie.cast(), mode.text().as_ptr(), functions) };
    if !stream.is_null() {
        // SAFETY: the memory goes when the stream does.
        unsafe { libc::setvbuf(stream, start.cast(), libc::_IOFBF, length) };
    }
    let _marked = mark_within();
    if stream.is_null() {
        // SAFETY: no stream has taken it.
        drop(unsafe { Box::from_raw(cookie) });
        return None;
    }
    // SAFETY: no other thread knows the stream yet.
    unsafe { (*cookie).stream = stream };
    let known = OwnStream { stream: stream as usize, cookie: cookie as usize };
    STREAMS.with(|streams| streams.push(known));
    Some(stream)
}

/// How much the C library reads or writes at once of a file.
fn block_size(descriptor: c_int) -> usize {
    // SAFETY: it is a descriptor of the program's.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    let size = rustix::fs::fstat(descriptor).map_or(0, |stat| stat.st_blksize);
    usize::try_from(size).ok().filter(|size| (1..=1 << 24).contains(size)).unwrap_or(8192)
}

/// The cookie of a stream, if it is one of ours.
fn cookie_of(stream: *mut FILE) -> Option<*mut Cookie> {
    stack_entry::stack()?;
    let found = STREAMS.with(|streams| {
        streams.iter().find(|known| known.stream == stream as usize).map(|known| known.cookie)
    });
    found.map(|cookie| cookie as *mut Cookie)
}

/// A state of conversion between bytes and wide characters.
#[repr(C, align(8))]
pub(crate) struct WideState([u8; 8]);

impl WideState {
    pub(crate) const fn new() -> Self {
        Self([0; 8])
    }
}

/// Where the C library's streams have what we look at: after their flags, six pointers to where
/// they are in their memory, then one to its start; and their descriptor.
const POINTERS: [usize; 6] = [8, 16, 24, 32, 40, 48];
const MEMORY: usize = 56;
const DESCRIPTOR: usize = 112;
/// The descriptor of streams that are made as ours are.
const NO_DESCRIPTOR: c_int = -2;
const NO_READS: c_int = 0x4;
const END_SEEN: c_int = 0x10;
const ERROR_SEEN: c_int = 0x20;
const PUTTING: c_int = 0x800;

/// Whether a stream can be one of ours.
#[inline]
pub(crate) fn may_be_ours(stream: *mut FILE) -> bool {
    // SAFETY: the program says that it is a stream.
    !stream.is_null() && unsafe { *stream.byte_add(DESCRIPTOR).cast::<c_int>() } == NO_DESCRIPTOR
}

/// From now on a stream is one of wide characters. Returns whether it is one of ours.
pub(crate) fn set_wide(stream: *mut FILE) -> bool {
    cookie_of(stream).is_some_and(|cookie| {
        // SAFETY: the stream has it.
        unsafe { (*cookie).wide = true };
        true
    })
}

/// What `fwide` says of a stream of ours.
pub(crate) fn width(stream: *mut FILE, mode: c_int) -> Option<c_int> {
    if !may_be_ours(stream) {
        return None;
    }
    let cookie = cookie_of(stream)?;
    // SAFETY: the stream has it, and starts with its flags.
    unsafe {
        let used = (*cookie).touched || *stream.cast::<c_int>() & PUTTING != 0;
        if !used && !(*cookie).wide && mode <= 0 {
            return Some(mode.signum());
        }
        (*cookie).wide |= mode > 0 && !used;
        Some(if (*cookie).wide { 1 } else { -1 })
    }
}

/// The descriptor of a stream of ours.
pub(crate) fn descriptor_of(stream: *mut FILE) -> Option<c_int> {
    // SAFETY: the stream has it.
    cookie_of(stream).map(|cookie| unsafe { (*cookie).descriptor })
}

/// Whether a stream of ours may be read.
pub(crate) fn may_read(stream: *mut FILE) -> bool {
    // SAFETY: it is a stream of ours, which starts with its flags.
    unsafe { *stream.cast::<c_int>() & NO_READS == 0 }
}

/// Notes that there is nothing more to read.
pub(crate) fn set_end(stream: *mut FILE) {
    // SAFETY: it is a stream of ours, which starts with its flags.
    unsafe { *stream.cast::<c_int>() |= END_SEEN };
}

/// Notes that something has failed.
pub(crate) fn set_error(stream: *mut FILE) {
    // SAFETY: it is a stream of ours, which starts with its flags.
    unsafe { *stream.cast::<c_int>() |= ERROR_SEEN };
}

/// Opens a stream. `None`: it is the C library's.
///
/// # Safety
/// The texts are null or C strings.
unsafe fn open_stream(name: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    stack_entry::stack()?;
    // SAFETY: the caller's promise.
    let mode = unsafe { Mode::read(mode)? };
    let opened = open::open_name(Function::Fopen, libc::AT_FDCWD, name, mode.flags(), 0o666)?;
    let descriptor = match opened {
        Ok(descriptor) => descriptor,
        Err(error) => {
            errno::fail(error);
            return Some(null_mut());
        }
    };
    if mode.only_appends() {
        seek(descriptor, 0, libc::SEEK_END);
    }
    Some(make(descriptor, &mode).unwrap_or_else(|| {
        close::close_one(Function::Fclose, descriptor);
        errno::fail(Errno::NOMEM);
        null_mut()
    }))
}

/// Makes a stream on a descriptor of a file that a stage wants. `None`: it is the C library's.
///
/// # Safety
/// The text is null or a C string.
unsafe fn stream_on(file: c_int, mode: *const c_char) -> Option<*mut FILE> {
    if !descriptor_table::has(file) {
        return None;
    }
    // SAFETY: the caller's promise.
    let mode = unsafe { Mode::read(mode)? };
    let call = Call::on(file)?;
    let flags = call.file().flags();
    let fits = mode.fits(flags);
    drop(call);
    stack_entry::noticed_file(
        (Function::Fdopen, stack_entry::NoticePolicy::Implied),
        (file, Kind::Notice),
        |file| Action::Notice { of: FileOrName::File(file) },
        |_| {},
        || if fits { 0 } else { errno::fail(Errno::INVAL) },
        |_| Detail::default(),
    );
    if !fits {
        return Some(null_mut());
    }
    if mode.appends() && flags & libc::O_APPEND == 0 {
        let wanted = (flags | libc::O_APPEND) as std::ffi::c_ulong;
        // SAFETY: numbers are passed.
        if unsafe { descriptor::fcntl(file, libc::F_SETFL, wanted) } == -1 {
            return Some(null_mut());
        }
        if mode.only_appends() {
            seek(file, 0, libc::SEEK_END);
        }
    }
    Some(make(file, &mode).unwrap_or_else(|| {
        errno::fail(Errno::NOMEM);
        null_mut()
    }))
}

/// Lets a stream of ours go on with another file, under the same descriptor. `None`: it is not
/// ours.
///
/// # Safety
/// The texts are null or C strings, the stream is one.
unsafe fn open_again(
    name: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> Option<*mut FILE> {
    let cookie = cookie_of(stream)?;
    // SAFETY: the stream has it.
    let before = unsafe { (*cookie).descriptor };
    // SAFETY: the caller's promise.
    let Some(mode) = (unsafe { Mode::read(mode) }) else {
        errno::fail(Errno::INVAL);
        return Some(null_mut());
    };
    // SAFETY: the stream is one.
    unsafe {
        libc::fflush(stream);
        __fpurge(stream);
        libc::clearerr(stream);
    }
    let opened = if name.is_null() {
        let _marked = mark_within();
        let same = std::ffi::CString::new(format!("/proc/self/fd/{before}")).unwrap_or_default();
        // SAFETY: the name is one.
        unsafe { open::real::open64.get()(same.as_ptr(), mode.flags(), 0o666) }
    } else {
        let opened = open::open_name(Function::Freopen, libc::AT_FDCWD, name, mode.flags(), 0o666);
        match opened {
            Some(opened) => open::answer(opened),
            // SAFETY: the name is the program's.
            None => unsafe { open::real::open64.get()(name, mode.flags(), 0o666) },
        }
    };
    // SAFETY: numbers are passed; the stream is one, and starts with its flags.
    unsafe {
        if opened < 0 {
            let error = errno::get();
            close::close(before);
            errno::set(error);
            return Some(null_mut());
        }
        let close_on_exec = mode.flags() & libc::O_CLOEXEC;
        if opened != before && descriptor::dup3(opened, before, close_on_exec) >= 0 {
            close::close(opened);
        }
        // It is neither reading nor writing yet.
        let start = *stream.byte_add(MEMORY).cast::<*mut c_char>();
        for pointer in POINTERS {
            *stream.byte_add(pointer).cast() = start;
        }
        let flags = stream.cast::<c_int>();
        *flags = *flags & !(Mode::STREAM_FLAGS | PUTTING) | mode.stream_flags();
    }
    if mode.only_appends() {
        seek(before, 0, libc::SEEK_END);
    }
    Some(stream)
}

hooks! {
    fn [fopen, fopen64](name: *const c_char, mode: *const c_char) -> *mut FILE, real {
        match open_stream(name, mode) {
            Some(stream) => stream,
            None => real(name, mode),
        }
    }

    fn [fdopen](descriptor: c_int, mode: *const c_char) -> *mut FILE, real {
        match stream_on(descriptor, mode) {
            Some(stream) => stream,
            None => real(descriptor, mode),
        }
    }

    fn [freopen, freopen64](
        name: *const c_char,
        mode: *const c_char,
        stream: *mut FILE,
    ) -> *mut FILE, real {
        if let Some(stream) = open_again(name, mode, stream) {
            return stream;
        }
        // The C library opens it, and stages do not see what it does with it.
        let how = (Function::Freopen, stack_entry::NoticePolicy::Implied);
        let reopen = || real(name, mode, stream);
        stack_entry::noticed_name(how, (libc::AT_FDCWD, name), reopen, |_| Detail::default())
    }

    fn [fileno, fileno_unlocked](stream: *mut FILE) -> c_int, real {
        let before = errno::get();
        let descriptor = real(stream);
        if descriptor < 0 && let Some(cookie) = cookie_of(stream) {
            errno::set(before);
            return (*cookie).descriptor;
        }
        descriptor
    }
}
