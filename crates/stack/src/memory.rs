//! [`Memory`]: the program's memory that a read fills or a write takes, in one part or several.

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use smallvec::SmallVec;

/// The program's memory of one call: parts in the order in which their bytes meet those of the
/// file.
///
/// The program vouches for the memory, as it does towards the kernel: the caller of a constructor
/// promises that the parts stay there, and are not changed by others, for as long as it lives.
#[derive(Clone, Debug)]
pub struct Memory<'a> {
    parts: Parts,
    length: usize,
    of: PhantomData<&'a mut [u8]>,
}

/// Nearly always there is one.
#[derive(Clone, Debug)]
enum Parts {
    One(libc::iovec),
    Several(Vec<libc::iovec>),
}

impl Deref for Parts {
    type Target = [libc::iovec];

    #[inline]
    fn deref(&self) -> &[libc::iovec] {
        match self {
            Self::One(part) => std::slice::from_ref(part),
            Self::Several(parts) => parts,
        }
    }
}

// SAFETY: it stands for `&mut [u8]`, which may go to another thread.
unsafe impl Send for Memory<'_> {}

impl<'a> Memory<'a> {
    /// Memory of one part.
    ///
    /// # Safety
    /// `length` bytes can be read (by a write) or written (by a read) for `'a`.
    #[inline]
    pub unsafe fn from_raw(start: *mut u8, length: usize) -> Self {
        let parts = Parts::One(libc::iovec { iov_base: start.cast(), iov_len: length });
        Self { parts, length, of: PhantomData }
    }

    /// Memory of several parts, whose lengths together are no more than a call can say
    /// (`isize::MAX`).
    ///
    /// # Safety
    /// As [`Memory::from_raw`], for each part.
    pub unsafe fn from_parts(parts: &[libc::iovec]) -> Self {
        let length = parts.iter().map(|part| part.iov_len).sum();
        let parts = match parts {
            [part] => Parts::One(*part),
            parts => Parts::Several(parts.to_vec()),
        };
        Self { parts, length, of: PhantomData }
    }

    /// Memory that a write takes. It is not written to.
    #[inline]
    pub fn source(bytes: &'a [u8]) -> Self {
        // SAFETY: the slice lives for `'a`; operations that read memory only read it.
        unsafe { Self::from_raw(bytes.as_ptr().cast_mut(), bytes.len()) }
    }

    /// Memory that a read fills.
    #[inline]
    pub fn sink(bytes: &'a mut [u8]) -> Self {
        // SAFETY: the slice is ours alone for `'a`.
        unsafe { Self::from_raw(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// How many bytes there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether it may be there at all: the first page and the kernel's half of the memory never
    /// are. What is not is left to the kernel, which says so.
    #[inline]
    pub fn may_be_there(&self) -> bool {
        self.parts.iter().all(|part| part.iov_base as isize >= 4096 || part.iov_len == 0)
    }

    /// The part, if there is one only.
    #[inline]
    pub const fn one(&self) -> Option<&libc::iovec> {
        match &self.parts {
            Parts::One(part) => Some(part),
            Parts::Several(_) => None,
        }
    }

    /// The parts, as the kernel takes them.
    #[inline]
    pub fn parts(&self) -> &[libc::iovec] {
        &self.parts
    }

    /// The parts, to be written from.
    pub fn slices(&self) -> SmallVec<[IoSlice<'_>; 1]> {
        let slice = |part: &libc::iovec| {
            // SAFETY: the constructor's caller guarantees that the bytes are valid.
            IoSlice::new(unsafe { bytes(part) })
        };
        self.parts.iter().map(slice).collect()
    }

    /// The parts, to be read into.
    pub fn slices_mut(&mut self) -> SmallVec<[IoSliceMut<'_>; 1]> {
        let slice = |part: &libc::iovec| {
            // SAFETY: as above; and `&mut self` excludes other users meanwhile.
            IoSliceMut::new(unsafe { bytes_mut(part) })
        };
        self.parts.iter().map(slice).collect()
    }

    /// A part of it, counted in bytes from its start; what is beyond its end is left out.
    pub fn range(&mut self, range: Range<usize>) -> Memory<'_> {
        let mut parts: SmallVec<[libc::iovec; 1]> = SmallVec::new();
        let (mut before, mut length) = (0, 0);
        for part in self.parts() {
            let start = range.start.saturating_sub(before).min(part.iov_len);
            let end = range.end.saturating_sub(before).min(part.iov_len);
            if start < end {
                // SAFETY: `start` is within the part.
                let base = unsafe { part.iov_base.cast::<u8>().add(start) };
                parts.push(libc::iovec { iov_base: base.cast(), iov_len: end - start });
                length += end - start;
            }
            before += part.iov_len;
        }
        let parts = match parts[..] {
            [part] => Parts::One(part),
            _ => Parts::Several(parts.into_vec()),
        };
        Memory { parts, length, of: PhantomData }
    }

    /// Copies bytes into it from `at` on, as many as fit. Returns how many those are.
    pub fn fill(&mut self, at: usize, mut from: &[u8]) -> usize {
        let mut place = self.range(at..at.saturating_add(from.len()));
        let copied = place.len();
        for slice in &mut place.slices_mut() {
            let (now, later) = from.split_at(slice.len());
            slice.copy_from_slice(now);
            from = later;
        }
        copied
    }

    /// Copies its bytes from `at` on, as many as there are. Returns how many those are.
    pub fn take(&self, at: usize, into: &mut [u8]) -> usize {
        let (mut before, mut filled) = (0, 0);
        for slice in self.slices() {
            let start = at.saturating_sub(before).min(slice.len());
            let count = (slice.len() - start).min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&slice[start..start + count]);
            filled += count;
            before += slice.len();
        }
        filled
    }

    /// Appends its bytes from `range` to a vector.
    pub fn append_to(&self, range: Range<usize>, vector: &mut Vec<u8>) {
        let mut before = 0;
        for slice in self.slices() {
            let start = range.start.saturating_sub(before).min(slice.len());
            let end = range.end.saturating_sub(before).min(slice.len());
            if start < end {
                vector.extend_from_slice(&slice[start..end]);
            }
            before += slice.len();
        }
    }
}

/// # Safety
/// The bytes of the part are valid for `'a`.
unsafe fn bytes<'a>(part: &libc::iovec) -> &'a [u8] {
    if part.iov_len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) }
}

/// # Safety
/// The bytes of the part are valid and not shared for `'a`.
unsafe fn bytes_mut<'a>(part: &libc::iovec) -> &'a mut [u8] {
    if part.iov_len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(part.iov_base.cast(), part.iov_len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_stream() {
        let (mut a, mut b) = ([0u8; 3], [0u8; 4]);
        let parts = [
            libc::iovec { iov_base: a.as_mut_ptr().cast(), iov_len: 3 },
            libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 },
            libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: 4 },
        ];
        // SAFETY: both arrays outlive it.
        let mut memory = unsafe { Memory::from_parts(&parts) };
        assert_eq!(memory.fill(1, b"bcdefghij"), 6);
        assert_eq!(memory.fill(0, b"a"), 1);
        assert_eq!((memory.fill(7, b"x"), memory.len()), (0, 7));
        let mut out = [0; 4];
        assert_eq!(memory.take(2, &mut out), 4);
        assert_eq!(&out, b"cdef");
        assert_eq!(memory.take(5, &mut out), 2);
        assert_eq!(memory.range(2..5).len(), 3);
        let mut vector = Vec::new();
        memory.range(2..100).append_to(1..4, &mut vector);
        assert_eq!(vector, b"def");
        assert!(memory.may_be_there());
        // SAFETY: it is not accessed.
        let nowhere = unsafe { Memory::from_raw(std::ptr::null_mut(), 8) };
        assert!(!nowhere.may_be_there());
        drop(memory);
        assert_eq!((&a, &b), (b"abc", b"defg"));
    }
}
