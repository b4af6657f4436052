//! The files of a benchmark, on a file system or on servers: created by rank 0, and removed at the
//! end, also after a signal.

use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use striate_file::Hints;
use striate_store::remote::{Client, Layout, RemoteFile, RemoteOptions, RemoteUrl};
use striate_store::{ErrorKind, PosixFile, PosixOptions, Store};

use super::signal_cleanup::{SignalCleanup, hold_off};
use super::{IoBenchError, IoOp};

/// How long the removal of a directory goes on in which other threads make files.
const MOST_REMOVAL: Duration = Duration::from_secs(5);

/// A directory of one's own. It is gone with all that is in it when this is dropped, and when a
/// signal ends the program.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
    _signal_cleanup: SignalCleanup,
}

impl ScratchDirectory {
    /// Makes one in `directory`.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let run = RandomState::new().hash_one(std::process::id());
        let path = directory.join(format!("striate-{run:016x}"));
        fs::create_dir(&path)?;
        let signal_cleanup = SignalCleanup::new({
            let path = path.clone();
            move || {
                // Other threads may still write there, until they get an error. An error cannot be
                // handled here nor below.
                let begun = Instant::now();
                while fs::remove_dir_all(&path).is_err()
                    && path.exists()
                    && begun.elapsed() < MOST_REMOVAL
                {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        Ok(Self { path, _signal_cleanup: signal_cleanup })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}

/// The names of a benchmark's files. On rank 0 they are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    paths: Vec<PathBuf>,
    layout: Layout,
    /// There on rank 0, unless the files were there before.
    signal_cleanup: Option<SignalCleanup>,
    keep: bool,
}

impl Scratch {
    /// So many files in `directory`, or on servers if that is a URL, with a `name` of their own.
    pub(crate) fn new(
        directory: &Path,
        name: &str,
        files: u64,
        hints: &Hints,
        owner: bool,
    ) -> Self {
        let path = |file: u64| match files {
            1 => directory.join(name),
            _ => directory.join(format!("{name}.{file}")),
        };
        let paths: Vec<PathBuf> = (0..files).map(path).collect();
        let signal_cleanup = owner.then(|| {
            let paths = paths.clone();
            SignalCleanup::new(move || remove_all(&paths))
        });
        let small = |number: Option<u64>| number.and_then(|n| u32::try_from(n).ok());
        let layout = Layout {
            strip: hints.striping_unit.unwrap_or(Layout::default().strip),
            servers: small(hints.striping_factor),
            first: small(hints.start_iodevice),
        };
        Self { paths, layout, signal_cleanup, keep: false }
    }

    /// The same; the files stay when this is dropped, but not when a signal ends the program.
    pub(super) fn keeping(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// The name of a file.
    pub(crate) fn path(&self, file: u64) -> &Path {
        &self.paths[file as usize]
    }

    /// Removes all files, and what belongs to them on servers: partitions are named after their
    /// master.
    pub(crate) fn clear(&self) -> Result<(), IoBenchError> {
        self.paths.iter().try_for_each(|path| remove(path).and_then(|()| remove_kin(path)))
    }

    /// Creates all files again, empty.
    pub(super) fn renew(&self) -> Result<(), IoBenchError> {
        // A file that is made after a signal's thread has removed all would stay.
        let _made = hold_off();
        for path in &self.paths {
            remove(path)?;
            if let Some(url) = remote(path)? {
                Client::shared(&url)?.create(&url.path, &self.layout, true)?;
            } else {
                let made = OpenOptions::new().write(true).create_new(true).open(path);
                made.map_err(failed("make the file", path))?;
            }
        }
        Ok(())
    }

    /// A file, without any engine.
    pub(super) fn open(&self, file: u64, op: IoOp) -> Result<Arc<dyn Store>, IoBenchError> {
        let path = self.path(file);
        if let Some(url) = remote(path)? {
            return Ok(Arc::new(RemoteFile::open(&url, &RemoteOptions::default())?));
        }
        let options = match op {
            IoOp::Write => PosixOptions::read_write(),
            IoOp::Read => PosixOptions::read_only(),
        };
        Ok(Arc::new(PosixFile::open(path, &options)?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.signal_cleanup.take().is_some() && !self.keep {
            remove_all(&self.paths);
        }
    }
}

/// How long a file is; `None` if there is none.
pub(super) fn length(path: &Path) -> Result<Option<u64>, IoBenchError> {
    if let Some(url) = remote(path)? {
        let open = RemoteFile::open(&url, &RemoteOptions::default());
        return match open.and_then(|file| file.len()) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        };
    }
    match fs::symlink_metadata(path) {
        Ok(data) => Ok(Some(data.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("look at", path)(error)),
    }
}

/// The URL that a name is, if it is one.
pub(super) fn remote(path: &Path) -> Result<Option<RemoteUrl>, IoBenchError> {
    let text = path.to_str().filter(|text| RemoteUrl::is_remote(text));
    Ok(text.map(str::parse).transpose()?)
}

fn failed(attempted: &'static str, path: &Path) -> impl FnOnce(io::Error) -> IoBenchError {
    let path = path.to_path_buf();
    move |source| IoBenchError::File { attempted, path, source }
}

/// Nothing more can be done about a file that does not go.
pub(super) fn remove_all(paths: &[PathBuf]) {
    for path in paths {
        let _ = remove(path).and_then(|()| remove_kin(path));
    }
}

/// Removes all files on servers whose names begin as that of `path`, without its extension, does.
/// The names of a benchmark have a random part, so these are its own.
fn remove_kin(path: &Path) -> Result<(), IoBenchError> {
    let Some(url) = remote(path)? else { return Ok(()) };
    let client = Client::shared(&url)?;
    let name = Path::new(&url.path).with_extension("");
    for file in client.list(&name.to_string_lossy())? {
        match client.remove(&file.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), IoBenchError> {
    match remote(path)? {
        Some(url) => match Client::shared(&url)?.remove(&url.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        },
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", path)(error))
            }
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use striate_server::Embedded;

    use super::*;

    fn scratch(directory: &Path, files: u64) -> Scratch {
        Scratch::new(directory, "striate-bench-7", files, &Hints::default(), true)
    }

    #[test]
    fn files_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = scratch(directory.path(), 3);
        scratch.renew().unwrap();
        fs::write(scratch.path(1), b"old").unwrap();
        scratch.renew().unwrap();
        assert_eq!(fs::read(scratch.path(1)).unwrap(), b"");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
        drop(scratch);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn files_come_and_go_on_servers() {
        let embedded = Embedded::start(2).unwrap();
        let directory = PathBuf::from(format!("{}/some/where", embedded.url()));
        let scratch = scratch(&directory, 3);
        scratch.renew().unwrap();
        scratch.open(1, IoOp::Write).unwrap().write_at(70_000, b"old").unwrap();
        scratch.renew().unwrap();
        assert_eq!(scratch.open(1, IoOp::Read).unwrap().len().unwrap(), 0);
        let client = Client::shared(&embedded.url().parse().unwrap()).unwrap();
        assert_eq!(client.list("some/where/").unwrap().len(), 3);
        // A partition goes with its dataset, other files stay.
        for name in ["some/where/striate-bench-7.part0001.nc", "some/where/striate-bench-8"] {
            client.create(name, &Layout::default(), true).unwrap();
        }
        drop(scratch);
        let left = client.list("").unwrap();
        assert_eq!((left.len(), left[0].path.as_str()), (1, "some/where/striate-bench-8"));
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = scratch(Path::new("/nonexistent"), 1).renew().unwrap_err().to_string();
        assert!(error.starts_with("cannot make the file /nonexistent/striate-bench-"), "{error}");
    }
}
