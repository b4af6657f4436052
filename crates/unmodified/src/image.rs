//! [`Image`]: the names, types, permissions and contents of a directory tree.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What a name stands for.
#[derive(Clone, PartialEq, Eq)]
enum Entry {
    Directory,
    Link(PathBuf),
    File { mode: u32, links: u64, bytes: Vec<u8> },
    Other,
}

/// All names below a directory, and what they stand for.
#[derive(Clone, PartialEq, Eq)]
pub struct Image(BTreeMap<PathBuf, Entry>);

impl Image {
    /// The image of a directory, without names that `ignored` says.
    pub fn of(directory: &Path, ignored: fn(&str) -> bool) -> Self {
        let mut image = Self(BTreeMap::new());
        image.add(directory, directory, ignored);
        image
    }

    fn add(&mut self, root: &Path, directory: &Path, ignored: fn(&str) -> bool) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_path_buf();
            if ignored(name.to_str().unwrap()) {
                continue;
            }
            let about = fs::symlink_metadata(&path).unwrap();
            let what = if about.is_dir() {
                self.add(root, &path, ignored);
                Entry::Directory
            } else if about.is_symlink() {
                Entry::Link(fs::read_link(&path).unwrap())
            } else if about.is_file() {
                let mode = about.permissions().mode() & 0o7777;
                Entry::File { mode, links: about.nlink(), bytes: fs::read(&path).unwrap() }
            } else {
                Entry::Other
            };
            self.0.insert(name, what);
        }
    }

    /// How another one differs from this, in words; nothing if it does not.
    pub fn difference(&self, other: &Self) -> Vec<String> {
        let mut told = Vec::new();
        for (name, entry) in &self.0 {
            match other.0.get(name) {
                None => told.push(format!("{} is missing", name.display())),
                Some(found) if found != entry => {
                    told.push(format!("{}: {}", name.display(), entry.difference(found)));
                }
                Some(_) => {}
            }
        }
        for name in other.0.keys().filter(|name| !self.0.contains_key(*name)) {
            told.push(format!("{} should not be there", name.display()));
        }
        told
    }
}

impl Entry {
    fn difference(&self, found: &Self) -> String {
        let (
            Self::File { mode, links, bytes },
            Self::File { mode: mode_found, links: links_found, bytes: bytes_found },
        ) = (self, found)
        else {
            return "something else".into();
        };
        if bytes == bytes_found {
            return format!(
                "mode {mode:o} became {mode_found:o}, or {links} links became {links_found}"
            );
        }
        let first = bytes.iter().zip(bytes_found).position(|(a, b)| a != b);
        let first = first.unwrap_or(bytes.len().min(bytes_found.len()));
        let wrong = bytes.iter().zip(bytes_found).filter(|(a, b)| a != b).count();
        format!(
            "{} bytes became {}; {wrong} differ, the first at {first}",
            bytes.len(),
            bytes_found.len()
        )
    }
}
