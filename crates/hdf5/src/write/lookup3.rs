//! [`checksum`]: Bob Jenkins's lookup3 (`hashlittle`) with a start value of 0, the checksum of
//! version-2 structures and the hash of names in dense storage.

/// The checksum of some bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let mut state = [start; 3];
    // The last 1 to 12 bytes are mixed differently.
    let whole = bytes.len().saturating_sub(1) / 12 * 12;
    let (front, rest) = bytes.split_at(whole);
    for block in front.chunks_exact(12) {
        add(&mut state, block);
        mix(&mut state);
    }
    if rest.is_empty() {
        return state[2];
    }
    add(&mut state, rest);
    finish(state)
}

/// Adds up to 12 bytes as three numbers; those that are missing count as 0.
fn add(state: &mut [u32; 3], bytes: &[u8]) {
    for (word, part) in state.iter_mut().zip(bytes.chunks(4)) {
        let mut number = [0; 4];
        number[..part.len()].copy_from_slice(part);
        *word = word.wrapping_add(u32::from_le_bytes(number));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    *a = a.wrapping_sub(*c) ^ c.rotate_left(4);
    *c = c.wrapping_add(*b);
    *b = b.wrapping_sub(*a) ^ a.rotate_left(6);
    *a = a.wrapping_add(*c);
    *c = c.wrapping_sub(*b) ^ b.rotate_left(8);
    *b = b.wrapping_add(*a);
    *a = a.wrapping_sub(*c) ^ c.rotate_left(16);
    *c = c.wrapping_add(*b);
    *b = b.wrapping_sub(*a) ^ a.rotate_left(19);
    *a = a.wrapping_add(*c);
    *c = c.wrapping_sub(*b) ^ b.rotate_left(4);
    *b = b.wrapping_add(*a);
}

fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}
