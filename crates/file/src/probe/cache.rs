//! [`Cache`]: samples that count for a while, in the process and in a file of the user's.
//!
//! Samples belong to a machine, a size and a set of targets. A probe in which a target failed is not
//! kept: who mends it shall see that at once. Files that cannot be read, written or understood are as
//! good as none.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

use super::record::{Kept, hash};
use super::{Measured, ProbeOptions, Sample};
use crate::StorageTarget;

/// A file that is longer is none of ours.
const LONGEST: u64 = 16 << 20;

/// Samples by directory and key.
type Memory = HashMap<(Option<PathBuf>, String), Kept>;

/// Those of this process.
static HERE: LazyLock<Mutex<Memory>> = LazyLock::new(Mutex::default);

/// The samples of a set of targets.
#[derive(Debug)]
pub(super) struct Cache {
    directory: Option<PathBuf>,
    key: String,
    /// Of the targets, in the order given.
    names: Vec<String>,
}

impl Cache {
    pub(super) fn new(targets: &[StorageTarget], options: &ProbeOptions) -> Self {
        let names: Vec<String> = targets.iter().map(full_name).collect();
        let mut sorted = names.clone();
        sorted.sort();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let key = format!("{host}\n{}\n{}", options.whole_size(), sorted.join("\n"));
        let directory = options.cache.clone().or_else(|| directory_of(|name| env::var_os(name)));
        Self { directory, key, names }
    }

    /// The samples in the order of the targets, and their age, if they are not too old.
    pub(super) fn recall(&self, valid: Duration) -> Option<(Duration, Vec<Sample>)> {
        let fresh = |kept: Kept| {
            let age = Duration::from_millis(now().checked_sub(kept.time)?);
            let samples: HashMap<&String, &Sample> =
                kept.samples.iter().map(|(name, sample)| (name, sample)).collect();
            let samples: Option<Vec<Sample>> =
                self.names.iter().map(|name| samples.get(name).copied().copied()).collect();
            (age < valid && kept.key == self.key).then_some((age, samples?))
        };
        if valid.is_zero() || self.names.is_empty() {
            return None;
        }
        self.in_process().and_then(fresh).or_else(|| self.in_file().and_then(fresh))
    }

    /// Keeps what was measured, if all of it was.
    pub(super) fn keep(&self, targets: &[Measured]) {
        let samples = self.names.iter().zip(targets);
        let samples =
            samples.map(|(name, measured)| Some((name.clone(), *measured.outcome.as_ref().ok()?)));
        let Some(samples) = samples.collect::<Option<Vec<_>>>() else { return };
        let kept = Kept { time: now(), key: self.key.clone(), samples };
        // Without a file, the samples are kept in this process.
        let _ = self.path().map(|path| write(&path, &kept.to_text()));
        let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        here.insert((self.directory.clone(), self.key.clone()), kept);
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("probe-{:016x}", hash(self.key.as_bytes()))))
    }

    fn in_process(&self) -> Option<Kept> {
        let here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        here.get(&(self.directory.clone(), self.key.clone())).cloned()
    }

    fn in_file(&self) -> Option<Kept> {
        let mut text = String::new();
        let file = fs::File::open(self.path()?).ok()?;
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        Kept::from_text(&text)
    }

    /// Forgets what this process knows, as if it had just begun.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        here.remove(&(self.directory.clone(), self.key.clone()));
    }

    /// The file that samples are kept in.
    #[cfg(test)]
    pub(super) fn file(&self) -> PathBuf {
        self.path().unwrap()
    }
}

/// The same for the same target, whatever the current directory is.
fn full_name(target: &StorageTarget) -> String {
    if target.is_remote() {
        return target.to_string();
    }
    let base = target.base();
    let full = base.canonicalize().or_else(|_| std::path::absolute(&base)).unwrap_or(base);
    let number = target.number().map(|number| format!("#{number}")).unwrap_or_default();
    format!("{}{number}", full.display())
}

fn directory_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    set("STRIATE_CACHE_DIR")
        .or_else(|| Some(set("XDG_CACHE_HOME").filter(absolute)?.join("striate")))
        .or_else(|| Some(set("HOME").filter(absolute)?.join(".cache/striate")))
}

/// Under another name first, so that nobody reads a half.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let other = path.with_extension(format!("{}.part", process::id()));
    let write = || {
        let mut options = fs::File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&other)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&other, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&other)))
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_users() {
        let with = |set: &'static [(&str, &str)]| {
            directory_of(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("HOME", "/h")]), path("/h/.cache/striate"));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), path("/x/striate"));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "")]), path("/h/.cache/striate"));
        assert_eq!(with(&[("HOME", "/h"), ("STRIATE_CACHE_DIR", "/s")]), path("/s"));
    }
}
