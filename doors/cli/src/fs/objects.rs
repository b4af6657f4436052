//! Objects of S3 servers in the commands of `striate fs`: listed like files, described, removed;
//! and uploads that were interrupted.

use std::fmt::Write as _;

use serde::Serialize;
use striate_store::remote::FileInfo;
use striate_store::s3::{ObjectInfo, S3Bucket, S3Url};
use striate_store::{ErrorKind, StoreError};

use super::{as_directory, shown};
use crate::number::bytes;
use crate::time::utc;
use crate::{CommandError, terminal};

/// The objects of a bucket whose keys begin with `prefix`, as files without strips.
pub(super) fn list(url: &S3Url, prefix: &str) -> Result<Vec<FileInfo>, StoreError> {
    let objects = S3Bucket::shared(url)?.list(prefix)?;
    let file = |object: ObjectInfo| FileInfo {
        path: object.key,
        file: 0,
        strip: 0,
        servers: Vec::new(),
        size: object.len,
        created_ms: 0,
        modified_ms: object.modified_ms,
        objects: Vec::new(),
        truncations: 0,
    };
    Ok(objects.into_iter().map(file).collect())
}

/// What is known about an object.
#[derive(Debug, Serialize)]
pub(super) struct ObjectDescription {
    url: String,
    size: u64,
    modified_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    endpoint: String,
}

pub(super) fn describe(url: &S3Url) -> Result<ObjectDescription, CommandError> {
    let bucket = S3Bucket::shared(url)?;
    let ObjectInfo { len, modified_ms, etag, .. } = bucket.head(&url.key)?;
    let endpoint = bucket.endpoint().to_owned();
    Ok(ObjectDescription { url: url.to_string(), size: len, modified_ms, etag, endpoint })
}

impl ObjectDescription {
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", terminal::heading(&shown(&self.url)));
        let mut line = |what: &str, value: &str| {
            let _ = writeln!(text, "  {what:<10}{value}");
        };
        line("size", &bytes(self.size));
        line("modified", &utc(self.modified_ms));
        line("version", &shown(self.etag.as_deref().unwrap_or("-")));
        line("endpoint", &shown(&self.endpoint));
        text
    }
}

/// The keys of the objects that a URL stands for.
pub(super) fn keys(
    bucket: &S3Bucket,
    url: &S3Url,
    recursive: bool,
    force: bool,
) -> Result<Vec<String>, CommandError> {
    if url.key.is_empty() {
        return Err(CommandError::usage(
            format!("{url} is the whole bucket"),
            "name the objects to remove, or directories with -r",
        ));
    }
    if recursive {
        let inside = bucket.list(&as_directory(&url.key))?;
        if !inside.is_empty() {
            return Ok(inside.into_iter().map(|object| object.key).collect());
        }
    }
    // Servers say nothing if the object to remove does not exist.
    match bucket.head(&url.key) {
        Ok(_) => Ok(vec![url.key.clone()]),
        Err(error) if error.kind() == ErrorKind::NotFound && force => Ok(Vec::new()),
        Err(error) => {
            if error.kind() == ErrorKind::NotFound
                && !bucket.list(&as_directory(&url.key))?.is_empty()
            {
                let message = format!("{url} is a directory");
                return Err(CommandError::usage(message, "-r removes it with its contents"));
            }
            Err(error.into())
        }
    }
}
