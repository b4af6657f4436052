//! [`S3Object`]: an object that is read by ranges; the store of `s3://bucket/key`.
//!
//! Reads are carried out in blocks of [`BLOCK`] bytes. The blocks of small requests are kept in a
//! cache of bounded size, so that a header is fetched once however often it is read in pieces.
//! Blocks that are missing are fetched by as few requests as possible, several at a time. All
//! requests name the version of the object that was opened (its `ETag`): an object that is replaced
//! meanwhile is an error, never a mixture.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lru::LruCache;
use object_store::{GetOptions, GetRange, ObjectStore};
use tokio::task::JoinSet;

use super::bucket::{S3Bucket, path};
use super::fetch_plan::{RUN, blocks, runs};
use super::{BLOCK, S3Error, S3Url};
use crate::error::{Cause, Malformed, Operation, StoreError};
use crate::expand;
use crate::store::{Capabilities, Lock, LockKind, Region, Store, TypedRequest};

/// Blocks that an open object keeps: 16 MiB.
const KEPT: usize = 64;

/// Requests that touch more blocks than this pass the cache by: they would replace all of it.
const CACHED_REQUEST: usize = 16;

/// Ranges of one request that are fetched at the same time.
const AT_ONCE: usize = 8;

/// An object that was opened for reading.
#[derive(Debug)]
pub struct S3Object {
    bucket: Arc<S3Bucket>,
    url: S3Url,
    len: u64,
    etag: Option<String>,
    cache: Mutex<LruCache<u64, Bytes>>,
    requests: AtomicU64,
}

/// Blocks that one request has brought.
struct FetchedRun {
    blocks: Range<u64>,
    bytes: Bytes,
}

impl FetchedRun {
    /// The bytes of one of its blocks.
    fn block(&self, block: u64) -> Option<Bytes> {
        let at = (block.checked_sub(self.blocks.start)? * BLOCK) as usize;
        let end = (at + BLOCK as usize).min(self.bytes.len());
        (self.blocks.contains(&block) && at < end).then(|| self.bytes.slice(at..end))
    }
}

impl S3Object {
    /// Opens the object of a URL.
    pub fn open(url: &S3Url) -> Result<Self, StoreError> {
        Self::open_in(&S3Bucket::shared(url)?, &url.key)
    }

    /// Opens an object of a bucket.
    pub fn open_in(bucket: &Arc<S3Bucket>, key: &str) -> Result<Self, StoreError> {
        let info = bucket.head(key)?;
        let kept = NonZeroUsize::new(KEPT).unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            url: bucket.url(key),
            bucket: Arc::clone(bucket),
            len: info.len,
            etag: info.etag,
            cache: Mutex::new(LruCache::new(kept)),
            requests: AtomicU64::new(0),
        })
    }

    /// What tells this version of the object from others; `None` if the server does not say.
    pub fn version(&self) -> Option<&str> {
        self.etag.as_deref()
    }

    /// Requests for bytes so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    fn failed(&self, operation: Operation, cause: Cause) -> StoreError {
        StoreError::new(operation, self.name(), cause)
    }

    fn read_only<T>(&self, operation: Operation) -> Result<T, StoreError> {
        Err(self.failed(operation, Cause::Objects(S3Error::ReadOnly)))
    }

    /// Fetches runs of blocks, several at a time.
    fn fetch(&self, runs: &[Range<u64>]) -> Result<Vec<FetchedRun>, StoreError> {
        let bytes = |run: &Range<u64>| run.start * BLOCK..(run.end * BLOCK).min(self.len);
        let total = runs.iter().map(bytes).map(|range| range.end - range.start).sum();
        self.bucket.wait(Operation::Read, &self.url.key, total, async {
            let mut tasks = JoinSet::new();
            let mut fetched = Vec::with_capacity(runs.len());
            for run in runs {
                self.requests.fetch_add(1, Ordering::Relaxed);
                let (bucket, range) = (Arc::clone(&self.bucket), bytes(run));
                let (key, etag, run) = (self.url.key.clone(), self.etag.clone(), run.clone());
                tasks.spawn(async move {
                    let bytes = get(&bucket, &key, etag, range).await?;
                    Ok(FetchedRun { blocks: run, bytes })
                });
            }
            while let Some(ended) = tasks.join_next().await {
                let ended = ended.map_err(|error| S3Error::Failed(error.to_string()))?;
                fetched.push(ended?);
            }
            fetched.sort_by_key(|run| run.blocks.start);
            Ok(fetched)
        })
    }

    /// Hands every block that holds bytes of the regions to `each`, which ascend; the regions do,
    /// too.
    fn each_block(
        &self,
        regions: &[Region],
        mut each: impl FnMut(u64, &[u8]),
    ) -> Result<(), StoreError> {
        let mut wanted: Vec<u64> = regions
            .iter()
            .flat_map(|region| {
                let end = (region.offset + region.len as u64).min(self.len);
                blocks(region.offset.min(end), end.saturating_sub(region.offset))
            })
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let keep = wanted.len() <= CACHED_REQUEST;
        let mut missing = Vec::new();
        for &block in &wanted {
            let kept = self.cache().get(&block).cloned();
            match kept {
                Some(bytes) => each(block, &bytes),
                None => missing.push(block),
            }
        }
        for some in runs(missing.iter().copied()).chunks(AT_ONCE) {
            for run in self.fetch(some)? {
                for block in run.blocks.clone() {
                    let Some(bytes) = run.block(block) else { continue };
                    each(block, &bytes);
                    if keep {
                        // A copy: a part would keep the memory of the whole run.
                        self.cache().put(block, Bytes::copy_from_slice(&bytes));
                    }
                }
            }
        }
        Ok(())
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, LruCache<u64, Bytes>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads regions that were checked.
    fn read_regions(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        self.each_block(regions, |block, bytes| {
            let (low, high) = (block * BLOCK, block * BLOCK + bytes.len() as u64);
            // Regions may overlap, so that their ends need not ascend.
            for region in regions.iter().filter(|region| region.offset < high) {
                let end = (region.offset + region.len as u64).min(high);
                let start = region.offset.max(low);
                if start < end {
                    let at = region.memory + (start - region.offset) as usize;
                    let len = (end - start) as usize;
                    let from = (start - low) as usize;
                    memory[at..at + len].copy_from_slice(&bytes[from..from + len]);
                }
            }
        })?;
        let before_end = |region: &Region| {
            (region.offset + region.len as u64).min(self.len).saturating_sub(region.offset)
        };
        Ok(regions.iter().map(before_end).sum())
    }
}

/// Fetches a range of one version of an object.
async fn get(
    bucket: &S3Bucket,
    key: &str,
    etag: Option<String>,
    range: Range<u64>,
) -> Result<Bytes, S3Error> {
    let wanted = range.end - range.start;
    let options = GetOptions {
        if_match: etag,
        range: Some(GetRange::Bounded(range)),
        ..GetOptions::default()
    };
    let failure = |error| match bucket.failure(error) {
        // It was there when it was opened.
        S3Error::NoKey => S3Error::Changed,
        other => other,
    };
    let reply = bucket.client.get_opts(&path(key)?, options).await.map_err(failure)?;
    let bytes = reply.bytes().await.map_err(failure)?;
    if bytes.len() as u64 == wanted {
        Ok(bytes)
    } else {
        Err(S3Error::Truncated { wanted, got: bytes.len() as u64 })
    }
}

/// An object that is not written needs no locks against writers.
#[derive(Debug)]
struct SharedLock;

impl Lock for SharedLock {}

impl Store for S3Object {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            list_regions: Some(expand::BATCH),
            typed: false,
            locks: false,
            stripe_unit: Some(BLOCK * RUN),
            stripe_count: None,
            alignment: 1,
            serial_writes: false,
        }
    }

    fn name(&self) -> String {
        self.url.to_string()
    }

    fn len(&self) -> Result<u64, StoreError> {
        Ok(self.len)
    }

    fn set_len(&self, _: u64) -> Result<(), StoreError> {
        self.read_only(Operation::SetLen)
    }

    fn preallocate(&self, _: u64) -> Result<(), StoreError> {
        self.read_only(Operation::Preallocate)
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let region = Region { memory: 0, offset, len: buffer.len() };
        Ok(self.read_list(&[region], buffer)? as usize)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        self.read_only(Operation::Write)
    }

    fn read_list(&self, regions: &[Region], memory: &mut [u8]) -> Result<u64, StoreError> {
        Region::check_all(regions, memory.len()).map_err(|what: Malformed| {
            let (offset, len) = Region::hull(regions);
            self.failed(Operation::Read, Cause::Malformed(what)).at(offset, len)
        })?;
        self.read_regions(regions, memory).map_err(|error| {
            let (offset, len) = Region::hull(regions);
            error.at(offset, len)
        })
    }

    fn write_list(&self, _: &[Region], _: &[u8]) -> Result<(), StoreError> {
        self.read_only(Operation::Write)
    }

    fn read_typed(&self, request: &TypedRequest, memory: &mut [u8]) -> Result<u64, StoreError> {
        expand::read_typed(self, request, memory)
    }

    fn write_typed(&self, _: &TypedRequest, _: &[u8]) -> Result<(), StoreError> {
        self.read_only(Operation::Write)
    }

    fn lock(&self, _: Range<u64>, kind: LockKind) -> Result<Box<dyn Lock + '_>, StoreError> {
        match kind {
            LockKind::Shared => Ok(Box::new(SharedLock)),
            LockKind::Exclusive => self.read_only(Operation::Lock),
        }
    }
}
