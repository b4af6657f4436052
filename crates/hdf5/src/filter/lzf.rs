//! LZF, the small compressor that h5py brings along. It is decoded only.

use super::FilterFault;
use super::match_copy::copy_match;

/// The number of bytes after decoding.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Result<usize, FilterFault> {
    let limit = output.len();
    let mut input = input;
    let mut at = 0;
    while let Some((&control, rest)) = input.split_first() {
        input = rest;
        if control < 32 {
            let len = usize::from(control) + 1;
            let (literals, rest) = input.split_at_checked(len).ok_or(SHORT)?;
            let to = output.get_mut(at..at + len).ok_or(FilterFault::TooLong { limit })?;
            to.copy_from_slice(literals);
            input = rest;
            at += len;
            continue;
        }
        let mut len = usize::from(control >> 5) + 2;
        if control >> 5 == 7 {
            let (&more, rest) = input.split_first().ok_or(SHORT)?;
            len += usize::from(more);
            input = rest;
        }
        let (&low, rest) = input.split_first().ok_or(SHORT)?;
        input = rest;
        let distance = (usize::from(control & 31) << 8 | usize::from(low)) + 1;
        if distance > at {
            return Err(FilterFault::Damaged("a match before the beginning"));
        }
        copy_match(output, at, distance, len).ok_or(FilterFault::TooLong { limit })?;
        at += len;
    }
    Ok(at)
}

const SHORT: FilterFault = FilterFault::Damaged("it ends too early");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_matches() {
        let mut output = [0; 300];
        // "ab", then 6 bytes from 2 before, then 7 + 250 + 2 bytes from 1 before.
        let input = [1, b'a', b'b', 4 << 5, 1, 7 << 5, 250, 0];
        assert_eq!(decode(&input, &mut output), Ok(267));
        assert_eq!(output[..8], *b"abababab");
        assert_eq!(output[8..267], [b'b'; 259]);
        assert_eq!(decode(&input, &mut output[..266]), Err(FilterFault::TooLong { limit: 266 }));
        for len in [1, 2, 4, 6, 7] {
            assert_eq!(decode(&input[..len], &mut output), Err(SHORT));
        }
        assert!(matches!(decode(&[0, 1, 32, 1], &mut output), Err(FilterFault::Damaged(_))));
        assert_eq!(decode(&[], &mut output), Ok(0));
    }
}
