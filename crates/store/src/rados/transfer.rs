//! Data between memory and strips: compound operations, several under way at a time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use nix::errno::Errno;

use super::error::RadosError;
use super::head::{ATTEMPTS, Head};
use super::library::operation::{Pending, ReadOperation, WriteOperation};
use super::operations::{OperationLimits, Operations, StripOperation};
use crate::store::Region;

/// Bytes of one operation: with those under way, it bounds the memory of a request.
const BYTES: usize = 8 << 20;
/// Pieces of memory of one operation.
const PIECES: usize = 16 << 10;
/// Bytes between two regions that are rather read than begin another extent: both cost some 10
/// microseconds.
const READ_GAP: u64 = 8 << 10;

/// Operations under way, in the order of their start.
#[derive(Debug)]
pub(super) struct Window<O, T> {
    depth: usize,
    under_way: VecDeque<(Pending<O>, T)>,
}

impl<O, T> Window<O, T> {
    pub(super) fn new(depth: usize) -> Self {
        Self { depth: depth.max(1), under_way: VecDeque::new() }
    }

    /// Takes an operation up; gives back the oldest one if there are more than may be.
    pub(super) fn push(&mut self, pending: Pending<O>, note: T) -> Option<(Pending<O>, T)> {
        self.under_way.push_back((pending, note));
        if self.under_way.len() >= self.depth { self.under_way.pop_front() } else { None }
    }
}

impl<O, T> IntoIterator for Window<O, T> {
    type Item = (Pending<O>, T);
    type IntoIter = std::collections::vec_deque::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.under_way.into_iter()
    }
}

fn operations<R: Iterator<Item = Region>>(head: &Head, regions: R, gap: u64) -> Operations<R> {
    let extents = head.options.extents;
    let limits = OperationLimits { extents, bytes: BYTES, pieces: PIECES, gap };
    Operations::new(regions, head.known().strip, limits)
}

/// Writes regions of memory, which are inside of it.
pub(super) fn write(
    head: &Head,
    regions: &(impl Iterator<Item = Region> + Clone),
    memory: &[u8],
) -> Result<(), RadosError> {
    for _ in 0..ATTEMPTS {
        match write_once(head, regions.clone(), memory) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(RadosError::NoFile) => {
                // The strips that were written may have come after their removal.
                remove_written(head, regions.clone());
                return Err(RadosError::NoFile);
            }
            Err(error) => return Err(error),
        }
    }
    Err(RadosError::Contended(ATTEMPTS))
}

/// Writes once; `false` if the file was cut meanwhile.
fn write_once(
    head: &Head,
    regions: impl Iterator<Item = Region>,
    memory: &[u8],
) -> Result<bool, RadosError> {
    let known = head.known();
    let failed = |errno| head.failed(errno);
    let mut window = Window::new(head.options.depth);
    let mut gathered = Vec::new();
    let mut end = 0;
    for operation in operations(head, regions, 0) {
        end = end.max(operation.end(known.strip));
        head.reserve(operation.strip + 1)?;
        let object = head.id.strip(operation.strip);
        let write = compound_write(head, &operation, memory, &mut gathered);
        let write = write.start(&head.pool, &object).map_err(failed)?;
        if let Some((oldest, ())) = window.push(write, ()) {
            oldest.wait().1.map_err(failed)?;
        }
    }
    let guard = head.start_guard(&known, end)?;
    for (write, ()) in window {
        write.wait().1.map_err(failed)?;
    }
    head.finish_guard(guard, &known, end)
}

fn compound_write(
    head: &Head,
    operation: &StripOperation,
    memory: &[u8],
    gathered: &mut Vec<u8>,
) -> WriteOperation {
    let mut write = WriteOperation::new(&head.pool);
    for (extent, pieces) in operation.parts() {
        let data = if let [one] = pieces {
            &memory[one.memory..one.memory + one.len]
        } else {
            gathered.clear();
            for piece in pieces {
                gathered.extend_from_slice(&memory[piece.memory..piece.memory + piece.len]);
            }
            gathered.as_slice()
        };
        write = write.write(extent.offset, data);
    }
    write
}

/// Removes strips of a file that is gone; if that fails, they take space until the pool is cleared.
fn remove_written(head: &Head, regions: impl Iterator<Item = Region>) {
    for operation in operations(head, regions, 0) {
        let removal = WriteOperation::new(&head.pool).remove();
        let _ = removal.run(&head.pool, &head.id.strip(operation.strip));
    }
}

/// The length of the file as a read knows it: that of the handle first, which may be older than
/// what other clients did; it is asked for once, if it matters.
struct KnownLength<'h> {
    head: &'h Head,
    len: Cell<u64>,
    is_fresh: Cell<bool>,
    failure: RefCell<Option<RadosError>>,
}

impl KnownLength<'_> {
    fn refresh(&self) {
        if !self.is_fresh.replace(true) {
            match self.head.load() {
                Ok(now) => self.len.set(now.size),
                Err(error) => *self.failure.borrow_mut() = Some(error),
            }
        }
    }

    /// The part of a region before the end of the file.
    fn clip(&self, region: Region) -> Region {
        if region.end() > self.len.get() {
            self.refresh();
        }
        let left = self.len.get().saturating_sub(region.offset);
        Region { len: region.len.min(usize::try_from(left).unwrap_or(usize::MAX)), ..region }
    }

    fn check(&self) -> Result<(), RadosError> {
        self.failure.borrow_mut().take().map_or(Ok(()), Err)
    }
}

/// Reads regions into memory, which they are inside of; returns how many of their bytes lie before
/// the end of the file.
pub(super) fn read(
    head: &Head,
    regions: &(impl Iterator<Item = Region> + Clone),
    memory: &mut [u8],
) -> Result<u64, RadosError> {
    let failed = |errno| head.failed(errno);
    let len = KnownLength {
        head,
        len: Cell::new(head.known().size),
        is_fresh: Cell::new(false),
        failure: RefCell::new(None),
    };
    let total = Cell::new(0);
    let clipped = regions.clone().map(|region| {
        let region = len.clip(region);
        total.set(total.get() + region.len as u64);
        region
    });
    let mut window = Window::new(head.options.depth);
    let mut spare: Vec<Vec<u8>> = Vec::new();
    for operation in operations(head, clipped, READ_GAP) {
        let extents = operation.extents.iter().map(|extent| (extent.offset, extent.len));
        let read = ReadOperation::new(&head.pool).data(extents, spare.pop().unwrap_or_default());
        let read = read.start(&head.pool, &head.id.strip(operation.strip)).map_err(failed)?;
        if let Some((oldest, operation)) = window.push(read, operation) {
            let read = arrived(oldest, head)?;
            scatter(&read, &operation, &len, memory);
            spare.push(read.operation.into_buffer());
        }
    }
    for (read, operation) in window {
        scatter(&arrived(read, head)?, &operation, &len, memory);
    }
    len.check()?;
    if len.is_fresh.get() {
        // The file may be shorter than it was believed to be.
        return Ok(regions.clone().map(|region| len.clip(region).len as u64).sum());
    }
    Ok(total.get())
}

/// A read that is complete.
struct ArrivedRead {
    operation: ReadOperation,
    /// A strip that was never written is no object.
    exists: bool,
}

fn arrived(read: Pending<ReadOperation>, head: &Head) -> Result<ArrivedRead, RadosError> {
    match read.wait() {
        (operation, Ok(())) => Ok(ArrivedRead { operation, exists: true }),
        (operation, Err(Errno::ENOENT)) => Ok(ArrivedRead { operation, exists: false }),
        (_, Err(errno)) => Err(head.failed(errno)),
    }
}

/// Copies what was read to memory; what strips lack before the end of the file are zeros.
fn scatter(
    read: &ArrivedRead,
    operation: &StripOperation,
    len: &KnownLength<'_>,
    memory: &mut [u8],
) {
    let start = operation.strip * len.head.known().strip.get();
    let mut bytes = read.operation.bytes();
    for (index, (extent, pieces)) in operation.parts().enumerate() {
        let data;
        (data, bytes) = bytes.split_at(extent.len.min(bytes.len()));
        let got = if read.exists { read.operation.got(index).min(data.len()) } else { 0 };
        if got < extent.len {
            len.refresh();
        }
        let left = len.len.get().saturating_sub(start + extent.offset);
        let known = extent.len.min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut at = 0;
        for piece in pieces {
            at += piece.skipped;
            let to = &mut memory[piece.memory..piece.memory + piece.len];
            let from_data = got.min(known).saturating_sub(at).min(to.len());
            to[..from_data].copy_from_slice(&data[at..at + from_data]);
            let zeros = known.saturating_sub(at).min(to.len());
            if from_data < zeros {
                to[from_data..zeros].fill(0);
            }
            at += piece.len;
        }
    }
}
