//! [`DurableGrowth`]: storage whose length never falls behind what is written about it.
//!
//! The database grows its file, writes its pages and a header that tells the new length, and makes
//! all of that durable in one sync. A file system may write the header first and the new length
//! last (ext4 does: bytes that are overwritten in place are not ordered against the journal, which
//! holds the length). If the power goes in between, the header tells of more bytes than there are,
//! and the database refuses its own file. So a longer length is made durable before anything is
//! written that depends on it. The file doubles when it grows, which makes the extra sync rare.

use std::io;

use redb::StorageBackend;

/// Storage that makes growth durable at once.
#[derive(Debug)]
pub(super) struct DurableGrowth<B>(pub(super) B);

impl<B: StorageBackend> StorageBackend for DurableGrowth<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let grows = len > self.0.len()?;
        self.0.set_len(len)?;
        if grows { self.0.sync_data() } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}
