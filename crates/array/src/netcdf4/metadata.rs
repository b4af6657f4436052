//! The metadata of an HDF5 file for all ranks: rank 0 reads, and all decode the same bytes.
//!
//! The same bytes give the same description, so no structure has an encoding for messages, and only
//! one rank touches the file. Two broadcasts make the metadata known, however much there is:
//!
//! 1. Rank 0 looks up where the objects of the root group are and reads the blocks that they lie
//!    in, those that are side by side in one piece ([`Excerpts`]); of a file that is mostly
//!    metadata, all of it. All ranks begin to decode at the same time, in place.
//! 2. What else is needed, rank 0 reads when it needs it. It says so when it is done; another rank
//!    waits for that where it cannot go on ([`SharedMetadata`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use striate_comm::{Comm, CommError};
use striate_file::File;
use striate_hdf5::model::LinkTarget;
use striate_hdf5::{File as Hdf5File, SIGNATURE, Source};

use super::open::Superblock;

/// Bytes of the blocks that are read.
const BLOCK: u64 = 64 << 10;
/// The most blocks of objects that are read before decoding.
const MOST_BLOCKS: usize = 1024;
/// Few object headers are longer.
const USUAL_HEADER: u64 = 2048;
/// Few objects of datasets and their links are shorter.
const LEAST_OBJECT: u64 = 256;
/// A file is read as a whole if its objects have at least this part of it.
const MOSTLY_METADATA: u64 = 8;

/// Reads a file for all ranks. A superblock takes the place of the one in the file.
struct FileReader<'f> {
    file: &'f mut File,
    superblock: Option<Superblock>,
}

impl FileReader<'_> {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let got = self.file.read_at(offset, &mut *buffer).map_err(io::Error::other)?;
        if got < buffer.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(superblock) = &self.superblock
            && let Some(rest) = usize::try_from(offset).ok().and_then(|at| superblock.get(at..))
        {
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
        }
        Ok(())
    }
}

/// Parts of a file, in one piece of memory, which is what travels.
#[derive(Debug)]
struct Excerpts {
    /// The signature and the length of the file, then of each part its offset, its length and its
    /// bytes.
    message: Vec<u8>,
    /// Where the bytes of each part are in the message, by its offset in the file.
    parts: BTreeMap<u64, Range<usize>>,
}

impl Excerpts {
    /// None, of a file of that many bytes.
    fn new(length: u64) -> Self {
        let mut message = SIGNATURE.to_vec();
        message.extend_from_slice(&length.to_le_bytes());
        Self { message, parts: BTreeMap::new() }
    }

    /// Those that a message has; `None` if it is none. Returns the length of the file, too.
    fn decode(message: Vec<u8>) -> Option<(u64, Self)> {
        let number = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(*message.get(at..)?.first_chunk()?))
        };
        message.starts_with(&SIGNATURE).then_some(())?;
        let length = number(8)?;
        let mut parts = BTreeMap::new();
        let mut at = 16;
        while at < message.len() {
            let (offset, len) = (number(at)?, usize::try_from(number(at + 8)?).ok()?);
            let end = len.checked_add(at + 16).filter(|&end| end <= message.len())?;
            parts.insert(offset, at + 16..end);
            at = end;
        }
        Some((length, Self { message, parts }))
    }

    /// Adds a part, whose bytes are to be written.
    fn add(&mut self, offset: u64, len: usize) -> &mut [u8] {
        self.message.extend_from_slice(&offset.to_le_bytes());
        self.message.extend_from_slice(&(len as u64).to_le_bytes());
        let begin = self.message.len();
        self.message.resize(begin + len, 0);
        self.parts.insert(offset, begin..begin + len);
        &mut self.message[begin..]
    }

    /// Bytes that are within one part.
    fn find(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let (begin, place) = self.parts.range(..=offset).next_back()?;
        let skipped = offset - begin;
        let end = skipped.checked_add(len).filter(|&end| end <= place.len() as u64)?;
        Some(&self.message[place.start + skipped as usize..place.start + end as usize])
    }

    /// Whether a part begins with these bytes.
    fn has_part(&self, offset: u64, len: u64) -> bool {
        self.parts.get(&offset).is_some_and(|place| place.len() as u64 >= len)
    }
}

/// A file that is read in blocks, all of which are kept.
struct BlockStore<'f> {
    length: u64,
    file: RefCell<FileReader<'f>>,
    blocks: RefCell<BTreeMap<u64, Vec<u8>>>,
}

impl BlockStore<'_> {
    /// Reads the blocks of a range that were not read, those side by side together.
    fn read_blocks(&self, range: Range<u64>) -> io::Result<()> {
        let mut blocks = self.blocks.borrow_mut();
        let mut at = range.start;
        while at < range.end {
            let known = blocks.range(at..range.end).next().map_or(range.end, |(&next, _)| next);
            if known > at {
                let begin = at * BLOCK;
                let mut bytes = vec![0; ((known * BLOCK).min(self.length) - begin) as usize];
                self.file.borrow_mut().read_at(begin, &mut bytes)?;
                blocks.extend((at..).zip(bytes.chunks(BLOCK as usize).map(<[u8]>::to_vec)));
            }
            at = known + 1;
        }
        Ok(())
    }

    /// The blocks in which the objects of the root group begin, or all.
    fn blocks_of_objects(&self) -> striate_hdf5::Result<BTreeSet<u64>> {
        let file = Hdf5File::open(self)?;
        let root = file.root()?;
        let all = self.length.div_ceil(BLOCK);
        let least = file.link_count(&root)?.saturating_mul(LEAST_OBJECT);
        if all <= MOST_BLOCKS as u64 && least.saturating_mul(MOSTLY_METADATA) >= self.length {
            return Ok((0..all).collect());
        }
        let mut blocks = BTreeSet::new();
        for link in file.links(&root)? {
            let LinkTarget::Hard(address) = link.target else { continue };
            let begin = file.superblock().base.saturating_add(address.0);
            let end = begin.saturating_add(USUAL_HEADER).min(self.length);
            if begin < end && blocks.len() < MOST_BLOCKS {
                blocks.extend([begin / BLOCK, (end - 1) / BLOCK]);
            }
        }
        Ok(blocks)
    }

    /// The blocks that were read and those of a set: blocks side by side are read together, and are
    /// one part.
    fn excerpts(self, wanted: BTreeSet<u64>) -> io::Result<Excerpts> {
        let (length, blocks) = (self.length, self.blocks.take());
        let mut all = wanted;
        all.extend(blocks.keys());
        let mut excerpts = Excerpts::new(length);
        excerpts.message.reserve_exact(all.len() * (BLOCK as usize + 16));
        let mut numbers = all.into_iter().peekable();
        while let Some(first) = numbers.next() {
            let mut behind = first + 1;
            while numbers.next_if_eq(&behind).is_some() {
                behind += 1;
            }
            let begin = first * BLOCK;
            let part = excerpts.add(begin, ((behind * BLOCK).min(length) - begin) as usize);
            let mut at = first;
            while at < behind {
                let from = ((at - first) * BLOCK) as usize;
                if let Some(known) = blocks.get(&at) {
                    part[from..from + known.len()].copy_from_slice(known);
                    at += 1;
                    continue;
                }
                let next = blocks.range(at..behind).next().map_or(behind, |(&next, _)| next);
                let to = part.len().min(((next - first) * BLOCK) as usize);
                self.file.borrow_mut().read_at(at * BLOCK, &mut part[from..to])?;
                at = next;
            }
        }
        Ok(excerpts)
    }
}

impl Source for BlockStore<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(buffer.len() as u64).min(self.length);
        self.read_blocks(offset / BLOCK..end.div_ceil(BLOCK))?;
        let blocks = self.blocks.borrow();
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let block = blocks.get(&(at / BLOCK)).and_then(|it| it.get((at % BLOCK) as usize..));
            let known = block.filter(|known| !known.is_empty());
            let known = known.ok_or(io::ErrorKind::UnexpectedEof)?;
            let len = known.len().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&known[..len]);
            done += len;
        }
        Ok(())
    }
}

/// What rank 0 tells the others first. Damage is found when all decode.
pub(super) fn first_message(
    file: &mut File,
    superblock: Option<&Superblock>,
    length: u64,
) -> Vec<u8> {
    let file = RefCell::new(FileReader { file, superblock: superblock.copied() });
    let store = BlockStore { length, file, blocks: RefCell::default() };
    let wanted = store.blocks_of_objects().unwrap_or_default();
    // What cannot be read is an error where it is needed.
    store.excerpts(wanted).unwrap_or_else(|_| Excerpts::new(length)).message
}

/// A file whose metadata all ranks decode.
pub(super) struct SharedMetadata<'f> {
    comm: Arc<dyn Comm>,
    length: u64,
    first: Excerpts,
    rest: RefCell<Rest<'f>>,
}

/// What was not in the first message.
enum Rest<'f> {
    /// Rank 0 reads it.
    Read { file: FileReader<'f>, read: Excerpts },
    /// The others get it when rank 0 has all.
    Heard(Option<Excerpts>),
}

impl<'f> SharedMetadata<'f> {
    /// With the first message of rank 0. [`SharedMetadata::finish`] is called on all ranks.
    pub(super) fn new(
        file: &'f mut File,
        superblock: Option<&Superblock>,
        message: Vec<u8>,
    ) -> Self {
        let comm = Arc::clone(file.comm());
        // A message of something else decodes as an empty file, which is no HDF5 file.
        let (length, first) = Excerpts::decode(message).unwrap_or_else(|| (0, Excerpts::new(0)));
        let rest = if comm.rank() == 0 {
            let file = FileReader { file, superblock: superblock.copied() };
            Rest::Read { file, read: Excerpts::new(length) }
        } else {
            Rest::Heard(None)
        };
        Self { comm, length, first, rest: RefCell::new(rest) }
    }

    /// Rank 0 tells what it has read; the others hear it, if they have not. Collective.
    pub(super) fn finish(self) -> Result<(), CommError> {
        match self.rest.into_inner() {
            Rest::Read { read, .. } => {
                let mut message = read.message;
                self.comm.broadcast(0, &mut message)
            }
            Rest::Heard(None) => self.comm.broadcast(0, &mut Vec::new()),
            Rest::Heard(Some(_)) => Ok(()),
        }
    }
}

impl Source for SharedMetadata<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let len = buffer.len() as u64;
        if let Some(bytes) = self.first.find(offset, len) {
            buffer.copy_from_slice(bytes);
            return Ok(());
        }
        match &mut *self.rest.borrow_mut() {
            Rest::Read { file, read } => {
                file.read_at(offset, buffer)?;
                if !read.has_part(offset, len) {
                    read.add(offset, buffer.len()).copy_from_slice(buffer);
                }
            }
            Rest::Heard(heard) => {
                if heard.is_none() {
                    // Also a broadcast that fails was the one that `finish` waits for.
                    *heard = Some(Excerpts::new(self.length));
                    let mut message = Vec::new();
                    self.comm.broadcast(0, &mut message).map_err(io::Error::other)?;
                    *heard =
                        Excerpts::decode(message).map(|(_, excerpts)| excerpts).or(heard.take());
                }
                let bytes = heard.as_ref().and_then(|heard| heard.find(offset, len));
                let missing = || io::Error::other("rank 0 could not read these bytes");
                buffer.copy_from_slice(bytes.ok_or_else(missing)?);
            }
        }
        Ok(())
    }

    fn in_memory(&self, offset: u64, length: u64) -> Option<&[u8]> {
        self.first.find(offset, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_come_back() {
        let mut excerpts = Excerpts::new(1 << 41);
        for (offset, bytes) in [(0, &[1, 2, 3][..]), (77, &[]), (1 << 40, &[9])] {
            excerpts.add(offset, bytes.len()).copy_from_slice(bytes);
        }
        let message = excerpts.message;
        let (length, back) = Excerpts::decode(message.clone()).unwrap();
        assert_eq!(length, 1 << 41);
        assert_eq!(back.find(1, 2), Some(&[2, 3][..]));
        assert_eq!(back.find(1 << 40, 1), Some(&[9][..]));
        for (offset, len) in [(1, 3), (3, 1), (77, 1), ((1 << 40) - 1, 1), (1 << 40, u64::MAX)] {
            assert_eq!(back.find(offset, len), None);
        }
        assert!(back.has_part(0, 3) && !back.has_part(0, 4) && !back.has_part(1, 1));
        for len in 0..message.len() {
            let _ = Excerpts::decode(message[..len].to_vec());
        }
        assert!(Excerpts::decode(b"CDF\x01".to_vec()).is_none());
        let mut wrong = message;
        wrong[24..32].fill(0xff);
        assert!(Excerpts::decode(wrong).is_none());
    }
}
