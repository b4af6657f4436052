//! The checksum of frames: CRC-32C, as fast as the processor can.

use crc_fast::{CrcAlgorithm, Digest};

/// A checksum of bytes that come in parts.
#[derive(Clone, Debug)]
pub(crate) struct Checksum(Digest);

impl Checksum {
    pub(crate) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

/// The checksum of some bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_that_others_compute() {
        // The check value of the algorithm.
        assert_eq!(checksum(b"123456789"), 0xE306_9283);
        let mut parts = Checksum::new();
        parts.add(b"1234");
        parts.add(b"");
        parts.add(b"56789");
        assert_eq!(parts.finish(), 0xE306_9283);
    }
}
