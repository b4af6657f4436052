//! [`Source`]: the bytes of a trace, in a file or in memory, and the blocks in them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::block::{BlockHeader, HEADER, checksum};
use crate::reader::Damage;

/// Where the bytes of a trace are.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file that stays open.
    File(File),
    /// A file that is opened whenever something of it is read: there may be thousands of them.
    Path(PathBuf),
    Memory(Vec<u8>),
}

impl Source {
    /// Reads as many bytes as there are, up to all that are asked for.
    pub(crate) fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => read_all_at(file, into, at),
            Self::Path(path) => read_all_at(&File::open(path)?, into, at),
            Self::Memory(bytes) => {
                let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let from = from.unwrap_or_default();
                let count = from.len().min(into.len());
                into[..count].copy_from_slice(&from[..count]);
                Ok(count)
            }
        }
    }

    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::File(file) => file.metadata().ok().map(|data| data.len()),
            Self::Path(path) => std::fs::metadata(path).ok().map(|data| data.len()),
            Self::Memory(bytes) => Some(bytes.len() as u64),
        }
    }

    /// The header of the block at an offset; `None` if the file ends there.
    pub(crate) fn header(&self, at: u64) -> Result<Option<BlockHeader>, Damage> {
        let mut bytes = [0; HEADER];
        match self.read_at(&mut bytes, at) {
            Ok(0) => Ok(None),
            Ok(HEADER) => {
                BlockHeader::decode(&bytes).map(Some).map_err(|reason| Damage::new(at, reason))
            }
            Ok(_) => Err(Damage::new(at, "it ends within the header of a block")),
            Err(error) => Err(Damage::new(at, &error)),
        }
    }

    /// The block at an offset as it is stored, which is put into `stored`.
    pub(crate) fn stored(
        &self,
        at: u64,
        stored: &mut Vec<u8>,
    ) -> Result<Option<BlockHeader>, Damage> {
        let Some(header) = self.header(at)? else { return Ok(None) };
        let length = header.stored as usize;
        stored.clear();
        stored.resize(length, 0);
        match self.read_at(stored, at + HEADER as u64) {
            Ok(count) if count < length => Err(Damage::new(at, "it ends within a block")),
            Ok(_) if checksum(stored) != header.checksum => {
                Err(Damage::new(at, "a block has another checksum"))
            }
            Ok(_) => Ok(Some(header)),
            Err(error) => Err(Damage::new(at, &error)),
        }
    }

    /// The block at an offset, with its content as it was before it was compressed.
    pub(crate) fn block(&self, at: u64) -> Result<Option<(BlockHeader, Vec<u8>)>, Damage> {
        let mut stored = Vec::new();
        let Some(header) = self.stored(at, &mut stored)? else { return Ok(None) };
        if !header.compressed {
            return Ok(Some((header, stored)));
        }
        let mut raw = vec![0; header.raw as usize];
        match lz4_flex::block::decompress_into(&stored, &mut raw) {
            Ok(length) if length == raw.len() => Ok(Some((header, raw))),
            Ok(_) => Err(Damage::new(at, "a block has another length")),
            Err(error) => Err(Damage::new(at, &error)),
        }
    }
}

fn read_all_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
