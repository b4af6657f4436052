//! The memory of a call, in as many parts as it had.

use striate_stack::Memory;

/// Memory that a write takes, in parts.
pub(super) fn source(bytes: &[u8], parts: u32) -> Memory<'_> {
    if parts <= 1 {
        return Memory::source(bytes);
    }
    let parts = cut(bytes.as_ptr().cast_mut(), bytes.len(), parts);
    // SAFETY: the parts are those of the slice, which lives as long; operations that write files only read them.
    unsafe { Memory::from_parts(&parts) }
}

/// Memory that a read fills, in parts.
pub(super) fn sink(bytes: &mut [u8], parts: u32) -> Memory<'_> {
    if parts <= 1 {
        return Memory::sink(bytes);
    }
    let parts = cut(bytes.as_mut_ptr(), bytes.len(), parts);
    // SAFETY: the parts are those of the slice, which is ours alone for as long, and do not overlap.
    unsafe { Memory::from_parts(&parts) }
}

/// Lengths of as many parts, nearly alike: how long they were is not recorded.
pub(super) fn lengths(length: usize, parts: u32) -> impl Iterator<Item = usize> {
    // More than the kernel takes at a time cannot have been.
    let parts = parts.clamp(1, 1024) as usize;
    let (each, more) = (length / parts, length % parts);
    (0..parts).map(move |part| each + usize::from(part < more))
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
        assert_eq!(source(&bytes, 4).take(0, &mut back), 10);
        assert_eq!(back, bytes);
        assert_eq!(sink(&mut bytes, 3).fill(0, &[7; 10]), 10);
        assert_eq!(bytes, [7; 10]);
    }
}
