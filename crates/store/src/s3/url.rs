//! [`S3Url`]: `s3://bucket/key`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Where URLs of objects begin.
const SCHEME: &str = "s3://";

/// An object, or all objects whose keys begin alike.
///
/// The endpoint and the credentials are not part of it: they come from the environment, as other
/// tools have them.
///
/// ```
/// use striate_store::s3::S3Url;
/// let url: S3Url = "s3://climate/run7/t2m.nc".parse()?;
/// assert_eq!((&*url.bucket, &*url.key), ("climate", "run7/t2m.nc"));
/// # Ok::<(), striate_store::s3::S3UrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct S3Url {
    /// The bucket.
    pub bucket: String,
    /// The key, or the beginning of keys; may be empty.
    pub key: String,
}

/// A text that is no [`S3Url`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is not a URL such as s3://bucket/key: {reason}")]
pub struct S3UrlError {
    text: String,
    reason: &'static str,
}

impl S3Url {
    /// Whether a text begins as such a URL.
    pub fn is_s3(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The same bucket with another key.
    #[must_use]
    pub fn with_key(&self, key: impl Into<String>) -> Self {
        Self { bucket: self.bucket.clone(), key: key.into() }
    }
}

impl FromStr for S3Url {
    type Err = S3UrlError;

    fn from_str(text: &str) -> Result<Self, S3UrlError> {
        let wrong = |reason| S3UrlError { text: text.to_owned(), reason };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("it begins otherwise"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if bucket.is_empty() {
            return Err(wrong("it names no bucket"));
        }
        if bucket.len() > 255 || !bucket.chars().all(valid) {
            return Err(wrong("a bucket has letters, digits, dots and hyphens in its name"));
        }
        if key.len() > 1024 {
            return Err(wrong("a key has 1024 bytes at most"));
        }
        let whole = key.strip_suffix('/').unwrap_or(key);
        if !key.is_empty() && whole.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(wrong("a part of the key is empty, '.' or '..'"));
        }
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl fmt::Display for S3Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.bucket, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_buckets_and_keys() {
        for (text, bucket, key) in [
            ("s3://b/k", "b", "k"),
            ("s3://my.bucket-1/a/b c.nc", "my.bucket-1", "a/b c.nc"),
            ("s3://b", "b", ""),
            ("s3://b/", "b", ""),
            ("s3://b/run/", "b", "run/"),
        ] {
            let url: S3Url = text.parse().unwrap();
            assert_eq!((&*url.bucket, &*url.key), (bucket, key), "{text}");
            assert_eq!(url.to_string().parse(), Ok(url));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("s3://b/{}", "k".repeat(1025));
        for text in [
            "",
            "/b/k",
            "S3://b/k",
            "s3://",
            "s3:///k",
            "s3://b/a//b",
            "s3://b/../k",
            "s3://b b/k",
            "s3://b//",
            &long,
        ] {
            let error = text.parse::<S3Url>().unwrap_err().to_string();
            assert!(error.contains("s3://bucket/key"), "{error}");
        }
    }
}
