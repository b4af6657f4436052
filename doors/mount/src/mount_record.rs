//! [`Record`]: the record of a mount, for processes other than the serving one.
//!
//! A process that serves a mount keeps a file with a record of it, locked for as long as the
//! process lives, in a directory of its user. A process that unmounts, waits for the end of a mount
//! or is about to mount the same source finds it there: when the lock is released, the mount has
//! ended, and the record has the result. A record that is neither locked nor ended is that of a
//! process that was killed.
//!
//! Records are trusted if they belong to the user of this process, or to root, and lie in a
//! directory that no other user can write to. Root finds those of other users as well, and has to
//! check them. [`RecordWriter`] writes a record, [`FoundRecord`] is one that was found.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::mount_id::MountId;
use crate::mount_table;
use crate::sync::is_locked;

const VERSION: u32 = 1;
/// A record that is longer is none.
const LONGEST: u64 = 4 << 20;
const ENDING: &str = "mount";

/// Where a mount is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Programs can use it.
    Serving,
    /// It is over; what was held back is being written.
    Settling,
    /// Everything is on the source.
    Settled,
    /// Not everything could be written.
    Failed,
}

/// What is known of a mount.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// The process that serves it.
    pub process: u32,
    /// The source, as it was shown when the mount began.
    pub source: String,
    /// Where it is mounted.
    pub point: String,
    /// The file with the stages.
    pub stack: Option<String>,
    /// What is in it.
    pub configuration: String,
    /// Where the mount is on its way.
    pub state: State,
    /// How many files were held back when it ended.
    pub held: u64,
    /// How many of them are not on the source yet.
    pub left: u64,
    /// Why not everything could be written.
    pub error: Option<String>,
    /// The mount namespace in which the point is.
    namespace: String,
    /// `None` where only one program and its children see it.
    mount: Option<MountId>,
}

/// What a record is made of when a mount begins.
#[derive(Debug)]
pub(crate) struct MountFacts<'a> {
    pub(crate) source: &'a str,
    pub(crate) point: &'a Path,
    pub(crate) stack: Option<&'a Path>,
    pub(crate) configuration: &'a str,
    pub(crate) mount: Option<MountId>,
}

/// The record of a mount of this process.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    file: File,
    path: PathBuf,
    record: Record,
}

impl RecordWriter {
    /// Makes a record of a mount that has begun.
    pub(crate) fn new(about: &MountFacts<'_>) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        let record = Record {
            version: VERSION,
            process,
            source: about.source.to_owned(),
            point: about.point.to_string_lossy().into_owned(),
            stack: about.stack.map(|path| path.to_string_lossy().into_owned()),
            configuration: about.configuration.to_owned(),
            state: State::Serving,
            held: 0,
            left: 0,
            error: None,
            namespace: namespace(),
            mount: about.mount,
        };
        let directory = made_directory()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = directory.join(format!(".new-{process}-{number}"));
        let _ = fs::remove_file(&new);
        let mode = if rustix::process::geteuid().is_root() { 0o644 } else { 0o600 };
        let file = File::options().read(true).write(true).create_new(true).mode(mode).open(&new)?;
        // It has its lock before it has its name: it is not taken for one of a process that was
        // killed.
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let path = directory.join(format!("{process}-{number}.{ENDING}"));
        let keeper = Self { file, path, record };
        keeper.write()?;
        fs::rename(new, &keeper.path)?;
        Ok(keeper)
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// What was held back is being written.
    pub(crate) fn settling(&mut self, held: u64) {
        self.record.state = State::Settling;
        (self.record.held, self.record.left) = (held, held);
        let _ = self.write();
    }

    /// So many files are not on the source yet.
    pub(crate) fn progress(&mut self, left: u64) {
        if self.record.left != left {
            self.record.left = left;
            let _ = self.write();
        }
    }

    /// It is over. The record stays if something is left to be done.
    pub(crate) fn end(mut self, error: Option<String>) {
        self.record.state = if error.is_some() { State::Failed } else { State::Settled };
        if error.is_none() {
            self.record.left = 0;
        }
        self.record.error = error;
        let _ = self.write();
        if self.record.state == State::Settled {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn write(&self) -> io::Result<()> {
        let text = toml::to_string(&self.record).map_err(io::Error::other)?;
        self.file.write_all_at(text.as_bytes(), 0)?;
        // A reader at the same time may see an incomplete record, and reads again.
        self.file.set_len(text.len() as u64)
    }
}

/// How a mount ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is on the source.
    Settled,
    /// Not everything could be written, and why.
    Failed(String),
    /// The process that served it was killed.
    Killed,
}

/// A record that was found. It can be asked for news until it is dropped, also when the mount has
/// ended meanwhile.
#[derive(Debug)]
pub struct FoundRecord {
    file: File,
    path: PathBuf,
    /// The user of the process that serves the mount.
    pub user: u32,
    /// What it said last.
    pub record: Record,
}

impl FoundRecord {
    /// All records that this user may trust. Root sees those of all users.
    pub fn all() -> Vec<Self> {
        let user = rustix::process::geteuid().as_raw();
        let mut users = vec![user, 0];
        if user == 0 {
            users.extend(users_with_records());
        }
        users.sort_unstable();
        users.dedup();
        let directories = users.into_iter().flat_map(|user| directories(user).map(|at| (at, user)));
        directories.flat_map(|(directory, user)| in_directory(&directory, user)).collect()
    }

    /// Those of mounts at a point.
    pub fn at(point: &Path) -> Vec<Self> {
        let point = point.to_string_lossy();
        Self::all().into_iter().filter(|listed| listed.record.point == point).collect()
    }

    /// Whether it is of this user, or of root.
    pub fn is_own_or_roots(&self) -> bool {
        [0, rustix::process::geteuid().as_raw()].contains(&self.user)
    }

    /// Whether the process that keeps it still does.
    pub fn is_live(&self) -> bool {
        is_locked(&self.file)
    }

    /// Reads it again. Returns how the mount ended, if it has.
    pub fn look(&mut self) -> Option<Ended> {
        let live = self.is_live();
        if let Some(record) = read(&mut self.file) {
            self.record = record;
        }
        if live {
            return None;
        }
        Some(match self.record.state {
            State::Settled => Ended::Settled,
            State::Failed => Ended::Failed(self.record.error.clone().unwrap_or_default()),
            State::Serving | State::Settling => Ended::Killed,
        })
    }

    /// Whether the mount is at its point now. `None` if that cannot be seen from here.
    pub fn is_mounted(&self) -> Option<bool> {
        let mount = self.record.mount?;
        if self.record.namespace != namespace() {
            return None;
        }
        let point = mount_table::text(Path::new(&self.record.point))?;
        Some(MountId::at(&point) == Some(mount))
    }

    /// Whether it is over, and what was held back is being written.
    pub fn is_settling(&self) -> bool {
        match self.record.state {
            State::Settling => true,
            // It has not recorded this yet.
            State::Serving => self.is_mounted() == Some(false),
            State::Settled | State::Failed => false,
        }
    }

    /// Forgets a mount of which nothing is left to be done.
    pub fn forget(self) {
        if rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn in_directory(directory: &Path, user: u32) -> Vec<FoundRecord> {
    if !is_trusted(directory, user) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let records = paths.filter(|path| path.extension().is_some_and(|found| found == ENDING));
    records.filter_map(|path| open(path, user)).collect()
}

fn open(path: PathBuf, user: u32) -> Option<FoundRecord> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags).open(&path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.uid() != user {
        return None;
    }
    // The process may be writing it.
    let record = (0..20).find_map(|_| {
        read(&mut file).or_else(|| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            None
        })
    })?;
    Some(FoundRecord { file, path, user, record })
}

fn read(file: &mut File) -> Option<Record> {
    file.rewind().ok()?;
    let mut text = String::new();
    file.by_ref().take(LONGEST).read_to_string(&mut text).ok()?;
    toml::from_str(&text).ok().filter(|record: &Record| record.version == VERSION)
}

/// Where records of a user may be.
fn directories(user: u32) -> [PathBuf; 2] {
    let first = match user {
        0 => PathBuf::from("/run/striate"),
        user => format!("/run/user/{user}/striate").into(),
    };
    // Not the directory that a variable names: another process may have another.
    [first, format!("/tmp/striate-{user}").into()]
}

/// Users that may have records.
fn users_with_records() -> Vec<u32> {
    let named = |directory: &str, prefix: &str| -> Vec<u32> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect()
    };
    [named("/run/user", ""), named("/tmp", "striate-")].concat()
}

/// Whether only this user, or root, can have put something there.
fn is_trusted(directory: &Path, user: u32) -> bool {
    fs::symlink_metadata(directory)
        .is_ok_and(|about| about.is_dir() && about.uid() == user && about.mode() & 0o022 == 0)
}

/// The directory for records of this user.
pub(crate) fn made_directory() -> io::Result<PathBuf> {
    let user = rustix::process::geteuid();
    let mode = if user.is_root() { 0o755 } else { 0o700 };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for directory in directories(user.as_raw()) {
        match DirBuilder::new().mode(mode).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => last = error,
            _ if is_trusted(&directory, user.as_raw()) => return Ok(directory),
            _ => last = io::Error::other(format!("{} is another's", directory.display())),
        }
    }
    Err(last)
}

/// The mount namespace of this process.
fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(point: &Path) -> MountFacts<'_> {
        MountFacts { source: "/s", point, stack: None, configuration: "", mount: None }
    }

    fn only(point: &Path) -> FoundRecord {
        let mut listed = FoundRecord::at(point);
        assert_eq!(listed.len(), 1);
        listed.remove(0)
    }

    #[test]
    fn a_record_tells_how_its_mount_ended() {
        let point = Path::new("/nowhere/record-test");
        let mut keeper = RecordWriter::new(&about(point)).unwrap();
        let mut listed = only(point);
        assert_eq!((listed.look(), listed.is_settling()), (None, false));
        keeper.settling(7);
        keeper.progress(3);
        assert_eq!((listed.look(), listed.is_settling()), (None, true));
        assert_eq!((listed.record.held, listed.record.left), (7, 3));
        keeper.end(None);
        assert_eq!((listed.look(), listed.record.left), (Some(Ended::Settled), 0));
        assert!(FoundRecord::at(point).is_empty());
    }

    #[test]
    fn what_did_not_end_well_stays_until_it_is_forgotten() {
        let failed = Path::new("/nowhere/failed-record-test");
        let keeper = RecordWriter::new(&about(failed)).unwrap();
        keeper.end(Some("full".into()));
        let mut listed = only(failed);
        assert_eq!(listed.look(), Some(Ended::Failed("full".into())));
        listed.forget();
        assert!(FoundRecord::at(failed).is_empty());

        let killed = Path::new("/nowhere/killed-record-test");
        drop(RecordWriter::new(&about(killed)).unwrap());
        let mut listed = only(killed);
        assert_eq!(listed.look(), Some(Ended::Killed));
        listed.forget();
        assert!(FoundRecord::at(killed).is_empty());
    }
}
