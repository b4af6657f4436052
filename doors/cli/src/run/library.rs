//! Where the library of the preload door is.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::CommandError;

/// The variable by which the loader is told.
pub(super) const VARIABLE: &str = "LD_PRELOAD";
/// The variable by which people tell us.
const OURS: &str = "STRIATE_PRELOAD";
const NAME: &str = "libstriate_preload.so";
const HINT: &str = "'cargo build --workspace' makes it; STRIATE_PRELOAD may say where it is";

/// Finds it: where it was said to be, here or in the environment, beside this program, or where packages put
/// libraries.
pub(crate) fn find(said: Option<&Path>) -> Result<PathBuf, CommandError> {
    let in_environment = || env::var_os(OURS).filter(|path| !path.is_empty()).map(PathBuf::from);
    let candidates = match said.map(Path::to_path_buf).or_else(in_environment) {
        Some(path) => vec![path],
        None => candidates(&env::current_exe().unwrap_or_default()),
    };
    let found = candidates.iter().find_map(|path| path.canonicalize().ok());
    let Some(found) = found.filter(|path| path.is_file()) else {
        let places: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
        let places = places.join(", nor ");
        return Err(CommandError::failed(
            "the library to run programs with is missing",
            places,
            HINT,
        ));
    };
    for_the_loader(found, OURS)
}

/// A library whose name the loader can take; `variable` may say another.
pub(super) fn for_the_loader(found: PathBuf, variable: &str) -> Result<PathBuf, CommandError> {
    // The loader takes a list with these between its entries.
    if found.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        let message =
            format!("{}: the loader cannot take a name with spaces or colons", found.display());
        let hint = format!("copy it elsewhere and say so by {variable}");
        return Err(CommandError::usage(message, hint));
    }
    Ok(found)
}

fn candidates(program: &Path) -> Vec<PathBuf> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
    let beside = program.parent().unwrap_or(Path::new("."));
    vec![
        beside.join(NAME),
        beside.join("../lib/striate").join(NAME),
        beside.join("../lib").join(NAME),
    ]
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
    fn it_is_looked_for_beside_the_program() {
        let places = candidates(Path::new("/nowhere/bin/striate"));
        assert_eq!(places[0], Path::new("/nowhere/bin/libstriate_preload.so"));
        assert!(places[1].ends_with("../lib/striate/libstriate_preload.so"));
    }
}
