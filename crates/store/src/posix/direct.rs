//! [`Direct`]: transfers around the page cache, of any bytes.
//!
//! Whole blocks at aligned addresses go straight; at other addresses they go through an aligned
//! buffer. A write's partial blocks at its two ends go through the page cache, by a second
//! descriptor. Reading, patching and writing back a block ourselves would need a lock that every
//! writer of the file respects, those without direct I/O included, and a block written at the end
//! of the file would have to be cut off again while other processes extend it. The kernel does both
//! right: a write through the cache changes the bytes it is given and no other ones. Reads never
//! come from the cache: a direct read makes the kernel write back dirty pages first.
//!
//! The block is never smaller than a page, so that no page is written through the cache by one
//! request and directly by another unless they overlap.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use nix::libc;
use rustix::fs::{AtFlags, StatxFlags, statx};

use super::system::{System, SystemFaults};
use crate::aligned::AlignedBuffer;
use crate::placement::MAX_LEN;
use crate::store::Region;

/// Bytes that go through the aligned buffer at a time.
const BOUNCE: usize = 1 << 20;

/// A descriptor around the page cache.
#[derive(Debug)]
pub(super) struct Direct {
    pub(super) system: System,
    pub(super) block: usize,
}

impl Direct {
    /// Opens the file of `cached` a second time, around the cache.
    pub(super) fn open(
        cached: &File,
        read: bool,
        write: bool,
        faults: Option<Arc<dyn SystemFaults>>,
    ) -> io::Result<Self> {
        let block = block_of(cached);
        // By descriptor, not by path: the path may mean another file by now.
        let file = File::options()
            .read(read)
            .write(write)
            .custom_flags(libc::O_DIRECT)
            .open(format!("/proc/self/fd/{}", cached.as_raw_fd()))?;
        Ok(Self { system: System::new(file, faults, block), block })
    }

    /// Whether a region can go without an aligned buffer.
    pub(super) fn is_straight(&self, region: &Region, address: usize) -> bool {
        let all = address | region.len | region.offset as usize;
        region.len > 0 && all & (self.block - 1) == 0
    }

    fn down(&self, offset: u64) -> u64 {
        offset & !(self.block as u64 - 1)
    }

    /// Fills `buffer`; returns less only at the end of the file.
    pub(super) fn read(
        &self,
        cached: &System,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let block = self.block as u64;
        let end = offset + buffer.len() as u64;
        if end > MAX_LEN - block {
            // The block around the last byte would end beyond all offsets.
            return cached.read(offset, buffer);
        }
        // Whether addresses are aligned where offsets are.
        let congruent = (buffer.as_ptr().addr() as u64 ^ offset) & (block - 1) == 0;
        let mut bounce: Option<AlignedBuffer> = None;
        let mut at = offset;
        while at < end {
            let done = (at - offset) as usize;
            let base = self.down(at);
            let whole = (self.down(end).saturating_sub(at)) as usize;
            if congruent && at == base && whole > 0 {
                let got = self.system.read(at, &mut buffer[done..done + whole])?;
                at += got as u64;
                if got < whole {
                    break;
                }
                continue;
            }
            let last = self.down(end - 1) + block;
            // Up to where the rest can go straight, if it can.
            let most = if congruent { self.block } else { BOUNCE.max(self.block) };
            let want = ((last - base) as usize).min(most);
            let window =
                bounce.get_or_insert_with(|| AlignedBuffer::with_alignment(want, self.block));
            let want = want.min(window.len());
            let got = self.system.read(base, &mut window[..want])?;
            let skipped = (at - base) as usize;
            let useful = got.saturating_sub(skipped).min(buffer.len() - done);
            buffer[done..done + useful].copy_from_slice(&window[skipped..skipped + useful]);
            at += useful as u64;
            if got < want {
                break;
            }
        }
        Ok((at - offset) as usize)
    }

    /// Writes all of `buffer`.
    pub(super) fn write(&self, cached: &System, offset: u64, buffer: &[u8]) -> io::Result<()> {
        let block = self.block as u64;
        let end = offset + buffer.len() as u64;
        let first = offset.div_ceil(block) * block;
        let last = self.down(end);
        if first >= last {
            return cached.write(offset, buffer);
        }
        let (head, rest) = buffer.split_at((first - offset) as usize);
        let (middle, tail) = rest.split_at((last - first) as usize);
        if !head.is_empty() {
            cached.write(offset, head)?;
        }
        if middle.as_ptr().addr() & (self.block - 1) == 0 {
            self.system.write(first, middle)?;
        } else {
            let size = middle.len().min(BOUNCE.max(self.block));
            let mut bounce = AlignedBuffer::with_alignment(size, self.block);
            for (n, part) in middle.chunks(size).enumerate() {
                bounce[..part.len()].copy_from_slice(part);
                self.system.write(first + (n * size) as u64, &bounce[..part.len()])?;
            }
        }
        if !tail.is_empty() {
            cached.write(last, tail)?;
        }
        Ok(())
    }
}

/// What direct I/O on a file must be aligned to: what the system says, and at least a page.
fn block_of(file: &File) -> usize {
    let asked = statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let said = asked.map_or(0, |stat| stat.stx_dio_offset_align.max(stat.stx_dio_mem_align));
    let page = rustix::param::page_size();
    (said as usize).next_power_of_two().max(page).max(AlignedBuffer::PAGE)
}
