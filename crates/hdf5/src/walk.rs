//! [`Walk`]: one operation on a file, with a budget of bytes.
//!
//! Structures refer to each other by addresses, and nothing but the bytes themselves says that they
//! form a tree. Rather than proving that for every kind of structure, an operation may read so many
//! bytes of metadata as sound files of this length can have, a few times over: each structure is
//! read once by an operation, and those that are needed again are kept. A cycle, or a node that is
//! the child of thousands, ends in an error, and so does every loop, for each step reads something.
//! No allocation is larger than what was paid for.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use crate::blocks::Fetch;
use crate::caches::Caches;
use crate::cursor::{Cursor, Widths};
use crate::model::{Address, Superblock};
use crate::used_space::UsedSpace;
use crate::{Error, Reason, Result, Structure};

/// How often an operation may read each byte of a file.
const TIMES: u64 = 8;
/// What it may read of any file: small files have the largest overlaps.
const AT_LEAST: u64 = 1 << 20;

/// An operation on a file.
pub(crate) struct Walk<'f> {
    blocks: &'f dyn Fetch,
    superblock: &'f Superblock,
    caches: &'f Caches,
    /// What is read is noted here.
    used: Option<&'f Mutex<UsedSpace>>,
    budget: Cell<u64>,
}

impl<'f> Walk<'f> {
    pub(crate) fn new(
        blocks: &'f dyn Fetch,
        superblock: &'f Superblock,
        caches: &'f Caches,
        used: Option<&'f Mutex<UsedSpace>>,
    ) -> Self {
        let budget = Cell::new(blocks.length().saturating_mul(TIMES).saturating_add(AT_LEAST));
        Self { blocks, superblock, caches, used, budget }
    }

    pub(crate) const fn superblock(&self) -> &Superblock {
        self.superblock
    }

    pub(crate) const fn widths(&self) -> Widths {
        Widths::of(self.superblock)
    }

    pub(crate) const fn caches(&self) -> &'f Caches {
        self.caches
    }

    /// Bytes of the file.
    pub(crate) fn length(&self) -> u64 {
        self.blocks.length()
    }

    /// How many bytes there are from an address on.
    pub(crate) fn available(&self, address: Address) -> u64 {
        let offset = self.superblock.base.checked_add(address.0);
        offset.map_or(0, |offset| self.blocks.length().saturating_sub(offset))
    }

    /// Counts bytes as read.
    pub(crate) fn pay(&self, structure: Structure, address: Address, bytes: u64) -> Result<()> {
        // Also what has no bytes is a step.
        let left = self.budget.get().checked_sub(bytes.max(1));
        self.budget.set(left.unwrap_or(0));
        if left.is_some() { Ok(()) } else { Err(Error::at(structure, address, Reason::Cycle)) }
    }

    fn check(&self, structure: Structure, address: Address, length: u64) -> Result<u64> {
        let available = self.available(address);
        if length > available {
            let reason = Reason::Truncated { needed: length, available };
            return Err(Error::at(structure, address, reason));
        }
        self.pay(structure, address, length)?;
        Ok(self.superblock.base + address.0)
    }

    /// The bytes of a structure.
    pub(crate) fn read(
        &self,
        structure: Structure,
        address: Address,
        length: u64,
    ) -> Result<Vec<u8>> {
        self.bytes(structure, address, length).map(Cow::into_owned)
    }

    /// The bytes of a structure, which are not copied if they are in memory.
    pub(crate) fn bytes(
        &self,
        structure: Structure,
        address: Address,
        length: u64,
    ) -> Result<Cow<'f, [u8]>> {
        let offset = self.check(structure, address, length)?;
        if let Some(used) = self.used {
            let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
            used.add(offset..offset + length);
        }
        if let Some(bytes) = self.blocks.in_memory(offset, length) {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = vec![0; length as usize];
        let read = self.blocks.metadata(offset, &mut bytes);
        read.map_err(|error| Error::at(structure, address, error))?;
        Ok(Cow::Owned(bytes))
    }

    /// As many bytes of a structure as the buffer takes, or fewer if the file ends before.
    pub(crate) fn read_into<'b>(
        &self,
        structure: Structure,
        address: Address,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8]> {
        let length = (buffer.len() as u64).min(self.available(address));
        let offset = self.check(structure, address, length)?;
        let bytes = &mut buffer[..length as usize];
        let read = self.blocks.metadata(offset, bytes);
        read.map_err(|error| Error::at(structure, address, error))?;
        Ok(bytes)
    }

    /// Data, which passes by the cache and costs nothing: the caller has a place for it.
    pub(crate) fn data(
        &self,
        structure: Structure,
        address: Address,
        buffer: &mut [u8],
    ) -> Result<()> {
        let (needed, available) = (buffer.len() as u64, self.available(address));
        if needed > available {
            return Err(Error::at(structure, address, Reason::Truncated { needed, available }));
        }
        let read = self.blocks.data(self.superblock.base + address.0, buffer);
        read.map_err(|error| Error::at(structure, address, error))
    }

    pub(crate) fn cursor<'a>(
        &self,
        bytes: &'a [u8],
        structure: Structure,
        address: Address,
    ) -> Cursor<'a> {
        Cursor::new(bytes, structure, address, self.widths())
    }
}
