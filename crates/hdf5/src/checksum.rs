//! The checksum of metadata: Bob Jenkins' lookup3 (`hashlittle`), begun with 0.
//!
//! The same function hashes the names of links and attributes for the indexes of dense storage.

/// The checksum of some bytes.
pub fn lookup3(bytes: &[u8]) -> u32 {
    let begin = 0xDEAD_BEEF_u32.wrapping_add(bytes.len() as u32);
    let [mut a, mut b, mut c] = [begin; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        (a, b, c) = mix(a, b, c);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let (low, high) = (rest.len().min(4), rest.len().min(8));
    a = a.wrapping_add(word(&rest[..low]));
    b = b.wrapping_add(word(&rest[low..high]));
    c = c.wrapping_add(word(&rest[high..]));
    finish(a, b, c)
}

/// Whether checksums are compared: not while fuzzing, else no change would get past one.
pub(crate) fn are_verified() -> bool {
    #[cfg(feature = "peers")]
    if IGNORED.get() {
        return false;
    }
    !cfg!(fuzzing)
}

#[cfg(feature = "peers")]
thread_local! {
    static IGNORED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// For tests that do what a fuzzer does: whether checksums are ignored in this thread.
#[cfg(feature = "peers")]
#[doc(hidden)]
pub fn ignore_in_this_thread(ignored: bool) {
    IGNORED.set(ignored);
}

/// Up to four bytes, lowest first.
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    (a, b, c)
}

fn finish(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the author of the function gives.
    #[test]
    fn known_values() {
        assert_eq!(lookup3(b""), 0xDEAD_BEEF);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
