//! File names: of partitions, of unpublished masters, and of partitions as masters list them
//! (relative below the directory of the master, absolute elsewhere).

use std::path::{Path, PathBuf};

use striate_file::{FileError, StorageTarget};

use crate::ArrayError;

pub(crate) fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Whether a path is the URL of a file on I/O servers.
pub(crate) fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(is_url)
}

/// An absolute path, without resolving links.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// The directory of a file, as a storage target.
pub(crate) fn directory_of(master: &Path) -> Result<StorageTarget, FileError> {
    if let Some(url) = master.to_str().filter(|text| is_url(text)) {
        return url.rsplit_once('/').map_or(url, |(directory, _)| directory).parse();
    }
    let parent = master.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(StorageTarget::directory(parent.unwrap_or(Path::new("."))))
}

/// The last component of a path or URL.
pub(crate) fn file_name(master: &Path) -> String {
    let text = master.to_string_lossy();
    text.rsplit_once('/').map_or_else(|| text.to_string(), |(_, name)| name.to_owned())
}

/// Suffix of the name of a master before it is published.
pub(crate) const UNPUBLISHED: &str = ".unpublished";

/// The name of a master before it is published.
pub(crate) fn unpublished(master: &Path) -> PathBuf {
    with_suffix(master, UNPUBLISHED)
}

/// Whether a name is that of a master before it is published.
pub(crate) fn is_unpublished(path: &Path) -> bool {
    file_name(path).ends_with(UNPUBLISHED)
}

/// A name with a suffix.
pub(crate) fn with_suffix(master: &Path, suffix: &str) -> PathBuf {
    let mut name = master.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The name of partition `k`.
pub(crate) fn part_name(master: &Path, k: usize, id: &str) -> String {
    let name = file_name(master);
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    let stem = if stem.is_empty() { name.as_str() } else { stem };
    format!("{stem}.part{k:04}-{}.nc", &id[..id.len().min(8)])
}

/// The name under which a master lists a file: relative to its own directory, if the file is in or
/// below it.
pub(crate) fn listed(master: &Path, part: &Path) -> Result<String, ArrayError> {
    let refuse = |reason: &str| ArrayError::Partition {
        file: part.display().to_string(),
        reason: reason.into(),
    };
    let text = part.to_str().ok_or_else(|| refuse("its name is not UTF-8"))?;
    if text.contains('\n') {
        return Err(refuse("its name contains a line break"));
    }
    let directory = directory_of(master)?.base();
    if is_url(text) {
        let directory = directory.to_string_lossy();
        let directory = directory.trim_end_matches('/');
        let below = text.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
        return Ok(below.filter(|rest| !rest.is_empty()).unwrap_or(text).to_owned());
    }
    let whole = absolute(part);
    let below = match directory.to_str() {
        Some(url) if is_url(url) => None,
        _ => whole.strip_prefix(absolute(&directory)).ok(),
    };
    let listed = below.unwrap_or(&whole).to_str();
    Ok(listed.ok_or_else(|| refuse("its name is not UTF-8"))?.to_owned())
}

/// The file that a master lists under a name.
pub(crate) fn resolved(master: &Path, name: &str) -> PathBuf {
    if is_url(name) || Path::new(name).is_absolute() {
        return name.into();
    }
    directory_of(master).map_or_else(|_| name.into(), |directory| directory.path(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_names_resolve_to_the_file() {
        let id = "0123456789abcdef";
        for (master, part, name) in [
            ("/data/run/a.nc", "/data/run/p.nc", "p.nc"),
            ("/data/run/a.nc", "/data/run/0/p.nc", "0/p.nc"),
            ("/data/run/a.nc", "/data/p.nc", "/data/p.nc"),
            ("/data/run/a.nc", "/data/runs/p.nc", "/data/runs/p.nc"),
            ("/data/run/a.nc", "striate://h:1/p.nc", "striate://h:1/p.nc"),
            ("striate://h:1/run/a.nc", "striate://h:1/run/p.nc", "p.nc"),
            ("striate://h:1/a.nc", "striate://h:1/0/p.nc", "0/p.nc"),
            ("striate://h:1/run/a.nc", "striate://h:1/p.nc", "striate://h:1/p.nc"),
            ("striate://h:1/a.nc", "/data/p.nc", "/data/p.nc"),
        ] {
            let (master, part) = (Path::new(master), Path::new(part));
            assert_eq!(listed(master, part).unwrap(), name);
            assert_eq!(resolved(master, name), part, "{name}");
        }
        // Relative to the working directory.
        let part = listed(Path::new("a.nc"), Path::new("./p.nc")).unwrap();
        assert_eq!((part.as_str(), resolved(Path::new("a.nc"), &part)), ("p.nc", "./p.nc".into()));
        assert!(listed(Path::new("a.nc"), Path::new("a\nb.nc")).is_err());
        assert_eq!(part_name(Path::new("/x/run.7.nc"), 3, id), "run.7.part0003-01234567.nc");
        assert_eq!(part_name(Path::new("striate://h:1/a"), 12345, id), "a.part12345-01234567.nc");
        assert_eq!(unpublished(Path::new("/x/a.nc")), Path::new("/x/a.nc.unpublished"));
    }
}
