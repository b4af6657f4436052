//! [`ProbeOptions`]: how targets are measured, by the names of hints, too.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use striate_datatype::parse_size;
use striate_layout::targets::DELTA;
use striate_store::AlignedBuffer;
use striate_store::store::Store;

use crate::hints::Switch;
use crate::{FileError, StorageTarget};

/// Where the data of a probe goes, in place of a file on the target.
pub trait TargetStores: Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// The store to write to for a target.
    fn open(&self, target: &StorageTarget) -> Result<Arc<dyn Store>, FileError>;
}

/// How targets are measured, and how long samples are valid.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// `nc_probe`: whether datasets choose among their targets. *Automatic*: if there are several.
    pub when: Switch,
    /// `nc_probe_size`: bytes that are written to each target, rounded up to whole pages.
    pub size: u64,
    /// `nc_probe_delta`: the part of the highest aggregate that may be given up to use more
    /// targets.
    pub delta: f64,
    /// `nc_probe_valid`: how long samples count. With 0, targets are measured in any case.
    pub valid: Duration,
    /// `nc_probe_limit`: the time that one target may take. What was written until then counts.
    pub limit: Duration,
    /// How many targets a rank measures at once.
    pub at_once: usize,
    /// The directory in which samples are cached beyond the end of the process. `None`:
    /// `$STRIATE_CACHE_DIR`, else `$XDG_CACHE_HOME/striate`, else `~/.cache/striate`.
    pub cache: Option<PathBuf>,
    /// Once it is set, the probe ends in order, with [`FileError::Interrupted`].
    pub stop: Option<Arc<AtomicBool>>,
    /// Counts the bytes that this process writes, for progress displays.
    pub written: Option<Arc<AtomicU64>>,
    /// Where the data goes, if not to files on the targets; for tests and simulations.
    pub stores: Option<Arc<dyn TargetStores>>,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            when: Switch::Automatic,
            size: 16 << 20,
            delta: DELTA,
            valid: Duration::from_secs(600),
            limit: Duration::from_secs(30),
            at_once: 4,
            cache: None,
            stop: None,
            written: None,
            stores: None,
        }
    }
}

impl ProbeOptions {
    /// Sets one hint; unknown ones are ignored.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FileError> {
        let (name, value) = (name.trim(), value.trim());
        self.set_by_name(name, value).map_err(|reason| FileError::Hint {
            name: name.into(),
            value: value.into(),
            reason,
        })
    }

    fn set_by_name(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "nc_probe" => self.when = value.parse()?,
            "nc_probe_size" => self.size = size(value)?,
            "nc_probe_delta" => self.delta = delta(value)?,
            "nc_probe_valid" => self.valid = time(value)?,
            "nc_probe_limit" => match time(value)? {
                Duration::ZERO => return Err("must be more than nothing".into()),
                limit => self.limit = limit,
            },
            _ => {}
        }
        Ok(())
    }

    /// The hints in effect, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, String)> {
        let time = |time: Duration| format!("{}ms", time.as_millis());
        [
            ("nc_probe", self.when.to_string()),
            ("nc_probe_size", self.size.to_string()),
            ("nc_probe_delta", self.delta.to_string()),
            ("nc_probe_valid", time(self.valid)),
            ("nc_probe_limit", time(self.limit)),
        ]
        .into_iter()
    }

    /// Whether a dataset with so many targets shall choose among them.
    pub fn is_wanted(&self, targets: usize) -> bool {
        match self.when {
            Switch::Enable => true,
            Switch::Disable => false,
            Switch::Automatic => targets > 1,
        }
    }

    /// The size in whole pages, so that all of it can bypass the page cache.
    pub(super) fn whole_size(&self) -> u64 {
        let page = AlignedBuffer::PAGE as u64;
        self.size.clamp(1, 1 << 40).next_multiple_of(page)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

fn size(value: &str) -> Result<u64, String> {
    let size = parse_size(value).map_err(|error| format!("is not a size: {error}"))?;
    if (1..=1 << 40).contains(&size) { Ok(size) } else { Err("must be from 1 to 1 TiB".into()) }
}

fn delta(value: &str) -> Result<f64, String> {
    let delta: Option<f64> = value.parse().ok();
    delta.filter(|delta| (0.0..=1.0).contains(delta)).ok_or_else(|| "must be from 0 to 1".into())
}

/// Digits and one of `us`, `ms`, `s`, `m`, `h`; without a unit, seconds.
fn time(value: &str) -> Result<Duration, String> {
    let nonsense = || "is not a duration such as 30s, 10m or 0".to_owned();
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let micros: u64 = match unit {
        "us" => 1,
        "ms" => 1000,
        "" | "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(nonsense()),
    };
    let number: Option<u64> = value[..value.len() - unit.len()].parse().ok();
    let micros = number.and_then(|number| number.checked_mul(micros));
    micros.map(Duration::from_micros).ok_or_else(nonsense)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_read_back() {
        let mut options = ProbeOptions::default();
        for (name, value) in [
            ("nc_probe", "disable"),
            ("nc_probe_size", "1MiB"),
            ("nc_probe_delta", "0.3"),
            ("nc_probe_valid", "2h"),
            (" nc_probe_limit ", " 250ms "),
            ("cb_nodes", "not ours"),
        ] {
            options.set(name, value).unwrap();
        }
        let listed: Vec<(&str, String)> = options.iter().collect();
        let listed: Vec<(&str, &str)> = listed.iter().map(|(n, v)| (*n, v.as_str())).collect();
        assert_eq!(
            listed,
            [
                ("nc_probe", "disable"),
                ("nc_probe_size", "1048576"),
                ("nc_probe_delta", "0.3"),
                ("nc_probe_valid", "7200000ms"),
                ("nc_probe_limit", "250ms"),
            ]
        );
        let mut again = ProbeOptions::default();
        for (name, value) in &listed {
            again.set(name, value).unwrap();
        }
        assert!(again.iter().eq(options.iter()));
        options.set("nc_probe_valid", "0").unwrap();
        assert_eq!(options.valid, Duration::ZERO);
    }

    #[test]
    fn malformed_values_name_the_hint() {
        for (name, value) in [
            ("nc_probe", "maybe"),
            ("nc_probe_size", "0"),
            ("nc_probe_size", "2 apples"),
            ("nc_probe_delta", "-0.1"),
            ("nc_probe_delta", "NaN"),
            ("nc_probe_delta", "20%"),
            ("nc_probe_valid", "soon"),
            ("nc_probe_valid", ""),
            ("nc_probe_limit", "0s"),
            ("nc_probe_limit", "99999999999999999999h"),
        ] {
            let error = ProbeOptions::default().set(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn automatic_is_from_two_targets_on() {
        let with = |when| ProbeOptions { when, ..ProbeOptions::default() };
        assert_eq!([0, 1, 2].map(|n| with(Switch::Automatic).is_wanted(n)), [false, false, true]);
        assert!(with(Switch::Enable).is_wanted(1) && !with(Switch::Disable).is_wanted(9));
    }

    #[test]
    fn sizes_are_whole_pages() {
        let whole = |size| ProbeOptions { size, ..ProbeOptions::default() }.whole_size();
        assert_eq!([0, 1, 4096, 4097, u64::MAX].map(whole), [4096, 4096, 4096, 8192, 1 << 40]);
    }
}
