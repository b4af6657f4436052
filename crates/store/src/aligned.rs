//! [`AlignedBuffer`]: bytes at an address that direct I/O accepts.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes whose address is a multiple of an alignment, by default a page.
///
/// Its length is fixed. New buffers are zeroed.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    align: usize,
}

impl AlignedBuffer {
    /// The alignment of [`AlignedBuffer::new`], enough for direct I/O nearly everywhere.
    pub const PAGE: usize = 4096;

    /// A buffer of `len` zeros at the start of a page.
    pub fn new(len: usize) -> Self {
        Self::with_alignment(len, Self::PAGE)
    }

    /// A buffer of `len` zeros, aligned to `align`.
    ///
    /// # Panics
    ///
    /// If `align` is not a power of two, or the length rounded up to it is more than `isize::MAX`.
    pub fn with_alignment(len: usize, align: usize) -> Self {
        let layout = Self::layout(len, align);
        // SAFETY: the layout has a size of at least 1.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, len, align }
    }

    fn layout(len: usize, align: usize) -> Layout {
        Layout::from_size_align(len.max(1), align).expect("a buffer that fits in memory")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `with_alignment` with the same layout, and not used after this.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len, self.align)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that this owns and that are borrowed as it is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialised bytes that this owns and that are borrowed as it is.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer")
            .field("len", &self.len)
            .field("align", &self.align)
            .finish_non_exhaustive()
    }
}

// SAFETY: it owns its bytes, as a `Vec<u8>` does.
unsafe impl Send for AlignedBuffer {}

// SAFETY: shared references only read.
unsafe impl Sync for AlignedBuffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zero() {
        for len in [0, 1, 4095, 4096, 1 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.as_ptr().addr() % AlignedBuffer::PAGE, 0);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
        assert_eq!(AlignedBuffer::with_alignment(10, 1 << 16).as_ptr().addr() % (1 << 16), 0);
    }
}
