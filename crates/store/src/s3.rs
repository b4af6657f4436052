//! Object stores that speak S3's protocol: objects that are read by ranges and published as a
//! whole.
//!
//! [`S3Object`] is the store of a URL `s3://bucket/key`, for reading. An object cannot be written
//! in place; [`S3Upload`] publishes one in parts, from one or several processes. [`S3Bucket`] lists
//! and removes. The endpoint and the credentials come from the environment (`AWS_ENDPOINT_URL`,
//! `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` and what else
//! such tools know); without TLS only if the endpoint begins with `http://`. No wait is longer than
//! `STRIATE_PATIENCE`, plus a second for each 256 KiB that a request moves.
//!
//! The client is built in by the feature `s3`. Without it, the same types exist, and say so.

mod error;
mod upload_parts;
mod url;

#[cfg(feature = "s3")]
mod bucket;
#[cfg(feature = "s3")]
mod failure;
#[cfg(feature = "s3")]
mod fetch_plan;
#[cfg(feature = "s3")]
mod listing;
#[cfg(feature = "s3")]
mod object;
#[cfg(feature = "s3")]
mod upload;

#[cfg(not(feature = "s3"))]
mod absent;

#[cfg(not(feature = "s3"))]
pub use absent::{AbsentBucket as S3Bucket, AbsentObject as S3Object, AbsentUpload as S3Upload};
#[cfg(feature = "s3")]
pub use bucket::S3Bucket;
pub use error::S3Error;
#[cfg(feature = "s3")]
pub use object::S3Object;
#[cfg(feature = "s3")]
pub use upload::S3Upload;
pub use upload_parts::UploadParts;
pub use url::{S3Url, S3UrlError};

/// Bytes of a block of the cache of an open object.
pub const BLOCK: u64 = 256 << 10;

/// What a bucket says about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name in the bucket.
    pub key: String,
    /// Bytes.
    pub len: u64,
    /// When it was published, in milliseconds since 1970.
    pub modified_ms: u64,
    /// What tells this version from others, if the server says so.
    pub etag: Option<String>,
}

/// An upload that was begun and is neither complete nor aborted: somebody works on it, or was
/// killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedUpload {
    /// The key that the object would have.
    pub key: String,
    /// What it is continued, or aborted, by.
    pub id: String,
    /// When it was begun, as the server writes times.
    pub begun: String,
}

/// Proof that a part was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartReceipt {
    /// Number of the part, from 0 on.
    pub index: u64,
    /// What the server wants to see again.
    pub receipt: String,
}
