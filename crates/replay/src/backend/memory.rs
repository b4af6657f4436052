//! The memory buffers of a call, as many as the recorded call had.

use striate_stack::Memory;

/// Memory that a write of a length takes, in parts: over and over if it is less.
pub(super) fn source(bytes: &[u8], length: usize, parts: u32) -> Memory<'_> {
    if bytes.len() < length {
        let parts = repeated(bytes.as_ptr().cast_mut(), bytes.len(), length);
        // SAFETY: all parts are within the slice, which lives as long; operations that write files
        // only read them.
        return unsafe { Memory::from_parts(&parts) };
    }
    if parts <= 1 {
        return Memory::source(bytes);
    }
    let parts = cut(bytes.as_ptr().cast_mut(), bytes.len(), parts);
    // SAFETY: the parts are those of the slice, which lives as long; operations that write files
    // only read them.
    unsafe { Memory::from_parts(&parts) }
}

/// Memory that a read of a length fills, in parts: over and over if it is less. What was read is
/// not looked at.
pub(super) fn sink(bytes: &mut [u8], length: usize, parts: u32) -> Memory<'_> {
    if bytes.len() < length {
        let parts = repeated(bytes.as_mut_ptr(), bytes.len(), length);
        // SAFETY: all parts are within the slice, which is ours alone for as long. They are written
        // to one after the other, by the kernel or by copies of bytes, and not read.
        return unsafe { Memory::from_parts(&parts) };
    }
    if parts <= 1 {
        return Memory::sink(bytes);
    }
    let parts = cut(bytes.as_mut_ptr(), bytes.len(), parts);
    // SAFETY: the parts are those of the slice, which is ours alone for as long, and do not
    // overlap.
    unsafe { Memory::from_parts(&parts) }
}

/// Lengths of as many parts, nearly alike: how long they were is not recorded.
pub(super) fn lengths(length: usize, parts: u32) -> impl Iterator<Item = usize> {
    // More than the kernel takes at a time cannot have been.
    let parts = parts.clamp(1, 1024) as usize;
    let (each, more) = (length / parts, length % parts);
    (0..parts).map(move |part| each + usize::from(part < more))
}

/// The same memory as many times as it takes.
fn repeated(start: *mut u8, each: usize, length: usize) -> Vec<libc::iovec> {
    let mut left = length;
    std::iter::from_fn(|| {
        let part = left.min(each);
        left -= part;
        (part > 0).then_some(libc::iovec { iov_base: start.cast(), iov_len: part })
    })
    .collect()
}

fn cut(start: *mut u8, length: usize, parts: u32) -> Vec<libc::iovec> {
    let mut at = 0;
    lengths(length, parts)
        .map(|part| {
            let part = libc::iovec { iov_base: start.wrapping_add(at).cast(), iov_len: part };
            at += part.iov_len;
            part
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole() {
        let mut bytes: Vec<u8> = (0..10).collect();
        assert_eq!(lengths(10, 4).collect::<Vec<_>>(), [3, 3, 2, 2]);
        let mut back = vec![0; 10];
        assert_eq!(source(&bytes, 10, 4).take(0, &mut back), 10);
        assert_eq!(back, bytes);
        assert_eq!(sink(&mut bytes, 10, 3).fill(0, &[7; 10]), 10);
        assert_eq!(bytes, [7; 10]);
    }
}
