//! [`Cache`]: samples that are valid for a while, in the process and in a file in the user's cache
//! directory.
//!
//! Samples belong to a machine, a size and a set of targets. A probe in which a target failed is
//! not cached, so that a repaired target is seen at once. Files that cannot be read, written or
//! parsed are ignored.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use super::record::SampleFile;
use super::{Measured, ProbeOptions, Sample};
use crate::StorageTarget;
use crate::user_cache::{self, hash, now};

/// Samples by directory and key.
type SamplesByKey = HashMap<(Option<PathBuf>, String), SampleFile>;

/// Those of this process.
static IN_PROCESS: LazyLock<Mutex<SamplesByKey>> = LazyLock::new(Mutex::default);

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
        let directory = options.cache.clone().or_else(user_cache::directory);
        Self { directory, key, names }
    }

    /// The samples in the order of the targets, and their age, if they are not too old.
    pub(super) fn recall(&self, valid: Duration) -> Option<(Duration, Vec<Sample>)> {
        let fresh = |cached: SampleFile| {
            let age = Duration::from_millis(now().checked_sub(cached.time)?);
            let samples: HashMap<&String, &Sample> =
                cached.samples.iter().map(|(name, sample)| (name, sample)).collect();
            let samples: Option<Vec<Sample>> =
                self.names.iter().map(|name| samples.get(name).copied().copied()).collect();
            (age < valid && cached.key == self.key).then_some((age, samples?))
        };
        if valid.is_zero() || self.names.is_empty() {
            return None;
        }
        self.in_process().and_then(fresh).or_else(|| self.in_file().and_then(fresh))
    }

    /// Caches the samples, if all targets were measured.
    pub(super) fn store(&self, targets: &[Measured]) {
        let samples = self.names.iter().zip(targets);
        let samples =
            samples.map(|(name, measured)| Some((name.clone(), *measured.outcome.as_ref().ok()?)));
        let Some(samples) = samples.collect::<Option<Vec<_>>>() else { return };
        let cached = SampleFile { time: now(), key: self.key.clone(), samples };
        // Without a file, the samples are cached in this process.
        let _ = self.path().map(|path| user_cache::write(&path, &cached.to_text()));
        let mut in_process = IN_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        in_process.insert((self.directory.clone(), self.key.clone()), cached);
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("probe-{:016x}", hash(self.key.as_bytes()))))
    }

    fn in_process(&self) -> Option<SampleFile> {
        let in_process = IN_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        in_process.get(&(self.directory.clone(), self.key.clone())).cloned()
    }

    fn in_file(&self) -> Option<SampleFile> {
        SampleFile::from_text(&user_cache::read(&self.path()?)?)
    }

    /// Clears the cache of this process, as in a new one.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        let mut in_process = IN_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        in_process.remove(&(self.directory.clone(), self.key.clone()));
    }

    /// The file of the samples.
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
