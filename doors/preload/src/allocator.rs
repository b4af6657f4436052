//! [`OwnHeap`]: the allocator of this library.
//!
//! The program's `malloc` may be interrupted by a signal that ends the program, after which
//! buffered data must be written; it may belong to another library, which calls functions of this
//! one; and it may not be ready at the first call. So it is not used.

use std::alloc::{GlobalAlloc, Layout};

use dlmalloc::Dlmalloc;

use crate::spin::Spin;

/// The allocator of this library.
pub(crate) struct OwnHeap;

static HEAP: Spin<Dlmalloc> = Spin::new(Dlmalloc::new());

/// Keeps the heap as it is while the process is copied.
pub(crate) fn hold() {
    HEAP.hold();
}

/// See [`hold`].
pub(crate) fn let_go() {
    HEAP.let_go();
}

// SAFETY: Dlmalloc is an allocator, and the lock lets one thread at a time use it.
unsafe impl GlobalAlloc for OwnHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        HEAP.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        HEAP.with(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        HEAP.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        HEAP.with(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) })
    }
}
