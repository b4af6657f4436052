//! Data sieving: large contiguous requests that span the regions.
//!
//! The range of the access is cut into windows of the buffer's size; those without a wanted byte
//! are left out. A read copies the wanted bytes out of a window. A write is a read-modify-write of
//! the window, under a lock, since another rank may write the bytes between the regions meanwhile.
//! A window of which all bytes are wanted is not read first.
//!
//! Ranks whose regions interleave would queue for the same lock one window after the other, so each
//! starts at a window of its own and wraps around.

use std::ops::Range;

use striate_store::AlignedBuffer;
use striate_store::store::{LockKind, Store};

use crate::FileError;
use crate::access::{CopyBuffer, FileSide, put, take};
use crate::memory::{Memory, MemoryMut};

/// The windows that hold wanted bytes, with how many: from the `first`-th on (modulo their number),
/// then those before it. Gaps of any length are skipped at once.
fn wanted_windows(
    file: &FileSide,
    size: u64,
    first: u64,
) -> impl Iterator<Item = (Range<u64>, u64)> {
    let range = file.range().unwrap_or(0..0);
    let count = (range.end - range.start).div_ceil(size);
    let first = first.checked_rem(count).unwrap_or(0);
    [first..count, 0..first].into_iter().flat_map(move |mut indices| {
        let range = range.clone();
        std::iter::from_fn(move || {
            while !indices.is_empty() {
                let start = range.start + indices.start * size;
                let window = start..range.end.min(start.saturating_add(size));
                let part = file.within(&window);
                if !part.is_empty() {
                    indices.start += 1;
                    return Some((window, part.end - part.start));
                }
                let next = file.offset_of(part.start)?;
                indices.start = (next - range.start) / size;
            }
            None
        })
    })
}

pub(crate) fn read(
    store: &dyn Store,
    file: &FileSide,
    to: &mut MemoryMut<'_>,
    buffer: &mut AlignedBuffer,
) -> Result<u64, FileError> {
    let mut scratch = CopyBuffer::default();
    let mut total = 0;
    for (window, _) in wanted_windows(file, buffer.len() as u64, 0) {
        let len = (window.end - window.start) as usize;
        let got = store.read_at(window.start, &mut buffer[..len])?;
        total += take(file, to, window.start, &buffer[..got], &mut scratch)?;
        if got < len {
            break;
        }
    }
    Ok(total)
}

/// In which order a sieved write visits its windows, and whether it locks them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowOrder {
    /// The window to start with.
    pub(crate) first: u64,
    /// Whether the caller holds a lock on the whole range.
    pub(crate) locked: bool,
}

pub(crate) fn write(
    store: &dyn Store,
    file: &FileSide,
    from: &Memory<'_>,
    buffer: &mut AlignedBuffer,
    plan: &WindowOrder,
) -> Result<(), FileError> {
    let mut scratch = CopyBuffer::default();
    for (window, bytes) in wanted_windows(file, buffer.len() as u64, plan.first) {
        let len = (window.end - window.start) as usize;
        let window_buffer = &mut buffer[..len];
        let has_gaps = bytes < len as u64;
        // A window without gaps changes no other bytes, but must not come between the read and the
        // write of another rank.
        let kind = if has_gaps { LockKind::Exclusive } else { LockKind::Shared };
        let lock = (!plan.locked).then(|| store.lock(window.clone(), kind)).transpose()?;
        if has_gaps {
            let got = store.read_at(window.start, window_buffer)?;
            window_buffer[got..].fill(0);
        }
        // SAFETY: this call alone uses the buffer.
        unsafe {
            put(file, from, window.start, window_buffer.as_mut_ptr(), len, &mut scratch)?;
        }
        store.write_at(window.start, window_buffer)?;
        drop(lock);
    }
    Ok(())
}
