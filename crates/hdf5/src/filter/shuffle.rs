//! The shuffle filter: all first bytes of the elements, then all second ones, and so on.
//!
//! Elements of 2, 4 and 8 bytes have passes of their own, which the compiler turns into vector
//! instructions without being told: a shuffle cuts words by shifts, an unshuffle interleaves pairs
//! of planes, then pairs of pairs, each pass over a part that stays in the first-level cache. All
//! in one loop would be half as fast, because the compiler then permutes single bytes. The loops
//! are written out: calls of `map` on arrays are not always inlined, which is ten times as slow.
//!
//! Bytes behind the last whole element stay where they are.

/// Elements of a part.
const PART: usize = 512;

/// `input`'s elements of `size` bytes, shuffled into `output`, which has the same length.
pub(super) fn shuffle(size: usize, input: &[u8], output: &mut [u8]) {
    let whole = whole_elements(size, input.len());
    let (input, rest) = input.split_at(whole);
    let (output, rest_out) = output.split_at_mut(whole);
    rest_out.copy_from_slice(rest);
    let count = whole / size.max(1);
    let fast = match size {
        0 | 1 => {
            output.copy_from_slice(input);
            count
        }
        2 => shuffle_2(input, output),
        4 => shuffle_4(input, output),
        8 => shuffle_8(input, output),
        _ => 0,
    };
    if fast < count {
        for (byte, plane) in output.chunks_exact_mut(count).enumerate() {
            let elements = input.chunks_exact(size).skip(fast);
            for (to, element) in plane[fast..].iter_mut().zip(elements) {
                *to = element[byte];
            }
        }
    }
}

/// The opposite of [`shuffle`].
pub(super) fn unshuffle(size: usize, input: &[u8], output: &mut [u8]) {
    let whole = whole_elements(size, input.len());
    let (input, rest) = input.split_at(whole);
    let (output, rest_out) = output.split_at_mut(whole);
    rest_out.copy_from_slice(rest);
    let count = whole / size.max(1);
    let fast = match size {
        0 | 1 => {
            output.copy_from_slice(input);
            count
        }
        2 => unshuffle_2(input, output),
        4 => unshuffle_4(input, output),
        8 => unshuffle_8(input, output),
        _ => 0,
    };
    if fast < count {
        for (byte, plane) in input.chunks_exact(count).enumerate() {
            let elements = output.chunks_exact_mut(size).skip(fast);
            for (from, element) in plane[fast..].iter().zip(elements) {
                element[byte] = *from;
            }
        }
    }
}

fn whole_elements(size: usize, len: usize) -> usize {
    if size > 1 { len - len % size } else { len }
}

/// `N` planes of shuffled bytes.
fn planes<const N: usize>(bytes: &[u8]) -> [&[u8]; N] {
    let len = bytes.len() / N;
    std::array::from_fn(|plane| &bytes[plane * len..(plane + 1) * len])
}

/// The elements from `start` of `N` planes of shuffled bytes.
fn parts<const N: usize>(bytes: &mut [u8], start: usize, elements: usize) -> [&mut [u8]; N] {
    let len = bytes.len() / N;
    let mut rest = bytes;
    std::array::from_fn(|_| {
        let (plane, others) = std::mem::take(&mut rest).split_at_mut(len);
        rest = others;
        &mut plane[start..start + elements]
    })
}

// Each of the following does as many elements as its passes take at a time, and says how many.

fn shuffle_2(input: &[u8], output: &mut [u8]) -> usize {
    let count = input.len() / 2 / 16 * 16;
    let [low, high] = parts(output, 0, count);
    let words = input.as_chunks::<2>().0.as_chunks::<16>().0;
    let planes = low.as_chunks_mut::<16>().0.iter_mut().zip(high.as_chunks_mut::<16>().0);
    for ((low, high), words) in planes.zip(words) {
        for (low, word) in low.iter_mut().zip(words) {
            *low = u16::from_le_bytes(*word) as u8;
        }
        for (high, word) in high.iter_mut().zip(words) {
            *high = (u16::from_le_bytes(*word) >> 8) as u8;
        }
    }
    count
}

fn shuffle_4(input: &[u8], output: &mut [u8]) -> usize {
    let count = input.len() / 4 / 16 * 16;
    split_words(input, parts(output, 0, count));
    count
}

fn shuffle_8(input: &[u8], output: &mut [u8]) -> usize {
    let (mut low, mut high) = ([0; 4 * PART], [0; 4 * PART]);
    let mut count = 0;
    for input in input.chunks_exact(8 * PART) {
        halve(input, &mut low, &mut high);
        let [a, b, c, d, e, f, g, h] = parts(output, count, PART);
        split_words(&low, [a, b, c, d]);
        split_words(&high, [e, f, g, h]);
        count += PART;
    }
    count
}

/// The bytes of words of four to four planes.
#[inline(never)]
fn split_words(words: &[u8], planes: [&mut [u8]; 4]) {
    let words = words.as_chunks::<4>().0.as_chunks::<16>().0;
    let mut planes = planes.map(|plane| plane.as_chunks_mut::<16>().0);
    for (at, words) in words.iter().enumerate() {
        for (byte, plane) in planes.iter_mut().enumerate() {
            for (to, word) in plane[at].iter_mut().zip(words) {
                *to = (u32::from_le_bytes(*word) >> (8 * byte)) as u8;
            }
        }
    }
}

/// The halves of words of eight bytes.
#[inline(never)]
fn halve(words: &[u8], low: &mut [u8], high: &mut [u8]) {
    let halves = low.as_chunks_mut::<4>().0.iter_mut().zip(high.as_chunks_mut::<4>().0);
    for ((low, high), &word) in halves.zip(words.as_chunks::<8>().0) {
        let word = u64::from_le_bytes(word);
        *low = (word as u32).to_le_bytes();
        *high = ((word >> 32) as u32).to_le_bytes();
    }
}

fn unshuffle_2(input: &[u8], output: &mut [u8]) -> usize {
    let count = input.len() / 2 / 8 * 8;
    let [low, high] = planes(input);
    interleave::<1>(&low[..count], &high[..count], &mut output[..2 * count]);
    count
}

fn unshuffle_4(input: &[u8], output: &mut [u8]) -> usize {
    let planes = planes::<4>(input);
    let mut count = 0;
    for output in output.chunks_exact_mut(4 * PART) {
        join_words(planes.map(|plane| &plane[count..count + PART]), output);
        count += PART;
    }
    count
}

fn unshuffle_8(input: &[u8], output: &mut [u8]) -> usize {
    let planes = planes::<8>(input);
    let (mut low, mut high) = ([0; 4 * PART], [0; 4 * PART]);
    let mut count = 0;
    for output in output.chunks_exact_mut(8 * PART) {
        let [a, b, c, d, e, f, g, h] = planes.map(|plane| &plane[count..count + PART]);
        join_words([a, b, c, d], &mut low);
        join_words([e, f, g, h], &mut high);
        interleave::<4>(&low, &high, output);
        count += PART;
    }
    count
}

/// Words of four bytes from parts of four planes.
fn join_words([a, b, c, d]: [&[u8]; 4], words: &mut [u8]) {
    let (mut low, mut high) = ([0; 2 * PART], [0; 2 * PART]);
    interleave::<1>(a, b, &mut low);
    interleave::<1>(c, d, &mut high);
    interleave::<2>(&low, &high, words);
}

/// Items of `W` bytes of both inputs, one of each at a time. The number of items is a multiple of
/// eight.
#[inline(never)]
fn interleave<const W: usize>(first: &[u8], second: &[u8], output: &mut [u8]) {
    let first = first.as_chunks::<W>().0.as_chunks::<8>().0;
    let second = second.as_chunks::<W>().0.as_chunks::<8>().0;
    let output = output.as_chunks_mut::<W>().0.as_chunks_mut::<16>().0;
    for ((output, first), second) in output.iter_mut().zip(first).zip(second) {
        for at in 0..8 {
            output[2 * at] = first[at];
            output[2 * at + 1] = second[at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow obvious twin.
    fn shuffled(size: usize, input: &[u8]) -> Vec<u8> {
        let size = size.max(1);
        let count = input.len() / size;
        let mut output = input.to_vec();
        for element in 0..count {
            for byte in 0..size {
                output[byte * count + element] = input[element * size + byte];
            }
        }
        output
    }

    proptest! {
        #[test]
        fn shuffles_are_as_the_twin_says_and_can_be_undone(
            size in prop_oneof![0_usize..20, Just(2), Just(4), Just(8)],
            len in prop_oneof![0_usize..300, 0_usize..20_000],
            salt: u8,
        ) {
            let input: Vec<u8> =
                (0..len).map(|at| (at.wrapping_mul(0x9E37_79B1) >> 11) as u8 ^ salt).collect();
            let mut output = vec![0; len];
            shuffle(size, &input, &mut output);
            prop_assert_eq!(&output, &shuffled(size, &input));
            let mut back = vec![0; len];
            unshuffle(size, &output, &mut back);
            prop_assert_eq!(back, input);
        }
    }
}
