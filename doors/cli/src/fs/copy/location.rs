//! [`Location`]: a local file, a file on servers or in a pool of Ceph, or an object.

use std::ffi::OsString;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use striate_store::rados::RadosUrl;
use striate_store::remote::RemoteUrl;
use striate_store::s3::S3Url;

use super::super::file_url::FileUrlError;
use crate::CommandError;

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    /// In a mounted file system.
    Local(PathBuf),
    /// On servers.
    Remote(RemoteUrl),
    /// In a pool of Ceph.
    Pool(RadosUrl),
    /// In a bucket of an object store.
    Object(S3Url),
}

impl Location {
    /// A text that begins like a URL is one, all others are paths.
    pub(crate) fn new(text: OsString) -> Result<Self, FileUrlError> {
        match text.to_str() {
            Some(url) if RemoteUrl::is_remote(url) => Ok(Self::Remote(url.parse()?)),
            Some(url) if RadosUrl::is_rados(url) => Ok(Self::Pool(url.parse()?)),
            Some(url) if S3Url::is_s3(url) => Ok(Self::Object(url.parse()?)),
            _ => Ok(Self::Local(text.into())),
        }
    }

    /// The file of this name in a directory. The name has parts separated by slashes, and may come
    /// from a server: it does not lead out of the directory.
    pub(super) fn inside(&self, name: &str) -> Result<Self, CommandError> {
        match self {
            Self::Local(directory) => {
                let plain = |part| matches!(part, Component::Normal(_));
                if name.is_empty() || !Path::new(name).components().all(plain) {
                    return Err(CommandError::failed(
                        format!("cannot copy to {name:?} in {}", directory.display()),
                        "this is not a valid file name there",
                        "",
                    ));
                }
                Ok(Self::Local(directory.join(name)))
            }
            Self::Remote(url) => {
                let path = super::super::as_directory(&url.path) + name;
                Ok(Self::Remote(RemoteUrl { path, ..url.clone() }))
            }
            Self::Object(url) => {
                Ok(Self::Object(url.with_key(super::super::as_directory(&url.key) + name)))
            }
            Self::Pool(url) => Ok(Self::Pool(url.below(name))),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Remote(url) => url.fmt(f),
            Self::Object(url) => url.fmt(f),
            Self::Pool(url) => url.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Location {
        Location::new(text.into()).unwrap()
    }

    #[test]
    fn urls_and_paths_are_told_apart() {
        assert!(matches!(place("striate://h/a"), Location::Remote(_)));
        assert!(matches!(place("./striate://h/a"), Location::Local(_)));
        assert!(matches!(place("rados://p/n/a"), Location::Pool(_)));
        assert!(Location::new("striate://h:x/a".into()).is_err());
        assert!(matches!(place("s3://bucket/a"), Location::Object(_)));
        assert!(Location::new("s3://".into()).is_err());
        assert!(Location::new("rados://".into()).is_err());
    }

    #[test]
    fn names_stay_inside() {
        let local = place("/here");
        assert_eq!(local.inside("a/b").unwrap(), place("/here/a/b"));
        for wrong in ["", "..", "a/../../b", "/etc/passwd", "."] {
            assert!(local.inside(wrong).is_err(), "{wrong:?}");
        }
        let remote = place("striate://h/there");
        assert_eq!(remote.inside("a/b").unwrap().to_string(), "striate://h:7479/there/a/b");
        assert_eq!(place("s3://b/there").inside("a/b").unwrap().to_string(), "s3://b/there/a/b");
        assert_eq!(place("s3://b").inside("a").unwrap().to_string(), "s3://b/a");
        assert_eq!(place("striate://h").inside("a").unwrap().to_string(), "striate://h:7479/a");
    }
}
