//! [`Mode`]: the mode string of `fopen`.

use std::ffi::{CStr, c_char, c_int};

/// What the text says.
#[derive(Debug)]
pub(crate) struct Mode {
    first: u8,
    both: bool,
    extra: c_int,
}

/// Bits of the C library's streams.
const NO_READS: c_int = 0x4;
const NO_WRITES: c_int = 0x8;
const APPENDING: c_int = 0x1000;

impl Mode {
    /// The bits of a stream that a mode sets.
    pub(crate) const STREAM_FLAGS: c_int = NO_READS | NO_WRITES | APPENDING;

    /// Reads a mode as the C library does. `None` if the C library has to handle it: the mode is
    /// invalid, or asks for another encoding.
    ///
    /// # Safety
    /// The text is null or a C string.
    pub(crate) unsafe fn read(text: *const c_char) -> Option<Self> {
        if text.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        let (first, rest) = text.split_first()?;
        if !matches!(first, b'r' | b'w' | b'a') || rest.contains(&b',') {
            return None;
        }
        let mut mode = Self { first: *first, both: false, extra: 0 };
        for letter in rest.iter().take(6) {
            match letter {
                b'+' => mode.both = true,
                b'x' => mode.extra |= libc::O_EXCL,
                b'e' => mode.extra |= libc::O_CLOEXEC,
                _ => {}
            }
        }
        Some(mode)
    }

    /// The flags to open a file with.
    pub(crate) fn flags(&self) -> c_int {
        let access = match (self.both, self.first) {
            (true, _) => libc::O_RDWR,
            (false, b'r') => libc::O_RDONLY,
            _ => libc::O_WRONLY,
        };
        let make = match self.first {
            b'r' => 0,
            b'w' => libc::O_CREAT | libc::O_TRUNC,
            _ => libc::O_CREAT | libc::O_APPEND,
        };
        access | make | self.extra
    }

    pub(crate) const fn appends(&self) -> bool {
        self.first == b'a'
    }

    /// Such a stream starts at the end.
    pub(crate) const fn only_appends(&self) -> bool {
        self.appends() && !self.both
    }

    /// Whether a descriptor with these flags allows it.
    pub(crate) fn fits(&self, flags: c_int) -> bool {
        match flags & libc::O_ACCMODE {
            libc::O_RDONLY => self.first == b'r' && !self.both,
            libc::O_WRONLY => self.first != b'r' && !self.both,
            _ => true,
        }
    }

    /// The mode without what concerns only the opening.
    pub(crate) const fn text(&self) -> &'static CStr {
        match (self.first, self.both) {
            (b'r', false) => c"r",
            (b'r', true) => c"r+",
            (b'w', false) => c"w",
            (b'w', true) => c"w+",
            (_, false) => c"a",
            (_, true) => c"a+",
        }
    }

    /// The bits of a stream with it.
    pub(crate) const fn stream_flags(&self) -> c_int {
        let access = match (self.both, self.first) {
            (true, _) => 0,
            (false, b'r') => NO_WRITES,
            _ => NO_READS,
        };
        if self.appends() { access | APPENDING } else { access }
    }
}
