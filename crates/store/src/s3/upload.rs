//! [`S3Upload`]: the publication of an object, in parts that arrive in any order.
//!
//! Until it is completed, nothing is seen under the key, and what was there stays. Several
//! processes may upload parts: one begins, the others join by the upload's id, and one completes it
//! with the receipts of all parts. An object of one part is stored by one request instead.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::multipart::{MultipartStore, PartId};
use object_store::{ObjectStore, PutOptions, PutPayload};

use super::bucket::{S3Bucket, path};
use super::{PartReceipt, S3Error, S3Url, UploadParts};
use crate::error::{Cause, Operation, StoreError};

/// An object that is being uploaded. Dropped before it is complete, it is aborted by the process
/// that began it.
#[derive(Debug)]
pub struct S3Upload {
    bucket: Arc<S3Bucket>,
    url: S3Url,
    parts: UploadParts,
    /// Empty if there is one part.
    id: String,
    receipts: Mutex<Vec<Option<String>>>,
    /// Whether this process must abort what does not become whole.
    responsible: AtomicBool,
}

impl S3Upload {
    /// Begins an upload.
    pub fn begin(url: &S3Url, parts: UploadParts) -> Result<Self, StoreError> {
        Self::begin_in(&S3Bucket::shared(url)?, &url.key, parts)
    }

    /// Begins an upload to a bucket.
    pub fn begin_in(
        bucket: &Arc<S3Bucket>,
        key: &str,
        parts: UploadParts,
    ) -> Result<Self, StoreError> {
        let id = if parts.count() == 1 {
            String::new()
        } else {
            bucket.wait(Operation::Open, key, 0, async {
                match bucket.client.create_multipart(&path(key)?).await {
                    Ok(id) => Ok(id),
                    Err(error) => Err(bucket.missing(bucket.failure(error)).await),
                }
            })?
        };
        Ok(Self::new(bucket, key, parts, id, true))
    }

    /// Takes part in the upload that another process has begun.
    pub fn join(url: &S3Url, parts: UploadParts, id: &str) -> Result<Self, StoreError> {
        Self::join_in(&S3Bucket::shared(url)?, &url.key, parts, id)
    }

    /// Takes part in an upload to a bucket.
    pub fn join_in(
        bucket: &Arc<S3Bucket>,
        key: &str,
        parts: UploadParts,
        id: &str,
    ) -> Result<Self, StoreError> {
        Ok(Self::new(bucket, key, parts, id.to_owned(), false))
    }

    fn new(
        bucket: &Arc<S3Bucket>,
        key: &str,
        parts: UploadParts,
        id: String,
        responsible: bool,
    ) -> Self {
        let receipts = Mutex::new(vec![None; parts.count() as usize]);
        let responsible = AtomicBool::new(responsible);
        Self { bucket: Arc::clone(bucket), url: bucket.url(key), parts, id, receipts, responsible }
    }

    /// What others join by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How the object is divided.
    pub const fn parts(&self) -> UploadParts {
        self.parts
    }

    fn receipts(&self) -> MutexGuard<'_, Vec<Option<String>>> {
        self.receipts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: S3Error) -> StoreError {
        StoreError::new(Operation::Write, self.url.to_string(), Cause::Objects(error))
    }

    /// Uploads a part; parts may be uploaded at the same time.
    pub fn put(&self, index: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let range = self.parts.range(index);
        let (wanted, got) = (range.end - range.start, bytes.len() as u64);
        if wanted != got || index >= self.parts.count() {
            return Err(self.failed(S3Error::PartLength { index, wanted, got }));
        }
        let payload = PutPayload::from(bytes.to_vec());
        let (bucket, key) = (&self.bucket, &self.url.key);
        let receipt = bucket.wait(Operation::Write, key, got, async {
            let (path, client) = (path(key)?, &bucket.client);
            let done = if self.id.is_empty() {
                let put = client.put_opts(&path, payload, PutOptions::default()).await;
                put.map(|put| put.e_tag.unwrap_or_default())
            } else {
                let part = client.put_part(&path, &self.id, index as usize, payload).await;
                part.map(|part| part.content_id)
            };
            match done {
                Ok(receipt) => Ok(receipt),
                Err(error) => Err(bucket.missing(bucket.failure(error)).await),
            }
        });
        let receipt = receipt.map_err(|error| error.at(range.start, got))?;
        self.record(PartReceipt { index, receipt });
        Ok(())
    }

    /// The receipts of the parts that were uploaded by this process, or recorded.
    pub fn uploaded(&self) -> Vec<PartReceipt> {
        let receipt = |(index, receipt): (u64, &Option<String>)| {
            Some(PartReceipt { index, receipt: receipt.clone()? })
        };
        (0..).zip(&*self.receipts()).filter_map(receipt).collect()
    }

    /// Takes the receipt of a part that another process has uploaded.
    pub fn record(&self, part: PartReceipt) {
        if let Some(place) = self.receipts().get_mut(part.index as usize) {
            *place = Some(part.receipt);
        }
    }

    /// Makes the object appear, whole, in place of what the key had.
    pub fn complete(&self) -> Result<(), StoreError> {
        let receipts = self.receipts().clone();
        let count = receipts.len() as u64;
        let missing = receipts.iter().filter(|receipt| receipt.is_none()).count() as u64;
        if missing > 0 {
            return Err(self.failed(S3Error::PartsMissing { missing, count }));
        }
        if !self.id.is_empty() {
            let part = |content_id| PartId { content_id };
            let parts = receipts.into_iter().flatten().map(part).collect();
            let (bucket, key) = (&self.bucket, &self.url.key);
            // A server needs time to put the parts together.
            bucket.wait(Operation::Sync, key, self.parts.len / 16, async {
                let done = bucket.client.complete_multipart(&path(key)?, &self.id, parts).await;
                done.map(drop).map_err(|error| bucket.failure(error))
            })?;
        }
        self.responsible.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Gives the upload up: its parts are removed, and what the key had stays.
    pub fn abort(&self) -> Result<(), StoreError> {
        self.responsible.store(false, Ordering::SeqCst);
        if self.id.is_empty() {
            return Ok(());
        }
        let (bucket, key) = (&self.bucket, &self.url.key);
        bucket.wait(Operation::Remove, key, 0, bucket.abort_upload(key, &self.id))
    }
}

impl Drop for S3Upload {
    fn drop(&mut self) {
        if self.responsible.load(Ordering::SeqCst) {
            // There is no caller to return an error to; 'striate fs rm --unfinished' finds what is
            // left.
            let _ = self.abort();
        }
    }
}
