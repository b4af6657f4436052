//! [`ReadOnly`]: a file as the storage of a database, without a change of the file.
//!
//! A database that was not closed in order repairs itself when it is opened, and notes that it is
//! open. What it writes stays in memory here.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use redb::StorageBackend;

const PAGE: usize = 4096;

/// A file, and what would have been written to it.
#[derive(Debug)]
pub(super) struct ReadOnly {
    file: File,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// Bytes of the file that still count: it may have been cut.
    kept: u64,
    pages: HashMap<u64, [u8; PAGE]>,
}

impl ReadOnly {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let changes = Changes { len, kept: len, pages: HashMap::new() };
        Ok(Self { file, changes: Mutex::new(changes) })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes().len == 0
    }

    fn changes(&self) -> std::sync::MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page as it was, zeros after the end.
    fn original(&self, page: u64, kept: u64) -> io::Result<[u8; PAGE]> {
        let start = page * PAGE as u64;
        let mut bytes = [0; PAGE];
        let len = kept.saturating_sub(start).min(PAGE as u64) as usize;
        self.file.read_exact_at(&mut bytes[..len], start)?;
        Ok(bytes)
    }
}

/// The parts of `len` bytes from `offset` on in each page: the page, where in it, and where in all.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE as u64) as usize;
        let part = (PAGE - within).min(len - done);
        let range = done..done + part;
        done += part;
        (part > 0).then_some((at / PAGE as u64, within, range))
    })
}

impl StorageBackend for ReadOnly {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > changes.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, within, range) in parts(offset, out.len()) {
            let bytes = match changes.pages.get(&page) {
                Some(bytes) => *bytes,
                None => self.original(page, changes.kept)?,
            };
            let len = range.len();
            out[range].copy_from_slice(&bytes[within..within + len]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes();
        changes.len = len;
        changes.kept = changes.kept.min(len);
        // What is cut comes back as zeros.
        changes.pages.retain(|page, bytes| {
            let kept = len.saturating_sub(page * PAGE as u64).min(PAGE as u64) as usize;
            bytes[kept..].fill(0);
            kept > 0
        });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        for (page, within, range) in parts(offset, data.len()) {
            if !changes.pages.contains_key(&page) {
                let original = self.original(page, changes.kept)?;
                changes.pages.insert(page, original);
            }
            if let Some(bytes) = changes.pages.get_mut(&page) {
                bytes[within..within + range.len()].copy_from_slice(&data[range]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_stays() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let original: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        std::fs::write(place.path(), &original).unwrap();
        let storage = ReadOnly::open(place.path()).unwrap();
        let mut twin = original.clone();
        let read = |twin: &[u8]| {
            let mut bytes = vec![1; twin.len()];
            storage.read(0, &mut bytes).unwrap();
            assert!(bytes == twin);
            assert!(storage.read(1, &mut bytes).is_err(), "after the end");
        };
        read(&twin);
        storage.write(4000, &[7; 5000]).unwrap();
        twin[4000..9000].fill(7);
        read(&twin);
        // Shorter, and longer again: what was cut is zeros.
        for len in [4100, 6000, 3, 20_000] {
            storage.set_len(len as u64).unwrap();
            twin.resize(len, 0);
            read(&twin);
        }
        storage.write(19_999, &[9]).unwrap();
        twin[19_999] = 9;
        read(&twin);
        assert!(std::fs::read(place.path()).unwrap() == original);
    }
}
