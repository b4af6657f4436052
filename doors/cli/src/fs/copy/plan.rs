//! The plan of a copy: all files and their destinations, before the first byte is copied.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use striate_store::ErrorKind;

use super::location::Location;
use crate::CommandError;
use crate::fs::as_directory;
use crate::fs::file_url::FileUrl;

/// One file to copy.
#[derive(Debug, PartialEq)]
pub(crate) struct CopyJob {
    pub(crate) from: Location,
    pub(crate) to: Location,
    /// Its size, as far as it is known before it is opened.
    pub(crate) bytes: u64,
}

/// What a source stands for.
enum CopySource {
    File {
        bytes: u64,
    },
    /// Files by their names in the directory, with their sizes.
    Directory(Vec<(String, u64)>),
}

/// All files to copy.
pub(crate) fn plan(
    sources: &[Location],
    destination: &Location,
    recursive: bool,
) -> Result<Vec<CopyJob>, CommandError> {
    let several = sources.len() > 1;
    let into =
        is_directory(destination)? || (several && !matches!(destination, Location::Local(_)));
    if several && !into {
        return Err(CommandError::usage(
            format!("several files cannot be copied to {destination}: it is no directory"),
            "make the directory first",
        ));
    }
    let mut jobs = Vec::new();
    for source in sources {
        if let (Location::Local(_), Location::Local(_)) = (source, destination) {
            let hint = "at least one of them must be a URL, such as striate://host/path, \
                        rados://pool/namespace/name or s3://bucket/key";
            return Err(CommandError::usage(
                format!("neither {source} nor {destination} is a URL"),
                hint,
            ));
        }
        let name = name(source)?;
        let target = match (into, name.is_empty()) {
            (true, false) => destination.inside(&name)?,
            _ => destination.clone(),
        };
        match look(source)? {
            CopySource::File { bytes } => {
                jobs.push(CopyJob { from: source.clone(), to: target, bytes });
            }
            CopySource::Directory(_) if !recursive => {
                return Err(CommandError::usage(
                    format!("{source} is a directory"),
                    "-r copies it with its contents",
                ));
            }
            CopySource::Directory(files) => {
                for (name, bytes) in files {
                    let (from, to) = (source.inside(&name)?, target.inside(&name)?);
                    jobs.push(CopyJob { from, to, bytes });
                }
            }
        }
    }
    let mut seen = HashSet::new();
    match jobs.iter().find(|job| !seen.insert(&job.to)) {
        None => Ok(jobs),
        Some(twice) => Err(CommandError::usage(
            format!("two sources would be copied to {}", twice.to),
            "copy them to different directories",
        )),
    }
}

/// Whether sources go into the place rather than become it.
fn is_directory(place: &Location) -> Result<bool, CommandError> {
    match place {
        Location::Local(path) => {
            Ok(path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/"))
        }
        Location::Remote(url) => is_directory_there(&FileUrl::Servers(url.clone())),
        Location::Pool(url) => is_directory_there(&FileUrl::Pool(url.clone())),
        Location::Object(url) => is_directory_there(&FileUrl::Object(url.clone())),
    }
}

fn is_directory_there(url: &FileUrl) -> Result<bool, CommandError> {
    let path = url.path();
    Ok(path.is_empty() || path.ends_with('/') || url.has_any(&as_directory(path))?)
}

/// The last part of a name; empty for a whole file system.
fn name(place: &Location) -> Result<String, CommandError> {
    match place {
        Location::Remote(url) => Ok(last_part(&url.path)),
        Location::Pool(url) => Ok(last_part(&url.name)),
        Location::Object(url) => Ok(last_part(&url.key)),
        Location::Local(path) => {
            // What '.' and '..' are called can be seen in the whole path only.
            let whole = if path.file_name().is_none() { path.canonicalize().ok() } else { None };
            let name = whole.as_deref().unwrap_or(path).file_name().unwrap_or_default();
            text(Path::new(name))
        }
    }
}

fn last_part(path: &str) -> String {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

fn look(place: &Location) -> Result<CopySource, CommandError> {
    match place {
        Location::Remote(url) => look_there(&FileUrl::Servers(url.clone())),
        Location::Pool(url) => look_there(&FileUrl::Pool(url.clone())),
        Location::Object(url) => look_there(&FileUrl::Object(url.clone())),
        Location::Local(path) => {
            let found = look_at(path)?;
            if !found.is_dir() {
                only_files(path, &found)?;
                return Ok(CopySource::File { bytes: found.len() });
            }
            let mut files = Vec::new();
            walk(path, "", &mut files)?;
            Ok(CopySource::Directory(files))
        }
    }
}

fn look_there(url: &FileUrl) -> Result<CopySource, CommandError> {
    let path = url.path();
    let inside = as_directory(path);
    if inside != path {
        match url.size() {
            Ok(bytes) => return Ok(CopySource::File { bytes }),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            Err(error) => {
                let files = url.list(&inside)?;
                // The complaint that there is no file says most if there is no directory either.
                return if files.is_empty() {
                    Err(error.into())
                } else {
                    Ok(below(&inside, files))
                };
            }
        }
    }
    Ok(below(&inside, url.list(&inside)?))
}

fn below(directory: &str, files: Vec<striate_store::remote::FileInfo>) -> CopySource {
    let name = |path: &str| path.strip_prefix(directory).unwrap_or(path).to_owned();
    // Other tools make an object of that name to have a directory.
    let files = files.into_iter().filter(|file| file.path != directory);
    CopySource::Directory(files.map(|file| (name(&file.path), file.size)).collect())
}

/// The files in a directory and in those in it, in the order of their names.
fn walk(
    directory: &Path,
    prefix: &str,
    files: &mut Vec<(String, u64)>,
) -> Result<(), CommandError> {
    let failed = |error| unreadable(directory, error);
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = format!("{prefix}{}", text(Path::new(&entry.file_name()))?);
        let kind = entry.file_type().map_err(|error| unreadable(&path, error))?;
        if kind.is_dir() {
            walk(&path, &format!("{name}/"), files)?;
            continue;
        }
        // A link counts as the file that it leads to; one to a directory could lead in a circle.
        let found = look_at(&path)?;
        only_files(&path, &found)?;
        files.push((name, found.len()));
    }
    Ok(())
}

fn only_files(path: &Path, found: &fs::Metadata) -> Result<(), CommandError> {
    if found.is_file() {
        return Ok(());
    }
    let (what, hint) = if found.is_dir() {
        ("a link to a directory", "nothing was copied; copy that directory by its own name")
    } else {
        (
            "neither file nor directory",
            "nothing was copied; remove it, or copy the other files by name",
        )
    };
    let attempted = format!("cannot copy {}", path.display());
    Err(CommandError::failed(attempted, format!("it is {what}"), hint))
}

/// What a path or the link there leads to.
fn look_at(path: &Path) -> Result<fs::Metadata, CommandError> {
    fs::metadata(path).map_err(|error| match fs::read_link(path) {
        Ok(target) if error.kind() == std::io::ErrorKind::NotFound => CommandError::failed(
            format!("cannot copy {}", path.display()),
            format!("it is a link to {}, which does not exist", target.display()),
            "nothing was copied; remove the link, or copy the other files by name",
        ),
        _ => unreadable(path, error),
    })
}

fn text(name: &Path) -> Result<String, CommandError> {
    name.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::failed(
            format!("cannot copy {}", name.display()),
            "names of files on servers are UTF-8",
            "rename it first",
        )
    })
}

fn unreadable(path: &Path, error: std::io::Error) -> CommandError {
    CommandError::failed(format!("cannot look at {}", path.display()), error, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Location {
        Location::new(text.into()).unwrap()
    }

    #[test]
    fn trees_are_walked_in_order() {
        let place = tempfile::tempdir().unwrap();
        for (name, bytes) in [("b/2", 2), ("b/1", 1), ("a", 3), ("b/c/d", 4)] {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        }
        std::os::unix::fs::symlink("a", place.path().join("z")).unwrap();
        let mut files = Vec::new();
        walk(place.path(), "", &mut files).unwrap();
        let expected = [("a", 3), ("b/1", 1), ("b/2", 2), ("b/c/d", 4), ("z", 3)];
        assert_eq!(files, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
        std::os::unix::fs::symlink(".", place.path().join("loop")).unwrap();
        let error = walk(place.path(), "", &mut files).unwrap_err().to_string();
        assert!(error.contains("a link to a directory"), "{error}");
    }

    #[test]
    fn names_are_the_last_parts() {
        for (text, expected) in
            [("a/b", "b"), ("a/b/", "b"), ("striate://h/x/y/", "y"), ("striate://h", "")]
        {
            assert_eq!(name(&place(text)).unwrap(), expected, "{text}");
        }
        assert!(!name(&place(".")).unwrap().is_empty());
    }

    #[test]
    fn one_side_is_on_servers() {
        let error = plan(&[place("a")], &place("b"), false).unwrap_err();
        assert!(matches!(error, CommandError::Usage { .. }));
    }
}
