//! Other people's netCDF tools, and the same text from ncdump and from our command.

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Output};

use crate::tools::{answer, striate};

/// Another command, in the C locale.
pub(crate) fn tool<I: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = I>) -> Output {
    let output = Command::new(name).args(arguments).env("LC_ALL", "C").output();
    output.unwrap_or_else(|error| panic!("{name}: {error} (netcdf-bin and pnetcdf-bin have it)"))
}

/// Fails if two texts differ, and shows the first lines that do.
pub(crate) fn assert_same_text(ours: &[u8], theirs: &[u8], about: impl Display) {
    if ours == theirs {
        return;
    }
    let [a, b] = [ours, theirs].map(|text| String::from_utf8_lossy(text).into_owned());
    let line = a.lines().zip(b.lines()).position(|(a, b)| a != b);
    let at = line.unwrap_or(a.lines().count().min(b.lines().count()));
    panic!("{about}: line {at}:\n{:?}\nbut ncdump:\n{:?}", a.lines().nth(at), b.lines().nth(at));
}

/// `striate nc dump` and `ncdump` print the same.
pub(crate) fn assert_same_dump(options: &[&str], path: &Path) {
    let about = format!("{options:?} {}", path.display());
    let with_path = || options.iter().map(OsStr::new).chain([path.as_os_str()]);
    let ours = striate([OsStr::new("dump")].into_iter().chain(with_path()));
    let theirs = tool("ncdump", with_path());
    assert_same_text(&answer(ours, &about), &answer(theirs, &about), &about);
}
