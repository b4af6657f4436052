//! [`Store`] for shared stores, so that wrappers can be put around an `Arc<dyn Store>`.

use std::ops::Range;
use std::sync::Arc;

use crate::error::StoreError;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

impl<S: Store + ?Sized> Store for Arc<S> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn name(&self) -> String {
        (**self).name()
    }

    fn len(&self) -> Result<u64, StoreError> {
        (**self).len()
    }

    fn set_len(&self, len: u64) -> Result<(), StoreError> {
        (**self).set_len(len)
    }

    fn preallocate(&self, len: u64) -> Result<(), StoreError> {
        (**self).preallocate(len)
    }

    fn sync(&self) -> Result<(), StoreError> {
        (**self).sync()
    }

    fn revalidate(&self) -> Result<(), StoreError> {
        (**self).revalidate()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        (**self).read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, buffer: &[u8]) -> Result<(), StoreError> {
        (**self).write_at(offset, buffer)
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        (**self).read_list(regions, memory)
    }

    fn write_list(&self, regions: &[Region], memory: &[u8]) -> Result<(), StoreError> {
        (**self).write_list(regions, memory)
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        (**self).read_typed(request, memory)
    }

    fn write_typed(&self, request: &TypedRequest, memory: &[u8]) -> Result<(), StoreError> {
        (**self).write_typed(request, memory)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        (**self).lock(range, kind)
    }
}
