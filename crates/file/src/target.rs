//! [`StorageTarget`]: one of several directories, servers or OSTs that files can be created on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use striate_store::lustre;
use striate_store::rados::RadosUrl;
use striate_store::remote::{Client, RemoteUrl};

use crate::{Composites, FileError, Hints};

/// A directory, one of several I/O servers, or one storage target of a striped file system.
///
/// As text it is the directory or URL; a number after `#` says which server (of
/// `striate://host:port/path#3`) or which storage target of the file system that the directory lies
/// on (`/lustre/run#3`: OST 3 of a Lustre). `#*` means every one of them: [`StorageTarget::each`]
/// asks how many there are. A directory without a number is one target, and so is one with `#*` on
/// a file system that has no numbered targets; a URL without a number means every server. A pool of
/// Ceph (`rados://pool/namespace`) is one target, as the engine spreads its objects itself.
///
/// ```
/// use striate_file::StorageTarget;
/// let target: StorageTarget = "striate://io.example/run#3".parse()?;
/// assert_eq!(target.number(), Some(3));
/// assert_eq!(target.path("a.nc").to_str(), Some("striate://io.example:7479/run/a.nc"));
/// # Ok::<(), striate_file::FileError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StorageTarget {
    directory: Directory,
    number: Option<u32>,
    /// Whether the text has `#*` instead of a number.
    every: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Directory {
    Local(PathBuf),
    Servers(RemoteUrl),
    Pool(RadosUrl),
}

impl StorageTarget {
    /// A local directory.
    pub fn directory(path: impl Into<PathBuf>) -> Self {
        Self { directory: Directory::Local(path.into()), number: None, every: false }
    }

    /// Which server, or storage target of the file system, if one is meant.
    pub const fn number(&self) -> Option<u32> {
        self.number
    }

    /// Whether it is on I/O servers or in a pool, rather than a directory.
    pub const fn is_remote(&self) -> bool {
        !matches!(self.directory, Directory::Local(_))
    }

    /// The directory without the number: a path, or a URL.
    pub fn base(&self) -> PathBuf {
        match &self.directory {
            Directory::Local(path) => path.clone(),
            Directory::Servers(url) => PathBuf::from(url.to_string()),
            Directory::Pool(url) => PathBuf::from(url.to_string()),
        }
    }

    /// The name by which a file there is opened.
    pub fn path(&self, name: &str) -> PathBuf {
        match &self.directory {
            Directory::Local(path) => path.join(name),
            Directory::Servers(url) => {
                let prefix = url.path.trim_end_matches('/');
                let path = if prefix.is_empty() { name.into() } else { format!("{prefix}/{name}") };
                PathBuf::from(RemoteUrl { path, ..url.clone() }.to_string())
            }
            Directory::Pool(url) => PathBuf::from(url.below(name).to_string()),
        }
    }

    /// The hints with which a file there is created: wholly on the one target, if one is meant. Its
    /// number asks for that target also where a directory on Lustre has a composite layout.
    pub fn hints(&self, hints: &Hints) -> Hints {
        let mut hints = hints.clone();
        if let Some(number) = self.number {
            hints.striping_factor = Some(1);
            hints.start_iodevice = Some(u64::from(number));
            hints.lustre_pfl = Composites::Override;
        }
        hints
    }

    /// Itself, or if it is a URL without a number or ends with `#*`, every server or storage target
    /// there.
    pub fn each(&self) -> Result<Vec<Self>, FileError> {
        let count = match &self.directory {
            _ if self.number.is_some() => None,
            Directory::Servers(url) => Some(Client::shared(url)?.servers()?.len() as u32),
            Directory::Local(path) if self.every => lustre::targets(path)
                .map_err(|error| refuse(format!("cannot count the targets of {self}: {error}")))?,
            Directory::Local(_) | Directory::Pool(_) => None,
        };
        Ok(self.numbered(count))
    }

    /// One for each number below `count`, or itself alone if nothing is numbered.
    fn numbered(&self, count: Option<u32>) -> Vec<Self> {
        let alone = Self { every: false, ..self.clone() };
        match count {
            Some(count) => (0..count).map(|n| Self { number: Some(n), ..alone.clone() }).collect(),
            None => vec![alone],
        }
    }
}

fn refuse(reason: String) -> FileError {
    FileError::Argument { call: "storage target", reason }
}

impl FromStr for StorageTarget {
    type Err = FileError;

    fn from_str(text: &str) -> Result<Self, FileError> {
        let (base, number) = match text.rsplit_once('#') {
            Some((base, "*")) => (base, None),
            Some((base, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let number = number.parse().ok();
                let number = number.ok_or_else(|| refuse(format!("'{text}' has no number")))?;
                (base, Some(number))
            }
            _ => (text, None),
        };
        if base.is_empty() {
            return Err(refuse(format!("'{text}' names no directory")));
        }
        let directory = if RemoteUrl::is_remote(base) {
            let url = base.parse::<RemoteUrl>();
            Directory::Servers(url.map_err(|error| refuse(error.to_string()))?)
        } else if RadosUrl::is_rados(base) {
            if number.is_some() {
                return Err(refuse(format!("'{text}': the targets of a pool have no numbers")));
            }
            let url = base.parse::<RadosUrl>();
            Directory::Pool(url.map_err(|error| refuse(error.to_string()))?)
        } else {
            Directory::Local(Path::new(base).to_path_buf())
        };
        Ok(Self { directory, number, every: text.ends_with("#*") })
    }
}

impl fmt::Display for StorageTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.base();
        match self.number {
            Some(number) => write!(f, "{}#{number}", base.display()),
            None => write!(f, "{}{}", base.display(), if self.every { "#*" } else { "" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> StorageTarget {
        text.parse().unwrap()
    }

    #[test]
    fn a_number_follows_the_last_hash_sign() {
        assert_eq!(parsed("/scratch#a").number(), None);
        assert_eq!(parsed("/scratch#a#12").number(), Some(12));
        assert_eq!(parsed("/scratch#a#12").path("f"), Path::new("/scratch#a/f"));
        for text in ["/scratch", "/scratch#3", "/scratch#*", "striate://h:1/a#0", "striate://h:1/"]
        {
            assert_eq!(parsed(text).to_string(), text);
        }
    }

    #[test]
    fn names_without_a_directory_are_refused() {
        for text in
            ["", "#3", "#*", "/a#", "/a#99999999999", "striate://#1", "rados://p/n#1", "rados://"]
        {
            assert!(text.parse::<StorageTarget>().is_err(), "{text}");
        }
    }

    #[test]
    fn files_of_one_target_are_not_striped() {
        let hints = parsed("/a#7").hints(&Hints::default());
        assert_eq!((hints.striping_factor, hints.start_iodevice), (Some(1), Some(7)));
        assert_eq!(hints.lustre_pfl, Composites::Override);
        assert_eq!(parsed("/a").hints(&Hints::default()), Hints::default());
    }

    #[test]
    fn a_star_means_every_target() {
        let every = parsed("/lustre/run#*");
        assert_eq!(every.number(), None);
        assert_eq!(every.path("f"), Path::new("/lustre/run/f"));
        assert_eq!(
            every.numbered(Some(3)).iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["/lustre/run#0", "/lustre/run#1", "/lustre/run#2"]
        );
        assert_eq!(every.numbered(None), [parsed("/lustre/run")]);
        assert_eq!(parsed("/lustre/run#5").each().unwrap(), [parsed("/lustre/run#5")]);
    }

    #[test]
    fn a_star_where_nothing_is_numbered_is_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        let plain = parsed(&path.to_string());
        assert_eq!(parsed(&format!("{path}#*")).each().unwrap()[..], *std::slice::from_ref(&plain));
        assert_eq!(plain.each().unwrap(), [plain]);
        let missing = parsed(&format!("{path}/missing#*")).each().unwrap_err().to_string();
        assert!(missing.contains("missing#*"), "{missing}");
    }

    #[test]
    fn files_lie_below_the_path_of_a_url() {
        let path = |text: &str| parsed(text).path("f").display().to_string();
        assert_eq!(path("striate://h:1"), "striate://h:1/f");
        assert_eq!(path("striate://h:1/a/"), "striate://h:1/a/f");
        assert_eq!(path("striate://h:1/a#2"), "striate://h:1/a/f");
        assert_eq!(path("rados://pool/run"), "rados://pool/run/f");
        assert_eq!(parsed("rados://p/n#*").each().unwrap(), [parsed("rados://p/n")]);
    }
}
