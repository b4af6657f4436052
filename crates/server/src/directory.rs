//! [`DataDirectory`]: the data directory of a server.
//!
//! | entry          | what it is                                           |
//! | -------------- | ---------------------------------------------------- |
//! | `format`       | the version of this layout, as a number              |
//! | `identity`     | which server this is: 16 random bytes in hexadecimal |
//! | `stopped`      | the start that ended in order, with all made durable |
//! | `objects/`     | the server's parts of files                          |
//! | `catalog.redb` | the names of files, if the server keeps them         |
//!
//! The directory itself is locked as long as a server uses it. It is for its owner only: whoever
//! else could read it would need no key.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use striate_wire::{Identity, StartId};

use crate::error::ServerError;

/// The layout that this version writes, and the only one so far.
const FORMAT: u32 = 1;

/// Permissions of directories and files of a server.
pub(crate) const PRIVATE_DIRECTORY: u32 = 0o700;
pub(crate) const PRIVATE_FILE: u32 = 0o600;

/// The directory that a server stores in, locked against other servers.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    /// Holds the lock.
    _lock: File,
}

impl DataDirectory {
    /// Opens the directory; creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self, ServerError> {
        create_private(path).map_err(ServerError::system("create", path))?;
        let lock = File::open(path).map_err(ServerError::system("open", path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ServerError::InUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => {
                return Err(ServerError::system("lock", path)(source));
            }
        }
        check_format(path)?;
        make_private(path)?;
        let identity = identity(path)?;
        Ok(Self { path: path.to_owned(), identity, _lock: lock })
    }
}

/// The name of the file that says that the last start ended in order.
const STOPPED: &str = "stopped";

/// The last start, if it ended in order.
impl DataDirectory {
    /// Which start that was. It is said once: the file is gone, durably, before anything is served.
    pub(crate) fn take_stopped(&self) -> Result<Option<StartId>, ServerError> {
        let path = self.path.join(STOPPED);
        let Some(text) = read(&path)? else { return Ok(None) };
        let remove = || {
            let inode = fs::metadata(&path)?.ino();
            fs::remove_file(&path)?;
            File::open(&self.path)?.sync_all()?;
            Ok(inode)
        };
        let inode: u64 = remove().map_err(ServerError::system("remove", &path))?;
        // Anything else is as good as none: a new start is always right.
        let Some((start, of)) = text.trim_end().split_once(' ') else { return Ok(None) };
        let same = of.parse() == Ok(inode);
        Ok(u64::from_str_radix(start, 16).ok().filter(|_| same).map(StartId))
    }

    /// Says that all that this start acknowledged is durable, and that it serves no more.
    pub(crate) fn note_stopped(&self, start: StartId) -> Result<(), ServerError> {
        // A copy of the directory is another storage, which may be older than what the start
        // acknowledged after the copy was made: it has another inode.
        let place = self.path.join(STOPPED);
        let write = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(PRIVATE_FILE);
            let mut file = options.open(&place)?;
            writeln!(file, "{start} {}", file.metadata()?.ino())?;
            file.sync_all()?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(ServerError::system("write", &place))
    }
}

/// Creates a directory, and those that it lies in, for their owner only.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Takes the permissions of others from a directory that existed before.
fn make_private(directory: &Path) -> Result<(), ServerError> {
    let make = || {
        let mode = fs::metadata(directory)?.permissions().mode() & 0o777;
        if mode & !PRIVATE_DIRECTORY != 0 {
            fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY))?;
            tracing::warn!(
                data = %directory.display(),
                was = format_args!("{mode:o}"),
                "others had permissions for the data directory; it is for its owner only now"
            );
        }
        Ok(())
    };
    make().map_err(ServerError::system("take the permissions of others from", directory))
}

fn check_format(directory: &Path) -> Result<(), ServerError> {
    let not_ours = |why| Err(ServerError::NotOurs { path: directory.to_owned(), why });
    let Some(text) = read(&directory.join("format"))? else {
        // Files of other programs must not be mixed with what the server stores.
        if let Some(name) = stranger(directory).map_err(ServerError::system("list", directory))? {
            return not_ours(format!("it contains {name:?}, but no file \"format\""));
        }
        return write_durably(directory, "format", &FORMAT.to_string());
    };
    match text.trim_end().parse() {
        Ok(FORMAT) => Ok(()),
        Ok(newer) if newer > FORMAT => {
            not_ours(format!("its format is {newer}, this version knows {FORMAT}"))
        }
        _ => not_ours(format!("its format is {text:?}, which is unknown")),
    }
}

/// Something in the directory that no interrupted start and no empty file system leaves.
fn stranger(directory: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "format.new" && name != "lost+found" {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn identity(directory: &Path) -> Result<Identity, ServerError> {
    if let Some(text) = read(&directory.join("identity"))? {
        return decode(text.trim_end()).ok_or_else(|| {
            let why = format!("its identity {text:?} is not 32 hexadecimal digits");
            ServerError::NotOurs { path: directory.to_owned(), why }
        });
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| ServerError::system("draw an identity for", directory)(error.into()))?;
    write_durably(directory, "identity", &Identity(bytes).to_string())?;
    Ok(Identity(bytes))
}

fn decode(text: &str) -> Option<Identity> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(Identity(bytes))
}

/// The text of a file, if there is one.
fn read(path: &Path) -> Result<Option<String>, ServerError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ServerError::system("read", path)(error)),
    }
}

/// Writes a small file atomically.
fn write_durably(directory: &Path, name: &str, text: &str) -> Result<(), ServerError> {
    let path = directory.join(name);
    let unfinished = directory.join(format!("{name}.new"));
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(PRIVATE_FILE);
        let mut file = options.open(&unfinished)?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(ServerError::system("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_identity_and_serves_one() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("new/data");
        let first = DataDirectory::open(&path).unwrap();
        let identity = first.identity;
        assert!(matches!(DataDirectory::open(&path), Err(ServerError::InUse { .. })));
        drop(first);
        assert_eq!(DataDirectory::open(&path).unwrap().identity, identity);
        let other = DataDirectory::open(&place.path().join("other")).unwrap();
        assert_ne!(other.identity, identity);
    }

    #[test]
    fn an_orderly_stop_is_noted_once() {
        let place = tempfile::tempdir().unwrap();
        let directory = DataDirectory::open(place.path()).unwrap();
        assert_eq!(directory.take_stopped().unwrap(), None);
        directory.note_stopped(StartId(0x1234)).unwrap();
        assert_eq!(directory.take_stopped().unwrap(), Some(StartId(0x1234)));
        assert_eq!(directory.take_stopped().unwrap(), None);
        // A copy is not what the start wrote to.
        directory.note_stopped(StartId(0x1234)).unwrap();
        let (noted, copy) = (place.path().join(STOPPED), place.path().join("copy"));
        fs::copy(&noted, &copy).unwrap();
        fs::rename(&copy, &noted).unwrap();
        assert_eq!(directory.take_stopped().unwrap(), None);
        fs::write(place.path().join(STOPPED), "yesterday").unwrap();
        assert_eq!(directory.take_stopped().unwrap(), None);
    }

    #[test]
    fn a_directory_is_for_its_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let fresh = place.path().join("new/data");
        DataDirectory::open(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o700);
        assert_eq!(mode(&fresh.join("identity")), 0o600);
        // One of an earlier version.
        fs::set_permissions(&fresh, Permissions::from_mode(0o755)).unwrap();
        DataDirectory::open(&fresh).unwrap();
        assert_eq!(mode(&fresh), 0o700);
        // What is not ours keeps its permissions.
        let theirs = place.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("thesis.tex"), "").unwrap();
        fs::set_permissions(&theirs, Permissions::from_mode(0o755)).unwrap();
        DataDirectory::open(&theirs).unwrap_err();
        assert_eq!(mode(&theirs), 0o755);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let refused = |name: &str, text: &str, said: &str| {
            let path = place.path().join(text.trim());
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(name), text).unwrap();
            let error = DataDirectory::open(&path).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        };
        refused("thesis.tex", "years of work", "thesis.tex");
        refused("format", "2\n", "this version knows 1");
        refused("format", "one", "which is unknown");
        // An interrupted start is not in the way.
        fs::write(place.path().join("format.new"), "").unwrap();
        let fresh = place.path().join("fresh");
        fs::create_dir(&fresh).unwrap();
        fs::write(fresh.join("format.new"), "").unwrap();
        DataDirectory::open(&fresh).unwrap();
        fs::write(fresh.join("identity"), "0123").unwrap();
        assert!(matches!(DataDirectory::open(&fresh), Err(ServerError::NotOurs { .. })));
    }
}
