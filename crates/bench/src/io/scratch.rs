//! The files of a benchmark: made by rank 0, and gone when it ends, also by a signal.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::IoBenchError;

/// The names of a benchmark's files. On rank 0 they are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    paths: Vec<PathBuf>,
    owner: bool,
}

impl Scratch {
    /// So many files in `directory`, told apart from those of other runs by `run`.
    pub(super) fn new(directory: &Path, run: u64, files: u64, owner: bool) -> Self {
        let name = |file: u64| match files {
            1 => format!("striate-bench-{run:016x}"),
            _ => format!("striate-bench-{run:016x}.{file}"),
        };
        let paths: Vec<PathBuf> = (0..files).map(|file| directory.join(name(file))).collect();
        if owner {
            remove_on_signal(&paths);
        }
        Self { paths, owner }
    }

    /// The name of a file.
    pub(super) fn path(&self, file: u64) -> &Path {
        &self.paths[file as usize]
    }

    /// Makes all files anew and empty.
    pub(super) fn renew(&self) -> Result<(), IoBenchError> {
        for path in &self.paths {
            let made = remove(path).and_then(|()| {
                OpenOptions::new().write(true).create_new(true).open(path).map(drop)
            });
            made.map_err(|source| {
                let path = path.clone();
                IoBenchError::File { attempted: "make the file", path, source }
            })?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.owner {
            forget_names();
            for path in &self.paths {
                // Nothing more can be done about a file that does not go.
                let _ = remove(path);
            }
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the signal handler removes. Lists are never freed: a handler may be reading one.
static NAMES: AtomicPtr<Vec<CString>> = AtomicPtr::new(std::ptr::null_mut());

fn remove_on_signal(paths: &[PathBuf]) {
    static INSTALLED: Once = Once::new();
    let name = |path: &PathBuf| CString::new(path.as_os_str().as_bytes()).ok();
    let names: Vec<CString> = paths.iter().filter_map(name).collect();
    NAMES.store(Box::leak(Box::new(names)), Ordering::Release);
    INSTALLED.call_once(|| {
        let handler = SigHandler::Handler(remove_and_end);
        let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            // SAFETY: the handler calls only what may be called in one. Without it, files stay.
            let _ = unsafe { sigaction(signal, &action) };
        }
    });
}

fn forget_names() {
    NAMES.store(std::ptr::null_mut(), Ordering::Release);
}

/// Removes the files and ends as the signal would have.
extern "C" fn remove_and_end(signal: libc::c_int) {
    // SAFETY: the pointer is null or leads to a list that is never freed or changed.
    let names = unsafe { NAMES.load(Ordering::Acquire).as_ref() };
    for name in names.into_iter().flatten() {
        // SAFETY: a string with its end, and unlink is safe in a handler.
        unsafe { libc::unlink(name.as_ptr()) };
    }
    // SAFETY: both are safe in a handler; the signal is delivered when it returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(directory.path(), 7, 3, true);
        scratch.renew().unwrap();
        fs::write(scratch.path(1), b"old").unwrap();
        scratch.renew().unwrap();
        assert_eq!(fs::read(scratch.path(1)).unwrap(), b"");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
        drop(scratch);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let scratch = Scratch::new(Path::new("/nonexistent"), 7, 1, true);
        let error = scratch.renew().unwrap_err().to_string();
        assert!(error.starts_with("cannot make the file /nonexistent/striate-bench-"), "{error}");
    }
}
