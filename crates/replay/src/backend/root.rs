//! [`Root`]: the directory that stands for `/`.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use striate_recording::Progress;
use tempfile::TempDir;

use crate::contents::{Phase, WorkerBuffer};
use crate::error::ReplayError;
use crate::fix::Fix;
use crate::namespace::{FileType, Initial};

/// As much is written at a time.
const STEP: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    directory: OwnedFd,
    /// Removed with this.
    temporary: Option<TempDir>,
    /// Whether it is the real one, where nothing is touched but by recorded calls.
    real: bool,
}

impl Root {
    /// A new directory.
    pub(crate) fn temporary(within: Option<&Path>, keep: bool) -> Result<Self, ReplayError> {
        let within = within.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let made = tempfile::Builder::new().prefix("striate-replay-").tempdir_in(&within);
        let made = made.map_err(|error| ReplayError::make(&within, error))?;
        let mut root = Self::existing(made.path())?;
        if keep {
            root.path = made.keep();
        } else {
            root.temporary = Some(made);
        }
        Ok(root)
    }

    /// A directory that stays, which is created if it does not exist.
    pub(crate) fn existing(path: &Path) -> Result<Self, ReplayError> {
        let failed = |error| ReplayError::make(path, error);
        fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty());
        let directory = directory.map_err(|error| ReplayError::make(&path, error))?;
        let real = path.parent().is_none();
        Ok(Self { path, directory, temporary: None, real })
    }

    /// Where it is, if it stays.
    pub(super) fn kept(&self) -> Option<PathBuf> {
        self.temporary.is_none().then(|| self.path.clone())
    }

    /// A directory for files without names.
    pub(super) fn place(&self) -> PathBuf {
        if self.real { std::env::temp_dir() } else { self.path.clone() }
    }

    /// The directory that stands for `/`; `None` if that is itself.
    pub(super) fn stands_for_root(&self) -> Option<&Path> {
        (!self.real).then_some(&self.path)
    }

    /// Where paths start.
    pub(super) fn descriptor(&self) -> RawFd {
        self.directory.as_raw_fd()
    }

    /// A recorded path from here on.
    pub(super) fn relative(path: &Path) -> PathBuf {
        let parts = path.components().filter(|part| matches!(part, Component::Normal(_)));
        let relative: PathBuf = parts.collect();
        if relative.as_os_str().is_empty() { ".".into() } else { relative }
    }

    /// The same as the kernel takes it.
    pub(super) fn c_relative(path: &Path) -> CString {
        CString::new(Self::relative(path).as_os_str().as_bytes()).unwrap_or_default()
    }

    /// A recorded path as it is here.
    pub(super) fn full(&self, path: &Path) -> PathBuf {
        self.path.join(Self::relative(path))
    }

    /// Makes what existed before. Returns how many bytes.
    pub(super) fn make(&self, initial: &[Initial], watched: &Progress) -> Result<u64, ReplayError> {
        let (mut buffer, mut bytes) = (WorkerBuffer::default(), 0);
        for Initial { path, file_type, mode } in initial {
            if watched.is_stopped() {
                break;
            }
            let here = self.full(path);
            let made = match file_type {
                FileType::Directory => fs::create_dir_all(&here),
                FileType::Link(_) if here.symlink_metadata().is_ok() => continue,
                FileType::Link(to) => self.make_link(path, to),
                FileType::File(size) => {
                    let found = here.metadata().ok();
                    if found.is_some_and(|found| self.real || found.len() == *size) {
                        continue;
                    }
                    bytes += size;
                    self.make_file(path, *size, &mut buffer, watched)
                }
            };
            made.map_err(|error| ReplayError::make(&here, error))?;
            // The user of the replay has to be able to use it; rights of other users are not
            // extended.
            if let (FileType::File(_), Some(mode), false) = (file_type, mode, self.real) {
                let mode = fs::Permissions::from_mode(mode & 0o777 | 0o600);
                fs::set_permissions(&here, mode)
                    .map_err(|error| ReplayError::make(&here, error))?;
            }
        }
        // The first sync of a replay would have to write all of it. If it cannot be done, that is
        // slower.
        if bytes > 0
            && let Ok(directory) = File::open(&self.path)
        {
            let _ = rustix::fs::syncfs(directory);
        }
        Ok(bytes)
    }

    fn make_file(
        &self,
        path: &Path,
        size: u64,
        buffer: &mut WorkerBuffer,
        watched: &Progress,
    ) -> io::Result<()> {
        let here = self.full(path);
        if let Some(parent) = here.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(here)?;
        fill(&file, Phase::of(path), 0..size, buffer, watched)
    }

    /// What a symbolic link says so that it stays beneath the root, wherever it is moved: one that
    /// could lead out of it says where that is beneath the root.
    pub(super) fn link_text(&self, path: &Path, to: &Path) -> PathBuf {
        let may_lead_out =
            to.is_absolute() || to.components().any(|part| part == Component::ParentDir);
        if self.real || !may_lead_out {
            return to.to_path_buf();
        }
        let mut place = PathBuf::from("/");
        let above = path.parent().filter(|_| to.is_relative()).unwrap_or(Path::new("/"));
        for part in above.components().chain(to.components()) {
            match part {
                Component::Normal(name) => place.push(name),
                Component::ParentDir => drop(place.pop()),
                _ => {}
            }
        }
        self.full(&place)
    }

    /// Whether a link says something else than was recorded, so that it stays beneath the root.
    pub(super) fn is_rewritten(&self, text: &Path) -> bool {
        !self.real && text.starts_with(&self.path)
    }

    fn make_link(&self, path: &Path, to: &Path) -> io::Result<()> {
        let here = self.full(path);
        if let Some(parent) = here.parent() {
            fs::create_dir_all(parent)?;
        }
        std::os::unix::fs::symlink(self.link_text(path, to), here)
    }

    /// Corrects the state of files, as far as possible: remaining deviations are reported as
    /// differences.
    pub(super) fn fix(&self, fix: &Fix, buffer: &mut WorkerBuffer) {
        if self.real {
            return;
        }
        let _ = match fix {
            Fix::File(path, size) => self.make_file(path, *size, buffer, &Progress::default()),
            Fix::Directory(path) => fs::create_dir_all(self.full(path)),
            Fix::Link(path, to) => self.make_link(path, to),
            Fix::Size(path, size) => self.resize(path, *size, buffer),
            Fix::Nothing(path) => {
                let here = self.full(path);
                fs::remove_file(&here).or_else(|_| fs::remove_dir_all(&here))
            }
            Fix::Position(..) => Ok(()),
        };
    }

    fn resize(&self, path: &Path, size: u64, buffer: &mut WorkerBuffer) -> io::Result<()> {
        let here = self.full(path);
        if here.is_dir() {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(here)?;
        let now = file.metadata()?.len();
        if now > size {
            file.set_len(size)
        } else {
            fill(&file, Phase::of(path), now..size, buffer, &Progress::default())
        }
    }
}

/// Fills a part of a file.
fn fill(
    file: &File,
    phase: Phase,
    range: std::ops::Range<u64>,
    buffer: &mut WorkerBuffer,
    watched: &Progress,
) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end && !watched.is_stopped() {
        let count = (range.end - at).min(STEP as u64) as usize;
        file.write_all_at(buffer.bytes(phase, at, count, false), at)?;
        at += count as u64;
        watched.add(count as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_beneath_it() {
        for (path, relative) in
            [("/data/x", "data/x"), ("/", "."), ("/../../etc/x", "etc/x"), ("/a/./b//c", "a/b/c")]
        {
            assert_eq!(Root::relative(Path::new(path)), Path::new(relative), "{path}");
        }
    }

    #[test]
    fn links_stay_beneath_it() {
        let root = Root::temporary(None, false).unwrap();
        let text = |path: &str, to: &str| root.link_text(Path::new(path), Path::new(to));
        assert_eq!(text("/a/b", "c/d"), Path::new("c/d"));
        for (path, to, place) in [
            ("/a/b", "/etc/passwd", "/etc/passwd"),
            ("/a/b", "../c", "/c"),
            ("/a/b", "../../../../etc", "/etc"),
            ("/a/b", "x/../../..", "/"),
        ] {
            assert_eq!(text(path, to), root.full(Path::new(place)), "{path} -> {to}");
        }
    }

    #[test]
    fn files_are_made_and_made_good() {
        let root = Root::temporary(None, false).unwrap();
        let path = PathBuf::from("/deep/down/file");
        let initial = [
            Initial { path: "/empty".into(), file_type: FileType::Directory, mode: None },
            Initial { path: path.clone(), file_type: FileType::File(3_000_000), mode: Some(0o755) },
        ];
        assert_eq!(root.make(&initial, &Progress::default()).unwrap(), 3_000_000);
        let mut expected = vec![0; 3_000_000];
        Phase::of(&path).fill(0, &mut expected);
        assert!(fs::read(root.full(&path)).unwrap() == expected);
        let mut buffer = WorkerBuffer::default();
        for size in [10, 2_500_000] {
            root.fix(&Fix::Size(path.clone(), size), &mut buffer);
            assert!(fs::read(root.full(&path)).unwrap() == expected[..size as usize]);
        }
        root.fix(&Fix::Nothing("/deep".into()), &mut buffer);
        assert!(!root.full(&path).exists() && root.full(Path::new("/empty")).is_dir());
        let place = root.full(Path::new("/"));
        drop(root);
        assert!(!place.exists());
    }
}
