//! Measured costs, cached in a file for a day.
//!
//! A program that is started again and again would spend more time on measuring costs than it gains
//! by knowing them. Costs belong to a device of a machine since its last boot; a build without
//! optimisation copies slower, and has its own. A measurement of a busy hour is used for a day, so
//! disturbances are kept out of it (`try_file`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{COSTS, Costs};
use crate::user_cache;

/// The first line of a cache file.
const VERSION: &str = "striate-costs 3";

/// How long a cache file is valid.
const VALID: Duration = Duration::from_secs(24 * 60 * 60);

/// The cached costs of a device, or else those that `try_out` measures, which are cached.
pub(crate) fn recall(device: u64, try_out: impl FnOnce() -> Costs) -> Costs {
    recall_in(user_cache::directory().as_deref(), device, try_out)
}

fn recall_in(directory: Option<&Path>, device: u64, try_out: impl FnOnce() -> Costs) -> Costs {
    let key = key(device);
    let path = directory.map(|directory| cache_file(directory, &key));
    let known = path.as_deref().and_then(user_cache::read);
    if let Some(costs) = known.and_then(|text| parse(&text, &key, user_cache::now())) {
        return costs;
    }
    let costs = try_out();
    // Without a cache file, the next process measures again.
    let _ = path.map(|path| user_cache::write(&path, &to_text(&costs, &key, user_cache::now())));
    costs
}

fn cache_file(directory: &Path, key: &str) -> PathBuf {
    directory.join(format!("costs-{:016x}", user_cache::hash(key.as_bytes())))
}

fn key(device: u64) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let start = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let build = if cfg!(debug_assertions) { "checked" } else { "fast" };
    format!("{host} {} {device} {build} {}", start.trim(), env!("CARGO_PKG_VERSION"))
}

fn to_text(costs: &Costs, key: &str, now: u64) -> String {
    let mut text = format!("{VERSION}\n{key}\n{now}\n");
    for number in costs.to_array() {
        let _ = writeln!(text, "{number:e}");
    }
    let sum = user_cache::hash(text.as_bytes());
    let _ = writeln!(text, "{sum:016x}");
    text
}

/// The costs in a cache file, if it is undamaged, has this key, and is not too old.
fn parse(text: &str, key: &str, now: u64) -> Option<Costs> {
    let (body, sum) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let whole = format!("{:016x}", user_cache::hash(format!("{body}\n").as_bytes())) == sum;
    let mut lines = body.lines();
    let matches_key = lines.next()? == VERSION && lines.next()? == key;
    let age = Duration::from_millis(now.checked_sub(lines.next()?.parse().ok()?)?);
    let numbers: Vec<f64> = lines.map(|line| line.parse().ok()).collect::<Option<_>>()?;
    let numbers: [f64; COSTS] = numbers.try_into().ok()?;
    let sane = numbers.iter().all(|number| number.is_finite() && *number > 0.0);
    (whole && matches_key && sane && age < VALID).then(|| Costs::from_array(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Costs {
        Costs { write_op: 1.25e-7, ..Costs::default() }
    }

    #[test]
    fn costs_are_measured_once() {
        let place = tempfile::tempdir().unwrap();
        let directory = Some(place.path());
        assert_eq!(recall_in(directory, 7, some), some());
        let again = || panic!("they are cached");
        assert_eq!(recall_in(directory, 7, again), some());
        // Another device has no cached costs; nor is there a cache without a directory.
        assert_eq!(recall_in(directory, 8, Costs::default), Costs::default());
        assert_eq!(recall_in(None, 7, Costs::default), Costs::default());
        assert_eq!(recall_in(Some("/dev/null/x".as_ref()), 7, some), some());
    }

    #[test]
    fn damaged_old_or_foreign_cache_files_are_ignored() {
        let text = to_text(&some(), "key", 1000);
        assert_eq!(parse(&text, "key", 1000), Some(some()));
        assert_eq!(parse(&text, "other", 1000), None);
        assert_eq!(parse(&text, "key", 999), None);
        assert_eq!(parse(&text, "key", 1000 + VALID.as_millis() as u64), None);
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end], "key", 1000), None, "{end}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(parse(&String::from_utf8_lossy(&bytes), "key", 1000), None, "{at}");
        }
        let wrong = to_text(&Costs { write_op: 0.0, ..some() }, "key", 1000);
        assert_eq!(parse(&wrong, "key", 1000), None);
    }
}
