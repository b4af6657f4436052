//! The buffer of a thread for the data of one request, aligned as direct I/O wants it.

use std::cell::RefCell;

/// The alignment that the kernel wants of memory for direct I/O.
const ALIGNMENT: usize = 4096;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `act` with an aligned buffer of `size` bytes, whose content is arbitrary.
pub(crate) fn with_buffer<R>(size: usize, act: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut buffer = BUFFER.take();
    if buffer.len() < size + ALIGNMENT {
        buffer.resize(size + ALIGNMENT, 0);
    }
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let result = act(&mut buffer[start..start + size]);
    BUFFER.set(buffer);
    result
}
