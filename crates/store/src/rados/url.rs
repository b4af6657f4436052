//! [`RadosUrl`]: the name of a file in a pool, `rados://[user@]pool[/namespace]/name`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

const SCHEME: &str = "rados://";

/// A pool, a namespace in it, and the name of a file there.
///
/// Of several parts after the pool, the first one is the namespace: it is empty if there is only
/// one part, or if the first one is empty.
///
/// ```
/// use striate_store::rados::RadosUrl;
/// let url: RadosUrl = "rados://data/run/a/out.dat".parse()?;
/// assert_eq!((&*url.pool, &*url.namespace, &*url.name), ("data", "run", "a/out.dat"));
/// let url: RadosUrl = "rados://alice@data/out.dat".parse()?;
/// assert_eq!((url.user.as_deref(), &*url.namespace, &*url.name), (Some("alice"), "", "out.dat"));
/// let url: RadosUrl = "rados://data//a/out.dat".parse()?;
/// assert_eq!((&*url.namespace, &*url.name), ("", "a/out.dat"));
/// # Ok::<(), striate_store::rados::RadosUrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RadosUrl {
    /// As whom: `client.` and this name; the environment says if not given.
    pub user: Option<String>,
    /// The pool.
    pub pool: String,
    /// The namespace in the pool; may be empty.
    pub namespace: String,
    /// The name in the namespace; empty for all of it.
    pub name: String,
}

/// Why a text is no [`RadosUrl`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is not a URL of a file in a pool, such as rados://pool/namespace/name: {reason}")]
pub struct RadosUrlError {
    text: String,
    reason: &'static str,
}

impl RadosUrl {
    /// Whether a name is meant as a URL of this kind.
    pub fn is_rados(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The URL of a name in the same namespace.
    #[must_use]
    pub fn with_name(&self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.clone() }
    }

    /// The URL of a name below this one: `rados://pool/run` is the namespace `run` then.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        let prefix = self.name.trim_end_matches('/');
        match (self.namespace.is_empty(), prefix) {
            (_, "") => self.with_name(name),
            (true, prefix) if !prefix.contains('/') => {
                Self { namespace: prefix.to_owned(), ..self.with_name(name) }
            }
            (_, prefix) => self.with_name(format!("{prefix}/{name}")),
        }
    }
}

impl FromStr for RadosUrl {
    type Err = RadosUrlError;

    fn from_str(text: &str) -> Result<Self, RadosUrlError> {
        let failed = |reason| RadosUrlError { text: text.to_owned(), reason };
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| failed("it does not begin with rados://"))?;
        if rest.chars().any(char::is_control) {
            return Err(failed("it has a control character"));
        }
        let (pool, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, pool) = match pool.split_once('@') {
            Some(("", _)) => return Err(failed("the user before '@' is missing")),
            Some((user, pool)) => (Some(user.to_owned()), pool),
            None => (None, pool),
        };
        if pool.is_empty() {
            return Err(failed("the pool is missing"));
        }
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        if namespace.starts_with("striate.") {
            return Err(failed("a namespace does not begin with 'striate.'"));
        }
        Ok(Self {
            user,
            pool: pool.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for RadosUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.pool)?;
        if !self.namespace.is_empty() || self.name.contains('/') {
            write!(f, "/{}", self.namespace)?;
        }
        write!(f, "/{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> RadosUrl {
        let url: RadosUrl = text.parse().unwrap();
        assert_eq!(url.to_string().parse(), Ok(url.clone()), "{text}");
        url
    }

    #[test]
    fn parts_of_a_url() {
        let is = |text, namespace: &str, name: &str| {
            let url = parsed(text);
            assert_eq!((&*url.pool, &*url.namespace, &*url.name), ("p", namespace, name), "{text}");
        };
        is("rados://p", "", "");
        is("rados://p/", "", "");
        is("rados://p/a", "", "a");
        is("rados://p/a/", "a", "");
        is("rados://p/a/b", "a", "b");
        is("rados://p/a/b/c", "a", "b/c");
        is("rados://p//b/c", "", "b/c");
        assert_eq!(parsed("rados://u@p/a").user.as_deref(), Some("u"));
        assert_eq!(parsed("rados://p/a@b").user, None);
        for wrong in ["rados:/p/a", "rados://", "rados:///a", "rados://@p/a", "rados://p/a\nb"] {
            assert!(wrong.parse::<RadosUrl>().unwrap_err().to_string().contains("rados://pool"));
        }
    }

    #[test]
    fn names_below_a_url() {
        let below = |text| parsed(text).below("f").to_string();
        assert_eq!(below("rados://p"), "rados://p/f");
        assert_eq!(below("rados://p/a"), "rados://p/a/f");
        assert_eq!(below("rados://p/a/"), "rados://p/a/f");
        assert_eq!(below("rados://p/a/b/"), "rados://p/a/b/f");
        assert_eq!(below("rados://p//b/c"), "rados://p//b/c/f");
    }
}
