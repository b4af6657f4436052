//! [`OverlappingRead`]: a read through a view that shows bytes more than once.
//!
//! Methods rely on offsets that ascend. So such a read is split in two: the bytes of the file, each
//! once and in order, which any method can read; and a copy of them to all their positions in the
//! stream. It takes a list of the read's runs and a buffer for its bytes: such views are rare, and
//! not worth a special case in every method.

use striate_datatype::{Cursor, Datatype, Run};
use striate_store::store::Placement;

use crate::access::{FileSide, scatter_to};
use crate::{FileError, MemoryMut, View};

/// Bytes that are copied at a time.
const PIECE: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct OverlappingRead {
    /// Every byte once, in ascending order.
    side: FileSide,
    /// Runs in the order of the stream: where each begins in the bytes of `side`, and how long it
    /// is.
    parts: Vec<(u64, u64)>,
}

impl OverlappingRead {
    /// The `len` bytes from byte `position` of the view's stream on.
    pub(crate) fn new(view: &View, position: u64, len: u64) -> Result<Self, FileError> {
        let runs = runs(view, position, len)?;
        let mut sorted = runs.clone();
        sorted.sort_unstable_by_key(|run| run.offset);
        sorted.dedup_by(|next, merged| {
            let touch = next.offset <= merged.end();
            if touch {
                merged.len = merged.len.max((next.end() - merged.offset) as u64);
            }
            touch
        });
        // Bytes before each, after all are merged.
        let before: Vec<u64> = sorted
            .iter()
            .scan(0, |sum, run| {
                let before = *sum;
                *sum += run.len;
                Some(before)
            })
            .collect();
        let part = |run: &Run| {
            // The merged run that contains it is the last one that does not begin behind it.
            let at = sorted.partition_point(|joined| joined.offset <= run.offset) - 1;
            (before[at] + (run.offset - sorted[at].offset) as u64, run.len)
        };
        let parts = runs.iter().map(part).collect();
        let blocks: Vec<(u64, i64)> = sorted.iter().map(|run| (run.len, run.offset)).collect();
        let datatype = Datatype::hindexed(&blocks, &Datatype::bytes(1)?)?;
        let len = datatype.size();
        let placement = Placement { displacement: 0, datatype, start: 0, len };
        Ok(Self { side: FileSide::from_placement(placement)?, parts })
    }

    /// Every byte once, in ascending order.
    pub(crate) const fn side(&self) -> &FileSide {
        &self.side
    }

    /// A buffer for the bytes of `side`.
    pub(crate) fn buffer(&self) -> Result<Vec<u8>, FileError> {
        let (mut buffer, len) = (Vec::new(), self.side.len());
        let fits = usize::try_from(len).is_ok_and(|len| buffer.try_reserve_exact(len).is_ok());
        if !fits {
            let what = format!("{len} bytes that the view shows more than once");
            return Err(FileError::NoMemory { call: "read", what });
        }
        buffer.resize(len as usize, 0);
        Ok(buffer)
    }

    /// Copies what was read to memory, up to the first byte of the stream that was not read;
    /// returns how many bytes.
    pub(crate) fn copy_to(&self, read: &[u8], to: &mut MemoryMut<'_>) -> Result<u64, FileError> {
        let mut piece = Vec::with_capacity(PIECE);
        let mut done = 0;
        for &(start, len) in &self.parts {
            let there = (read.len() as u64).saturating_sub(start).min(len);
            for bytes in
                read[start.min(read.len() as u64) as usize..][..there as usize].chunks(PIECE)
            {
                if piece.len() + bytes.len() > PIECE {
                    scatter_to(to, done, &piece)?;
                    done += piece.len() as u64;
                    piece.clear();
                }
                piece.extend_from_slice(bytes);
            }
            if there < len {
                break;
            }
        }
        if !piece.is_empty() {
            scatter_to(to, done, &piece)?;
        }
        Ok(done + piece.len() as u64)
    }
}

/// The runs that are read, in absolute offsets and in the order of the stream.
fn runs(view: &View, position: u64, len: u64) -> Result<Vec<Run>, FileError> {
    let too_far = || FileError::View { reason: "an offset beyond 2^63".into() };
    let filetype = view.filetype();
    let (size, extent) = (filetype.size(), filetype.extent().unsigned_abs());
    let copies = position.checked_add(len).ok_or_else(too_far)?.div_ceil(size);
    let far = copies
        .checked_mul(extent)
        .and_then(|far| far.checked_add(filetype.true_upper_bound().unsigned_abs()))
        .and_then(|far| far.checked_add(view.displacement()));
    far.filter(|&far| i64::try_from(far).is_ok()).ok_or_else(too_far)?;
    let mut cursor = Cursor::new(filetype, copies)?;
    cursor.seek(position);
    let mut left = len;
    let mut runs = Vec::new();
    while let Some(run) = cursor.next_run(left) {
        left -= run.len;
        runs.push(Run { offset: run.offset + view.displacement() as i64, len: run.len });
    }
    Ok(runs)
}
