//! [`List`]: checked regions and the memory they lie in, and the plain way to transfer them.
//!
//! Neighbours in the file are one vectored call. Memory is held by address, not as slices: regions
//! may come in any order of memory and, when written from, overlap.

use std::io;
use std::marker::PhantomData;

use nix::libc;

use super::system::{System, SystemCall};
use crate::error::Malformed;
use crate::store::Region;

/// Vectors that one call takes.
const MOST_VECTORS: usize = 1024;

/// A transfer that failed, and where.
#[derive(Debug)]
pub(super) struct FailedTransfer {
    pub(super) source: io::Error,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// The memory of a region.
#[derive(Debug)]
pub(super) enum Part<'p> {
    /// To be filled.
    Read(&'p mut [u8]),
    /// To be written.
    Write(&'p [u8]),
}

/// Regions that lie inside of a memory that is borrowed for `'m`; all that is unsafe here rests on
/// that. Regions cannot be changed, and are checked when this is made.
#[derive(Debug)]
pub(super) struct List<'m> {
    pub(super) regions: &'m [Region],
    memory: *mut u8,
    pub(super) call: SystemCall,
    borrowed: PhantomData<&'m mut [u8]>,
}

impl<'m> List<'m> {
    pub(super) fn read(regions: &'m [Region], memory: &'m mut [u8]) -> Result<Self, Malformed> {
        Region::check_all(regions, memory.len())?;
        let memory = memory.as_mut_ptr();
        Ok(Self { regions, memory, call: SystemCall::Read, borrowed: PhantomData })
    }

    pub(super) fn write(regions: &'m [Region], memory: &'m [u8]) -> Result<Self, Malformed> {
        Region::check_all(regions, memory.len())?;
        // Only calls that read memory are made with it.
        let memory = memory.as_ptr().cast_mut();
        Ok(Self { regions, memory, call: SystemCall::Write, borrowed: PhantomData })
    }

    /// Where a region of the list begins in memory.
    pub(super) fn address(&self, region: &Region) -> *mut u8 {
        self.memory.wrapping_add(region.memory)
    }

    /// The list, cut into runs of regions that are neighbours in the file.
    pub(super) fn groups(&self) -> impl Iterator<Item = &'m [Region]> + use<'m> {
        let mut rest = self.regions;
        std::iter::from_fn(move || {
            let first = rest.first()?;
            let mut end = first.end();
            let mut n = 1;
            while let Some(next) = rest.get(n).filter(|next| next.offset == end) {
                if n == MOST_VECTORS {
                    break;
                }
                end = next.end();
                n += 1;
            }
            let (group, others) = rest.split_at(n);
            rest = others;
            Some(group)
        })
    }

    /// The vectors of a group of this list: bytes `done` to `done + len` of it.
    pub(super) fn vectors(
        &self,
        group: &[Region],
        mut done: usize,
        mut len: usize,
        vectors: &mut Vec<libc::iovec>,
    ) {
        for region in group {
            if len == 0 {
                return;
            }
            if done >= region.len {
                done -= region.len;
                continue;
            }
            let part = (region.len - done).min(len);
            vectors.push(libc::iovec {
                iov_base: self.address(region).wrapping_add(done).cast(),
                iov_len: part,
            });
            len -= part;
            done = 0;
        }
    }

    /// Transfers a group of this list from byte `done` of it on. Returns how much of it is done:
    /// less than all only at the end of the file.
    pub(super) fn transfer(
        &self,
        system: &System,
        group: &[Region],
        done: usize,
        vectors: &mut Vec<libc::iovec>,
    ) -> Result<usize, FailedTransfer> {
        let Some(first) = group.first() else { return Ok(0) };
        let all = group.iter().map(|region| region.len).sum();
        let moved = system.repeat(self.call, first.offset, done, all, |done, len| {
            vectors.clear();
            self.vectors(group, done, len, vectors);
            // SAFETY: the regions lie inside of the memory, which is borrowed, exclusively if it
            // is written to.
            unsafe { system.vectored(self.call, vectors, first.offset + done as u64) }
        });
        moved.map_err(|source| FailedTransfer { source, offset: first.offset, len: all as u64 })
    }

    /// Hands the bytes of regions of this list to `each`, one region after the other; returns the
    /// bytes that it transferred.
    pub(super) fn one_by_one<'g>(
        &self,
        regions: impl Iterator<Item = &'g Region>,
        mut each: impl FnMut(u64, Part<'_>) -> io::Result<usize>,
    ) -> Result<u64, FailedTransfer> {
        let mut total = 0;
        for region in regions.filter(|region| region.len > 0) {
            let (start, len) = (self.address(region), region.len);
            let part = if self.call == SystemCall::Write {
                // SAFETY: the region lies inside of the memory, which is borrowed.
                Part::Write(unsafe { std::slice::from_raw_parts(start, len) })
            } else {
                // SAFETY: the region lies inside of the memory, which is borrowed exclusively, and
                // no other slice of it is made while this one lives.
                Part::Read(unsafe { std::slice::from_raw_parts_mut(start, len) })
            };
            total += each(region.offset, part).map_err(|source| FailedTransfer {
                source,
                offset: region.offset,
                len: len as u64,
            })? as u64;
        }
        Ok(total)
    }

    /// Transfers groups of this list one after the other; returns the bytes.
    pub(super) fn transfer_all<'g>(
        &self,
        system: &System,
        groups: impl Iterator<Item = &'g [Region]>,
    ) -> Result<u64, FailedTransfer> {
        let mut vectors = Vec::new();
        let mut total = 0;
        for group in groups {
            total += self.transfer(system, group, 0, &mut vectors)? as u64;
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_group() {
        let region = |offset, len| Region { memory: 0, offset, len };
        let regions =
            [region(0, 4), region(4, 2), region(6, 1), region(8, 1), region(8, 0), region(9, 1)];
        let mut memory = [0; 4];
        let list = List::read(&regions, &mut memory).unwrap();
        let sizes: Vec<_> = list.groups().map(<[Region]>::len).collect();
        assert_eq!(sizes, [3, 1, 1, 1]);
    }

    #[test]
    fn a_group_has_no_more_vectors_than_a_call_takes() {
        let regions: Vec<_> = (0..3000).map(|n| Region { memory: 0, offset: n, len: 1 }).collect();
        let mut memory = [0; 1];
        let list = List::read(&regions, &mut memory).unwrap();
        let sizes: Vec<_> = list.groups().map(<[Region]>::len).collect();
        assert_eq!(sizes, [1024, 1024, 952]);
    }
}
