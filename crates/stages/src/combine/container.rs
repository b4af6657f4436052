//! [`Container`]: a log of an earlier process, opened for reading.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use striate_stack::descriptors::high;

use super::entry::{DEAD, FIRST, HEADER, Header, LOG_MAGIC, NameState, VERSION};
use super::log::{LogPosition, PREFIX, SEALED};
use crate::trust;

/// A log or a sealed container.
#[derive(Debug)]
pub(crate) struct Container {
    path: PathBuf,
    file: File,
    length: u64,
    generation: u64,
    index: u64,
}

/// What an entry says.
#[derive(Clone, Debug)]
pub(crate) struct ContainerEntry {
    pub(super) said: NameState,
    pub(super) at: LogPosition,
    pub(super) time: u64,
    /// The path of the file.
    pub(crate) directory: PathBuf,
    pub(crate) name: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) modified: (i64, u32),
}

impl ContainerEntry {
    /// The path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(OsStr::from_bytes(&self.name))
    }

    /// How long the file is.
    pub(crate) fn length(&self) -> usize {
        self.at.length
    }

    /// Whether it is a file, and not a record of its removal.
    pub(crate) fn is_file(&self) -> bool {
        self.said == NameState::File
    }

    /// When it was added, as logs count.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }
}

/// How long the index of so many entries is.
pub(super) const fn index_length(entries: usize) -> u64 {
    (entries as u64 + 2) * 8
}

/// Writes where entries are to the end of a log, and that in its header.
pub(super) fn write_index(file: &File, entries: &[u64], end: u64) -> io::Result<()> {
    let mut index: Vec<u8> = entries.iter().flat_map(|at| at.to_le_bytes()).collect();
    index.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &index);
    index.extend_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&index, end)?;
    file.write_all_at(&end.to_le_bytes(), 24)
}

/// How a log is called when it stays.
pub(super) fn sealed_name(name: &[u8]) -> Vec<u8> {
    let name = name.strip_suffix(b".log").unwrap_or(name);
    let name = name.strip_prefix(PREFIX.as_bytes()).unwrap_or(name);
    [name, SEALED.as_bytes()].concat()
}

/// Whether a file is called as logs and containers are.
pub(crate) fn is_called_so(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(PREFIX.as_bytes()) && name.ends_with(b".log")
        || name.ends_with(SEALED.as_bytes())
}

impl Container {
    /// Opens a trusted one, which belongs to the caller alone. Otherwise it is an error.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // To read it is enough for most.
        let file = trust::open_file(path, OFlags::RDWR);
        let file = file.or_else(|_| trust::open_file(path, OFlags::RDONLY))?;
        Self::read_header(path, file)
    }

    /// Opens one of any user, for a caller that chooses where its files go.
    pub(crate) fn open_foreign(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(high(rustix::fs::open(path, flags, Mode::empty())?));
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a log of combined files"));
        }
        Self::read_header(path, file)
    }

    fn read_header(path: &Path, file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut header = [0u8; 40];
        let read = file.read_exact_at(&mut header, 0);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| header[at + n]));
        if read.is_err() || &header[..8] != LOG_MAGIC {
            return Err(io::Error::other("not a log of combined files"));
        }
        let version = word(8) as u32;
        if version != VERSION {
            let message = format!("version {version} of the format; {VERSION} is the one known");
            return Err(io::Error::other(message));
        }
        let (generation, index) = (word(16), word(24));
        Ok(Self { path: path.to_path_buf(), file, length, generation, index })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has been finished by the process that wrote it.
    pub(crate) fn is_sealed(&self) -> bool {
        self.index != 0
    }

    /// Takes it for oneself; `false` if a process is still writing it.
    pub(crate) fn claim(&self) -> bool {
        rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// What counts in it, in the order in which it came. It ends where an entry is torn: the file
    /// of that one was not closed. With `whole`, the bytes of each are checked.
    pub(crate) fn entries(&self, whole: bool) -> io::Result<Vec<ContainerEntry>> {
        let mut found: Vec<ContainerEntry> = Vec::new();
        let mut replaced = Vec::new();
        let mut visit = |at: u64| -> io::Result<Option<u64>> {
            let Some((header, entry)) = self.entry(at, whole)? else { return Ok(None) };
            if header.replaces != 0 {
                replaced.push(header.replaces);
            }
            if header.alive {
                found.push(entry);
            }
            Ok(Some(at + header.length))
        };
        if let Some(index) = self.read_index()? {
            for at in index {
                visit(at)?;
            }
        } else {
            let mut at = FIRST;
            while let Some(next) = visit(at)? {
                at = next;
            }
        }
        replaced.sort_unstable();
        found.retain(|entry| replaced.binary_search(&entry.at.entry).is_err());
        Ok(found)
    }

    fn read_index(&self) -> io::Result<Option<Vec<u64>>> {
        let room = self.length.saturating_sub(self.index);
        if self.index == 0 || room < 16 || !room.is_multiple_of(8) {
            return Ok(None);
        }
        let mut bytes = vec![0; room as usize];
        self.file.read_exact_at(&mut bytes, self.index)?;
        let (covered, checksum) = bytes.split_at(bytes.len() - 8);
        let computed = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, covered);
        if computed.to_le_bytes() != checksum {
            return Ok(None);
        }
        let words = covered.chunks_exact(8);
        let words = words.map(|word| u64::from_le_bytes(std::array::from_fn(|n| word[n])));
        let mut words: Vec<u64> = words.collect();
        let count = words.pop();
        Ok((count == Some(words.len() as u64)).then_some(words))
    }

    fn entry(&self, at: u64, whole: bool) -> io::Result<Option<(Header, ContainerEntry)>> {
        let end = if self.index == 0 { self.length } else { self.index };
        let Some(room) = end.checked_sub(at).filter(|room| *room >= HEADER as u64) else {
            return Ok(None);
        };
        let mut bytes = [0; HEADER];
        self.file.read_exact_at(&mut bytes, at)?;
        let Some(header) = Header::read(&bytes, self.generation, room) else { return Ok(None) };
        let names = header.directory + header.name;
        let mut body = vec![0; if whole { header.body() } else { names }];
        self.file.read_exact_at(&mut body, at + HEADER as u64)?;
        if whole && !header.is_whole(&bytes, &body) {
            return Ok(None);
        }
        let (directory, name) = body[..names].split_at(header.directory);
        let data = at + (HEADER + names) as u64;
        let found = ContainerEntry {
            said: header.said,
            at: LogPosition { entry: at, data, length: header.data },
            time: header.time,
            directory: PathBuf::from(OsStr::from_bytes(directory)),
            name: name.to_vec(),
            mode: header.mode,
            modified: header.modified,
        };
        Ok(Some((header, found)))
    }

    /// The bytes of a file in it.
    pub(crate) fn read(&self, found: &ContainerEntry) -> io::Result<Vec<u8>> {
        self.read_at(found.at)
    }

    pub(super) fn read_at(&self, at: LogPosition) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; at.length];
        self.file.read_exact_at(&mut bytes, at.data)?;
        Ok(bytes)
    }

    /// An entry does not count any more.
    pub(crate) fn kill(&self, found: &ContainerEntry) -> io::Result<()> {
        self.file.write_all_at(&DEAD.to_le_bytes(), found.at.entry + 4)
    }

    /// Finishes what the process that wrote it did not: it gets an index, and the name of one that
    /// stays.
    pub(crate) fn seal(&self) -> io::Result<PathBuf> {
        let (mut entries, mut end) = (Vec::new(), FIRST);
        while let Some((header, _)) = self.entry(end, true)? {
            entries.push(end);
            end += header.length;
        }
        self.file.set_len(end)?;
        write_index(&self.file, &entries, end)?;
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        let sealed = self.path.with_file_name(OsStr::from_bytes(&sealed_name(name)));
        std::fs::rename(&self.path, &sealed)?;
        Ok(sealed)
    }

    /// Removes it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Said, not left to the close: a process that was copied just now may still have the
        // descriptor.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}
