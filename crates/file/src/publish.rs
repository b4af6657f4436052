//! [`publish`]: ranks upload a file to an object store together, so that the object appears at
//! once.
//!
//! The parts are dealt to the ranks in turn, and each rank has several under way. Rank 0 begins the
//! upload and completes it with the receipts of all parts. If a rank fails, the upload is aborted,
//! what the key had stays, and all ranks get the error.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use striate_comm::Comm;
use striate_store::s3::{PartReceipt, S3Bucket, S3Upload, S3Url, S3UrlError, UploadParts};
use striate_store::store::Store;

use crate::FileError;
use crate::rendezvous::share_error;

/// How a file is published.
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions {
    /// Bytes of a part; more, if there would be too many parts.
    pub part: u64,
    /// Parts that a rank uploads at the same time. Each takes the memory of two parts.
    pub at_once: usize,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self { part: UploadParts::USUAL, at_once: 4 }
    }
}

/// Publishes the content of `source`, of which each rank brings a handle, as the object of a URL
/// `s3://bucket/key`; returns its size. Nobody writes to the source meanwhile. Collective.
pub fn publish(
    comm: &dyn Comm,
    source: &dyn Store,
    to: impl AsRef<Path>,
    options: &PublishOptions,
) -> Result<u64, FileError> {
    let place = object_url(to.as_ref()).and_then(|url| Ok((S3Bucket::shared(&url)?, url.key)));
    let (bucket, key) = share_error(comm, place)?;
    publish_in(comm, source, &bucket, &key, options)
}

/// [`publish`] in a bucket that each rank has opened.
pub fn publish_in(
    comm: &dyn Comm,
    source: &dyn Store,
    bucket: &Arc<S3Bucket>,
    key: &str,
    options: &PublishOptions,
) -> Result<u64, FileError> {
    let begun = if comm.rank() == 0 {
        let begin = || {
            let parts = UploadParts::new(source.len()?, options.part);
            S3Upload::begin_in(bucket, key, parts)
        };
        begin().map(Some).map_err(FileError::from)
    } else {
        Ok(None)
    };
    let begun = share_error(comm, begun)?;
    let mut message = begun.as_ref().map_or(Vec::new(), encode);
    comm.broadcast(0, &mut message)?;
    let joined = match begun {
        Some(upload) => Ok(upload),
        None => {
            decode(&message).and_then(|(parts, id)| Ok(S3Upload::join_in(bucket, key, parts, &id)?))
        }
    };
    let uploaded = joined.and_then(|upload| {
        let mine = put_parts(&upload, source, comm.rank() as u64, comm.size() as u64, options);
        mine.map(|()| upload)
    });
    // Dropped by rank 0 if another rank has failed: that aborts it.
    let upload = share_error(comm, uploaded)?;
    let receipts = comm.gather(0, &encode_receipts(&upload.uploaded()))?;
    let completed = if comm.rank() == 0 {
        for part in receipts.iter().flat_map(|bytes| decode_receipts(bytes)) {
            upload.record(part);
        }
        upload.complete().map_err(FileError::from)
    } else {
        Ok(())
    };
    share_error(comm, completed)?;
    Ok(upload.parts().len)
}

fn object_url(path: &Path) -> Result<S3Url, FileError> {
    let name = path.to_string_lossy();
    name.parse().map_err(|error: S3UrlError| FileError::BadName {
        name: name.clone().into_owned(),
        reason: error.to_string(),
    })
}

/// Uploads the parts of one of so many ranks, several at a time; none is begun after a failure.
fn put_parts(
    upload: &S3Upload,
    source: &dyn Store,
    rank: u64,
    ranks: u64,
    options: &PublishOptions,
) -> Result<(), FileError> {
    let parts = upload.parts();
    let mine = parts.count().saturating_sub(rank).div_ceil(ranks);
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || -> Result<(), FileError> {
        let mut buffer = Vec::new();
        loop {
            let taken = next.fetch_add(1, Ordering::Relaxed);
            if taken >= mine || failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let index = rank + taken * ranks;
            let range = parts.range(index);
            let len = (range.end - range.start) as usize;
            buffer.resize(len, 0);
            let done = source.read_at(range.start, &mut buffer).and_then(|got| {
                // A shorter part is refused, with the reason.
                upload.put(index, &buffer[..got])
            });
            if let Err(error) = done {
                failed.store(true, Ordering::Relaxed);
                return Err(error.into());
            }
        }
    };
    let threads = options.at_once.clamp(1, 64).min(mine.max(1) as usize);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().fold(own, |done, thread| {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done.and(ended)
        })
    })
}

/// The upload as other ranks need it: the lengths and the id.
fn encode(upload: &S3Upload) -> Vec<u8> {
    let UploadParts { len, part } = upload.parts();
    let mut bytes = [len.to_le_bytes(), part.to_le_bytes()].concat();
    bytes.extend_from_slice(upload.id().as_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<(UploadParts, String), FileError> {
    let read = || {
        let mut rest = bytes;
        let parts = UploadParts { len: number(&mut rest)?, part: number(&mut rest)? };
        let sound = parts.part > 0 && parts.count() <= UploadParts::MOST;
        sound.then_some((parts, std::str::from_utf8(rest).ok()?.to_owned()))
    };
    read().ok_or_else(|| FileError::caller("the ranks do not understand each other's uploads"))
}

fn encode_receipts(receipts: &[PartReceipt]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for PartReceipt { index, receipt } in receipts {
        bytes.extend_from_slice(&index.to_le_bytes());
        bytes.extend_from_slice(&(receipt.len() as u64).to_le_bytes());
        bytes.extend_from_slice(receipt.as_bytes());
    }
    bytes
}

/// Those that can be read: without the others the upload is not completed.
fn decode_receipts(bytes: &[u8]) -> Vec<PartReceipt> {
    let mut rest = bytes;
    let mut receipts = Vec::new();
    while let (Some(index), Some(len)) = (number(&mut rest), number(&mut rest)) {
        let Some((receipt, after)) = rest.split_at_checked(len as usize) else { break };
        receipts
            .push(PartReceipt { index, receipt: String::from_utf8_lossy(receipt).into_owned() });
        rest = after;
    }
    receipts
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_described_within_the_limits() {
        let bytes = |len: u64, part: u64| [len.to_le_bytes(), part.to_le_bytes()].concat();
        let parts = UploadParts { len: 20, part: 5 };
        assert_eq!(decode(&[&bytes(20, 5), &b"id"[..]].concat()).unwrap(), (parts, "id".into()));
        for wrong in [&bytes(20, 0)[..], &bytes(1 << 40, 1), &bytes(20, 5)[..15], b""] {
            assert!(decode(wrong).is_err());
        }
    }

    #[test]
    fn receipts_travel() {
        let receipt = |index, text: &str| PartReceipt { index, receipt: text.to_owned() };
        let all = [receipt(3, "\"abc\""), receipt(0, ""), receipt(u64::MAX, "x")];
        let bytes = encode_receipts(&all);
        assert_eq!(decode_receipts(&bytes), all);
        for len in 0..bytes.len() {
            assert!(decode_receipts(&bytes[..len]).len() < 3);
        }
    }
}
