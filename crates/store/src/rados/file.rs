//! [`RadosFile`]: a file on RADOS as a store.

use std::ops::Range;

use super::catalogue::RadosFileInfo;
use super::error::RadosError;
use super::head::Head;
use super::lock::LockTable;
use super::namespace::{RadosCreation, RadosNamespace};
use super::transfer;
use super::url::RadosUrl;
use crate::error::{Malformed, Operation, StoreError};
use crate::placement::check_extent;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// A file of strips that are objects. Requests become compound operations on them, in parallel.
/// What was written is durable when the write returns.
#[derive(Debug)]
pub struct RadosFile {
    name: String,
    short_name: String,
    head: Head,
    locks: LockTable,
}

impl RadosFile {
    /// Opens the file that the URL names, through the connection of this process.
    pub fn open(url: &RadosUrl, creation: &RadosCreation) -> Result<Self, StoreError> {
        Self::open_in(&RadosNamespace::open(url)?, &url.name, creation)
    }

    /// Opens a file of a namespace.
    pub fn open_in(
        namespace: &RadosNamespace,
        name: &str,
        creation: &RadosCreation,
    ) -> Result<Self, StoreError> {
        let head = namespace.head(name, creation)?;
        let url = namespace.url(name).to_string();
        Ok(Self { name: url, short_name: name.to_owned(), head, locks: LockTable::default() })
    }

    /// What was found last of the file.
    pub fn info(&self) -> RadosFileInfo {
        RadosFileInfo::new(&self.short_name, &self.head.id, &self.head.known())
    }

    fn failed(&self, operation: Operation, error: RadosError) -> StoreError {
        StoreError::rados(operation, &self.name, error)
    }

    fn malformed(&self, operation: Operation, what: Malformed) -> StoreError {
        StoreError::malformed(operation, &self.name, what)
    }

    fn check_len(&self, operation: Operation, len: u64) -> Result<(), StoreError> {
        check_extent(0, len).map_err(|what| self.malformed(operation, what).at(0, len))
    }

    fn check_list(
        &self,
        operation: Operation,
        regions: &[Region],
        memory: usize,
    ) -> Result<(), StoreError> {
        Region::check_all(regions, memory).map(drop).map_err(|what| {
            let (offset, len) = Region::hull(regions);
            self.malformed(operation, what).at(offset, len)
        })
    }

    fn read(
        &self,
        regions: &(impl Iterator<Item = Region> + Clone),
        memory: &mut [u8],
    ) -> Result<u64, StoreError> {
        transfer::read(&self.head, regions, memory)
            .map_err(|error| self.failed(Operation::Read, error))
    }

    fn write(
        &self,
        regions: &(impl Iterator<Item = Region> + Clone),
        memory: &[u8],
    ) -> Result<(), StoreError> {
        transfer::write(&self.head, regions, memory)
            .map_err(|error| self.failed(Operation::Write, error))
    }
}

impl Store for RadosFile {
    /// Descriptions are walked here, but wholly: no list of their regions is ever made.
    fn capabilities(&self) -> Capabilities {
        let options = &self.head.options;
        Capabilities {
            list_regions: Some(options.depth * options.extents),
            typed: true,
            locks: true,
            stripe_unit: Some(self.head.known().strip.get()),
            stripe_count: None,
            alignment: 1,
            serial_writes: false,
        }
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn len(&self) -> Result<u64, StoreError> {
        let found = self.head.load().map_err(|error| self.failed(Operation::Len, error))?;
        Ok(found.size)
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        self.check_len(Operation::SetLen, len)?;
        let set = self.head.set_len(len);
        set.map_err(|error| self.failed(Operation::SetLen, error).at(0, len))
    }

    /// Only extends the file: a pool has no reservations.
    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        self.check_len(Operation::Preallocate, len)?;
        let extended = self.head.extend(len);
        extended.map_err(|error| self.failed(Operation::Preallocate, error).at(0, len))
    }

    /// Nothing to do: the engine acknowledges what is durable.
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let len = buffer.len() as u64;
        let malformed = |what| self.malformed(Operation::Read, what).at(offset, len);
        check_extent(offset, len).map_err(malformed)?;
        if len == 0 {
            return Ok(0);
        }
        let region = Region { memory: 0, offset, len: buffer.len() };
        let got = self.read(&std::iter::once(region), buffer);
        got.map(|got| got as usize).map_err(|error| error.at(offset, len))
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        let len = buffer.len() as u64;
        let malformed = |what| self.malformed(Operation::Write, what).at(offset, len);
        check_extent(offset, len).map_err(malformed)?;
        if len == 0 {
            return Ok(());
        }
        let region = Region { memory: 0, offset, len: buffer.len() };
        self.write(&std::iter::once(region), buffer).map_err(|error| error.at(offset, len))
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.check_list(Operation::Read, regions, memory.len())?;
        self.read(&regions.iter().copied(), memory)
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        self.check_list(Operation::Write, regions, memory.len())?;
        if regions.iter().all(|region| region.len == 0) {
            return Ok(());
        }
        self.write(&regions.iter().copied(), memory)
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        let place = |error: StoreError| error.at(request.first_offset(), request.file.len);
        let regions = request.regions(memory.len());
        let regions = regions.map_err(|what| place(self.malformed(Operation::Read, what)))?;
        self.read(&regions, memory).map_err(place)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        let place = |error: StoreError| error.at(request.first_offset(), request.file.len);
        let regions = request.regions(memory.len());
        let regions = regions.map_err(|what| place(self.malformed(Operation::Write, what)))?;
        if request.file.len == 0 {
            return Ok(());
        }
        self.write(&regions, memory).map_err(place)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        self.locks.lock(&self.name, &self.head, range, kind)
    }
}
