//! Small files in the user's cache directory, in which measurements outlive a process.
//!
//! A cache file only saves time: one that cannot be read or written is treated as if it did not
//! exist.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, process};

/// A longer file was not written by this module.
const LONGEST: u64 = 16 << 20;

/// The directory: the user's cache directory, or `STRIATE_CACHE_DIR`.
pub(crate) fn directory() -> Option<PathBuf> {
    directory_of(|name| env::var_os(name))
}

fn directory_of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let absolute = |path: &PathBuf| path.is_absolute();
    set("STRIATE_CACHE_DIR")
        .or_else(|| Some(set("XDG_CACHE_HOME").filter(absolute)?.join("striate")))
        .or_else(|| Some(set("HOME").filter(absolute)?.join(".cache/striate")))
}

pub(crate) fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Writes under another name first, so that no process reads a part of it.
pub(crate) fn write(path: &Path, text: &str) -> std::io::Result<()> {
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
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// FNV-1a: the same in every process, unlike the hashes of the standard library.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_that_of_the_user() {
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
