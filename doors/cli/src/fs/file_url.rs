//! [`FileUrl`]: a file or directory on servers, in a pool of Ceph or in an object store, for the
//! commands that need nothing but names.

use std::fmt;
use std::str::FromStr;

use striate_store::rados::{RadosFileInfo, RadosNamespace, RadosUrl, RadosUrlError};
use striate_store::remote::{Client, FileInfo, RemoteUrl, UrlError};
use striate_store::s3::{S3Bucket, S3Url, S3UrlError};
use striate_store::{Operation, StoreError};
use thiserror::Error;

use super::{objects, path};

/// A file or directory that is not in a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileUrl {
    /// `striate://host/path`.
    Servers(RemoteUrl),
    /// `rados://pool/namespace/name`.
    Pool(RadosUrl),
    /// `s3://bucket/key`.
    Object(S3Url),
}

/// Why a text is no [`FileUrl`].
#[derive(Clone, Debug, Error)]
pub(crate) enum FileUrlError {
    #[error("{0}")]
    Servers(#[from] UrlError),
    #[error("{0}")]
    Pool(#[from] RadosUrlError),
    #[error("{0}")]
    Object(#[from] S3UrlError),
}

impl FromStr for FileUrl {
    type Err = FileUrlError;

    fn from_str(text: &str) -> Result<Self, FileUrlError> {
        if RadosUrl::is_rados(text) {
            Ok(Self::Pool(text.parse()?))
        } else if S3Url::is_s3(text) {
            Ok(Self::Object(text.parse()?))
        } else {
            Ok(Self::Servers(text.parse()?))
        }
    }
}

impl fmt::Display for FileUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers(url) => url.fmt(f),
            Self::Pool(url) => url.fmt(f),
            Self::Object(url) => url.fmt(f),
        }
    }
}

/// A file of a pool as listings show it: it is on no servers of ours, and its last change is not
/// known.
fn listed(file: RadosFileInfo) -> FileInfo {
    let RadosFileInfo { name, strip, size, created_ms, .. } = file;
    FileInfo {
        path: name,
        file: 0,
        strip,
        servers: Vec::new(),
        size,
        created_ms,
        modified_ms: 0,
        truncations: 0,
        objects: Vec::new(),
    }
}

impl FileUrl {
    /// The path or name, as it is spelt there.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Servers(url) => path(url),
            Self::Pool(url) => url.name.trim_start_matches('/'),
            Self::Object(url) => &url.key,
        }
    }

    /// The URL of another path or name there.
    pub(super) fn with_path(&self, path: &str) -> Self {
        match self {
            Self::Servers(url) => Self::Servers(RemoteUrl { path: path.to_owned(), ..url.clone() }),
            Self::Pool(url) => Self::Pool(url.with_name(path)),
            Self::Object(url) => Self::Object(url.with_key(path.to_owned())),
        }
    }

    /// Whether names there can be changed into names of the other.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Servers(one), Self::Servers(other)) => {
                (&one.address, one.tls) == (&other.address, other.tls)
            }
            (Self::Pool(one), Self::Pool(other)) => one.with_name("") == other.with_name(""),
            (Self::Object(one), Self::Object(other)) => one.bucket == other.bucket,
            _ => false,
        }
    }

    /// The files whose paths begin with `prefix`.
    pub(super) fn list(&self, prefix: &str) -> Result<Vec<FileInfo>, StoreError> {
        match self {
            Self::Servers(url) => Client::shared(url)?.list(prefix),
            Self::Pool(url) => {
                let files = RadosNamespace::open(url)?.list(prefix)?;
                Ok(files.into_iter().map(listed).collect())
            }
            Self::Object(url) => objects::list(url, prefix),
        }
    }

    /// Whether there is a file whose path begins with `prefix`.
    pub(super) fn has_any(&self, prefix: &str) -> Result<bool, StoreError> {
        match self {
            Self::Servers(url) => {
                let (files, _) = Client::shared(url)?.list_page(prefix, None, 1)?;
                Ok(!files.is_empty())
            }
            Self::Pool(url) => {
                let (files, _) = RadosNamespace::open(url)?.list_page(prefix, None, 1)?;
                Ok(!files.is_empty())
            }
            Self::Object(url) => Ok(!S3Bucket::shared(url)?.list(prefix)?.is_empty()),
        }
    }

    /// The size of the file as listings know it.
    pub(super) fn size(&self) -> Result<u64, StoreError> {
        match self {
            Self::Servers(url) => Ok(Client::shared(url)?.lookup(path(url))?.size),
            Self::Pool(url) => Ok(RadosNamespace::open(url)?.stat(self.path())?.size),
            Self::Object(url) => Ok(S3Bucket::shared(url)?.head(&url.key)?.len),
        }
    }

    /// Removes a file there.
    pub(super) fn remove(&self, path: &str) -> Result<(), StoreError> {
        match self {
            Self::Servers(url) => Client::shared(url)?.remove(path),
            Self::Pool(url) => RadosNamespace::open(url)?.remove(path),
            Self::Object(url) => S3Bucket::shared(url)?.remove(path),
        }
    }

    /// Gives a file there another name.
    pub(super) fn rename(&self, from: &str, to: &str, replace: bool) -> Result<(), StoreError> {
        match self {
            Self::Servers(url) => Client::shared(url)?.rename(from, to, replace),
            Self::Pool(url) => RadosNamespace::open(url)?.rename(from, to, replace),
            Self::Object(url) => {
                let why = "object stores do not rename; copy it and remove the other";
                Err(StoreError::unsupported(Operation::Rename, url.to_string(), why))
            }
        }
    }

    /// Finishes removals that were interrupted; returns how many.
    pub(super) fn bury_dead(&self) -> Result<u64, StoreError> {
        match self {
            Self::Servers(url) => Client::shared(url)?.bury_dead(),
            Self::Pool(url) => RadosNamespace::open(url)?.bury_dead(),
            // Their removals are never in parts.
            Self::Object(_) => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_of_servers_or_of_pools() {
        let parsed = |text: &str| text.parse::<FileUrl>().unwrap();
        assert_eq!(parsed("striate://h/a/b").path(), "a/b");
        assert_eq!(parsed("rados://p/n/a/b").path(), "a/b");
        assert_eq!(parsed("rados://p/n/a").with_path("c/d").to_string(), "rados://p/n/c/d");
        assert!(parsed("rados://p/n/a").is_beside(&parsed("rados://p/n/b/c")));
        assert!(!parsed("rados://p/n/a").is_beside(&parsed("rados://p/m/a")));
        assert!(!parsed("rados://p/n/a").is_beside(&parsed("striate://h/a")));
        assert_eq!(parsed("s3://b/a/b").with_path("c").to_string(), "s3://b/c");
        assert!("/a".parse::<FileUrl>().is_err() && "rados://".parse::<FileUrl>().is_err());
    }
}
