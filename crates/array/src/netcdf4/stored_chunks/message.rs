//! Messages between ranks about chunks.

use super::super::chunk_cache::ChunkKey;
use crate::ArrayError;
use crate::partition::Hyperslab;

pub(crate) fn garbled() -> ArrayError {
    let reason = "ranks do not understand each other's messages".into();
    ArrayError::Definition { what: "exchange of chunks".into(), reason }
}

/// A message of numbers and bytes.
#[derive(Debug, Default)]
pub(crate) struct Words(pub(crate) Vec<u8>);

impl Words {
    pub(crate) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn key(&mut self, variable: usize, place: &[u64]) {
        self.number(variable as u64);
        self.number(place.len() as u64);
        for &one in place {
            self.number(one);
        }
    }
}

/// Reads a message.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    pub(crate) fn numbers(&mut self, count: usize) -> Option<Vec<u64>> {
        (0..count).map(|_| self.number()).collect()
    }

    pub(crate) fn key(&mut self) -> Option<ChunkKey> {
        let variable = self.number()? as usize;
        let rank = self.number()?;
        Some((variable, self.numbers(usize::try_from(rank).ok()?)?))
    }

    pub(crate) fn hyperslab(&mut self, rank: usize) -> Option<Hyperslab> {
        let (start, count) = (self.numbers(rank)?, self.numbers(rank)?);
        Some(Hyperslab { start, count, stride: self.numbers(rank)? })
    }
}
