//! [`SettlingNote`]: a file in the source that says that data is still being written there.
//!
//! `umount` returns when the mount is detached, which is before the stages have written what they
//! buffer. Until they have, the source contains this file, locked by the process that writes. If
//! that is killed, or if some data cannot be written, the note stays and says what to do. It is for
//! users, and for the next mount of the same source, also as another user or on another host; only
//! its lock is trusted, not its contents.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use crate::mount_record::Record;
use crate::sync::is_locked;

const PREFIX: &str = "STRIATE-SETTLING-";
const ENDING: &str = ".txt";

/// The note of a mount of this process.
#[derive(Debug)]
pub(crate) struct SettlingNote<'d> {
    source: &'d OwnedFd,
    name: String,
    file: File,
}

impl<'d> SettlingNote<'d> {
    /// Leaves a note in a source, which has to be written to by this process.
    pub(crate) fn leave(source: &'d OwnedFd, record: &Record) -> io::Result<Self> {
        let name = format!("{PREFIX}{}{ENDING}", record.process);
        // One of a process that was killed, and had the same number.
        let _ = rustix::fs::unlinkat(source, &name, AtFlags::empty());
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let mut file = File::from(rustix::fs::openat(source, &name, flags, mode)?);
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(text(record).as_bytes())?;
        Ok(Self { source, name, file })
    }

    /// All data is on the source.
    pub(crate) fn remove(self) {
        let _ = rustix::fs::unlinkat(self.source, &self.name, AtFlags::empty());
    }

    /// Something could not be written: the note stays.
    pub(crate) fn failed(mut self, record: &Record, error: &str) {
        let text = format!(
            "NOT EVERYTHING IS IN THIS DIRECTORY: {error}\n\
             It was written at {}, which was mounted by 'striate mount'.\n{}\n",
            record.point,
            remedy(record)
        );
        let _ = self.file.set_len(0);
        let _ = io::Seek::rewind(&mut self.file);
        let _ = self.file.write_all(text.as_bytes());
    }
}

fn text(record: &Record) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!(
        "NOT EVERYTHING IS IN THIS DIRECTORY YET.\n\
         Programs have written at {point}, which was mounted by 'striate mount' and has been unmounted.\n\
         Process {process} on {host} brings what is missing ({held} files are held back), and then removes this note.\n\
         To wait for that:  striate mount --wait {point}\n\
         If there is no such process any more, it was killed.\n{remedy}\n",
        point = record.point,
        process = record.process,
        held = record.held,
        remedy = remedy(record),
    )
}

/// What brings the rest.
fn remedy(record: &Record) -> String {
    match &record.stack {
        Some(stack) => format!(
            "To restore it:  striate stack recover {stack} {}\nand then remove this note.",
            record.source
        ),
        None => "Data that its stages had buffered is lost.".into(),
    }
}

/// A note that was found in a source.
#[derive(Debug)]
pub struct FoundNote {
    /// Where it is.
    pub path: PathBuf,
    /// The process that left it.
    pub process: u32,
    /// The user that it belongs to.
    pub user: u32,
    file: File,
}

impl FoundNote {
    /// The notes in a source.
    pub fn in_source(source: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(source) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.filter_map(Self::open).collect()
    }

    fn open(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let process = name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?.parse().ok()?;
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(flags).open(&path).ok()?;
        let about = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { user: about.uid(), process, file, path })
    }

    /// Whether the process that left it is still writing.
    pub fn is_live(&self) -> bool {
        is_locked(&self.file)
    }

    /// Removes it, unless its process is still writing.
    pub fn remove(self) {
        if !self.is_live() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
