//! Fletcher-32: a checksum of four bytes behind the data.
//!
//! The sums are those of the HDF5 library, which folds them as it does to the bit: a sum of 65,535
//! is not 0. Files from before release 1.6.3, written on little-endian machines, have the bytes of
//! both halves exchanged; both forms are accepted, as the library does.

use super::FilterFault;

/// Bytes of a checksum.
pub(super) const LEN: usize = 4;

/// The largest number of words whose sums stay below 2³².
const WORDS: usize = 360;

/// The checksum of bytes, which are taken as big-endian words of 16 bits.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xFFFF) + (sum >> 16);
    let (mut low, mut high) = (0_u32, 0_u32);
    let (words, odd) = bytes.as_chunks::<2>();
    for words in words.chunks(WORDS) {
        for &word in words {
            low += u32::from(u16::from_be_bytes(word));
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    if let [last] = odd {
        low += u32::from(*last) << 8;
        high += low;
        (low, high) = (fold(low), fold(high));
    }
    fold(high) << 16 | fold(low)
}

/// The length of the data in front of a checksum that matches.
pub(super) fn verified(bytes: &[u8]) -> Result<usize, FilterFault> {
    let (data, stored) =
        bytes.split_last_chunk::<LEN>().ok_or(FilterFault::Damaged("there is no checksum"))?;
    let stored = u32::from_le_bytes(*stored);
    let computed = checksum(data);
    let exchanged = (computed & 0x00FF_00FF) << 8 | (computed & 0xFF00_FF00) >> 8;
    if stored == computed || stored == exchanged {
        Ok(data.len())
    } else {
        Err(FilterFault::Checksum { stored, computed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_words_one_after_the_other() {
        assert_eq!(checksum(&[]), 0);
        assert_eq!(checksum(&[1, 2]), 0x0102_0102);
        assert_eq!(checksum(&[1, 2, 3, 4]), 0x0508_0406);
        assert_eq!(checksum(&[1]), 0x0100_0100);
        // A sum of 65,535 is kept, and is not 0.
        assert_eq!(checksum(&[0xFF; 2 * 720]), 0xFFFF_FFFF);
    }

    #[test]
    fn both_orders_of_bytes_are_accepted() {
        let data = [5, 6, 7, 8, 9];
        let sum = checksum(&data).to_le_bytes();
        let old = [sum[1], sum[0], sum[3], sum[2]];
        for stored in [sum, old] {
            assert_eq!(verified(&[&data[..], &stored].concat()), Ok(5));
        }
        let wrong = [&data[..], &[0; 4]].concat();
        assert!(matches!(verified(&wrong), Err(FilterFault::Checksum { stored: 0, .. })));
        assert!(verified(&[1, 2, 3]).is_err());
    }
}
