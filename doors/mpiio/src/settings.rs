//! [`Settings`]: the settings in the environment, read once.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

use globset::{Glob, GlobSet, GlobSetBuilder};
use striate_process::say;

use crate::romio_prefix;

/// What the environment says.
#[derive(Debug)]
pub(crate) struct Settings {
    /// `STRIATE_MPIIO_EXCLUDE`: files that are left to the MPI's own implementation.
    exclude: GlobSet,
    /// `STRIATE_MPIIO_MAP`: beginnings of names, and what stands for them.
    map: Vec<(OsString, OsString)>,
    /// `STRIATE_MPIIO_VERBOSE`: whether errors are printed on standard error.
    pub(crate) verbose: bool,
    /// `STRIATE_MPIIO_STATS`: whether a summary is printed when a file is closed.
    pub(crate) stats: bool,
}

impl Settings {
    /// Those of this process.
    pub(crate) fn get() -> &'static Self {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(Self::from_environment)
    }

    fn from_environment() -> Self {
        Self {
            exclude: patterns(&env::var("STRIATE_MPIIO_EXCLUDE").unwrap_or_default()),
            map: mapping(&env::var_os("STRIATE_MPIIO_MAP").unwrap_or_default()),
            verbose: is_on("STRIATE_MPIIO_VERBOSE"),
            stats: is_on("STRIATE_MPIIO_STATS"),
        }
    }

    /// Whether the file of this name is left to the MPI's own implementation.
    pub(crate) fn excludes(&self, name: &OsStr) -> bool {
        !self.exclude.is_empty() && self.exclude.is_match(romio_prefix::without_prefix(name))
    }

    /// Where the file of this name lies: a path, or the URL of a file on I/O servers.
    pub(crate) fn place(&self, name: &OsStr) -> OsString {
        let name = romio_prefix::without_prefix(name);
        let mapped = self.map.iter().find_map(|(from, to)| {
            let rest = name.as_bytes().strip_prefix(from.as_bytes())?;
            Some(OsString::from_vec([to.as_bytes(), rest].concat()))
        });
        mapped.unwrap_or_else(|| name.to_owned())
    }
}

/// Globs with commas between them; an invalid one is reported and left out.
fn patterns(text: &str) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in text.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()) {
        match Glob::new(pattern) {
            Ok(glob) => {
                set.add(glob);
            }
            Err(error) => {
                say(format_args!("striate-mpiio: STRIATE_MPIIO_EXCLUDE: {error}; left out\n"));
            }
        }
    }
    set.build().unwrap_or_else(|error| {
        say(format_args!("striate-mpiio: STRIATE_MPIIO_EXCLUDE: {error}; nothing is excluded\n"));
        GlobSet::empty()
    })
}

/// `from=to` with semicolons between them; the first that fits counts.
fn mapping(text: &OsStr) -> Vec<(OsString, OsString)> {
    let owned = |bytes: &[u8]| OsStr::from_bytes(bytes.trim_ascii()).to_owned();
    let entries = text.as_bytes().split(|&byte| byte == b';');
    entries
        .filter(|entry| !entry.trim_ascii().is_empty())
        .filter_map(|entry| {
            let split = entry.iter().position(|&byte| byte == b'=').filter(|&at| at > 0);
            if split.is_none() {
                let entry = OsStr::from_bytes(entry).display();
                say(format_args!(
                    "striate-mpiio: STRIATE_MPIIO_MAP: '{entry}' is not from=to; left out\n"
                ));
            }
            split.map(|at| (owned(&entry[..at]), owned(&entry[at + 1..])))
        })
        .collect()
}

fn is_on(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}
