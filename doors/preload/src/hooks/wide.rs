//! Wide characters on streams of this library. The C library has none on streams of `fopencookie`,
//! so they are converted here to calls of its byte functions.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use libc::{FILE, size_t, wchar_t};
use striate_stack::mark_within;

use super::stdio::{self, WideState};
use crate::errno;

/// What is returned for a wide character, or for none.
type Wide = u32;

const NONE: Wide = u32::MAX;

unsafe extern "C" {
    fn wcrtomb(bytes: *mut u8, character: wchar_t, state: *mut WideState) -> size_t;
    fn mbrtowc(
        character: *mut wchar_t,
        bytes: *const u8,
        length: size_t,
        state: *mut WideState,
    ) -> size_t;
    fn vswprintf(
        into: *mut wchar_t,
        room: size_t,
        format: *const wchar_t,
        arguments: *mut c_void,
    ) -> c_int;
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn getc_unlocked(stream: *mut FILE) -> c_int;
    fn putc_unlocked(byte: c_int, stream: *mut FILE) -> c_int;
}

/// A stream that no other thread uses meanwhile.
pub(super) struct Locked(pub(super) *mut FILE);

impl Locked {
    /// `None` if it is not one of ours. From now on it is one of wide characters.
    pub(super) fn new(stream: *mut FILE) -> Option<Self> {
        if !stdio::may_be_ours(stream) || !stdio::set_wide(stream) {
            return None;
        }
        // SAFETY: it is a stream.
        unsafe { flockfile(stream) };
        Some(Self(stream))
    }

    fn put(&self, character: wchar_t) -> Wide {
        let mut bytes = [0_u8; 16];
        let mut state = WideState::new();
        // SAFETY: no character has more bytes.
        let count = unsafe { wcrtomb(bytes.as_mut_ptr(), character, &raw mut state) };
        if count == usize::MAX {
            stdio::set_error(self.0);
            return NONE;
        }
        for byte in &bytes[..count] {
            // SAFETY: the stream is locked.
            if unsafe { putc_unlocked(c_int::from(*byte), self.0) } < 0 {
                return NONE;
            }
        }
        character as Wide
    }

    fn get(&self) -> Wide {
        let mut state = WideState::new();
        let mut character = 0;
        for taken in 0.. {
            // SAFETY: the stream is locked.
            let Ok(byte) = u8::try_from(unsafe { getc_unlocked(self.0) }) else {
                if taken > 0 {
                    stdio::set_error(self.0);
                    errno::set(libc::EILSEQ);
                }
                return NONE;
            };
            // SAFETY: one byte is looked at.
            match unsafe { mbrtowc(&raw mut character, &raw const byte, 1, &raw mut state) } {
                // More bytes belong to it.
                0xffff_ffff_ffff_fffe => {}
                usize::MAX => {
                    stdio::set_error(self.0);
                    return NONE;
                }
                _ => break,
            }
        }
        character as Wide
    }

    fn put_back(&self, character: Wide) -> Wide {
        let mut bytes = [0_u8; 16];
        let mut state = WideState::new();
        // SAFETY: no character has more bytes.
        let count = unsafe { wcrtomb(bytes.as_mut_ptr(), character as wchar_t, &raw mut state) };
        if character == NONE || count == usize::MAX {
            return NONE;
        }
        for byte in bytes[..count].iter().rev() {
            // SAFETY: it is a stream.
            if unsafe { libc::ungetc(c_int::from(*byte), self.0) } < 0 {
                return NONE;
            }
        }
        character
    }

    fn put_text(&self, text: &[wchar_t]) -> c_int {
        if text.iter().all(|character| self.put(*character) != NONE) { 1 } else { -1 }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: it was locked.
        unsafe { funlockfile(self.0) };
    }
}

/// # Safety
/// The text has an end.
unsafe fn text<'a>(text: *const wchar_t) -> &'a [wchar_t] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut length = 0;
        while *text.add(length) != 0 {
            length += 1;
        }
        std::slice::from_raw_parts(text, length)
    }
}

/// A line of at most `room - 1` characters.
///
/// # Safety
/// There is that much room.
unsafe fn line(stream: &Locked, into: *mut wchar_t, room: c_int) -> *mut wchar_t {
    let most = usize::try_from(room).unwrap_or(0);
    if most == 0 {
        return null_mut();
    }
    let mut count = 0;
    while count + 1 < most {
        let character = stream.get();
        if character == NONE {
            break;
        }
        // SAFETY: there is room.
        unsafe { *into.add(count) = character as wchar_t };
        count += 1;
        if character == '\n' as Wide {
            break;
        }
    }
    if count == 0 && most > 1 {
        return null_mut();
    }
    // SAFETY: there is room.
    unsafe { *into.add(count) = 0 };
    into
}

/// A list of arguments (`va_list`), which is as large as the ABI says.
type Arguments = [u64; if cfg!(target_arch = "x86_64") { 3 } else { 4 }];

/// Prints to a stream.
///
/// # Safety
/// The arguments are what the format says.
unsafe fn print(stream: &Locked, format: *const wchar_t, arguments: *mut c_void) -> c_int {
    // The memory for the text is ours.
    let _marked = mark_within();
    let mut printed: Vec<wchar_t> = vec![0; 256];
    loop {
        // SAFETY: the caller's promise; reading arguments uses them up.
        let count = unsafe {
            let mut copy: Arguments = *arguments.cast::<Arguments>();
            vswprintf(printed.as_mut_ptr(), printed.len(), format, (&raw mut copy).cast())
        };
        if let Ok(length) = usize::try_from(count) {
            let text = &printed[..length.min(printed.len())];
            return if stream.put_text(text) < 0 { -1 } else { count };
        }
        if printed.len() >= 1 << 24 {
            return -1;
        }
        printed.resize(printed.len() * 4, 0);
    }
}

hooks! {
    fn [fwide](stream: *mut FILE, mode: c_int) -> c_int, real {
        match stdio::width(stream, mode) {
            Some(width) => width,
            None => real(stream, mode),
        }
    }

    fn [fputwc, putwc, fputwc_unlocked, putwc_unlocked](
        character: wchar_t,
        stream: *mut FILE,
    ) -> Wide, real {
        match Locked::new(stream) {
            Some(stream) => stream.put(character),
            None => real(character, stream),
        }
    }

    fn [fgetwc, getwc, fgetwc_unlocked, getwc_unlocked](stream: *mut FILE) -> Wide, real {
        match Locked::new(stream) {
            Some(stream) => stream.get(),
            None => real(stream),
        }
    }

    fn [ungetwc](character: Wide, stream: *mut FILE) -> Wide, real {
        match Locked::new(stream) {
            Some(stream) => stream.put_back(character),
            None => real(character, stream),
        }
    }

    fn [fputws, fputws_unlocked](written: *const wchar_t, stream: *mut FILE) -> c_int, real {
        match Locked::new(stream) {
            Some(stream) => stream.put_text(text(written)),
            None => real(written, stream),
        }
    }

    fn [fgetws, fgetws_unlocked](
        into: *mut wchar_t,
        room: c_int,
        stream: *mut FILE,
    ) -> *mut wchar_t, real {
        match Locked::new(stream) {
            Some(stream) => line(&stream, into, room),
            None => real(into, room, stream),
        }
    }

    fn [__fgetws_chk, __fgetws_unlocked_chk](
        into: *mut wchar_t,
        size: size_t,
        room: c_int,
        stream: *mut FILE,
    ) -> *mut wchar_t, real {
        match Locked::new(stream).filter(|_| room as usize <= size) {
            Some(stream) => line(&stream, into, room),
            None => real(into, size, room, stream),
        }
    }

    fn [vfwprintf](
        stream: *mut FILE,
        format: *const wchar_t,
        arguments: *mut c_void,
    ) -> c_int, real {
        match Locked::new(stream) {
            Some(stream) => print(&stream, format, arguments),
            None => real(stream, format, arguments),
        }
    }

    fn [__vfwprintf_chk](
        stream: *mut FILE,
        flag: c_int,
        format: *const wchar_t,
        arguments: *mut c_void,
    ) -> c_int, real {
        match Locked::new(stream) {
            Some(stream) => print(&stream, format, arguments),
            None => real(stream, flag, format, arguments),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod with_arguments {
    use super::super::variadic::variadic;
    use super::{__vfwprintf_chk, vfwprintf};

    variadic!(fwprintf, named 2, vfwprintf);
    variadic!(__fwprintf_chk, named 3, __vfwprintf_chk);
}
