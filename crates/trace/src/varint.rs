//! Variable-length integers: seven bits in a byte, the lowest first (LEB128).

/// Bytes that a number takes at most.
pub(crate) const MOST: usize = 10;

/// Writes a number at the start of `place`; returns how many bytes it took.
#[inline]
pub(crate) fn put(place: &mut [u8], mut number: u64) -> usize {
    let mut used = 0;
    while let Some(byte) = place.get_mut(used) {
        used += 1;
        if number < 0x80 {
            *byte = number as u8;
            break;
        }
        *byte = number as u8 | 0x80;
        number >>= 7;
    }
    used
}

/// Appends a number.
pub(crate) fn push(bytes: &mut Vec<u8>, number: u64) {
    let mut place = [0; MOST];
    let used = put(&mut place, number);
    bytes.extend_from_slice(&place[..used]);
}

/// Appends a text with its length before it.
pub(crate) fn push_bytes(bytes: &mut Vec<u8>, text: &[u8]) {
    push(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

/// A signed number as one that is small when it is near 0.
#[inline]
pub(crate) const fn fold(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// The signed number again.
#[inline]
pub(crate) const fn unfold(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Bytes that are being read. Everything fails with `None` when they end.
#[derive(Clone, Debug)]
pub(crate) struct Input<'b>(pub(crate) &'b [u8]);

impl<'b> Input<'b> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for place in 0..MOST {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has one bit of the number.
            if place == MOST - 1 && bits > 1 {
                return None;
            }
            number |= bits << (7 * place);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        self.number().map(unfold)
    }

    pub(crate) fn narrow(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(number: u64, signed: i64, shift in 0..64_u32) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            push(&mut bytes, number);
            push(&mut bytes, fold(signed));
            prop_assert!(number >= 128 || bytes[0] == number as u8);
            let mut input = Input(&bytes);
            prop_assert_eq!(input.number(), Some(number));
            prop_assert_eq!(input.signed(), Some(signed));
            prop_assert!(input.is_empty() && input.number().is_none());
        }
    }

    #[test]
    fn numbers_that_are_too_long_are_none() {
        assert_eq!(Input(&[0xFF; 9]).number(), None);
        assert_eq!(Input(&[0xFF; 12]).number(), None);
        let mut largest = [0xFF; 10];
        largest[9] = 1;
        assert_eq!(Input(&largest).number(), Some(u64::MAX));
        largest[9] = 2;
        assert_eq!(Input(&largest).number(), None);
        assert_eq!(Input(&[5, 1, 2]).bytes(), None);
    }
}
