//! `BloscLZ`, the compressor that Blosc brings along. It is decoded only.

use super::match_copy::copy_match;

/// The longest distance of a match that has no distance of its own.
const NEAR: usize = 8191;

/// The number of bytes after decoding; `None` if these are no such data, or more than the output
/// holds.
pub(super) fn decode(input: &[u8], output: &mut [u8]) -> Option<usize> {
    let mut bytes = input.iter();
    let mut at = 0;
    let Some(&first) = bytes.next() else {
        return Some(0);
    };
    // The first is always a run of literals; its upper bits tell a version.
    let mut control = usize::from(first & 31);
    loop {
        if control < 32 {
            let len = control + 1;
            let (literals, rest) = bytes.as_slice().split_at_checked(len)?;
            output.get_mut(at..at + len)?.copy_from_slice(literals);
            bytes = rest.iter();
            at += len;
        } else {
            let mut len = (control >> 5) + 2;
            if control >> 5 == 7 {
                loop {
                    let more = usize::from(*bytes.next()?);
                    len = len.checked_add(more)?;
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = usize::from(*bytes.next()?);
            let mut distance = ((control & 31) << 8) + low + 1;
            if distance == NEAR + 1 {
                let far = [*bytes.next()?, *bytes.next()?];
                distance = usize::from(u16::from_be_bytes(far)) + NEAR + 1;
            }
            copy_match(output, at, distance, len)?;
            at += len;
        }
        match bytes.next() {
            Some(&next) => control = usize::from(next),
            None => return Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_near_and_far_matches() {
        let mut output = vec![0; 20_000];
        // "ab", then 3 + 2 bytes from 2 before.
        assert_eq!(decode(&[1, b'a', b'b', 3 << 5, 1], &mut output), Some(7));
        assert_eq!(output[..7], *b"abababa");
        // "ab", 9 + 255 × 35 + 5 bytes from 1 before, 3 bytes from 8192 + 700 before.
        let mut long = vec![1, b'a', b'b', 7 << 5];
        long.extend([255; 35]);
        long.extend([5, 0]);
        let len = 2 + 9 + 255 * 35 + 5;
        assert_eq!(decode(&long, &mut output), Some(len));
        let far = (len - 8192) as u16;
        long.extend([1 << 5 | 31, 255]);
        long.extend(far.to_be_bytes());
        assert_eq!(decode(&long, &mut output), Some(len + 3));
        assert_eq!(output[len..len + 3], *b"abb");
        assert_eq!(decode(&long, &mut output[..len + 2]), None);
        for len in 1..4 {
            assert_eq!(decode(&[1, b'a', b'b', 3 << 5, 1][..len], &mut output).is_none(), len < 3);
        }
        assert_eq!(decode(&[0, b'a', 1 << 5, 1], &mut output), None);
    }
}
