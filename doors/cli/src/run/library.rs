//! Finding the library of the preload door.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::layout::{self, Library};
use crate::CommandError;

/// The variable of the loader.
pub(crate) const VARIABLE: &str = "LD_PRELOAD";
/// The variable that names it explicitly.
const OURS: &str = "STRIATE_PRELOAD";
const NAME: &str = "libstriate_preload.so";
const PACKAGE: &str = "striate-preload";
/// What the library carries before its version (`doors/preload/src/version.rs`).
const MARK: &[u8] = b"striate-preload version ";

/// Finds it: where it was said to be, here or in the environment, beside this program, or where
/// libraries of installed programs are.
pub(crate) fn find(said: Option<&Path>) -> Result<PathBuf, CommandError> {
    let in_environment = || env::var_os(OURS).filter(|path| !path.is_empty()).map(PathBuf::from);
    let is_file = |path: &PathBuf| path.canonicalize().ok().filter(|path| path.is_file());
    let missing = "the library to run programs with is missing";
    if let Some(path) = said.map(Path::to_path_buf).or_else(in_environment) {
        let Some(found) = is_file(&path) else {
            let hint = format!("without --preload and {OURS} it is looked for");
            return Err(CommandError::failed(missing, path.display().to_string(), hint));
        };
        return for_the_loader(found, OURS);
    }
    let program = env::current_exe().unwrap_or_default();
    let places = layout::directories(&program);
    let Some(found) = places.iter().map(|place| place.join(NAME)).find_map(|path| is_file(&path))
    else {
        let beside = places.first().map(|place| place.display().to_string()).unwrap_or_default();
        let reason = format!("{NAME} is neither in {beside} nor where libraries are installed");
        return Err(CommandError::failed(missing, reason, remedy()));
    };
    for_the_loader(found, OURS)
}

/// What makes it, as a command to paste.
pub(crate) fn remedy() -> String {
    let library = Library { package: PACKAGE, built: NAME, installed: NAME, mpi: None };
    library.command(&env::current_exe().unwrap_or_default())
}

/// The version that a library says it has; `None` if it is none of ours, or cannot be read.
pub(crate) fn version(library: &Path) -> Option<String> {
    let bytes = std::fs::read(library).ok()?;
    let start = bytes.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let end = start + bytes[start..].iter().take(64).position(|byte| *byte == b'\n')?;
    Some(String::from_utf8_lossy(&bytes[start..end]).into_owned())
}

/// A library whose name the loader can take; `variable` may say another.
pub(super) fn for_the_loader(found: PathBuf, variable: &str) -> Result<PathBuf, CommandError> {
    // The loader takes a list with these between its entries.
    if found.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        let message =
            format!("{}: the loader does not accept a name with spaces or colons", found.display());
        let hint = format!("copy it elsewhere and name it by {variable}");
        return Err(CommandError::usage(message, hint));
    }
    Ok(found)
}

/// The list for the loader: libraries that were on it before come first.
pub(super) fn with_others(libraries: &[&Path]) -> OsString {
    let mut list = env::var_os(VARIABLE);
    for library in libraries {
        list = Some(joined(list, library));
    }
    list.unwrap_or_default()
}

fn joined(others: Option<OsString>, library: &Path) -> OsString {
    let mut list = others.unwrap_or_default();
    let is_there = list.as_bytes().split(|byte| b" :".contains(byte));
    if is_there.into_iter().any(|entry| entry == library.as_os_str().as_bytes()) {
        return list;
    }
    if !list.is_empty() {
        list.push(":");
    }
    list.push(library);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_stay_on_the_list() {
        let ours = Path::new("/x/ours.so");
        for (before, after) in [
            (None, "/x/ours.so"),
            (Some(""), "/x/ours.so"),
            (Some("/a.so b.so"), "/a.so b.so:/x/ours.so"),
            (Some("/a.so:/x/ours.so"), "/a.so:/x/ours.so"),
        ] {
            assert_eq!(joined(before.map(OsString::from), ours), after);
        }
    }

    #[test]
    fn a_library_tells_its_version() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lib.so");
        std::fs::write(&path, b"\x7fELF striate-preload version 1.2.3\nmore").unwrap();
        assert_eq!(version(&path).as_deref(), Some("1.2.3"));
        std::fs::write(&path, b"\x7fELF striate-preload version 1.2.3").unwrap();
        assert_eq!(version(&path), None);
        assert_eq!(version(directory.path()), None);
    }
}
