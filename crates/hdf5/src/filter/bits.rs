//! [`BitReader`] and [`BitWriter`]: numbers of any width, the most significant bit first.

/// Reads numbers from bytes.
#[derive(Clone, Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The next bits, from the top. Below the first `count` may be bits that are read once more.
    held: u64,
    count: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, held: 0, count: 0 }
    }

    /// At least 56 bits are held, or all that there are.
    fn fill(&mut self) {
        if let Some(word) = self.bytes[self.at..].first_chunk::<8>() {
            self.held |= u64::from_be_bytes(*word) >> self.count;
            let taken = (63 - self.count) / 8;
            self.at += taken as usize;
            self.count += 8 * taken;
            return;
        }
        while self.count <= 56
            && let Some(&byte) = self.bytes.get(self.at)
        {
            self.held |= u64::from(byte) << (56 - self.count);
            self.at += 1;
            self.count += 8;
        }
    }

    /// The next number of up to 32 bits, unless there are fewer bits.
    pub(super) fn read(&mut self, bits: u32) -> Option<u32> {
        if self.count < bits {
            self.fill();
            if self.count < bits {
                return None;
            }
        }
        let number = if bits == 0 { 0 } else { self.held >> (64 - bits) };
        self.held <<= bits;
        self.count -= bits;
        Some(number as u32)
    }

    /// The same with up to 64 bits.
    pub(super) fn read_long(&mut self, bits: u32) -> Option<u64> {
        let high = self.read(bits.saturating_sub(32))?;
        let low = self.read(bits.min(32))?;
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// The number of zeros in front of the next one, which is taken, too.
    pub(super) fn read_unary(&mut self) -> Option<u32> {
        let mut zeros = 0_u32;
        loop {
            let leading = self.held.leading_zeros();
            if leading < self.count {
                self.held = self.held << leading << 1;
                self.count -= leading + 1;
                return zeros.checked_add(leading);
            }
            zeros = zeros.checked_add(self.count)?;
            self.held = 0;
            self.count = 0;
            self.fill();
            if self.count == 0 {
                return None;
            }
        }
    }
}

/// Writes numbers to bytes.
#[derive(Debug)]
pub(super) struct BitWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
    /// The bits of the byte that is not yet full, from the top.
    held: u8,
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0, held: 0, count: 0 }
    }

    /// The lowest bits of a byte, up to 8; `None` if there is no room for them.
    pub(super) fn write(&mut self, value: u8, bits: u32) -> Option<()> {
        let value = u32::from(value) & ((1 << bits) - 1);
        let word = u32::from(self.held) << 8 | value << (16 - self.count - bits);
        self.count += bits;
        self.held = (word >> 8) as u8;
        if self.count >= 8 {
            *self.bytes.get_mut(self.at)? = self.held;
            self.at += 1;
            self.held = word as u8;
            self.count -= 8;
        }
        Some(())
    }

    /// The number of bytes after a last one, which holds what is left, maybe nothing.
    pub(super) fn finish(self) -> Option<usize> {
        *self.bytes.get_mut(self.at)? = self.held;
        Some(self.at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(
            numbers in prop::collection::vec((any::<u8>(), 0_u32..9), 0..200),
        ) {
            let mut bytes = vec![0; numbers.len() + 1];
            let mut writer = BitWriter::new(&mut bytes);
            for &(value, bits) in &numbers {
                writer.write(value, bits).unwrap();
            }
            let len = writer.finish().unwrap();
            let mut reader = BitReader::new(&bytes[..len]);
            for &(value, bits) in &numbers {
                prop_assert_eq!(reader.read(bits), Some(u32::from(value) & ((1 << bits) - 1)));
            }
        }

        #[test]
        fn wide_and_unary_numbers_are_read_as_bits(bytes in prop::collection::vec(0_u8..4, 0..60)) {
            let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
            let mut ones = (0..bytes.len() * 8).filter(|&at| bit(at) == 1);
            let mut reader = BitReader::new(&bytes);
            let mut from = 0;
            while let Some(zeros) = reader.read_unary() {
                let one = ones.next().unwrap();
                prop_assert_eq!(zeros as usize, one - from);
                from = one + 1;
            }
            prop_assert_eq!(ones.next(), None);
            let mut reader = BitReader::new(&bytes);
            for start in 0..bytes.len() * 8 / 45 {
                let wanted = (45 * start..45 * (start + 1))
                    .fold(0, |number, at| number << 1 | u64::from(bit(at)));
                prop_assert_eq!(reader.read_long(45), Some(wanted));
            }
        }
    }
}
