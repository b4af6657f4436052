//! What a program that was built without object stores has in their place: the same interface, of
//! which every function says so.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{ObjectInfo, PartReceipt, S3Error, S3Url, UnfinishedUpload, UploadParts};
use crate::error::{Cause, Operation, StoreError};
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

fn absent<T>(operation: Operation, url: &S3Url) -> Result<T, StoreError> {
    Err(StoreError::new(operation, url.to_string(), Cause::Objects(S3Error::NotBuilt)))
}

/// No value of it exists.
#[derive(Debug)]
enum Never {}

/// A bucket, in programs that have object stores.
#[derive(Debug)]
pub struct AbsentBucket(Never);

/// An object, in programs that have object stores.
#[derive(Debug)]
pub struct AbsentObject(Never);

/// An upload, in programs that have object stores.
#[derive(Debug)]
pub struct AbsentUpload(Never);

#[expect(missing_docs, reason = "as in programs that have object stores")]
impl AbsentBucket {
    pub fn shared(url: &S3Url) -> Result<Arc<Self>, StoreError> {
        absent(Operation::Open, url)
    }

    pub fn new(name: &str, _: &[(String, String)], _: Duration) -> Result<Self, StoreError> {
        absent(Operation::Open, &S3Url { bucket: name.to_owned(), key: String::new() })
    }

    pub fn endpoint(&self) -> &str {
        match self.0 {}
    }

    pub fn head(&self, _: &str) -> Result<ObjectInfo, StoreError> {
        match self.0 {}
    }

    pub fn list(&self, _: &str) -> Result<Vec<ObjectInfo>, StoreError> {
        match self.0 {}
    }

    pub fn remove(&self, _: &str) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn unfinished(&self, _: &str) -> Result<Vec<UnfinishedUpload>, StoreError> {
        match self.0 {}
    }

    pub fn abort(&self, _: &UnfinishedUpload) -> Result<(), StoreError> {
        match self.0 {}
    }
}

#[expect(missing_docs, reason = "as in programs that have object stores")]
impl AbsentUpload {
    pub fn begin(url: &S3Url, _: UploadParts) -> Result<Self, StoreError> {
        absent(Operation::Open, url)
    }

    pub fn begin_in(bucket: &AbsentBucket, _: &str, _: UploadParts) -> Result<Self, StoreError> {
        match bucket.0 {}
    }

    pub fn join_in(
        bucket: &AbsentBucket,
        _: &str,
        _: UploadParts,
        _: &str,
    ) -> Result<Self, StoreError> {
        match bucket.0 {}
    }

    pub fn join(url: &S3Url, _: UploadParts, _: &str) -> Result<Self, StoreError> {
        absent(Operation::Open, url)
    }

    pub fn id(&self) -> &str {
        match self.0 {}
    }

    pub fn parts(&self) -> UploadParts {
        match self.0 {}
    }

    pub fn put(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn uploaded(&self) -> Vec<PartReceipt> {
        match self.0 {}
    }

    pub fn record(&self, _: PartReceipt) {
        match self.0 {}
    }

    pub fn complete(&self) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub fn abort(&self) -> Result<(), StoreError> {
        match self.0 {}
    }
}

#[expect(missing_docs, reason = "as in programs that have object stores")]
impl AbsentObject {
    pub fn open(url: &S3Url) -> Result<Self, StoreError> {
        absent(Operation::Open, url)
    }

    pub fn open_in(bucket: &AbsentBucket, _: &str) -> Result<Self, StoreError> {
        match bucket.0 {}
    }

    pub fn version(&self) -> Option<&str> {
        match self.0 {}
    }

    pub fn requests(&self) -> u64 {
        match self.0 {}
    }
}

impl Store for AbsentObject {
    fn capabilities(&self) -> Capabilities {
        match self.0 {}
    }

    fn name(&self) -> String {
        match self.0 {}
    }

    fn len(&self) -> Result<u64, StoreError> {
        match self.0 {}
    }

    fn set_len(&self, _: u64) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn preallocate(&self, _: u64) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn sync(&self) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<usize, StoreError> {
        match self.0 {}
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn read_list(&self, _: &[Region], _: &mut [u8]) -> Result<u64, StoreError> {
        match self.0 {}
    }

    fn write_list(&self, _: &[Region], _: &[u8]) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn read_typed(&self, _: &TypedRequest, _: &mut [u8]) -> Result<u64, StoreError> {
        match self.0 {}
    }

    fn write_typed(&self, _: &TypedRequest, _: &[u8]) -> Result<(), StoreError> {
        match self.0 {}
    }

    fn lock(&self, _: Range<u64>, _: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        match self.0 {}
    }
}
